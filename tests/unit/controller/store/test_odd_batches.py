"""A batch of slots in the store that is none keeps no other from its readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.store.connection import Connection
from controller.store.store import Store
from webui.state.lists import Wanted
from webui.state.poller import Poller
from webui.state.window import Window

ROW = ["slot", 1, 16, 17, 5, 9, 1500]
GOOD = {"now_us": 9, "rows": [ROW]}


class Redis:
    """The part of a client that reads a stream, over its entries."""

    def __init__(self, *batches: object) -> None:
        self._entries = [(f"{at}-0", {"json": json.dumps(batch)}) for at, batch in enumerate(batches, 1)]

    def xrevrange(self, _: str, *, count: int) -> list[Any]:
        return self._entries[::-1][:count]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"now_us": 9},
        {"rows": [ROW]},
        {"now_us": "9", "rows": []},
        {"now_us": 9, "rows": {"a": 1}},
        {"now_us": 9, "rows": [ROW[:6]]},
        {"now_us": 9, "rows": [None]},
        {"now_us": 9, "rows": [[*ROW[:5], None, 1500]]},
    ],
)
def test_a_batch_that_lacks_something_is_left_out(monkeypatch: pytest.MonkeyPatch, odd: dict[str, Any]) -> None:
    """No page that was opened got its first message, and the schedule was an error, as long as the store had the batch."""

    def call(_: Connection, work: Callable[[Any], Any]) -> Any:  # noqa: ANN401 -- any answer
        return work(Redis(GOOD, odd))

    monkeypatch.setattr(Connection, "call", call)
    store = Store("unix:///nowhere.sock")
    found = store.feeds.slots_after(None)
    assert [batch for _, batch in found] == [GOOD]
    assert Poller(store).schedule() == {"now_us": 9, "rows": [ROW]}
    window = Window()
    window.add(found)
    assert window.page(str, Wanted()).rows[0]["slots"] == [ROW]
