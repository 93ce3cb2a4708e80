"""Ten thousand links go to the store bridge a few at a time, count there when all have come, and then only as they change."""

from __future__ import annotations

import socket
from typing import Any, cast

from controller.coordinator.store_bridge import StoreBridge
from controller.coordinator.told_links import ROWS, ToldLinks
from controller.store.parts import join
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
        """What the store would have of them by now."""
        links = join(self.bridge._links)["links"] if self.bridge._links_owed else None
        return links and sorted(links, key=lambda row: int(row["source"]))


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
    assert max(len(line["links"]["rows"]) for line in bridge.lines) == ROWS and bridge.links == links
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


def test_of_other_rows_those_go_that_changed() -> None:
    bridge, timers = Bridge(), Timers()
    told, links = ToldLinks(timers, bridge.write), rows(1_000)
    told.tell(links, 0)
    run(timers)
    bridge.lines.clear()
    other = [*links[:7], {**links[7], "unmanaged_bps": 5}, *links[8:]]
    told.tell(other, 1)
    assert [line["links"]["rows"] for line in bridge.lines] == [[other[7]]] and bridge.links == other
    told.tell([dict(row) for row in other], 2)
    assert len(bridge.lines) == 1, "nothing of them differs"


def test_other_links_of_the_same_number_take_the_place_of_all() -> None:
    bridge, timers = Bridge(), Timers()
    told = ToldLinks(timers, bridge.write)
    told.tell(rows(200), 0)
    run(timers)
    other = [{"source": str(at), "target": "other"} for at in range(200)]
    told.tell(other, 1)
    run(timers)
    assert bridge.links == other


def test_a_change_that_comes_while_others_are_under_way_is_not_lost() -> None:
    bridge, timers = Bridge(), Timers()
    told, links = ToldLinks(timers, bridge.write), rows(1_000)
    told.tell(links, 0)
    other = [{**links[0], "unmanaged_bps": 5}, *links[1:]]
    told.tell(other, 1)
    run(timers)
    assert bridge.links == other
