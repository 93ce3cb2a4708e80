"""The leader's conditions in the reflex, on a real link: it closes and opens a queue before any rule runs, or leaves it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host_control.queue_conditions import QueueConditions
from agents.permission.conditions import BLOCKED, Condition, ConditionSet
from agents.reflex.state import LIBRARY, State, read_conditions
from protocol.auth import Guard, Key
from protocol.bodies.host_control import FOREVER_NS, Conditions, QueueCondition
from protocol.bodies.versions import NEWEST, SPOKEN
from protocol.key import PERSON
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, encode
from tests.emulation.agents.host_control.pause_wire import EPOCH, KEY, OTHER, RATE, S, Wire, pfc, wired
from tests.emulation.namespaces import inside

HELD, HELD_TOO = QueueCondition(16, 0, 0, 0), QueueCondition(17, 0, 0, 0)
ELSEWHERE = bytes.fromhex("0200000000ee")


class Led:
    """A host with a leader at the other end that has sent conditions before."""

    def __init__(self, wire: Wire, leader: ControlSocket) -> None:
        assert wire.reflex is not None
        self.wire, self.leader, self.reflex = wire, leader, wire.reflex
        self.part = QueueConditions(wire.agent, RATE)
        self.reflex.conditions.has_conditions = self.part.has_conditions
        wire.agent.leader_mac = leader.address
        now_ns = time.monotonic_ns()
        wire.agent.clock.sample(now_ns, now_ns, now_ns, now_ns)
        self.sequence, self.version = 100, 1
        self.say()
        self.take()

    def frame(
        self, *entries: QueueCondition, key: Key = KEY, epoch: int = EPOCH, to: bytes | None = None, pages: int = 1
    ) -> bytes:
        self.sequence += 1
        self.version += 1
        return encode(
            Conditions(self.version, 0, pages, entries), key=key, destination=to or self.wire.host.link.address,
            source=self.leader.address, sender=COORDINATOR, epoch=epoch, sequence=self.sequence,
        )  # fmt: skip

    def say(self, *entries: QueueCondition) -> None:
        self.said_ns = time.monotonic_ns()
        self.leader.send(self.frame(*entries))

    def once(self, ns: int = 2 * S, *, poll: bool = False) -> list[int]:
        """One wait, without a turn of the rules."""
        self.reflex.plan()
        return self.reflex.wait((self.wire.host.link.fileno(),), time.monotonic_ns() + ns, poll=poll)

    def take(self) -> None:
        """Handles the received frames as an agent's turn does."""
        while (raw := self.wire.host.link.receive()) is not None:
            if (frame := self.wire.agent.guard.accept(raw)) is not None:
                self.part.handlers[Conditions](frame.message, time.monotonic_ns())
        self.wire.agent.rules.reconcile()

    def arrived(self, seconds: float = 0.1) -> int:
        """The number of datagrams that arrive, without a turn of the part."""
        time.sleep(seconds)
        self.wire.receiver.setblocking(False)
        count = 0
        try:
            while True:
                self.wire.receiver.recv(65536)
                count += 1
        except BlockingIOError:
            return count


@pytest.fixture
def led(tmp_path: Path) -> Iterator[Led]:
    with wired(tmp_path, reflex=True) as wire:
        with inside(wire.pair.right):
            leader = ControlSocket("eth0")
        try:
            yield Led(wire, leader)
        finally:
            leader.close()


@pytest.mark.parametrize("poll", [False, True])
def test_a_queue_is_shut_and_opened_before_any_rule_is_asked(led: Led, poll: bool) -> None:
    led.say(HELD)
    assert led.once(poll=poll) == [led.wire.host.link.fileno()]
    led.wire.send(20)
    led.wire.send(20, OTHER)
    assert led.arrived() == 20
    assert led.reflex._state.commanded_ns > led.said_ns  # it rehearses for a while after it
    led.take()  # the frame has waited for the rules, which agree
    assert led.wire.agent.rules.restricted == {16: BLOCKED}
    assert led.arrived() == 0
    assert led.wire.waiting(16) >= 19
    led.say()
    assert led.once(poll=poll) == [led.wire.host.link.fileno()]
    assert led.arrived() == 20
    led.take()
    assert led.wire.agent.rules.restricted == {}


