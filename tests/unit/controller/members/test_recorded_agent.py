"""Yesterday's agent (tests/peers/version_2) and today's leader."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from bench.fuzz.receivers import DiscardingBridge, FakeControlSocket, FixedLeadership, mac
from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from protocol.key import Key
from protocol.messages import Backlog, GateKind, Message, Register, Welcome, decode, encode
from tests.peers.version_2.player import (
    ACK,
    COFLOWS,
    DIRECTIVE,
    EPOCH,
    ERROR,
    HEARTBEAT,
    KEY,
    KEY_STEP,
    LEADER,
    LEAVE,
    PFC_SETTINGS,
    PING,
    PONG,
    REPORT,
    WELCOME,
    OldAgent,
)
from topology import shapes

MS = 1_000_000
SHARED = Key(KEY)
FABRIC = shapes.build("star", hosts=2, rate_bps=10**8)


class World:
    """A leader of today with a host of today (h2) and the recorded one (h1), where every pair needs permission."""

    def __init__(self) -> None:
        settings = CoordinatorSettings(
            interface="c0", attachment="s1:c0", key_file=Path("/nowhere/key"), store="", mode="always", policy="timeslice"
        )
        self.link, self.bridge = FakeControlSocket(LEADER), DiscardingBridge()
        self.leader = Coordinator(
            settings, SHARED, cast(Any, self.link), cast(Any, self.bridge), FixedLeadership(), cast(Any, None)
        )
        self.leader.take([{"fabric": {"fabric": FABRIC.to_dict(), "blocked": []}}], 0)
        self.agent, self.now_ns, self.sequence = OldAgent(), 0, 0
        self.of_today: list[tuple[int, Message]] = []
        self.today(Register("h2", 7, 10**8, tuple(FABRIC.addresses("h2")), GateKind.TBF, "1"), 0)

    def today(self, message: Message, sender: int = 16) -> None:
        """The host of today says something."""
        self.sequence += 1
        words = {"key": SHARED, "destination": LEADER, "source": mac(2), "epoch": EPOCH}
        self.leader.reception.receive(encode(message, **words, sender=sender, sequence=self.sequence), self.now_ns)
        self.deliver()

    def deliver(self) -> None:
        """Both hear what the leader has said, and the old agent answers until all is said."""
        while frames := self.link.sent:
            self.link.sent = []
            for raw in frames:
                if raw[:6] != mac(2):
                    for answer in self.agent.answer(raw):
                        self.leader.reception.receive(answer, self.now_ns)
                if raw[:6] != self.agent.own and (frame := decode(raw, SHARED)).version == 3:
                    self.of_today.append((frame.version, frame.message))

    def run(self, milliseconds: int) -> None:
        for _ in range(milliseconds):
            self.now_ns += MS
            if not self.now_ns % (12 * MS):
                self.leader._heartbeat(self.now_ns)
            if not self.now_ns % (200 * MS):
                self.leader.reception.receive(self.agent.say(PING, sent_ns=self.now_ns), self.now_ns)
            if not self.now_ns % (24 * MS):
                for part in self.leader.parts:
                    for _, call in part.periodic:
                        call(self.now_ns)
            if self.leader.granting.due_ns is not None and self.now_ns >= self.leader.granting.due_ns:
                self.leader.granting.plan(self.now_ns)
            self.deliver()

    @property
    def record(self) -> dict[str, Any]:
        """The old agent's document, as `baton status` reads it."""
        member = self.leader.members.at(self.agent.own)
        assert member is not None
        return member.record(self.now_ns) | self.leader.parts.of_member(member.node)


@pytest.fixture
def world() -> World:
    made = World()
    made.run(60)
    return made


def test_it_registers_with_the_leaders_settings_and_is_in_the_status_with_its_version(world: World) -> None:
    (welcome,) = world.agent.all(WELCOME)
    settings = world.leader.settings
    for name in ("heartbeat_ns", "fail_open_ns", "mice_bytes", "mice_rate_bps", "report_ns"):
        assert welcome[name] == getattr(settings, name), name
    assert welcome["hysteresis_ns"] == settings.yield_hysteresis_ns
    assert welcome["node"] == world.agent.sender == 17
    assert (world.record["name"], world.record["wire"], world.record["version"]) == ("h1", 2, "0.1.0")
    assert world.record["kernel"] and "schedule_offset_us" in world.record, "its HOST_STATE and CLOCK_REPORT are read"
    document = world.leader._document(world.now_ns)
    assert document["wire"]["members"] == {"2": 1, "3": 1} and not document["refused"] and not document["warnings"]


def test_it_knows_the_directory_and_gets_directives_which_it_acknowledges_and_yields(world: World) -> None:
    addresses = {node: [address.packed for address in FABRIC.addresses(name)] for node, name in ((16, "h2"), (17, "h1"))}
    assert world.agent.directory == addresses and world.agent.regulated == {16}
    grants = [grant for grant in world.agent.all(DIRECTIVE) if grant["bytes"]]
    assert grants and all(grant["destination"] == 16 and len(grant.body) == 40 for grant in grants)
    assert world.record["acknowledged"] and world.record["yields"] and world.record["late_slots"] == 0
    world.leader.reception.receive(world.agent.say(REPORT), world.now_ns)
    assert not world.leader.guard.refused


def test_it_refuses_nothing_but_the_copies_for_hosts_of_today(world: World) -> None:
    world.run(3_000)
    heard = {said.kind for said in world.agent.heard}
    assert {HEARTBEAT, PONG, COFLOWS, PFC_SETTINGS} <= heard
    assert world.agent.refused.keys() == {"VERSION"}, "and it reads heartbeats when it is awake: they cost it no wake-up"
    heartbeats = len(world.agent.all(HEARTBEAT))
    assert heartbeats >= 3_000 // 12 and world.agent.refused["VERSION"] <= 2 * len([s for s in world.agent.heard if s.to_all])


def test_it_obeys_the_override_and_follows_a_change_of_the_key(world: World) -> None:
    world.leader.take([{"override": "free"}], world.now_ns)
    world.deliver()
    assert world.agent.override == 1
    world.leader.take([{"override": "coordinate"}], world.now_ns)
    world.run(24)
    assert world.agent.override == 0
    world.leader.take([{"rotation": {"step": "cancel", "old": f"{SHARED.fingerprint:016x}", "new": "0" * 16}}], world.now_ns)
    world.deliver()
    assert world.agent.all(KEY_STEP) and world.leader.parts.status()["key"]["waiting_for"] == ["h2"], "its KEY_STATE came"


def test_it_leaves_and_is_told_to_register_when_it_is_not_known(world: World) -> None:
    world.leader.reception.receive(world.agent.say(LEAVE), world.now_ns)
    assert world.leader.members.at(world.agent.own) is None
    world.leader.reception.receive(world.agent.say(ACK), world.now_ns)
    world.deliver()
    assert world.agent.all(ERROR)[-1]["code"] == 1


def test_a_host_of_today_beside_it_is_coordinated_as_before(world: World) -> None:
    world.today(Backlog(1, 0, 1, ((17, 60_000, 0),)))
    world.run(24)
    kinds = {type(message).__name__ for _, message in world.of_today}
    assert {"Welcome", "Heartbeat", "Directive"} <= kinds
    welcome = next(message for _, message in world.of_today if isinstance(message, Welcome))
    assert welcome.version == 3
