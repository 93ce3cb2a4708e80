"""Several documents of one name: what is wrong with one keeps back no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest

from controller.store.connection import Connection
from controller.store.store import Store


class Redis:
    """The part of a client that reads documents, over a set of texts by item."""

    def __init__(self, texts: dict[str, str | None]) -> None:
        self._texts = texts
        self._asked: list[str] = []

    def zrange(self, *_: object) -> list[str]:
        return list(self._texts)

    def pipeline(self, **_: object) -> Self:
        self._asked = []
        return self

    def hget(self, key: str, _: str) -> None:
        self._asked.append(key.rpartition(":")[2])

    def execute(self, **_: object) -> list[str | None]:
        return [self._texts[item] for item in self._asked]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """What the store has, by item."""
    texts: dict[str, str | None] = {}

    def call(_: Connection, work: Callable[[Any], Any]) -> Any:  # noqa: ANN401 -- any answer
        return work(Redis(texts))

    monkeypatch.setattr(Connection, "call", call)
    return texts


def test_a_coflow_whose_id_is_no_number_is_told_once_and_hides_no_other(
    texts: dict[str, str | None], caplog: pytest.LogCaptureFixture
) -> None:
    good = {"name": "shuffle", "deadline_ns": None}
    texts |= {"7": '{"name": "shuffle", "deadline_ns": null}', "shuffle-7": "{}", "8": None}
    store = Store("unix:///nowhere")
    assert store.coflows() == {7: good} == store.coflows()
    assert len(caplog.messages) == 1 and "coflow:shuffle-7" in caplog.text


@pytest.mark.parametrize("text", ["{not json", "[1]", "7"])
def test_a_document_that_is_none_is_told_again_only_after_it_was_one(
    texts: dict[str, str | None], caplog: pytest.LogCaptureFixture, text: str
) -> None:
    connection = Connection("unix:///nowhere")
    for written in (text, text, '{"a": 1}', text):
        texts |= {"1": '{"a": 0}', "2": written}
        expected = {1: {"a": 0}} | ({} if written is text else {2: {"a": 1}})
        assert connection.numbered("coflow") == expected
    assert len(caplog.messages) == 2 and "coflow:2" in caplog.text
