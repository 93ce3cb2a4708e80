"""Frames taken by the library lead to what the same frames lead to one by one: refusals, windows, figures, directives; and it
touches no memory that is not its own while it takes them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy import frombuffer

from bench.fuzz.leaders import FIRST_SEQUENCE, Leader, credentials, frame
from bench.fuzz.receivers import EPOCH, LEADER_MAC
from controller.members.registry import FIRST_NODE
from controller.policies.compiled.batches import RETURNED
from controller.scheduling import telemetry
from protocol.auth import JUMP
from protocol.messages import Ack, Backlog, Cause, FlowReport, Grant, Kind, Leave, Message, Ping, Register, Report, Yield
from protocol.wire import BODY, TYPE
from tests.unit.controller.frames.sanitized import run_with_frames, take_other_build
from tests.unit.spoilt_frames import SpoilingNetwork

MS, HOSTS = 10**6, 6
PROVEN = {
    Kind.DIRECTORY_REQUEST, Kind.REPORT, Kind.SIZE_REPORT, Kind.CLOCK_REPORT, Kind.HOST_STATE, Kind.HOST_LINK, Kind.PATHS,
    Kind.LOSSES, Kind.GROUPS_REQUEST, Kind.COFLOW_REPORT,
}  # fmt: skip
EXTREMES = (0, 1, 15, 16, 0x3FFF, 0x4000, 0xFFFFFFFF, (1 << 62) - 1, 1 << 62, (1 << 62) + 1, (1 << 63), (1 << 64) - 1)

take_other_build()


class Hosts:
    """What hosts say, sense and nonsense: frames by a seeded generator, which knows what was granted."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.now_ns = MS
        self._sequences = dict.fromkeys(range(1, HOSTS + 1), FIRST_SEQUENCE)
        self._enrolments = dict.fromkeys(range(1, HOSTS + 1), 0)
        self._report = 0
        self._grants: dict[int, list[Grant]] = {}
        self._network = SpoilingNetwork(self.dice, share=0.1)

    def granted(self, answers: dict[int, list[Any]]) -> None:
        for number, parts in answers.items():
            self._grants[number] = (self._grants.get(number, []) + [p for p in parts if isinstance(p, Grant)])[-20:]

    def frames(self, most: int) -> list[bytes]:
        return [self._network.passed(self._one()) for _ in range(self.dice.randint(1, most))]

    def _one(self) -> bytes:
        dice, number = self.dice, self.dice.randint(1, HOSTS)
        words: dict[str, Any] = {}
        if dice.random() < 0.03:
            words = dice.choice(
                [
                    {"epoch": EPOCH - 1}, {"epoch": EPOCH + 1}, {"destination": b"\2\0\0\0\0\x63"}, {"sender": 1},
                    {"sender": FIRST_NODE + dice.randrange(HOSTS)}, {"sender": dice.choice(EXTREMES) & 0xFFFFFFFF},
                    {"enrolment": 1},
                ]
            )  # fmt: skip
        sequence = self._sequences[number] + 1 + dice.choice((0, 0, 0, 1, 5, 62, 63, 64, 70))
        chance = dice.random()
        if chance < 0.06:
            sequence = max(0, self._sequences[number] - dice.choice((0, 1, 2, 10, 62, 63, 64, 65, 500)))
        elif chance < 0.08:
            sequence += dice.choice((JUMP - 1, JUMP, JUMP + 1, 1 << 62)) if dice.random() < 0.5 else JUMP + 100
        message = self._message(number)
        words.setdefault("enrolment", self._enrolments[number])
        if isinstance(message, Register):
            self._enrolments[number] = words["enrolment"] = dice.choice((0, 0, 1))
            words["sender"] = 0
        if not {"epoch", "destination", "sender"} & words.keys() and sequence <= self._sequences[number] + JUMP:
            self._sequences[number] = max(sequence, self._sequences[number])
        raw = frame(message, number, sequence=sequence & (1 << 64) - 1, **words)
        return raw if dice.random() > 0.04 else self._authentic(raw, number, words["enrolment"])

    def _authentic(self, raw: bytes, number: int, enrolment: int) -> bytes:
        """The frame with another byte in its header, under a tag of its own: what a host can make that has its keys."""
        data = bytearray(raw[: BODY + int.from_bytes(raw[20:22])])
        data[self.dice.choice((12, 14, 16, 17, 18, 19, 19, 19, 25, 29))] ^= 1 << self.dice.randrange(8)
        if data[TYPE] != raw[TYPE] and data[TYPE] in PROVEN:
            data[TYPE] = raw[TYPE]  # of these, one without sense takes a number here, and none with the guard
        return bytes(data) + credentials(number, enrolment).to_leader.tag(bytes(data))

    def _message(self, number: int) -> Message:
        dice, grants = self.dice, self._grants.get(number, [])
        chance = dice.random()
        grant = dice.choice(grants[-6:]) if grants and chance > 0.02 else Grant(17, dice.choice(EXTREMES), 0, 0, 0, 0)
        if chance < 0.3:
            opened = dice.choice(EXTREMES) if dice.random() < 0.05 else grant.start_ns + dice.choice((-MS, 0, 1000, MS))
            received = dice.choice(EXTREMES) if dice.random() < 0.05 else grant.start_ns + dice.randrange(-MS, 10 * MS)
            return Ack(grant.slot, grant.destination, max(0, received), max(0, opened))
        if chance < 0.55:
            size = dice.choice((0, 0, 5000, *EXTREMES[-5:])) if dice.random() < 0.2 else dice.choice((0, 5000))
            return Yield(grant.destination, grant.slot, dice.choice((0, 100, 10**6, 0xFFFFFFFF)), size)
        if chance < 0.85:
            return self._backlog()
        if chance < 0.9:
            return Report(50 * MS, 0, 1, (FlowReport(17, 1000, 500),), ((int(Cause.TAG), 1),), dice.randrange(1000))
        if chance < 0.96:
            return Ping(dice.choice(EXTREMES))
        return Leave("done") if chance < 0.97 else Register(f"h{number}", dice.randrange(1 << 20), 10**9, (), 1, "1")  # type: ignore[arg-type]

    def _backlog(self) -> Backlog:
        dice = self.dice
        self._report += 1
        entries = []
        for destination in dice.sample(range(FIRST_NODE, FIRST_NODE + HOSTS + 2), dice.randrange(4)):
            size = dice.choice(EXTREMES) if dice.random() < 0.03 else 60_000
            entries.append((destination, size, 100 if dice.random() < 0.05 else 0))
        if entries and dice.random() < 0.05:
            entries.append((entries[0][0], dice.choice((1, 70_000)), 0))
        if dice.random() < 0.03:
            entries.append((dice.choice(EXTREMES) & 0xFFFFFFFF, 5, 0))
        page, pages = (0, 1) if dice.random() < 0.95 else dice.choice(((0, 2), (1, 2)))
        return Backlog(self._report, page, pages, tuple(entries))


