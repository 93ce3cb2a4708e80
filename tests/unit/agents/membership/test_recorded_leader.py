"""Today's agent and yesterday's leader (tests/peers/version_2)."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, cast

import pytest

from agents.agent import Agent
from agents.config import AgentConfig
from agents.membership.keys import Keys
from agents.membership.lifecycle import State
from agents.queues.host import Host
from bench.fuzz.receivers import FakeControlSocket, FakeHost
from protocol.key import Key
from protocol.messages import Cause
from tests.peers.version_2.player import (
    ACK,
    AGENT,
    BACKLOG,
    CLOCK_REPORT,
    DIRECTORY_REQUEST,
    EPOCH,
    HOST_STATE,
    KEY,
    KEY_STATE,
    KEY_STEP,
    LEAVE,
    PING,
    REGISTER,
    REPORT,
    YIELD,
    OldLeader,
)

MS = 1_000_000


class World:
    """An agent of today and the recorded leader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 1_000_000 * MS
        monkeypatch.setattr("time.monotonic_ns", lambda: self.now_ns)
        host: Any = FakeHost(AGENT)
        self.link: FakeControlSocket = host.link
        config = AgentConfig("eth1", 10**8, Path("/nowhere/key"), name="h1", addresses=(IPv4Address("10.0.0.1"),))
        self.agent = Agent(config, Key(KEY), cast(Host, host))
        self.agent.add(Keys(self.agent, self.agent.guard.ring, config.key_file))
        self.leader = OldLeader()

    def hear(self, *frames: bytes) -> None:
        """The agent hears these, and the leader what it answers, until all is said."""
        waiting = list(frames)
        while waiting:
            for raw in waiting:
                self.agent._receive(raw, self.now_ns)
            waiting = self.answers()

    def answers(self) -> list[bytes]:
        said, self.link.sent = self.link.sent, []
        return [answer for raw in said for answer in self.leader.answer(raw, self.now_ns)]

    def run(self, milliseconds: int, *, leads: bool = True) -> None:
        for _ in range(milliseconds):
            self.now_ns += MS
            if not leads:
                self.link.sent = []
            elif not self.now_ns % (12 * MS):
                self.hear(self.leader.heartbeat())
            self.agent.keeper.advance(self.now_ns)
            self.agent.parts.advance(self.now_ns)
            self.agent._keep_watch(self.now_ns)
            if leads:
                self.hear(*self.answers())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.run(24)
    return made


def test_it_registers_in_version_2_and_is_a_member(world: World) -> None:
    assert world.agent.member and world.agent.enforcing and world.agent.guard.speaks == 2
    name, version = world.leader.registered.body[17:19]
    text = world.leader.registered.body[20 : 20 + name + version]
    assert text[:name] == b"h1" and world.leader.registered["rate_bps"] == 10**8
    assert world.leader.registered.body[20 + name + version :] == b"\x04\x0a\0\0\1"
    assert world.leader.all(DIRECTORY_REQUEST) and 16 in world.agent.nodes


def test_it_obeys_directives_and_acknowledges_and_yields(world: World) -> None:
    assert world.agent.keeper.regulated == {16}
    assert world.agent.keeper.backlogged(16, world.now_ns)
    world.run(10)
    assert world.leader.all(BACKLOG)[-1]["pages"] == 1
    (ack,) = world.leader.all(ACK)
    assert (ack["slot"], ack["destination"]) == (1, 16) and ack["opened_ns"] >= ack["received_ns"]
    (given_back,) = world.leader.all(YIELD)
    assert (given_back["slot"], given_back["destination"]) == (1, 16)


def test_it_reports_and_the_leader_refuses_nothing(world: World) -> None:
    world.run(3_000)
    heard = {said.kind for said in world.leader.heard}
    assert {REGISTER, REPORT, PING, CLOCK_REPORT, HOST_STATE} <= heard
    assert not world.leader.refused and world.agent.guard.refused.keys() <= {Cause.FAILED}, "the host has no kernel"
    world.hear(world.leader.say(KEY_STEP))
    assert world.leader.all(KEY_STATE)


def test_silence_opens_its_gates_and_the_leader_heard_again_shuts_them(world: World) -> None:
    world.run(60, leads=False)
    assert world.agent.membership.state is State.FAIL_OPEN and not world.agent.enforcing
    world.run(12)
    assert world.agent.enforcing and len(world.leader.all(REGISTER)) == 1
    world.hear(world.leader.heartbeat(override=1))
    assert world.agent.member and not world.agent.enforcing


def test_an_agent_takes_leave_of_a_leader_of_another_version(world: World) -> None:
    world.agent.membership.leave(world.now_ns)
    world.answers()
    assert world.leader.all(LEAVE) and world.leader.epoch == EPOCH
