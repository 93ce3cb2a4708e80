"""What the application learns of the store, and when; and that it publishes what was refused."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from controller.election.controllers import Controllers
from controller.openflow.environment import Environment
from controller.openflow.publication.store_client import LOOK_S, StoreClient
from controller.openflow.tables.forwarding import ControlAttachment

HUB = SimpleNamespace(Event=threading.Event, sleep=lambda _: None)
PLACE = ControlAttachment("s1", "p1")
MAC = "02:00:00:00:00:0c"


class FakeStore:
    """What `StoreClient` uses of a store."""

    owes = False

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.others: dict[str, dict[str, str]] = {}
        self.disowned: tuple[str, ...] = ()
        self.connection = SimpleNamespace(disown=self._disown)
        self.mac: str | None = None

    def _disown(self, *names: str) -> None:
        self.disowned = names

    def status(self) -> dict[str, Any] | None:
        return None if self.mac is None else {"mac": self.mac}

    def controllers(self) -> dict[str, dict[str, str]]:
        return self.others

    def publish_event(self, kind: str, _: str, text: str, **__: str) -> None:
        self.events.append((kind, text))

    def settle(self) -> None:
        pass


class World:
    def __init__(self, store: FakeStore | None, name: str | None = "a", *, asks_address: bool = True) -> None:
        self.leaders = self.changes = 0
        self.refused: deque[tuple[str, str]] = deque()
        controllers = Controllers(store, name) if store and name else None  # type: ignore[arg-type]
        self.client = StoreClient(
            HUB, store, controllers, PLACE,  # type: ignore[arg-type]
            asks_address=asks_address, poll_ns=10**8, refused=self.refused,
            on_leader=self._lead, on_change=self._change,
        )  # fmt: skip

    def _lead(self) -> None:
        self.leaders += 1

    def _change(self) -> None:
        self.changes += 1


def test_the_coordinators_address_is_asked_for_unless_it_is_known() -> None:
    store = FakeStore()
    world = World(store, None)
    assert not world.client.informed
    world.client.turn(1.0)
    assert world.client.informed and world.client.attachment == PLACE and world.changes == 1
    store.mac, world.client.publisher._asked_ns = MAC.upper(), None
    world.client.turn(2.0)
    assert world.client.attachment == ControlAttachment("s1", "p1", MAC) and world.changes == 2
    for known in (World(store, asks_address=False), World(None)):
        assert known.client.informed
        known.client.turn(1.0)
        assert known.client.attachment == PLACE


def test_other_controllers_are_looked_for_now_and_then_and_the_leader_when_it_may_have_changed() -> None:
    store = FakeStore()
    world = World(store, asks_address=False)
    world.client.turn(LOOK_S / 2)
    assert world.leaders == 1 and not world.client.standbys
    store.others = {"a": {"attachment": "s1:p1", "mac": MAC}, "b": {"attachment": "s2:p2", "mac": MAC}}
    world.client.turn(LOOK_S * 0.9)
    assert world.leaders == 1 and not world.client.standbys
    for _ in range(2):
        world.client.turn(LOOK_S)
        assert world.leaders == 2 and world.changes == 1
        assert world.client.standbys == (ControlAttachment("s2", "p2", MAC),)


def test_what_was_refused_to_connections_is_published() -> None:
    store = FakeStore()
    world = World(store)
    world.refused.append(("flood", "too many"))
    world.client.turn(1.0)
    assert store.events == [("flood", "too many")] and not world.refused
    world.client.disown_documents()
    assert store.disowned == ("fabric", "ports")


def test_the_environment_says_where_coordinator_and_store_are() -> None:
    said = {"BATON_REDIS": "unix:///r", "BATON_CONTROL_PORT": "s1:p1", "BATON_CONTROLLER": "a", "BATON_STANDBY": ""}
    found = Environment.read(said)
    assert (found.store, found.attachment, found.asks_address) == ("unix:///r", PLACE, True)
    assert (found.controller, found.standby, found.control_first) == ("a", False, None)
    found = Environment.read({**said, "BATON_CONTROL_MAC": MAC, "BATON_STANDBY": "1"})
    assert (found.attachment, found.asks_address, found.standby) == (ControlAttachment("s1", "p1", MAC), False, True)
    assert Environment.read({}).attachment is None


def test_an_error_ends_neither_the_talk_with_the_store_nor_the_wait_for_another_leader(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = FakeStore()
    world = World(store)
    store.others = {"b": {"attachment": "no place", "mac": MAC}}
    turns, subscribed = iter([True] * 3 + [False]), list[object]()

    def subscribe(names: object) -> None:
        subscribed.append(names)
        raise LookupError

    store.connection.subscribe = subscribe
    monkeypatch.setattr("controller.openflow.publication.store_client.AGAIN_S", 0)
    world.client._every_s = 0
    world.client.publisher.event("x", "info", "an event", {})
    world.client.run(lambda: next(turns))
    assert world.leaders == 3
    assert len(caplog.messages) == 1 and "no place" in caplog.text
    turns = iter([True] * 3 + [False])
    world.client.listen(lambda: next(turns))
    assert len(subscribed) == 3


def test_who_leads_again_publishes_a_fabric_that_is_as_before_since_another_has_published_meanwhile() -> None:
    published: list[object] = []
    store = FakeStore()
    store.publish_parts = lambda _, parts: published.append(parts["fabric"])  # type: ignore[attr-defined]
    world = World(store)
    for _ in range(2):
        world.client.publisher.fabric({"fabric": 1})
        world.client.turn(0.0)
        world.client.disown_documents()
        assert not world.client.publisher.unpublished
    assert published == [1, 1]