def test_a_queue_changes_hands_in_one_message(led: Led) -> None:
    led.say(HELD)
    led.take()
    led.wire.send(20)
    led.say(HELD_TOO)
    led.once()
    led.wire.send(20, OTHER)
    assert led.arrived() == 20
    assert led.wire.waiting(17) >= 19
    led.take()
    led.say(HELD, HELD_TOO, replace(HELD_TOO, number=1, open_until_ns=FOREVER_NS))  # one of them is met
    led.once()
    assert led.arrived() == 20


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(lambda led: led.frame(HELD, key=Key(b"x" * 32)), id="of another key"),
        pytest.param(lambda led: led.frame(HELD, epoch=EPOCH - 1), id="of an earlier leader"),
        pytest.param(lambda led: led.frame(HELD, epoch=EPOCH + 1), id="of a later leader"),
        pytest.param(lambda led: led.frame(HELD, to=ELSEWHERE), id="of another host"),
        pytest.param(lambda led: led.frame(HELD, pages=2), id="in pages"),
        pytest.param(lambda led: led.frame(HELD, QueueCondition(17, 0, rate_bps=1)), id="with a rate"),
        pytest.param(lambda led: led.frame(HELD, QueueCondition(3, 0)), id="with a class"),
        pytest.param(lambda led: led.frame(HELD, QueueCondition(18, 0)), id="with an unknown queue"),
    ],
)
def test_what_is_not_the_leaders_plain_word_is_left_to_the_rules(led: Led, frame: Callable[[Led], bytes]) -> None:
    led.leader.send(frame(led))
    led.once()
    led.wire.send(20)
    assert led.arrived() == 20


def test_another_key_counts_as_soon_as_the_leader_sends_with_it(led: Led) -> None:
    new = Key(b"n" * 32)
    led.wire.agent.guard.ring.other = new
    led.leader.send(led.frame(key=new))
    led.take()
    led.leader.send(led.frame(HELD, key=new))
    led.once()
    led.wire.send(20)
    assert led.arrived() == 0


def test_an_old_message_again_does_nothing(led: Led) -> None:
    old = led.frame(HELD)
    led.leader.send(old)
    led.once()
    led.take()
    led.say()
    led.once()
    led.take()
    led.leader.send(old)
    led.once()
    led.wire.send(20)
    assert led.arrived() == 20


def test_nothing_is_opened_that_another_rule_holds_or_that_needs_permission(led: Led) -> None:
    led.say(HELD, HELD_TOO)
    led.take()
    led.wire.frame(pfc({3: 0xFFFF}))  # the class of 16
    led.wire.keeper.enforce(time.monotonic_ns())
    led.wire.keeper.regulate(frozenset({17}), time.monotonic_ns())
    led.wire.send(20)
    led.wire.send(20, OTHER)
    led.say()
    led.once()
    assert led.arrived() <= 1
    led.take()
    assert led.arrived() <= 1
    led.wire.frame(pfc({3: 0}))
    led.wire.keeper.release()
    assert led.arrived(0.2) >= 38


def test_what_the_rules_do_not_take_is_undone_in_the_same_turn(led: Led) -> None:
    led.say(HELD)
    led.once()
    led.wire.send(20)
    assert led.arrived() == 0
    led.wire.agent.enforcing = False  # the operator's override came with it
    led.take()
    assert led.arrived() == 20


def test_a_host_that_has_no_conditions_does_not_wait_for_any(led: Led) -> None:
    led.part.new_leader(0)
    led.say(HELD)
    led.once()
    led.wire.send(20)
    assert led.arrived() == 20


