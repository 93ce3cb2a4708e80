"""An agent speaks the newest version that its leader speaks, and no older one while that leader is heard."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.agent import Agent
from agents.config import AgentConfig
from agents.membership.lifecycle import State
from agents.queues.host import Host
from bench.fuzz.receivers import EPOCH, LEADER_MAC, FakeHost
from protocol.bodies.versions import NEWEST, SPOKEN
from protocol.key import Key
from protocol.keys.hosts import Master
from protocol.messages import HEARTBEAT_MAC, Cause, Frame, Heartbeat, Message, Override, Register, Welcome, decode, encode
from tests.unit.agents.membership.test_agent_heartbeats import MS, RING, World, mac

OLD = SPOKEN.lowest
LATER = EPOCH + 1


class Upgraded(World):
    """A member of the newest version since 0, and a leader of a later epoch."""

    def later(self, message: Message, version: int, to: bytes = HEARTBEAT_MAC, now_ns: int = MS) -> None:
        """A frame of the later leader comes."""
        self.sequence += 1
        words = {"key": RING.sending, "destination": to, "source": LEADER_MAC, "sender": 1}
        self.agent._receive(encode(message, **words, epoch=LATER, sequence=self.sequence, version=version), now_ns)

    def beat(self, version: int, now_ns: int = MS) -> None:
        self.later(Heartbeat(Override.COORDINATE, 1, 1), version, now_ns=now_ns)

    def welcome(self, version: int, now_ns: int = MS, chosen: int | None = None) -> None:
        nonce, wire = self.agent.membership._nonce, version if chosen is None else chosen
        self.later(Welcome(nonce, 16, 12 * MS, 50 * MS, 0, 0, 0, 50 * MS, wire), version, mac(1), now_ns)

    def silence(self, now_ns: int) -> None:
        """The leader has been silent by then."""
        self.agent._keep_watch(now_ns)
        assert self.agent.membership.state is State.FAIL_OPEN

    def sent(self) -> list[Frame]:
        """What it sent since the last call."""
        frames, self.link.sent = self.link.sent, []
        return [decode(raw, RING.sending) for raw in frames]

    def registered_in(self) -> list[int]:
        return [frame.version for frame in self.sent() if isinstance(frame.message, Register)]


@pytest.fixture
def world() -> Upgraded:
    made = Upgraded()
    made.sent()
    return made


def test_with_a_leader_that_speaks_the_older_version_only_it_speaks_that(world: Upgraded) -> None:
    world.silence(60 * MS)
    world.beat(OLD, 61 * MS)
    assert world.registered_in() == [OLD] and world.agent.membership.state is State.REGISTERING
    world.welcome(OLD, 62 * MS)
    assert world.agent.member and {frame.version for frame in world.sent()} == {OLD}
    world.beat(OLD, 70 * MS)
    assert world.agent.enforcing


def test_it_tells_which_versions_it_speaks_and_keeps_to_the_one_that_the_leader_chose(world: Upgraded) -> None:
    world.beat(NEWEST)
    (register,) = [frame.message for frame in world.sent() if isinstance(frame.message, Register)]
    assert register.versions == SPOKEN
    world.welcome(NEWEST, chosen=OLD)
    assert world.agent.guard.speaks == OLD and {frame.version for frame in world.sent()} == {OLD}


def test_the_older_copies_of_what_its_leader_says_to_all_change_nothing(world: Upgraded) -> None:
    world.agent._receive(world.frame(Heartbeat(Override.FREE, 1, 1), HEARTBEAT_MAC, OLD), MS)
    assert world.agent.enforcing and not world.agent.guard.refused
    world.silence(60 * MS)
    world.agent._receive(world.frame(Heartbeat(Override.COORDINATE, 1, 1), HEARTBEAT_MAC, OLD), 61 * MS)
    assert world.agent.membership.state is State.FAIL_OPEN, "nor do they make a member of a host that fell open"
    world.agent._receive(world.heartbeat(), 62 * MS)
    assert world.agent.member


def test_while_its_leader_is_heard_no_older_version_brings_another_leader(world: Upgraded) -> None:
    world.beat(OLD)
    assert world.agent.member and world.agent.guard.epoch == EPOCH
    world.beat(NEWEST)
    assert world.agent.guard.epoch == LATER and world.registered_in() == [NEWEST]


def test_a_newer_heartbeat_of_the_leader_lifts_a_member_that_registered_in_the_older_version(world: Upgraded) -> None:
    world.silence(60 * MS)
    world.beat(OLD, 61 * MS)  # the newest copy was lost
    world.welcome(OLD, 62 * MS)
    world.sent()
    world.beat(NEWEST, 70 * MS)
    assert world.agent.member and world.registered_in() == [NEWEST]
    world.beat(NEWEST, 82 * MS)
    assert world.agent.enforcing and not world.registered_in(), "once, and it stays a member meanwhile"
    assert world.agent.guard.speaks == OLD
    world.welcome(NEWEST, 83 * MS)
    assert world.agent.member and world.agent.guard.speaks == NEWEST


@pytest.mark.parametrize("order", [(OLD, NEWEST), (NEWEST, OLD)])
def test_of_copies_that_waited_together_it_takes_the_newest_version(world: Upgraded, order: tuple[int, int]) -> None:
    def waits(now_ns: int) -> None:
        frames = []
        for version in order:
            world.sequence += 1
            words = {"key": RING.sending, "destination": HEARTBEAT_MAC, "source": LEADER_MAC, "sender": 1}
            message = Heartbeat(Override.COORDINATE, 1, 1)
            frames.append((encode(message, **words, epoch=LATER, sequence=world.sequence, version=version), 0))
        world.link.waiting = frames
        world.agent._hear(now_ns)

    world.silence(60 * MS)
    waits(61 * MS)
    assert world.registered_in() == [NEWEST]
    world.welcome(NEWEST, 62 * MS)
    waits(70 * MS)
    assert world.agent.member and not world.agent.guard.refused


def test_a_member_of_the_older_version_is_lifted_by_copies_that_waited_together(world: Upgraded) -> None:
    world.silence(60 * MS)
    world.beat(OLD, 61 * MS)
    world.welcome(OLD, 62 * MS)
    world.sent()
    world.link.waiting = []
    for version in (NEWEST, OLD):
        world.sequence += 1
        words = {"key": RING.sending, "destination": HEARTBEAT_MAC, "source": LEADER_MAC, "sender": 1, "epoch": LATER}
        raw = encode(Heartbeat(Override.COORDINATE, 1, 1), **words, sequence=world.sequence, version=version)
        world.link.waiting.append((raw, 0))
    world.agent._hear(72 * MS)
    assert world.agent.member and world.registered_in() == [NEWEST]


def test_before_it_is_welcomed_it_registers_in_the_newest_version_that_it_has_heard(world: Upgraded) -> None:
    world.silence(60 * MS)
    world.beat(OLD, 61 * MS)
    world.beat(NEWEST, 100 * MS)
    world.agent._keep_watch(112 * MS)
    assert world.registered_in() == [OLD, NEWEST]


@given(st.integers(0, 255))
def test_a_version_that_it_does_not_speak_is_never_agreed_on(chosen: int) -> None:
    world = Upgraded()
    world.beat(NEWEST)
    world.welcome(NEWEST, chosen=chosen)
    assert world.agent.member is SPOKEN.speaks(chosen)


def test_a_leader_of_a_version_that_it_does_not_speak_is_told_in_the_log_once(
    world: Upgraded, caplog: pytest.LogCaptureFixture
) -> None:
    frame = bytearray(world.heartbeat())
    frame[16] = NEWEST + 1
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            world.agent._receive(bytes(frame), number * MS)
    (line,) = [record.getMessage() for record in caplog.records if "version" in record.getMessage()]
    assert LEADER_MAC.hex(":") in line and line.endswith("upgrade this agent")
    assert world.agent.guard.refused[Cause.VERSION] == 20 and world.agent.member


def test_with_a_hosts_own_key_it_speaks_the_newest_version_only_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    keys = Master(Key(bytes(32))).enroll("h1").at(mac(1))
    agent = Agent(AgentConfig("eth1", 10**8, Path("/nowhere"), name="h1"), keys, cast(Host, FakeHost(mac(1))))
    assert agent.guard.spoken == (NEWEST, NEWEST)
    shared = {"key": RING.sending, "destination": HEARTBEAT_MAC, "source": LEADER_MAC, "sender": 1, "epoch": EPOCH}
    with caplog.at_level(logging.WARNING):
        agent._receive(encode(Heartbeat(Override.FREE, 1, 1), **shared, sequence=1, version=OLD), MS)
    (line,) = [record.getMessage() for record in caplog.records if "version" in record.getMessage()]
    assert f"this agent speaks {NEWEST}:" in line and line.endswith("upgrade the controller there")
    assert agent.membership.state is State.LISTENING and agent.guard.epoch == 0
