"""What the supervisor says while the store is away, and what wakes it."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.store.store import StoreUnavailable
from controller.supervision.outbox import Outbox
from controller.supervision.wakeups import Wakeups


class FlakyStore:
    """Takes events only while it is `up`; it is its own connection."""

    def __init__(self) -> None:
        self.up = True
        self.events: list[str] = []
        self.connection = self

    def republish(self) -> None:
        if not self.up:
            raise StoreUnavailable("away")

    def publish_event(self, kind: str, severity: str, text: str) -> None:
        self.events.append(text)


class TestOutbox:
    """Events on their way to the store."""

    def test_what_was_said_while_the_store_was_away_follows_in_order(self) -> None:
        store = FlakyStore()
        outbox = Outbox(store)  # type: ignore[arg-type]  # as much of a store as it needs
        outbox.tell("x", "info", "first")
        assert outbox.empty
        store.up = False
        outbox.tell("x", "info", "second")
        outbox.tell("x", "error", "third")
        assert store.events == ["first"] and not outbox.empty
        store.up = True
        outbox.publish()
        assert store.events == ["first", "second", "third"] and outbox.empty


@pytest.fixture
def wakeups() -> Iterator[Wakeups]:
    made = Wakeups(pause_s=60)
    yield made
    made.close()


def awake(wakeups: Wakeups) -> bool:
    return bool(select.select(wakeups.sources, (), (), 0)[0])


class TestWakeups:
    """Who waits for `sources` is woken by a call, and by a change of a file, but not by each of many."""

    def test_a_call_wakes_once(self, wakeups: Wakeups) -> None:
        assert not awake(wakeups)
        wakeups.wake()
        assert awake(wakeups)
        wakeups.drain()
        assert not awake(wakeups)

    def test_a_change_wakes_and_the_next_one_within_the_pause_does_not(self, wakeups: Wakeups, tmp_path: Path) -> None:
        wakeups.watch([tmp_path / "baton.yaml"])
        assert wakeups.sees_changes
        (tmp_path / "baton.yaml").write_text("a")
        assert awake(wakeups)
        wakeups.drain()
        (tmp_path / "baton.yaml").write_text("b")
        assert not awake(wakeups) and not wakeups.sees_changes

    def test_it_says_where_it_cannot_see_every_change(self, wakeups: Wakeups, tmp_path: Path) -> None:
        wakeups.watch([tmp_path / "baton.yaml", tmp_path / "none" / "file"])
        assert not wakeups.sees_changes