def same(seed: int, policy: str, turns: int = 60) -> None:
    """Both leaders hear the same frames, one at a time: they say the same, and know the same."""
    with patch.object(telemetry, "EVENTS_MAX", 10**6):  # where there is no room, only the Python way keeps slots in mind
        _same(seed, policy, turns)


def _same(seed: int, policy: str, turns: int) -> None:
    ways = [Leader(compiled=compiled, hosts=HOSTS, policy=policy) for compiled in (False, True)]
    hosts = Hosts(seed)
    taken = False
    for _ in range(turns):
        for way in ways:
            way.settle(hosts.now_ns)
        hosts.now_ns += hosts.dice.choice((0, 1000, MS // 2, 3 * MS))
        if hosts.dice.random() < 0.015:
            hosts.now_ns += 600 * MS
            for way in ways:
                way.coordinator.granting._forget_lost(hosts.now_ns)
        for way in ways:
            way.plan(hosts.now_ns)
        raw = hosts.frames(1)
        said = []
        for way in ways:
            way.hear(raw, hosts.now_ns)
            said.append(way.answers())
        assert said[0] == said[1]
        hosts.granted(said[0])
        accounts = [way.account() for way in ways]
        assert accounts[0] == accounts[1]
        taken = taken or bool(ways[1].known())
        if hosts.dice.random() < 0.1:
            one, other = (way.coordinator.granting.permitted.take(hosts.now_ns) for way in ways)
            assert [_more(b) for b in one] == [_more(b) for b in other]
        if hosts.dice.random() < 0.02:
            distrusted = frozenset(hosts.dice.sample(range(FIRST_NODE, FIRST_NODE + HOSTS), 2))
            for way in ways:
                way.coordinator.granting.distrust(distrusted, hosts.now_ns)
                hosts.granted(way.answers())
    for way in ways:
        way.link.close()
    assert taken or turns < 60


def _more(sizes: dict[Any, int]) -> dict[Any, int]:
    return {pair: size for pair, size in sizes.items() if size}


def some(examples: int) -> settings:
    """Settings of the properties."""
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("policy", ["timeslice", "rate_limit", "auto", "free"])
def test_the_same_frames_one_at_a_time_lead_to_the_same(policy: str) -> None:
    @some(25)
    @given(seed=st.integers(0, 1 << 32))
    def holds(seed: int) -> None:
        same(seed, policy, turns=120)

    holds()


def in_batches(seed: int) -> None:
    """Both leaders hear the same frames; one of them many at a time."""
    ways = [Leader(compiled=compiled, hosts=HOSTS, policy="free") for compiled in (False, True)]
    hosts = Hosts(seed)
    for _ in range(12):
        hosts.now_ns += MS
        raw = hosts.frames(30)
        deferred = [one for one in raw if len(one) > 17 and one[17] in (9, 10)]
        raw = deferred + [one for one in raw if one not in deferred]
        for way in ways:
            way.settle(hosts.now_ns)
            way.hear(raw, hosts.now_ns)
        accounts = [way.account() for way in ways]
        for account in accounts:
            del account["rows"]
        assert accounts[0] == accounts[1]
    for way in ways:
        way.link.close()


@some(60)
@given(seed=st.integers(0, 1 << 32))
def test_the_same_frames_many_at_a_time_lead_to_the_same(seed: int) -> None:
    in_batches(seed)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("speaker", "destination"), [(3, 3), (1, 1)], ids=["another host", "another destination"])
def test_a_host_gives_back_and_acknowledges_its_own_slots_only(compiled: bool, speaker: int, destination: int) -> None:
    """The numbers of slots follow one another, so that every host knows those of others."""
    leader = Leader(compiled=compiled, hosts=HOSTS, policy="timeslice")
    end = FIRST_NODE + 3
    leader.hear([frame(Backlog(1, 0, 1, ((end, 10**8, 0),)), 1, sequence=FIRST_SEQUENCE + 1)], MS)
    (grant,) = (part for part in leader.answers()[1] if isinstance(part, Grant))
    named = end if speaker != 1 else FIRST_NODE + destination
    foreign = (Ack(grant.slot, named, 0, grant.start_ns), Yield(named, grant.slot, grant.bytes, 0))
    for at, message in enumerate(foreign, FIRST_SEQUENCE + 2):
        leader.hear([frame(message, speaker, sequence=at)], grant.start_ns)
    granting = leader.coordinator.granting
    assert granting.tallies.acks == 0 and leader.account()["delays"][0] == {}
    assert granting.tallies.awaited(grant.slot) is not None and grant.slot in granting._telemetry._open
    assert granting.permitted.take(grant.start_ns + MS // 2).credits == {(FIRST_NODE, end): grant.bytes}
    own = (Ack(grant.slot, end, 0, grant.start_ns), Yield(end, grant.slot, grant.bytes, 0))
    for at, message in enumerate(own, FIRST_SEQUENCE + 4):
        leader.hear([frame(message, 1, sequence=at)], grant.start_ns + MS // 2)
    assert granting.tallies.acks == 1 and grant.slot not in granting._telemetry._open
    leader.link.close()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("destination", [FIRST_NODE + HOSTS + 5, 0x3FFF, 0x4000, 0xFFFFFFFF])
def test_what_is_said_to_wait_for_no_member_reaches_no_policy(compiled: bool, destination: int) -> None:
    leader = Leader(compiled=compiled, hosts=HOSTS, policy="timeslice")
    leader.hear([frame(Backlog(1, 0, 1, ()), 1, sequence=FIRST_SEQUENCE + 1)], MS)  # the library knows it from here on
    policy = leader.coordinator.granting.policy
    heard: list[tuple[int, ...]] = []
    take_yields = policy.take_yields

    def spy(now_ns: int, count: int, returned: Any) -> None:  # noqa: ANN401 -- an array of either library
        heard.extend(tuple(int(value) for value in row) for row in frombuffer(returned, RETURNED, count))
        take_yields(now_ns, count, returned)

    with patch.object(policy, "take_yields", spy):
        leader.hear([frame(Yield(destination, 7, 0, 10**8), 1, sequence=FIRST_SEQUENCE + 2)], 2 * MS)
    ((*_, waits),) = heard
    assert waits == 0
    leader.link.close()


def test_the_library_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    """The same frames under the address and the undefined-behaviour sanitizers."""
    assert "the same" in run_with_frames(__name__, tmp_path)


if __name__ == "__main__":
    assert LEADER_MAC
    for number in range(24):
        same(number, ("timeslice", "rate_limit", "auto")[number % 3], turns=200)
        in_batches(number)
    print("the same")
