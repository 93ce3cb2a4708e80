"""A stream that expired or was lost begins anew, with lower ids if the clock was set back: readers follow it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.store.connection import Connection
from controller.store.store import Store

Entry = tuple[str, dict[str, str]]


def place(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split("-")))


class Redis:
    """The part of a client that reads a stream, over its entries."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def xrange(self, _: str, *, min: str, count: int) -> list[Entry]:
        return [entry for entry in self._entries if place(entry[0]) > place(min.removeprefix("("))][:count]

    def xrevrange(self, _: str, *, count: int) -> list[Entry]:
        return self._entries[::-1][:count]


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """What the store's streams have."""
    entries: list[Entry] = []

    def call(_: Connection, work: Callable[[Any], Any]) -> Any:  # noqa: ANN401 -- any answer
        return work(Redis(entries))

    monkeypatch.setattr(Connection, "call", call)
    return entries


def slots(number: str) -> Entry:
    return number, {"json": json.dumps({"now_us": 1, "rows": []})}


def test_what_comes_after_a_clock_was_set_back_is_read(entries: list[Entry]) -> None:
    """A dashboard showed no slot and no event until the clock was where it had been."""
    feeds = Store("unix:///nowhere.sock").feeds
    entries[:] = [slots("9000-0"), slots("9024-0")]
    assert [number for number, _ in feeds.slots_after("9000-0")] == ["9024-0"] and feeds.slots_after("9024-0") == []
    entries[:] = [slots("1000-0"), slots("1024-0"), slots("1048-0")]
    assert [number for number, _ in feeds.slots_after("9024-0", 2)] == ["1024-0", "1048-0"]
    assert feeds.slots_after("1048-0") == []


def test_an_empty_stream_has_nothing_after_any_id(entries: list[Entry]) -> None:
    assert entries == [] == Store("unix:///nowhere.sock").feeds.events_after("9000-0")
