"""An agent whose addresses change tells its leader, until the leader has answered."""

from __future__ import annotations

import itertools
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from agents.config import AgentConfig
from agents.membership.answers import REGISTERS_NS
from agents.membership.lifecycle import State
from agents.membership.membership import MOST_RETRY_NS, REGISTER_RETRY_NS, VERSION, Membership
from protocol.key import Key
from protocol.messages import GateKind, Heartbeat, Message, Override, Register, Welcome, encode
from protocol.wire import BODY_MAX

MS = 1_000_000
ONE, TWO = IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")


class Anything:
    """Queues, gates and parts that accept every call."""

    gate_kind = "tbf"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever is asked for
        return self if name in ("queues", "flows") else lambda *_, **__: None


class World:
    """A membership whose leader was heard at 0."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        rest: Any = Anything()
        config = AgentConfig("eth0", 10**8, Path("key"), name="host", addresses=(ONE,))
        self.membership = Membership(config, rest, rest, rest, rest, self.sent.append, lambda _: None)
        self.hear(0)

    def hear(self, now_ns: int) -> None:
        self.membership.heartbeats.last_heartbeat_ns = now_ns
        self.membership.handlers[Heartbeat](Heartbeat(Override.COORDINATE, 0, 0), now_ns)

    def welcome(self, register: Register, now_ns: int) -> None:
        self.membership.handlers[Welcome](Welcome(register.nonce, 16, 12 * MS, 500 * MS, 0, 0, 0, 50 * MS), now_ns)

    def registers(self) -> list[Register]:
        found = [message for message in self.sent if isinstance(message, Register)]
        self.sent.clear()
        return found


def test_a_change_is_told_again_until_the_answer_to_that_change_comes() -> None:
    world = World()
    (first,) = world.registers()
    world.welcome(first, MS)
    assert world.membership.member
    world.membership.set_addresses((ONE, TWO), 2 * MS)
    (told,) = world.registers()
    assert told.addresses == (ONE, TWO) and told.nonce != first.nonce
    world.welcome(first, 3 * MS)  # an answer that was late
    due_ns = world.membership.next_due_ns()
    assert due_ns is not None and due_ns <= 2 * MS + REGISTER_RETRY_NS
    world.hear(due_ns)
    world.membership.advance(due_ns)
    assert world.registers() == [told]
    world.welcome(told, due_ns + MS)
    world.hear(due_ns + REGISTER_RETRY_NS)
    world.membership.advance(due_ns + REGISTER_RETRY_NS)
    assert not world.registers() and world.membership.state is State.MEMBER


def test_the_same_addresses_are_not_told_again() -> None:
    world = World()
    world.welcome(world.registers()[0], MS)
    world.membership.set_addresses((ONE,), 2 * MS)
    assert not world.registers()


def test_a_change_before_the_answer_goes_into_the_next_try() -> None:
    world = World()
    (first,) = world.registers()
    world.membership.set_addresses((TWO,), 2 * MS)
    world.welcome(first, 3 * MS)
    assert not world.membership.member
    world.hear(REGISTER_RETRY_NS)
    world.membership.advance(REGISTER_RETRY_NS)
    (second,) = world.registers()
    assert second.addresses == (TWO,)
    world.welcome(second, REGISTER_RETRY_NS + MS)
    assert world.membership.member


def test_the_room_for_addresses_is_what_a_frame_leaves() -> None:
    room = World().membership.room_for_addresses
    many = tuple(IPv4Address((10 << 24) + number) for number in range(255))
    for count in (room // 5, 255):
        message = Register("host", 1, 10**8, many[: min(count, room // 5)], GateKind.TBF, VERSION)
        frame = encode(message, key=Key(bytes(32)), destination=bytes(6), source=bytes(6), sender=0, epoch=1, sequence=1)
        assert len(frame) <= BODY_MAX + 54


def test_a_leader_that_does_not_answer_is_asked_less_and_less_often_and_not_by_all_at_once() -> None:
    worlds, tries = [World(), World()], list[list[int]]()
    for world in worlds:
        tries.append([])
        for now_ns in range(0, 10_000 * MS, MS):
            world.hear(now_ns)
            world.membership.advance(now_ns)
            tries[-1] += [now_ns] * len(world.registers())
    for times in tries:
        gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
        assert len(times) < 20 and max(gaps[1:3]) <= 3 * gaps[0] + 4 * REGISTER_RETRY_NS
        assert MOST_RETRY_NS // 2 <= gaps[-1] <= MOST_RETRY_NS + MS
    assert tries[0] != tries[1]


def test_a_leader_that_speaks_seldom_may_answer_late_and_an_answer_that_was_lost_is_asked_for_again_before_it_speaks() -> None:
    world = World()
    (first,) = world.registers()
    for now_ns in range(0, 2_000 * MS, MS):  # until its next heartbeat, in a calm fabric
        world.membership.advance(now_ns)
    again = world.registers()
    assert len(again) > 3 and set(again) == {first}
    world.welcome(first, 2_000 * MS)
    assert world.membership.member


def test_that_no_answer_comes_is_told_of_a_leader_that_speaks_seldom_too(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for now_ns in range(0, 2 * REGISTERS_NS, 10 * MS):
        if now_ns % (2_500 * MS) == 0:
            world.hear(now_ns)
        world.membership.advance(now_ns)
    assert caplog.text.count("has not answered host for 10 s") == 1


def test_a_gate_that_the_kernel_refuses_to_open_does_not_keep_the_rules_or_the_last_leaders_numbers() -> None:
    done: list[str] = []

    class Refusing(Anything):
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            told = name in ("released", "new_leader", "regulate")
            return (lambda *_: done.append(name)) if told else super().__getattr__(name)

        def release(self) -> None:
            done.append("release")
            if done.count("release") == 1:
                raise OSError("there is no such qdisc")

    world = World()
    world.welcome(world.registers()[0], MS)
    world.membership._keeper = world.membership._rules = world.membership._parts = Refusing()  # type: ignore[assignment]
    world.registers()
    with pytest.raises(OSError, match="no such qdisc"):
        world.membership.new_leader(2, 2 * MS)
    assert done == ["release", "release", "released", "new_leader", "regulate"]
    assert len(world.registers()) == 1 and world.membership.state is State.REGISTERING
