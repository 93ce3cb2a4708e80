"""How hosts hear to which destinations they may send ahead of time."""

from __future__ import annotations

from typing import Any

from controller.coflows.telling import CoflowQueues
from controller.members.registry import Members
from protocol.messages import HeadStarts, Message
from protocol.timers import REPEATS_NS, Timers

MS = 1_000_000
NEVER = 10**18
TWO_MB = [["h1", "h9", 2_000_000]]
"""Of 100 Mb/s for 250 ms: 64 Mb/s, by MCP's aim 68."""


class World:
    """A coordinator's coflows, and what it sent to each member."""

    def __init__(self) -> None:
        self.timers, self.members = Timers(), Members()
        self.nodes = {
            name: self.members.register(bytes((2, 0, 0, 0, 0, number)), name, 10**8, (), "tbf", "1", 0).node
            for number, name in ((1, "h1"), (2, "h2"), (9, "h9"))
        }
        self.sent: list[tuple[HeadStarts, bytes]] = []
        self.coflows = CoflowQueues(self.timers, self.members, self.send, lambda _: None)
        self.documents: dict[str, dict[str, Any]] = {}

    def send(self, message: Message, to: bytes) -> None:
        if isinstance(message, HeadStarts):
            self.sent.append((message, to))

    def open(self, number: int, flows: list[list[Any]], now_ns: int, deadline_ms: int | None = 250) -> None:
        deadline_ns = None if deadline_ms is None else now_ns + deadline_ms * MS
        self.documents[str(number)] = {
            "opened_ns": now_ns, "expires_ns": NEVER, "deadline_ns": deadline_ns, "size_bytes": None, "flows": flows
        }  # fmt: skip
        self.coflows.opened(self.documents, 0, now_ns)

    def close(self, number: int, now_ns: int) -> None:
        del self.documents[str(number)]
        self.coflows.opened(self.documents, 0, now_ns)

    def told(self) -> list[tuple[str, list[str]]]:
        """Who was told of which destinations since the last call."""
        names, found = {node: name for name, node in self.nodes.items()}, []
        for message, to in self.sent:
            assert all(times == 1126 for _, times in message.entries)
            found.append((f"h{to[5]}", [names[node] for node, _ in message.entries]))
        self.sent.clear()
        return found


def test_while_there_is_room_the_sender_of_an_admitted_coflow_is_told_and_again_when_there_is_none() -> None:
    world = World()
    world.open(1, TWO_MB, 0)
    assert world.told() == [("h1", ["h9"])]
    world.timers.run(max(REPEATS_NS))
    assert world.told() == [("h1", ["h9"])] * 2, "a frame may be lost"
    world.open(2, [["h2", "h9", 650_000]], 110 * MS)
    assert world.told() == [("h1", []), ("h2", ["h9"])], "the link to h9 has no room for a tenth of 62 Mb/s, and of 22 it has"
    world.close(2, 120 * MS)
    assert world.told() == [("h1", ["h9"]), ("h2", [])]
    world.close(1, 130 * MS)
    assert world.told() == [("h1", [])]


def test_who_may_is_told_again_each_second_and_others_never() -> None:
    world = World()
    world.coflows._ahead.refresh(0)
    world.open(1, TWO_MB, 0, deadline_ms=4_000)
    world.open(2, [["h2", "h9", 1_000]], 0, deadline_ms=None)
    world.told()
    world.coflows._ahead.refresh(1_000 * MS)
    assert world.told() == [("h1", ["h9"])]


def test_of_a_host_with_two_interfaces_both_are_told_as_they_are_now() -> None:
    world = World()
    world.open(1, TWO_MB, 0, deadline_ms=4_000)
    world.told()
    world.nodes["h1 too"] = world.members.register(bytes((2, 0, 0, 0, 0, 3)), "h1", 10**8, (), "tbf", "1", 0).node
    world.coflows._ahead.refresh(1_000 * MS)
    assert world.told() == [("h1", ["h9"]), ("h3", ["h9"])]


def test_a_refused_coflow_has_no_head_start_and_one_past_its_end_neither() -> None:
    world = World()
    world.open(1, [["h1", "h9", 3_000_000]], 0)
    assert world.told() == []
    world.open(2, TWO_MB, 1 * MS)
    assert world.told() == [("h1", ["h9"])]
    world.coflows.update(240 * MS)
    assert world.told() == [("h1", [])]


def test_a_coflow_that_is_admitted_later_has_one_too() -> None:
    world = World()
    world.open(1, [["h2", "h9", 2_000_000]], 0)
    world.open(2, [["h1", "h9", 1_000_000]], 1 * MS, deadline_ms=1_000)
    world.documents["2"]["deadline_ns"] = 400 * MS
    world.coflows = CoflowQueues(world.timers, world.members, world.send, lambda _: None)
    world.open(3, [["h2", "h9", 2_400_000]], 2 * MS)
    world.told()
    world.close(1, 20 * MS)
    world.close(3, 30 * MS)
    assert world.told()[-1] == ("h1", ["h9"])


def test_the_hosts_of_a_pair_may_be_called_otherwise_by_the_application() -> None:
    """By the fabric's name of a host, until its member is there."""
    world = World()
    world.open(1, [["h7", "h9", 2_000_000]], 0, deadline_ms=4_000)
    assert world.told() == [], "no member is called so"
    world.nodes["h7"] = world.members.register(bytes((2, 0, 0, 0, 0, 7)), "h7", 10**8, (), "tbf", "1", 0).node
    world.coflows._ahead.refresh(1_000 * MS)
    assert world.told() == [("h7", ["h9"])]
