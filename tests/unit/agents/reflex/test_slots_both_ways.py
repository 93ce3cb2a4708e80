"""Slots that the reflex obeys become what the same frames and times make of them in Python: gates, leases, windows, counters.
It touches no memory that is not its own meanwhile."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agents.reflex
from agents.agent import Agent
from agents.config import AgentConfig
from agents.permission.rules import Rule
from agents.queues.classifier import BACKLOGGED, EVENTS_BYTES, NEW_FLOW, Backlogged
from agents.queues.gates import TbfGate
from agents.queues.host import Host
from agents.reflex import slot_state
from agents.reflex.slot_state import CLOCK, GRANT, NEVER_NS, SHUT, STATE
from agents.reflex.slots import SlotReflex
from bench.fuzz.receivers import EPOCH, LEADER_MAC, FakeControlSocket, FakeHost, mac
from protocol.bodies.vocabulary import Kind
from protocol.key import Key
from protocol.keys.hosts import NAMED_TAG_BYTES, Master
from protocol.messages import Coflows, Directive, Grant, Message, Pong, Welcome, decode, encode
from protocol.wire import BODY
from tests.sanitized import run_sanitized
from tests.unit.agents.fake_gates import FakeGates
from tests.unit.spoilt_frames import SpoilingNetwork

MS, NODES = 10**6, (16, 17, 18)
HEADER, DISCARDED = 8, 1 << 30
UNKNOWN = 99
MASTER = Master(Key(bytes(range(32))))
KEYS = MASTER.enroll("h1", salt=bytes(8)).at(mac(1))
INSTEAD = "BATON_TEST_SLOTS"
"""The variable that names the folder of another build of the library, for the test of memory safety."""
EXTREMES = (0, 1, (1 << 31) - 1, (1 << 32) - 1, (1 << 62) - 1, 1 << 62, (1 << 62) + 1, (1 << 63), (1 << 64) - 1)
SOURCES = Path(agents.reflex.__file__).parent

if instead := os.environ.get(INSTEAD):
    made = slot_state.LIBRARY.load(Path(instead) / "slots.so")
    patch.object(slot_state.LIBRARY, "loaded", lambda: made).start()


class Link(FakeControlSocket):
    """A control socket whose frames can be sent by a descriptor too."""

    tag = b""

    def __init__(self) -> None:
        super().__init__(mac(1))
        self._here, self._there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._there.setblocking(False)

    def send(self, frame: bytes) -> None:
        self._here.send(frame)

    def fileno(self) -> int:
        return self._here.fileno()

    def delivered(self) -> Iterator[bytes]:
        while True:
            try:
                yield self._there.recv(2048)
            except BlockingIOError:
                return

    def close(self) -> None:
        self._here.close()
        self._there.close()


class Gates(FakeGates):
    """Gates that are armed in a table, as the kernel's are."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = {node: ctypes.c_uint32() for node in (*NODES, UNKNOWN)}

    def arm(self, destination: int, *, urgent: bool = False) -> None:
        if not urgent:
            self.armed[destination].value = 1


