"""Whether a controller of the version before is there, whatever the documents of controllers say."""

from __future__ import annotations

from typing import Any

import pytest

from controller.store.connection import Connection
from controller.store.parted import Elders


@pytest.mark.parametrize(
    ("told", "elder"),
    [
        ({"schemas": [1, 2]}, False),
        ({"schemas": [1, 1]}, True),
        ({}, True),
        ({"schemas": None}, True),
        ({"schemas": [1]}, True),
        ({"schemas": "12"}, True),
        ({"schemas": {"highest": 2}}, True),
        ({"schemas": [1, "2"]}, True),
    ],
)
def test_a_document_that_does_not_say_what_it_reads_counts_as_the_version_before(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, Any], elder: bool
) -> None:
    """The leader's store bridge ended over it, and the OpenFlow application published no fabric."""
    monkeypatch.setattr(Connection, "items", lambda *_: {"c1": {"schemas": [1, 2]}, "c2": told})
    assert Elders(Connection("unix:///nowhere.sock")).there() is elder
