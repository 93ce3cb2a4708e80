"""What a host of the swarm makes of a leader's frames, and when the swarm begins to measure."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from types import SimpleNamespace

import pytest

from bench.swarm import swarm as measuring
from bench.swarm.agents import Conditions, Swarm
from bench.swarm.swarm import KEPT_UP_NS, Options, _Measured
from bench.swarm.traffic import make
from protocol.key import Key
from protocol.keys.hosts import Master
from protocol.messages import (
    COORDINATOR,
    Directive,
    Directory,
    Grant,
    Message,
    Register,
    Regulate,
    Welcome,
    Yield,
    decode_proven,
    encode,
)
from topology.shapes import FIRST_ADDRESS

LEADER_MAC, EPOCH, MS = bytes.fromhex("0a0b0c0d0e0f"), 7, 1_000_000
SENDER, RECEIVER = 16, 17
"""The node ids of the first two hosts."""


class OneHost:
    """A swarm of which one host hears a leader: this one."""

    def __init__(self, given: Conditions) -> None:
        self._master = Master(Key(bytes(range(32))))
        self.world = make("racks", 2, 1)
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ours.setblocking(False)
        self._theirs = theirs
        self.swarm = Swarm(self.world, self._master, theirs, given)
        host = self._master.enroll(self.world.names[0], salt=b"00000000")
        self._mac = (0x02 << 40 | 1).to_bytes(6)
        self._keys = host.at(self._mac, self._master.group)
        self._sequence = 0

    def close(self) -> None:
        self.swarm.close()
        self._ours.close()
        self._theirs.close()

    def run(self, ms: float = 20) -> None:
        self.swarm.run(time.monotonic_ns() + int(ms * MS))

    def say(self, message: Message) -> None:
        self._sequence += 1
        frame = encode(
            message, key=self._keys.from_leader, destination=self._mac, source=LEADER_MAC, sender=COORDINATOR, epoch=EPOCH,
            sequence=self._sequence,
        )  # fmt: skip
        self._ours.send(frame)

    def said(self) -> list[bytes]:
        found = []
        while True:
            try:
                found.append(self._ours.recv(2000))
            except BlockingIOError:
                return found

    def join(self) -> None:
        """Becomes a member that needs permission for the other host."""
        self.run()
        self.say(Welcome(0, SENDER, 10 * MS, 500 * MS, 300_000, 10_000, MS, 1000 * MS))  # a nonce that it has not
        self.run()
        nonce = next(said.nonce for raw in self.said() if isinstance(said := decode_proven(raw).message, Register))
        self.say(Welcome(nonce, SENDER, 10 * MS, 500 * MS, 300_000, 10_000, MS, 1000 * MS))
        addresses = [(IPv4Address(FIRST_ADDRESS + at),) for at in range(2)]
        self.say(Directory(1, 0, 1, ((SENDER, addresses[0]), (RECEIVER, addresses[1]))))
        self.say(Regulate(1, 0, 1, (RECEIVER,)))
        self.run()



@pytest.fixture
def host() -> Iterator[OneHost]:
    made = OneHost(Conditions(absent=1))
    yield made
    made.close()


def test_a_slot_that_arrives_after_its_start_is_late_and_a_lease_is_not(host: OneHost) -> None:
    host.join()
    assert host.swarm.counts().members == 1
    now_ns = time.monotonic_ns()
    lease = Grant(RECEIVER, 1, now_ns - 5 * MS, now_ns + 100 * MS, 0, 10**8)
    host.say(Directive((lease,)))
    host.run()
    counts = host.swarm.counts()
    assert (counts.grants, counts.rate_grants, counts.late) == (1, 1, 0)
    late = Grant(RECEIVER, 2, now_ns, now_ns + 10 * MS, 1000, 0)
    early = Grant(RECEIVER, 3, now_ns + 10_000 * MS, now_ns + 10_010 * MS, 1000, 0)
    host.say(Directive((late, early)))
    host.run()
    counts = host.swarm.counts()
    assert (counts.grants, counts.rate_grants, counts.late) == (3, 1, 1)


def test_what_comes_at_random_is_sent_once_and_whole_however_often_its_rate_changes() -> None:
    load, mean_bytes, seconds = 0.02, 50_000.0, 1.0
    host = OneHost(Conditions(absent=1, load=load, mean_bytes=mean_bytes))
    try:
        host.join()
        before = host.swarm.model.sums()
        for number in range(1, 500):
            now_ns = time.monotonic_ns()
            host.say(Directive((Grant(RECEIVER, number, now_ns, now_ns + 100 * MS, 0, 40_000_000 + number),)))
            host.run(1000 * seconds / 500)
            host.said()  # or there is no room for more
        host.run(100)
        sums = {name: value - before[name] for name, value in host.swarm.model.sums().items()}
    finally:
        host.close()
    came = load * host.world.node_rate_bps(0) / 8 * seconds
    assert 0.5 * came < sums["delivered"] < 2 * came and not sums["lost"]


def settled(awaiting: int, behind_ns: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(measuring, "KEPT_UP_S", 0.0)
    counts = SimpleNamespace(awaiting=awaiting, behind_ns=behind_ns)
    swarm = SimpleNamespace(counts=lambda: counts, forget=lambda: None)
    return _Measured(Options(), None, None, swarm, lambda what, done: None)._settled()  # type: ignore[arg-type]


@pytest.mark.parametrize(("load", "given_back"), [(0.02, True), (0.0, False)])
def test_a_rate_whose_queue_has_emptied_is_given_back(load: float, given_back: bool) -> None:
    """As a real host does; one that always has something to send keeps its rate."""
    host = OneHost(Conditions(absent=1, load=load))
    try:
        host.join()
        now_ns = time.monotonic_ns()
        host.say(Directive((Grant(RECEIVER, 1, now_ns, now_ns + 400 * MS, 0, 10**9),)))
        host.run(300)
        frames = (decode_proven(raw).message for raw in host.said())
        returned = [said for said in frames if isinstance(said, Yield)]
        assert [(said.destination, said.slot, said.unspent_bytes) for said in returned] == [(RECEIVER, 1, 0)] * given_back
    finally:
        host.close()


def test_it_measures_when_all_are_served_and_the_swarm_has_kept_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hosts send while the swarm catches up says nothing of the coordinator."""
    assert settled(0, KEPT_UP_NS, monkeypatch)
    assert not settled(1, 0, monkeypatch)
    assert not settled(0, KEPT_UP_NS + 1, monkeypatch)
