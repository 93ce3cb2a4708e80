"""Whatever goes wrong in an agent's loop is counted, told and survived."""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.kernel.netlink import NetlinkError
from agents.loop.part import Part
from agents.loop.parts import REST_NS, Parts
from agents.queues.classifier import NewFlow
from agents.queues.queues import FIRST_NODE, LAST_NODE
from protocol.messages import Cause, Directory, Heartbeat, Ping, Pong, Regulate
from protocol.timers import MOST_FAILURES, TOLD_NS, Mishaps
from tests.unit.agents.membership.test_agent_heartbeats import MS, World, mac


def fails(*_: object) -> None:
    raise ValueError("made\nto fail")


def test_no_message_ends_an_agent(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.agent._handlers = {**world.agent._handlers, Directory: fails}
    world.agent.parts._handlers[Pong].insert(0, fails)
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            world.agent._receive(world.frame(Directory(1, 0, 1, ()), mac(1)), MS)
        world.agent._receive(world.frame(Pong(5, 6, 7), mac(1)), MS)
    assert world.agent.guard.refused[Cause.FAILED] == 101
    told = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in told] == ["Directory failed", "Pong failed"]
    assert all(line.isprintable() and "test_mishaps.py" in line for line in told)
    world.agent._receive(world.frame(Regulate(1, 0, 1, (17,)), mac(1)), 2 * MS)
    assert world.agent.keeper.regulated == {17} and world.agent.clock.synchronised


def test_no_packet_of_a_tenant_ends_an_agent() -> None:
    world = World()
    world.agent._queues = cast(Any, SimpleNamespace(ensure_flow=fails))
    flows = [NewFlow(IPv4Address(number), IPv4Address(1), 17) for number in range(10)]
    world.agent._flows = cast(Any, SimpleNamespace(events=lambda: flows))
    world.agent._serve(link=False, events=True, readable=[], due_ns=1 << 62)
    assert world.agent.guard.refused[Cause.FAILED] == 10


def test_a_directory_of_too_many_addresses_and_nodes_is_cut() -> None:
    world = World()
    taken = dict[int, tuple[object, ...]]()
    world.agent.membership._host = cast(Any, SimpleNamespace(flows=SimpleNamespace(set_directory=taken.update)))
    pages = 300
    for page in range(pages):
        addresses = tuple(map(IPv4Address, range(page * 255, page * 255 + 255)))
        entries = ((FIRST_NODE + 1 + page, addresses), (LAST_NODE + 1, ()), (3, ()))
        world.agent._receive(world.frame(Directory(9, page, pages, entries), mac(1)), MS)
    assert sum(map(len, taken.values())) == 65_536 and len(taken) == pages
    assert min(taken) == FIRST_NODE + 1 and max(taken) <= LAST_NODE and world.agent.membership._directory.version == 9


class Counting(Part):
    """A part that is always due, and that may fail."""

    def __init__(self, work: Callable[[], None] = lambda: None) -> None:
        self.handlers = {Ping: lambda *_: self.advance(0)}
        self.work, self.calls = work, 0

    def next_due_ns(self) -> int:
        return 5

    def advance(self, now_ns: int) -> None:
        self.calls += 1
        self.work()


def test_a_part_that_fails_rests_and_the_others_go_on() -> None:
    now, told, counted = [10], list[str](), list[int]()
    parts = Parts(lambda: now[0], Mishaps(told.append, lambda: counted.append(1)))
    bad, good = Counting(fails), Counting()
    parts.add(bad)
    parts.add(good)
    for turn in range(1, 4):
        assert parts.next_due_ns() == 5
        parts.advance(now[0])
        assert (bad.calls, good.calls) == (1, turn)
    now[0] += REST_NS
    parts.next_due_ns()
    parts.advance(now[0])
    assert (bad.calls, good.calls) == (2, 4) and len(counted) == 2 and len(told) == 1
    parts.handle(Ping(1), now[0])
    assert good.calls == 5 and len(counted) == 3


def test_parts_that_all_rest_wake_the_agent_when_the_rest_is_over() -> None:
    parts = Parts(lambda: 10, Mishaps(print, int))
    parts.add(Counting(fails))
    parts.next_due_ns()
    parts.advance(10)
    assert parts.next_due_ns() == 10 + REST_NS


def test_what_the_kernel_refuses_is_still_repaired_by_the_loop() -> None:
    def refuse() -> None:
        raise NetlinkError(2, "gone")

    parts = Parts(lambda: 10, Mishaps(print, int, (NetlinkError,)))
    parts.add(Counting(refuse))
    with pytest.raises(NetlinkError):
        parts.advance(10)
    with pytest.raises(NetlinkError):
        parts.handle(Ping(1), 10)
    parts.handle(Heartbeat(cast(Any, 0), 1, 1), 10)


class TestMishaps:
    """Counted each time, told once a minute, given up when nothing goes right."""

    def test_an_error_of_a_kind_is_told_once_a_minute(self) -> None:
        told, counted = list[str](), list[int]()
        mishaps = Mishaps(told.append, lambda: counted.append(1))
        for now_ns in (0, 1, TOLD_NS - 1, TOLD_NS):
            mishaps.note("it", ValueError("x"), now_ns)
        mishaps.note("it", KeyError("x"), 1)
        assert len(counted) == 5 and len(told) == 3

    def test_it_gives_up_after_turns_in_a_row_that_failed(self) -> None:
        mishaps = Mishaps(lambda line: None, int)
        for _ in range(3):
            for _ in range(MOST_FAILURES):
                mishaps.turn_failed("a turn", ValueError(), 0)
            mishaps.turn_done()
        for _ in range(MOST_FAILURES):
            mishaps.turn_failed("a turn", ValueError(), 0)
        with pytest.raises(ValueError, match="the last"):
            mishaps.turn_failed("a turn", ValueError("the last"), 0)
