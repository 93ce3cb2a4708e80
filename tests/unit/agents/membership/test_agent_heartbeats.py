"""An agent and its leader's heartbeats: those that waited in the socket, and in what order they count."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from agents.agent import Agent
from agents.config import AgentConfig
from agents.membership.lifecycle import State
from agents.queues.host import Host
from bench.fuzz.receivers import EPOCH, LEADER_MAC, FakeControlSocket, FakeHost, frame, mac
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.messages import HEARTBEAT_MAC, Error, ErrorCode, Heartbeat, Message, Override, Welcome, encode

RING = KeyRing(Key(bytes(32)))
MS = 1_000_000


class Waiting(FakeControlSocket):
    """A control socket in which frames wait, each with the time at which it came."""

    def __init__(self, address: bytes) -> None:
        super().__init__(address)
        self.waiting: list[tuple[bytes, int]] = []

    def deferred_frames(self, most: int = 0) -> list[tuple[bytes, int]]:
        found, self.waiting = self.waiting, []
        return found


class World:
    """An agent that is a member since 0."""

    def __init__(self) -> None:
        host: Any = FakeHost(mac(1))
        self.link = host.link = Waiting(mac(1))
        self.agent = Agent(AgentConfig("eth1", 10**8, Path("/nonexistent"), name="h1"), RING.sending, cast(Host, host))
        self.sequence = 0
        self.agent._receive(self.heartbeat(), 0)
        welcome = Welcome(self.agent.membership._nonce, 16, 12 * MS, 50 * MS, 0, 0, 0, 50 * MS)
        self.agent._receive(self.frame(welcome, mac(1)), 0)
        assert self.agent.member

    def frame(self, message: Message, to: bytes, version: int = NEWEST) -> bytes:
        self.sequence += 1
        words = {"source": LEADER_MAC, "destination": to, "sender": 1}
        return frame(message, RING, **words, sequence=self.sequence, version=version)

    def heartbeat(self, override: Override = Override.COORDINATE) -> bytes:
        return self.frame(Heartbeat(override, 1, 1), HEARTBEAT_MAC)


def test_a_heartbeat_that_waited_does_not_shut_what_the_override_has_just_opened() -> None:
    world = World()
    waited = world.heartbeat()
    world.agent._receive(world.heartbeat(Override.FREE), MS)
    assert not world.agent.enforcing
    world.link.waiting = [(waited, MS)]
    world.agent._hear(2 * MS)
    assert not world.agent.enforcing and world.agent.membership.override is Override.FREE
    world.link.waiting = [(world.heartbeat(), 19 * MS)]
    world.agent._hear(20 * MS)
    assert world.agent.enforcing


@pytest.mark.parametrize(("came_ms", "member"), [(40, True), (2, False)])
def test_silence_is_believed_only_if_no_heartbeat_waits_that_is_young_enough(came_ms: int, member: bool) -> None:
    world = World()
    world.link.waiting = [(world.heartbeat(), came_ms * MS)]
    world.agent._keep_watch(52 * MS)
    assert world.agent.member is member and (world.agent.membership.state is State.FAIL_OPEN) is not member


def test_an_agent_that_waits_for_a_processor_before_it_reads_does_not_take_that_time_for_silence() -> None:
    world = World()
    world.link.waiting = [(world.heartbeat(), 45 * MS)]
    world.agent._hear(1 * MS)  # it looked at the clock, and then others ran
    world.agent._keep_watch(60 * MS)
    assert world.agent.member


def test_a_wall_clock_that_is_set_makes_no_heartbeat_older_than_the_last_look() -> None:
    world = World()
    world.agent._hear(40 * MS)
    world.link.waiting = [(world.heartbeat(), -3_600_000 * MS)]
    world.agent._keep_watch(50 * MS)
    assert world.agent.member


def test_a_forged_frame_behind_a_heartbeat_does_not_hide_it() -> None:
    world = World()
    *forged, last = world.heartbeat()
    world.link.waiting = [(world.heartbeat(), 49 * MS), (bytes([*forged, last ^ 1]), 49 * MS)]
    world.agent._keep_watch(50 * MS)
    assert world.agent.member


def test_a_new_leader_whose_clock_is_behind_is_obeyed() -> None:
    world = World()
    for _ in range(9):
        world.agent._receive(world.heartbeat(), MS)

    def from_new(message: Message, to: bytes, sequence: int) -> None:
        words = {"key": RING.sending, "destination": to, "source": LEADER_MAC, "sender": 1}
        world.agent._receive(encode(message, **words, epoch=EPOCH + 1, sequence=sequence), 2 * MS)

    from_new(Heartbeat(Override.COORDINATE, 1, 1), HEARTBEAT_MAC, 1)
    assert world.agent.membership.state is State.REGISTERING
    from_new(Welcome(world.agent.membership._nonce, 17, 12 * MS, 50 * MS, 0, 0, 0, 50 * MS), mac(1), 2)
    from_new(Heartbeat(Override.FREE, 1, 1), HEARTBEAT_MAC, 3)
    assert world.agent.member and world.agent.membership.override is Override.FREE


@pytest.mark.parametrize(("away", "goes_on"), [(1 << 61, True), (1, True), (-5, False), (-(1 << 41), True)])
def test_an_agent_whose_numbers_are_refused_goes_on_where_the_leader_says(away: int, goes_on: bool) -> None:
    world = World()
    before = world.agent.sequence
    error = Error(ErrorCode.SEQUENCE, before + away, "")
    world.agent._receive(world.frame(error, mac(1)), MS)
    assert world.agent.sequence == (before + away if goes_on else before) and world.agent.member


def test_a_refusal_that_comes_again_and_again_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for second, text in ((0, "no"), (1, "no"), (2, "no"), (3, "never"), (4, "never"), (63, "never"), (64, "never")):
        error = Error(ErrorCode.REFUSED, second, text)
        world.agent._receive(world.frame(error, mac(1)), MS + second * 1000 * MS)
    said = [record.getMessage() for record in caplog.records if "the coordinator says" in record.getMessage()]
    assert said == [f"the coordinator says: {text} (REFUSED)" for text in ("no", "never", "never")]
