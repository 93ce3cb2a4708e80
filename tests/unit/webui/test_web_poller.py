"""What the poller tells when the store goes between two reads."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import pytest

from controller.store.feeds import Feeds, MembersRead, Snapshot
from controller.store.store import Store, StoreUnavailable
from webui.state.poller import Poller
from webui.state.subscription import Subscription


class StreamsOnly(Feeds):
    """A store whose streams can be read, and whose documents can't."""

    entries: list[dict[str, Any]]

    def slots_after(self, last: str | None, count: int = 0) -> list[tuple[str, Any]]:
        return []

    def events_after(self, last: str | None, count: int = 100) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if last is None or entry["id"] > last][-count:]

    def snapshot(self, before: Any = None, *, light: bool = False) -> Any:  # noqa: ANN401 -- as the store has it
        raise StoreUnavailable("store: gone: start it")


class HalfGone(Store):
    """The same, as a store."""

    def __init__(self) -> None:
        super().__init__("unix:///nowhere.sock")
        self.entries: list[dict[str, Any]] = []
        self.feeds = StreamsOnly(self.connection)
        self.feeds.entries = self.entries


@pytest.fixture
def store() -> HalfGone:
    return HalfGone()


def test_news_that_was_read_before_the_store_went_is_told_all_the_same(store: HalfGone) -> None:
    poller = Poller(store)
    old, fresh = poller.subscribe(), poller.subscribe()
    try:
        old.begun = True  # as if it had been told the whole before
        told = b""
        store.entries.append({"id": "1-0", "kind": "join", "severity": "info", "text": "h1", "at_ms": 1})
        end = time.monotonic() + 5
        while b"join" not in told and time.monotonic() < end:
            told += old.take(0.5)
        assert b"join" in told
        new = fresh.take(2)
        assert b"start it" in new and b"join" not in new  # the whole comes when it can be read
    finally:
        poller.unsubscribe(old)
        poller.unsubscribe(fresh)


