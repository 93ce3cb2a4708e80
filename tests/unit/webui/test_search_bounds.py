"""What a search may cost: any visitor may send one."""

from __future__ import annotations

import pytest
from flask import Flask

from webui.http.api import wanted
from webui.http.errors import RequestRefused
from webui.state import lists


def asked(search: str) -> lists.Wanted:
    with Flask("webui").test_request_context("/", query_string={"search": search}):
        return wanted(lists.FLOW_SORTS, "rate")


@pytest.mark.parametrize("word", ["h", ">=0"])
def test_a_search_of_many_words_is_refused(word: str) -> None:
    most = " ".join([word] * 10)
    assert asked(most).search == most
    with pytest.raises(RequestRefused, match="search: has 11 words"):
        asked(f"{most} {word}")


def test_a_long_one_is_refused() -> None:
    with pytest.raises(RequestRefused, match="search: has 201 characters"):
        asked("h" * 201)