class Events:
    """The classifier's ring buffer, in memory of its own; each record lies there twice, as in the kernel's."""

    def __init__(self) -> None:
        self.consumed, self._rest = ctypes.c_uint64(), (ctypes.c_uint8 * (mmap.PAGESIZE + 2 * EVENTS_BYTES))()
        self.produced = ctypes.c_uint64.from_buffer(self._rest)
        self.ring = ctypes.addressof(self.consumed), ctypes.addressof(self._rest)

    def put(self, record: bytes, flags: int = 0) -> None:
        size = HEADER + -(-len(record) // 8) * 8
        data = (len(record) | flags).to_bytes(4, "little") + bytes(4) + record
        for place, byte in enumerate(data, self.produced.value):
            at = mmap.PAGESIZE + place % EVENTS_BYTES
            self._rest[at] = self._rest[at + EVENTS_BYTES] = byte
        self.produced.value += size

    def taken(self) -> bool:
        """Whether all were."""
        return self.consumed.value == self.produced.value

    def drop(self) -> None:
        self.consumed.value = self.produced.value


class OneHost(FakeHost):
    """A host whose gates are in memory."""

    version = 1
    link: Link

    def __init__(self) -> None:
        super().__init__(mac(1))
        self.link = Link()
        self.events_ring = Events()
        self.ring = self.events_ring.ring
        self.gates = Gates()
        here = "grant rate bucket_bytes open_gate close_gate state urgent arm free_senders wake_queues"
        for name in here.split():
            setattr(self, name, getattr(self.gates, name))
        self._of = {node: TbfGate(cast(Any, None), 1, node << 16, 1 << 16 | node) for node in NODES}

    def fileno(self) -> int:
        return -1  # events are heard when the test says so

    def backlog(self, destination: int) -> tuple[int, int]:
        return self.gates.state(destination)

    def destinations(self) -> dict[int, list[Any]]:
        return {node: [] for node in NODES}

    def gate_of(self, node: int) -> TbfGate | None:
        return self._of.get(node)

    def armed_word(self, node: int) -> ctypes.c_uint32:
        return self.gates.armed[node]


class Way:
    """An agent that is a member; its slots are obeyed by the reflex or in Python."""

    def __init__(self, clock: list[int], *, by_reflex: bool) -> None:
        self.clock = clock
        self.host = OneHost()
        self.gates, self.link = self.host.gates, self.host.link
        host: Any = self.host
        self.agent = Agent(AgentConfig("eth1", 10**8, Path("/nonexistent"), name="h1"), KEYS, cast(Host, host))
        self.agent._receive(sealed(Pong(0, 1, 1), 1), clock[0])
        self.agent.clock.sample(0, 0, 0, 0)
        welcome = Welcome(self.agent.membership._nonce, 20, 12 * MS, 50 * MS, 300_000, 0, 0, 50 * MS)
        self.agent._receive(sealed(welcome, 2), clock[0])
        assert self.agent.member and self.agent.enforcing
        self.agent.keeper.regulate(frozenset(NODES), clock[0])
        self.agent.sequence = 10**18
        self.reflex = SlotReflex(self.agent, cast(Host, host)) if by_reflex else None
        self.taken = self.heard = 0
        list(self.link.delivered())
        if self.reflex is not None:
            self._hooks = (
                CLOCK(lambda: clock[0]), GRANT(self.gates.grant), SHUT(self.gates.close_gate), STATE(self._state),
            )  # fmt: skip
            hooks = self.reflex.state.hooks
            hooks.clock, hooks.grant, hooks.shut, hooks.state = self._hooks

    def _state(self, node: int, passed: Any, backlog: Any) -> None:  # noqa: ANN401 -- pointers of ctypes
        passed[0], backlog[0] = self.gates.state(node)

    @contextmanager
    def lent(self) -> Iterator[Any]:
        """The library and its state, if the reflex may have it now."""
        if self.reflex is None or not self.reflex.ready():
            yield None
            return
        self.reflex.lend()
        yield self.reflex
        self.reflex.take_back()

    def hear(self, raw: bytes) -> None:
        with self.lent() as reflex:
            state = None if reflex is None else ctypes.byref(reflex.state)
            took = reflex is not None and reflex._library.slots_take(state, raw, len(raw), self.clock[0])
        self.taken += took
        if not took:
            self.agent._receive(raw, self.clock[0])
        self.agent.rules.reconcile()

    def event(self, kind: int, node: int) -> None:
        """An event of the classifier's."""
        ring = self.host.events_ring
        ring.put(kind.to_bytes(4, "little") + node.to_bytes(4, "little") + bytes(36))
        if node == NODES[0]:
            ring.put(bytes(44), DISCARDED)
        with self.lent() as reflex:
            theirs = reflex is None or reflex._library.slots_hear(ctypes.byref(reflex.state), self.clock[0])
        assert theirs != ring.taken()
        ring.drop()
        if theirs and kind == BACKLOGGED:
            self.agent._flow_event(Backlogged(node), self.clock[0])
        self.heard += not theirs

    def advance(self) -> None:
        with self.lent() as reflex:
            if reflex is not None:
                reflex._library.slots_advance(ctypes.byref(reflex.state), self.clock[0])
        if reflex is None:
            self.agent.keeper.advance(self.clock[0])

    def next_ns(self) -> int:
        due_ns = self.agent.keeper.next_due_ns()
        with self.lent() as reflex:
            found = reflex._library.slots_next_ns(ctypes.byref(reflex.state)) if reflex is not None else None
        after = self.agent.keeper.next_due_ns()
        assert found is None or found == (NEVER_NS if after is None else after)
        return NEVER_NS if due_ns is None else due_ns

    def account(self) -> dict[str, Any]:
        agent, keeper, guard = self.agent, self.agent.keeper, self.agent.guard
        window = guard.leader_window(LEADER_MAC)
        return {
            "waiting": keeper.table.waiting, "open": keeper.table.open, "bytes": keeper.waiting_bytes,
            "urgent": keeper.urgent_bytes, "reported": keeper.reported_ns, "checks": keeper.next_check_ns,
            "used up": keeper.used_up, "outstanding": keeper.outstanding, "counters": keeper.counters,
            "accepted": guard.accepted, "refused": guard.refused, "epoch": guard.epoch,
            "window": window and (window.highest, window.seen), "heard": agent.membership.heartbeats.last_heartbeat_ns,
            "answered": agent.membership.heartbeats.last_answer_ns, "sequence": agent.sequence, "member": agent.member,
            "polls": agent.poll_until_ns, "reports": keeper.report_version, "gates": self.gates.gates,
            "armed": {node: word.value for node, word in self.gates.armed.items()},
        }  # fmt: skip

    def said(self) -> list[str]:
        """What the leader hears, whichever destination is served first."""
        frames = [decode(raw, OfHost()) for raw in self.link.delivered()]
        return sorted(repr((one.message, one.sender, one.epoch, one.version, one.destination, one.source)) for one in frames)

    def close(self) -> None:
        if self.reflex is not None:
            self.reflex.close()
        self.link.close()


class OfHost:
    """Verifies what the host says."""

    def tag_bytes(self, _: bytes) -> int:
        return NAMED_TAG_BYTES

    def proves(self, data: bytes, tag: bytes) -> bool:
        return KEYS.to_leader.proves(data, tag)


def sealed(message: Message, sequence: int, **words: Any) -> bytes:  # noqa: ANN401 -- of `encode`
    """A frame of the leader's to this host."""
    given: dict[str, Any] = {"destination": mac(1), "source": LEADER_MAC, "sender": 1, "epoch": EPOCH} | words
    return encode(message, key=KEYS.from_leader, sequence=sequence, **given)


class World:
    """A leader, its sense and nonsense, and what else happens to a host, by a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.clock = [1000 * MS]
        self.ways = [Way(self.clock, by_reflex=by_reflex) for by_reflex in (False, True)]
        self._sequence, self._slot = 10, 100
        self._network = SpoilingNetwork(self.dice, share=0.07)
        self._granted: list[Grant] = []

    def directive(self) -> bytes:
        dice = self.dice
        count = dice.choice((1, 1, 1, 2, 3)) if dice.random() < 0.97 else dice.choice((0, 30))
        grants = tuple(self._grant() for _ in range(count))
        self._granted = [*self._granted, *grants][-8:]
        words: dict[str, Any] = {}
        if dice.random() < 0.04:
            words = dice.choice(
                (
                    {"epoch": EPOCH - 1}, {"destination": mac(2)}, {"source": mac(3)}, {"sender": 16},
                    {"epoch": EPOCH + (1 << 27)},
                )
            )  # fmt: skip
        self._sequence += dice.choice((1, 1, 1, 2, 5, 62, 63, 64, 70))
        sequence = self._sequence
        if dice.random() < 0.06:
            sequence = max(0, sequence - dice.choice((1, 2, 10, 62, 63, 64, 65, 500)))
        raw = sealed(Directive(grants), sequence, **words)
        if dice.random() < 0.05:  # what only the leader could make
            data = bytearray(raw[: BODY + int.from_bytes(raw[20:22])])
            in_body = [BODY + dice.choice((14, 15, 22, 23, 35, 39))] if grants else []
            data[dice.choice((12, 14, 16, 17, 18, 19, 25, *in_body))] ^= 1 << dice.randrange(8)
            if self.ways[0].agent.unwanted >> data[17] & 1:
                data[17] = Kind.DIRECTIVE  # of what nobody wants the reflex reads no body
            return bytes(data) + KEYS.from_leader.tag(bytes(data))
        return self._network.passed(raw)

    def _grant(self) -> Grant:
        dice, now_ns = self.dice, self.clock[0]
        if self._granted and dice.random() < 0.12:
            again = dice.choice(self._granted)
            if dice.random() < 0.4:
                return again
            if dice.random() < 0.5:
                later_ns = dice.choice((-MS, 1, MS))
                start_ns = max(0, again.start_ns + later_ns)
                return Grant(again.destination, again.slot, start_ns, max(again.end_ns, start_ns), 50_000, 0)
            return Grant(again.destination, again.slot, again.start_ns, again.end_ns, 0, 0)
        self._slot += 1
        start_ns = max(0, now_ns + dice.choice((-3 * MS, -1, 0, 1, MS, MS, 2 * MS, 9 * MS)))
        end_ns = start_ns + dice.choice((0, 1, MS, 5 * MS, 10 * MS, 10 * MS))
        if dice.random() < 0.004:
            start_ns, end_ns = sorted((dice.choice((start_ns, *EXTREMES)), dice.choice((end_ns, *EXTREMES))))
        size, rate_bps = dice.choice((1, 1600, 50_000, 50_000, 125_000, 125_000)), 0
        if dice.random() < 0.003:
            size, rate_bps = dice.choice(((0, 10**7), (0, 0), ((1 << 32) - 1, 0)))
        node = UNKNOWN if dice.random() < 0.02 else dice.choice(NODES)
        return Grant(node, self._slot, start_ns, end_ns, size, rate_bps)

    def step(self) -> None:
        """One thing happens to both."""
        dice, chance = self.dice, self.dice.random()
        if chance < 0.4:
            raw = self.directive()
            for way in self.ways:
                way.hear(raw)
        elif chance < 0.7:
            self.traffic(dice.choice(NODES), dice.choice((100, 1514, 20_000, 200_000)))
        elif chance < 0.73:
            self._sequence += 1
            now_ns = self.clock[0]
            pong = Pong(now_ns - 300, now_ns + dice.randrange(-500, 500), now_ns + 500)
            raw = sealed(dice.choice((pong, Coflows(7, 0, 1, ((9, 1),)))), self._sequence)
            for way in self.ways:
                way.hear(raw)
        elif chance < 0.75:
            rule = dice.choice((Rule.QUEUE, Rule.PAUSE))
            block = [dice.choice(NODES)] if dice.random() < 0.2 else []
            for way in self.ways:
                way.agent.rules.block(rule, block)
                if not block:
                    way.agent.rules.unblock(rule, NODES)
        elif chance < 0.755:
            regulated = frozenset(dice.sample(NODES, dice.choice((0, 1, 2))))
            for nodes in (regulated, frozenset(NODES)) if dice.random() < 0.9 else (regulated,):
                for way in self.ways:
                    way.agent.keeper.regulate(nodes, self.clock[0])
            self.prime()
        elif chance < 0.77:
            for way in self.ways:
                way.agent.keeper.refresh(self.clock[0])
        else:
            self.pass_time(self.clock[0] + dice.choice((1, 1000, 200_000, MS, 3 * MS, 12 * MS)))

    def prime(self) -> None:
        """Each destination has had a slot of the usual bytes: so the senders are freed as far as they will be."""
        now_ns = self.clock[0]
        for node in NODES:
            self._slot, self._sequence = self._slot + 1, self._sequence + 1
            raw = sealed(Directive((Grant(node, self._slot, now_ns, now_ns + 10 * MS, 125_000, 0),)), self._sequence)
            for way in self.ways:
                way.hear(raw)

    def traffic(self, node: int, size: int) -> None:
        for way in self.ways:
            way.gates.at(node).queue += size
            if way.gates.armed[node].value:
                way.gates.armed[node].value = 0
                way.event(BACKLOGGED, node)
            elif size == 100:
                way.event(NEW_FLOW, node)

    def pass_time(self, until_ns: int) -> None:
        for way in self.ways:
            for gate in way.gates.gates.values():
                gate.serve()
        while (due_ns := min(way.next_ns() for way in self.ways)) <= until_ns:
            self.clock[0] = max(self.clock[0] + 1, due_ns)
            for way in self.ways:
                way.advance()
        self.clock[0] = max(until_ns, self.clock[0])


def same(seed: int, steps: int) -> tuple[int, int]:
    """Both agents meet the same: they say the same, and know the same. Returns how many frames and events the reflex took."""
    world = World(seed)
    with patch.object(time, "monotonic_ns", lambda: world.clock[0]):
        for way in world.ways:
            now_ns = world.clock[0]
            way.agent.clock.sample(now_ns - 300, now_ns + 7000, now_ns + 7010, now_ns)
            way.agent.keeper._clock = lambda: world.clock[0]
            way.agent.clock._drift_ppb = Random(seed).choice((0, 137, -4211, 20_000))
        world.prime()
        for _ in range(steps):
            world.step()
            said = [way.said() for way in world.ways]
            assert said[0] == said[1]
            accounts = [way.account() for way in world.ways]
            assert accounts[0] == accounts[1]
    for way in world.ways:
        way.close()
    return world.ways[1].taken, world.ways[1].heard


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32))
def test_slots_become_the_same_by_the_reflex_and_in_python(seed: int) -> None:
    same(seed, 150)


def test_most_directives_are_the_reflexes() -> None:
    assert sum(same(seed, 200)[0] for seed in range(10)) > 300


def test_most_backlogs_are_the_reflexes() -> None:
    assert sum(same(seed, 200)[1] for seed in range(10)) > 50


def test_the_library_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    """The same under the address and the undefined-behaviour sanitizers."""
    assert "the same" in run_sanitized(__name__, INSTEAD, [SOURCES / "slots.c"], tmp_path)


if __name__ == "__main__":
    for number in range(40):
        same(number, 200)
    print("the same")
