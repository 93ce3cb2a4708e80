"""Ten thousand links go to the store bridge a few at a time, and count there when all have come."""

from __future__ import annotations

import socket
from typing import Any, cast

from controller.coordinator.store_bridge import StoreBridge
from controller.coordinator.told_links import ROWS, ToldLinks
from controller.store.store import Store
from protocol.timers import Timers


class Bridge:
    """A store bridge, and the room of its lines."""

    def __init__(self) -> None:
        self.near, far = socket.socketpair()
        self.bridge = StoreBridge(cast(Store, None), far)
        self.lines: list[dict[str, Any]] = []
        self.room = 10**6

    def write(self, line: dict[str, Any]) -> bool:
        if self.room == 0:
            return False
        self.room -= 1
        self.lines.append(line)
        self.bridge._to_store(line)
        return True

    @property
    def links(self) -> object:
        return self.bridge._links.get("links")


def rows(count: int) -> list[dict[str, Any]]:
    return [{"source": str(at), "target": "s"} for at in range(count)]


def run(timers: Timers) -> None:
    while timers:
        timers.run(timers.next_ns())


def test_they_go_a_few_at_a_time_and_once() -> None:
    bridge, timers = Bridge(), Timers()
    told, links = ToldLinks(timers, bridge.write), rows(10_000)
    told.tell(links, 0)
    assert len(bridge.lines) == 1 and bridge.links is None
    run(timers)
    assert max(len(line["links"][2]) for line in bridge.lines) == ROWS and bridge.links == links
    told.tell(links, 1)
    run(timers)
    assert len(bridge.lines) == -(-10_000 // ROWS)


def test_others_take_the_place_of_those_that_are_under_way() -> None:
    bridge, timers = Bridge(), Timers()
    told, links = ToldLinks(timers, bridge.write), rows(300)
    told.tell(rows(1_000), 0)
    timers.run(timers.next_ns())
    told.tell(links, 1)
    run(timers)
    assert bridge.links == links


def test_what_the_lines_have_no_room_for_is_told_later() -> None:
    bridge, timers = Bridge(), Timers()
    told, links = ToldLinks(timers, bridge.write), rows(1_000)
    bridge.room = 2
    told.tell(links, 0)
    for _ in range(5):
        timers.run(timers.next_ns())
    bridge.room = 100
    run(timers)
    assert bridge.links == links


def test_a_fabric_without_links_has_none() -> None:
    bridge = Bridge()
    ToldLinks(Timers(), bridge.write).tell([], 0)
    assert bridge.links == []