def test_times_are_by_the_leaders_clock(led: Led) -> None:
    ahead_ns = 1000 * S
    now_ns = time.monotonic_ns()
    led.wire.agent.clock.sample(now_ns, now_ns + ahead_ns, now_ns + ahead_ns, now_ns)
    its_ns = now_ns + ahead_ns
    led.say(QueueCondition(16, 0, 0, its_ns - S), QueueCondition(17, 0, its_ns - S, its_ns + 60 * S))
    led.once()
    led.wire.send(20)
    led.wire.send(20, OTHER)
    assert led.arrived() == 20
    assert led.wire.waiting(16) >= 19


# -- the frame as C reads it, and as Python does ---------------------------------------------------------------------------

SECRET, US, LEADER = bytes(range(32)), b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"
KNOWN = (16, 17, 300)
TIMES = st.sampled_from([0, 5, 6, 7, 100, FOREVER_NS])
ENTRIES = st.builds(
    lambda queue, number, times, rate: QueueCondition(queue, number, *sorted(times), rate),
    st.sampled_from([*KNOWN, 16, 17, 300, 18, 3]), st.integers(0, 3), st.tuples(TIMES, TIMES),
    st.sampled_from([0, 0, 0, 0, 0, 1000]),
)  # fmt: skip


def state() -> State:
    found = State(epoch=7, sequence=40, offset_ns=-4, version=NEWEST, queue_count=len(KNOWN))
    found.own_address[:], found.leader_address[:] = US, LEADER
    for at, queue in enumerate(KNOWN):
        found.queue[at].number = queue
    LIBRARY.loaded().reflex_key(ctypes.byref(found), SECRET, PERSON)
    return found


def wanted(frame: bytes) -> list[int] | None:
    """The destinations that the rules block at 10 by the host's clock, 6 by the leader's."""
    guard = Guard(Key(SECRET), epoch=7, address=US)
    taken = guard.accept(frame)
    if taken is None or taken.epoch != 7 or taken.sequence <= 40 or taken.source != LEADER or taken.destination != US:
        return None
    if taken.version != NEWEST:
        return None
    message = taken.message
    if not isinstance(message, Conditions) or (message.page, message.pages) != (0, 1):
        return None
    if any(entry.queue not in KNOWN or entry.rate_bps for entry in message.entries):
        return None
    conditions = ConditionSet()
    conditions.replace(Condition(e.queue, e.number, e.open_from_ns, e.open_until_ns) for e in message.entries)
    return sorted(queue for queue, rate in conditions.limits(6).items() if rate == BLOCKED)


@given(
    st.lists(ENTRIES, max_size=8), st.sampled_from([7, 7, 7, 6, 8]), st.sampled_from([40, 41, 1 << 40]),
    st.sampled_from([COORDINATOR, COORDINATOR, 16]), st.none() | st.tuples(st.integers(0, 400), st.integers(1, 255)),
    st.sampled_from([0, 0, 0, -1, 1]), st.sampled_from([(0, 1), (0, 1), (0, 2), (1, 2)]),
    st.sampled_from([NEWEST, NEWEST, SPOKEN.lowest]),
)  # fmt: skip
def test_it_reads_a_message_as_the_rules_do(
    entries: list[QueueCondition], epoch: int, sequence: int, sender: int, damage: tuple[int, int] | None, cut: int,
    page: tuple[int, int], version: int,
) -> None:  # fmt: skip
    message = Conditions(3, *page, tuple(entries))
    words = {"key": Key(SECRET), "destination": US, "source": LEADER}
    frame = bytearray(encode(message, **words, sender=sender, epoch=epoch, sequence=sequence, version=version))
    if damage is not None:
        frame[damage[0] % len(frame)] ^= damage[1]
    whole = bytes(frame[:cut] if cut < 0 else frame + bytes(cut))
    assert read_conditions(state(), whole, 10) == wanted(whole)


def test_the_longest_message_of_a_frame_is_read() -> None:
    entries = tuple(QueueCondition(KNOWN[at % 3], at, 0, 0) for at in range(43))
    frame = encode(
        Conditions(3, 0, 1, entries), key=Key(SECRET), destination=US, source=LEADER, sender=COORDINATOR, epoch=7, sequence=41
    )
    assert len(frame) > 1440
    assert read_conditions(state(), frame, 10) == list(KNOWN)