def test_who_comes_between_two_ticks_is_told_at_once(store: HalfGone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webui.state.poller.TICK_S", 2.0)
    poller = Poller(store)
    first = poller.subscribe()
    assert first.take(1.0)
    begun_s = time.monotonic()
    second = poller.subscribe()
    try:
        assert b"start it" in second.take(1.5)
        assert time.monotonic() - begun_s < 1.0
    finally:
        poller.unsubscribe(first)
        poller.unsubscribe(second)


def test_what_it_cannot_read_does_not_end_it(
    store: HalfGone, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("webui.state.poller.TICK_S", 0.01)
    poller = Poller(store)
    subscription = poller.subscribe()
    subscription.begun = True
    try:
        end = time.monotonic() + 5
        for number in (1, 2):
            store.entries.append({"id": f"{number}-0"})  # as no coordinator writes it
            while poller.stumbled < number and time.monotonic() < end:
                time.sleep(0.01)
        store.entries.append({"id": "3-0", "kind": "join", "severity": "info", "text": "h1", "at_ms": 1})
        told = b""
        while b"join" not in told and time.monotonic() < end:
            told += subscription.take(0.5)
        assert b"join" in told and poller.stumbled == 2
        assert [record.levelname for record in caplog.records] == ["ERROR"]
    finally:
        poller.unsubscribe(subscription)


def test_no_request_is_told_of_a_fault_that_is_over(store: HalfGone, monkeypatch: pytest.MonkeyPatch) -> None:
    poller = Poller(store)
    with pytest.raises(StoreUnavailable, match="gone"):
        poller.read()

    def stumble(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(store.feeds, "snapshot", stumble)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            poller.read(0)
        with pytest.raises(ZeroDivisionError):
            poller.read(10**12)


class Holding(StreamsOnly):
    """A store that holds what a test puts into it."""

    documents: dict[str, Any]
    members: dict[int, Any]
    changed: frozenset[int] | None = None

    def snapshot(self, before: Any = None, *, light: bool = False) -> Snapshot:  # noqa: ANN401 -- as the store has it
        versions = dict.fromkeys((*self.documents, "status", "fabric"), 1)
        read = MembersRead(self.changed)
        return Snapshot(self.documents, versions, dict.fromkeys(versions, 0), self.members, None, 0, read)


PORT = {"source": "s1", "target": "s2", "load_bps": 5, "rate_bps": 10, "dropped": 0}


@pytest.fixture
def held(store: HalfGone) -> Holding:
    store.feeds = held = Holding(store.connection)
    rest = dict.fromkeys(("status", "thresholds", "policy", "telemetry", "fabric"))
    held.documents = {"ports": {"links": [PORT]}, **rest}
    held.members = {}
    return held


def test_a_document_that_lacks_something_is_left_out_and_told_and_the_rest_is_shown(
    store: HalfGone, held: Holding, caplog: pytest.LogCaptureFixture
) -> None:
    poller = Poller(store)
    assert poller.read(0).state["links"] == {"s1>s2": {"load": 0.5, "bps": 5, "contended": False, "drops": 0}}
    good, held.documents["ports"] = held.documents["ports"], {"links": [{"load_bps": 5}]}
    said = "ports in the store can't be shown, and is left out: write it anew (KeyError: 'source')"
    for _ in range(2):
        reading = poller.read(0)
        assert reading.state["links"] == {} and reading.state["coordinator"]["warnings"] == [said]
    assert [record.getMessage() for record in caplog.records] == [said]
    held.documents["ports"] = good
    reading = poller.read(0)
    assert reading.state["links"] and reading.state["coordinator"]["warnings"] == []


def test_two_documents_that_lack_something_are_left_out_together(store: HalfGone, held: Holding) -> None:
    held.documents |= {"ports": {"links": [{"load_bps": 5}]}, "policy": {"policy": "auto"}}
    held.members = {7: {"sent_bps": [1]}}
    reading = Poller(store).read(0)
    (said,) = reading.state["coordinator"]["warnings"]
    assert said.startswith("ports and members in the store can't be shown, and are left out: write them anew")
    assert reading.state["links"] == {} and reading.snapshot.documents["policy"] == {"policy": "auto"}


def test_three_that_lack_something_are_left_out_and_no_other(store: HalfGone, held: Holding) -> None:
    held.documents |= {"policy": {"weights": 5}, "status": {"contended": 5}, "ports": {"links": [{}]}}
    held.members = {7: {"sent_bps": [1]}}
    reading = Poller(store).read(0)
    (said,) = reading.state["coordinator"]["warnings"]
    assert said.startswith("ports and members and status in the store can't be shown")
    assert reading.snapshot.documents["policy"] == {"weights": 5}


def test_of_a_member_that_lacks_something_the_other_documents_are_shown(store: HalfGone, held: Holding) -> None:
    held.members = {7: {"sent_bps": [1]}}
    state = Poller(store).read(0).state
    assert state["links"] and "members in the store can't be shown" in state["coordinator"]["warnings"][0]


def test_when_a_member_is_whole_again_those_that_did_not_change_are_shown_too(store: HalfGone, held: Holding) -> None:
    poller = Poller(store)
    held.members = {7: {"sent_bps": [1]}, 8: {"name": "h8", "sent_bps": {"7": 5}}}
    poller.read(0)
    held.members, held.changed = {**held.members, 7: {"name": "h7"}}, frozenset({7})
    assert poller.read(0).state["coordinator"]["warnings"] == []
    with poller.listing() as (_, ledger):
        assert [flow.source for flow in ledger.flows()] == ["h8"]


class Emptied(deque[bytes]):
    """A queue that the poller empties between the reader's look and its grasp."""

    def popleft(self) -> bytes:
        found = super().popleft()
        if self:
            return found
        raise IndexError("pop from an empty deque")


def test_a_reader_whose_queue_is_emptied_while_it_takes_goes_on() -> None:
    subscription = Subscription(None, Emptied())
    subscription.put([b"a", b"b"])
    assert subscription.take() == b"a" and subscription.take() == b""
