"""What is read of the links' capacities where the document is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.store.connection import Connection
from controller.store.parted import Known
from controller.store.store import Store

LINK = {"source": "s1", "target": "s2", "capacity_bps": 1, "from": "x"}


@pytest.mark.parametrize(
    ("parts", "links", "told"),
    [
        ({"links": [], "links s1 s2": LINK}, [LINK], False),
        ({"others": 1}, [], True),
        ({"links": None}, [], True),
        ({"links": {"a": 1}}, [], True),
    ],
)
def test_capacities_without_links_are_told_and_left_out(
    monkeypatch: pytest.MonkeyPatch, parts: dict[str, Any], links: list[Any], told: bool
) -> None:
    """`baton status` ended with a traceback."""

    def call(_: Connection, __: Callable[[Any], Any]) -> Known:
        return Known(1, 1, "line", parts)

    monkeypatch.setattr(Connection, "call", call)
    store = Store("unix:///nowhere.sock")
    assert store.capacities() == links
    assert [line.split()[0] for line in store.connection.unread.lines()] == (["capacities"] if told else [])
