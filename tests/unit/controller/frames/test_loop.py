"""The loop of slots: a thread that takes frames, plans and sends while Python does something else, and tells it what it did."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fuzz.leaders import FIRST_SEQUENCE, Leader, frame
from controller.frames import told
from controller.frames.frames import Frames
from controller.frames.library import WORDS, Tally
from controller.frames.loop import SlotLoop
from controller.members.registry import FIRST_NODE
from controller.policies.compiled.batches import SLOT
from controller.scheduling.foresight import Foresight
from protocol.messages import Ack, Backlog, Grant, Message, Ping, Pong, Report, Yield
from protocol.paging import paginate
from tests.unit.controller.frames.sanitized import run_with_frames, take_other_build
from tests.unit.controller.frames.test_both_ways import HOSTS as SPEAKERS
from tests.unit.controller.frames.test_both_ways import Hosts, some
from topology import shapes

HOSTS, PATIENCE_S = 4, 30.0
LAST = FIRST_NODE + HOSTS - 1
take_other_build()
PLAN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64))
ROWS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
"""Functions of a planner: `plan`, and `grants` or `revokes`."""
POLICIES = ("timeslice", "hybrid", "rate_limit", "steps", "auto")


class Looped(Leader):
    """A leader whose slots are planned by the loop; Python has its turns when a test says so."""

    def __init__(self, policy: str, *, hosts: int = HOSTS) -> None:
        super().__init__(compiled=True, hosts=hosts, policy=policy)
        self.now = time.monotonic_ns
        self._number = FIRST_SEQUENCE
        self.said: dict[int, list[Message | Grant]] = {}
        loop = self.coordinator._begin_loop(self.now())
        assert isinstance(loop, SlotLoop)
        self.loop = self.coordinator._loop = loop

    def say(self, message: Message, number: int) -> None:
        """A host's frame comes."""
        self._number += 1
        self.link.deliver(frame(message, number, sequence=self._number))

    def comes(self, raw: bytes) -> None:
        """A frame comes as soon as the socket has room."""
        while True:
            try:
                self.link.deliver(raw)
                return
            except BlockingIOError:
                time.sleep(0.001)

    def waits(self, number: int, destination: int) -> None:
        """Bytes wait at a host."""
        self.say(Backlog(self._number, 0, 1, ((destination, 10**6, 0),)), number)

    def turn(self) -> None:
        """Python takes what it was told."""
        self.coordinator.intake.turn(self.now(), woken=True)

    def heard(self) -> None:
        """All said so far has been heard, and Python knows it."""
        until_ns = self.now()
        wait_for(lambda: self.turn() or self.coordinator.intake.read_until(0) > until_ns, pause_s=0.0)

    def grants(self, number: int) -> list[Grant]:
        """All grants to a host so far."""
        for host, parts in self.answers().items():
            self.said.setdefault(host, []).extend(parts)
        return [part for part in self.said.get(number, []) if isinstance(part, Grant) and (part.bytes or part.rate_bps)]

    def learn(self) -> None:
        """Bytes wait at all hosts but the last, and Python knows it."""
        for number in range(1, HOSTS):
            self.waits(number, LAST)
        self.heard()
        assert len(self.known()) == HOSTS


@contextmanager
def looped(policy: str, hosts: int = HOSTS) -> Iterator[Looped]:
    made = Looped(policy, hosts=hosts)
    try:
        yield made
    finally:
        made.loop.end()
        made.link.close()


def wait_for(holds: Callable[[], object], *, pause_s: float = 0.001) -> None:
    """Raises AssertionError: it does not hold in time."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "did not happen"
        time.sleep(pause_s)


@pytest.mark.parametrize("policy", POLICIES)
def test_slots_go_on_while_python_is_away(policy: str) -> None:
    """Python only learns of the hosts, chooses, and gives pairs their places; then it stands still."""
    with looped(policy) as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or all(leader.grants(number) for number in range(1, HOSTS)))
        before = max(grant.start_ns for number in range(1, HOSTS) for grant in leader.grants(number))
        wait_for(lambda: any(grant.start_ns > before + 50_000_000 for grant in leader.grants(1)))


@pytest.mark.parametrize("policy", ["timeslice", "steps", "auto"])
def test_what_a_host_gives_back_goes_to_others_while_python_is_away(policy: str) -> None:
    with looped(policy) as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or all(leader.grants(number) for number in range(1, HOSTS)))
        for number in (2, 3):
            for grant in leader.grants(number):
                leader.say(Yield(LAST, grant.slot, grant.bytes, 0), number)
        before = len(leader.grants(1))
        wait_for(lambda: len(leader.grants(1)) > before + 5)
        leader.heard()
        members = leader.coordinator.members
        assert LAST in members.get(FIRST_NODE).backlog and not members.get(FIRST_NODE + 1).backlog  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", POLICIES)
def test_who_stopped_and_waits_again_gets_slots_again(policy: str) -> None:
    """The cores forget a pair that waits no more, and its place with it; a plan is made before Python gives it another."""
    with looped(policy) as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or all(leader.grants(number) for number in range(1, HOSTS)))
        leader.say(Backlog(9, 0, 1, ()), 2)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:  # rates are leased for a tenth of a second
            leader.heard()
        before = len(leader.grants(2))
        leader.waits(2, LAST)
        time.sleep(0.02)
        wait_for(lambda: leader.turn() or len(leader.grants(2)) > before)


def test_clocks_are_answered_while_python_is_away() -> None:
    with looped("free") as leader:
        leader.learn()
        leader.answers()
        leader.say(Ping(77), 1)
        wait_for(lambda: leader.said.update(leader.answers()) or leader.said.get(1))
        assert leader.said[1] == [Pong(77, 0, 0)]


def test_frames_that_python_handles_are_told_as_they_came() -> None:
    with looped("free") as leader:
        leader.learn()
        leader.say(Report(50_000_000, 0, 1, (), (), 7), 1)
        before = leader.coordinator.guard.accepted
        leader.heard()
        assert leader.coordinator.guard.accepted == before + 1


def test_frames_of_which_python_has_nothing_to_know_are_counted() -> None:
    with looped("free") as leader:
        leader.learn()
        before = leader.coordinator.guard.accepted
        for _ in range(5):
            leader.say(Ping(77), 1)
        leader.heard()
        assert leader.coordinator.guard.accepted == before + 5


def test_nothing_leaves_without_a_lease() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or leader.grants(1))
        with leader.loop.lock:
            leader.coordinator.exchange.frames.terms.until_ns = 0  # type: ignore[union-attr]
        leader.answers()
        time.sleep(0.05)
        assert not leader.answers()
        assert leader.loop.take_withheld() > 0


def test_of_a_host_that_says_too_much_the_rest_is_left_and_the_others_are_heard() -> None:
    """BACKLOG and YIELD in turns make a batch of each frame; Python needs longer for these than the loop."""
    with looped("timeslice") as leader:
        leader.learn()
        exchange, members = leader.coordinator.exchange, leader.coordinator.members
        assert exchange is not None
        exchange.frames.terms.most_said = 100
        for number in range(500):
            said = Backlog(number, 0, 1, ((LAST, 10**6 + number, 0),)) if number % 2 else Yield(LAST, 1, 0, 7)
            for message in (said, Ping(number)):
                leader._number += 1
                leader.comes(frame(message, 1, sequence=leader._number))
        leader.say(Backlog(9, 0, 1, ((LAST, 222, 0),)), 2)
        leader.heard()
        flooding, other = (members.get(node) for node in (FIRST_NODE, FIRST_NODE + 1))
        assert flooding is not None and other is not None
        assert other.backlog == {LAST: 222} and other.figures.excess == 0
        assert 300 < flooding.figures.excess < 450, "most of 500"
        time.sleep(0.11)
        leader.say(Backlog(9, 0, 1, ((LAST, 111, 0),)), 1)
        leader.heard()
        assert flooding.backlog == {LAST: 111}, "what it says again is heard"


def test_what_others_say_again_of_what_a_host_said_uses_up_nothing_of_its() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        exchange = leader.coordinator.exchange
        assert exchange is not None
        exchange.frames.terms.most_said = 100
        leader.waits(1, LAST)
        for kind in (Backlog(9, 0, 1, ((LAST, 5, 0),)), URGENT[0]):
            for _ in range(200):
                leader.comes(frame(kind, 1, sequence=leader._number))
        leader.heard()
        leader.say(Backlog(9, 0, 1, ((LAST, 111, 0),)), 1)
        leader.heard()
        member = leader.coordinator.members.get(FIRST_NODE)
        assert member is not None and member.backlog == {LAST: 111} and member.figures.excess == 0


def test_when_there_is_no_room_to_tell_frames_wait_and_none_is_lost() -> None:
    """Python is away for longer than the loop has room for what it would tell."""
    with looped("free") as leader:
        leader.learn()
        before = leader.coordinator.guard.accepted
        sent, until = 0, time.monotonic() + 30
        while sent < 90_000 and time.monotonic() < until:
            try:
                leader.say(Backlog(sent, 0, 1, ((LAST, 10**6 + sent, 0),)), 1)
                sent += 1
            except BlockingIOError:  # the socket is full, too
                if sent > 30_000:
                    break
                time.sleep(0.001)
        leader.heard()
        member = leader.coordinator.members.get(FIRST_NODE)
        assert leader.coordinator.guard.accepted == before + sent
        assert member is not None and member.backlog == {LAST: 10**6 + sent - 1}


def test_a_new_policy_takes_over_with_all_that_waits() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or leader.grants(2))
        leader.coordinator.take([{"policy": {"policy": "rate_limit"}}], leader.now())
        wait_for(lambda: leader.turn() or any(grant.rate_bps for grant in leader.grants(2)))
        leader.coordinator.take([{"policy": {"policy": "timeslice"}}], leader.now())
        first = leader.now()
        wait_for(lambda: leader.turn() or any(grant.bytes and grant.start_ns > first for grant in leader.grants(2)))


@pytest.mark.parametrize("document", [{"slice_ns": 0}, {"policy": "newer"}, {"headroom": 1.5}, {"weights": [["h1", "", 0.0]]}])
def test_a_policy_that_cannot_be_made_leaves_the_one_before_and_operators_are_told(document: dict[str, object]) -> None:
    with looped("timeslice") as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or leader.grants(2))
        told: list[dict[str, Any]] = []
        leader.coordinator.policy._write = told.append
        leader.coordinator.take([{"policy": document}], leader.now())
        ((kind, severity, text),) = [line["event"] for line in told]
        assert (kind, severity) == ("policy", "error") and next(iter(document)) in text
        assert leader.coordinator.policy.settings == leader.coordinator.granting.settings
        first = leader.now()
        wait_for(lambda: leader.turn() or any(grant.bytes and grant.start_ns > first for grant in leader.grants(2)))


def test_a_policy_without_a_core_plans_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.policies.why_missing", lambda: "as if there were no compiler")
    with looped("timeslice") as leader:
        leader.learn()
        assert leader.loop._steering.planners == 0

        def planned() -> bool:
            leader.turn()
            leader.plan(leader.now())
            return all(leader.grants(number) for number in range(1, HOSTS))

        wait_for(planned)
        before = len(leader.grants(1))
        time.sleep(0.03)
        assert len(leader.grants(1)) == before  # while Python is away


def test_what_a_policy_planned_and_did_not_send_goes_with_it() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or leader.grants(1))
        with leader.loop.lock:
            leader.loop.adopt(None, leader.now())
            leader.grants(1)
            before = len(leader.said[1])
        time.sleep(0.03)
        leader.grants(1)
        assert len(leader.said[1]) == before


def test_what_a_policy_takes_back_is_sent_before_it_goes() -> None:
    """It counts as taken back for the policy, so nobody else would do it."""
    slots = np.zeros(110, SLOT)
    slots["slot"], slots["node"], slots["destination"] = np.arange(1, 111), FIRST_NODE, LAST
    slots["end"] = slots["bytes"] = 10**6
    revoked, granted = slots[:100], slots[100:]
    with looped("timeslice") as leader:
        leader.learn()
        leader.grants(1)
        before, ended = len(leader.said.get(1, [])), list[int]()

        def plan(_core: object, _now_ns: int, _horizon_ns: int, planned: Any) -> None:  # noqa: ANN401 -- a pointer
            counts = ctypes.cast(planned, ctypes.POINTER(ctypes.c_uint32))
            counts[2], counts[3] = len(granted), len(revoked)
            leader.loop._c.loop_stop(ctypes.c_void_p(leader.loop._pointer))  # it makes this plan, and does not come to send it
            ended.append(threading.get_native_id())

        planner = leader.loop._planners[0]
        calls = PLAN(plan), ROWS(lambda _: granted.ctypes.data), ROWS(lambda _: revoked.ctypes.data)
        with leader.loop.lock:
            for name, call in zip(("plan", "grants", "revokes"), calls, strict=True):
                setattr(planner, name, ctypes.cast(call, ctypes.c_void_p).value)
        leader.loop._c.loop_poke(leader.loop._pointer)
        wait_for(lambda: ended and not Path(f"/proc/self/task/{ended[0]}").exists())
        leader.loop.adopt(None, leader.now())
        leader.grants(1)
        said = [part for part in leader.said[1][before:] if isinstance(part, Grant) and part.slot <= 110]
        assert [part.slot for part in said] == revoked["slot"].tolist()
        assert not any(part.bytes or part.rate_bps for part in said)


def test_a_backlog_that_waited_for_python_does_not_replace_a_later_one() -> None:
    """A backlog with a deadline is Python's; the next one, without, is taken by the loop before Python has its turn."""
    with looped("timeslice") as leader:
        leader.learn()
        leader.say(Backlog(7, 0, 1, ((LAST, 111, 50),)), 1)
        leader.say(Backlog(8, 0, 1, ((LAST, 222, 0),)), 1)
        leader.heard()
        member = leader.coordinator.members.get(FIRST_NODE)
        assert member is not None and member.backlog == {LAST: 222}


@pytest.mark.parametrize("before", [Backlog(5, 0, 1, ()), Yield(LAST, 1, 0, 0)], ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_fresh_policy_keeps_what_the_loop_has_heard_last_whatever_python_has_still_to_tell_it(
    policy: str, before: Message
) -> None:
    """Slots are made longer under load, when Python is behind: what it tells may be older than what the core knows."""
    with looped(policy) as leader:
        leader.learn()
        exchange = leader.coordinator.exchange
        assert exchange is not None
        for message in (before, Backlog(leader._number, 0, 1, ((LAST, 10**6, 0),))):
            leader.say(message, 1)
            wait_for(lambda: exchange.frames.knows(FIRST_NODE).highest == leader._number)  # type: ignore[union-attr]
            if message is before:
                leader.coordinator.policy.lengthen(2, leader.now())
        leader.heard()
        granted = len(leader.grants(1))
        wait_for(lambda: leader.turn() or len(leader.grants(1)) > granted)


URGENT = [Backlog(7, 0, 1, ((LAST, 111, 50),))]
LONG = paginate(Backlog(7, 0, 1, tuple((FIRST_NODE + 1 + at, 111, 0) for at in range(80))))
LATER = [Ping(1), Ack(1, LAST, 0, 0), Report(50_000_000, 0, 1, (), (), 1)]


@pytest.mark.parametrize("later", LATER, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("backlog", [URGENT, LONG], ids=["urgent", "of several pages"])
def test_a_backlog_that_waited_for_python_counts_whatever_else_the_host_said_since(
    backlog: list[Backlog], later: Message
) -> None:
    with looped("timeslice") as leader:
        leader.learn()
        leader.say(Backlog(5, 0, 1, ()), 1)
        leader.heard()
        member, exchange = leader.coordinator.members.get(FIRST_NODE), leader.coordinator.exchange
        assert member is not None and not member.backlog and exchange is not None and len(backlog) == 1 + (backlog is LONG)
        for message in (*backlog, later):
            leader.say(message, 1)
        wait_for(lambda: exchange.frames.knows(FIRST_NODE).highest == leader._number)  # type: ignore[union-attr]
        leader.heard()
        assert member.backlog[LAST] == 111


@pytest.mark.parametrize("backlog", [URGENT, LONG], ids=["urgent", "of several pages"])
@pytest.mark.parametrize("left_bytes", [0, 999])
def test_a_backlog_that_waited_for_python_counts_but_for_what_the_loop_has_heard_since_of_one_destination(
    backlog: list[Backlog], left_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host gives slots back all the time: if each YIELD had such a backlog dropped, no slot would be granted by it."""
    given_back = FIRST_NODE + 1
    message = replace(backlog[0], entries=((given_back, 111, 50), *(row for row in backlog[0].entries if row[0] != given_back)))
    with looped("timeslice") as leader:
        leader.learn()
        leader.say(Backlog(5, 0, 1, ()), 1)
        leader.heard()
        member, exchange = leader.coordinator.members.get(FIRST_NODE), leader.coordinator.exchange
        assert member is not None and not member.backlog and exchange is not None
        policy = leader.coordinator.granting.policy
        taken, take = [], policy.backlog

        def spied(node: int, waiting: Any, **more: Any) -> None:  # noqa: ANN401
            taken.append((dict(waiting), dict(more["deadline"])))
            take(node, waiting, **more)

        monkeypatch.setattr(policy, "backlog", spied)
        before = len(leader.grants(1))
        for said in (Yield(LAST, 1, 0, 7), message, *backlog[1:], Yield(given_back, 1, 0, left_bytes)):
            leader.say(said, 1)
        wait_for(lambda: exchange.frames.knows(FIRST_NODE).highest == leader._number)  # type: ignore[union-attr]
        leader.heard()
        assert member.backlog[LAST] == 111 and member.backlog.get(given_back, 0) == left_bytes
        waiting, deadline = taken[-1]
        assert waiting[LAST] == 111 and waiting.get(given_back, 0) == left_bytes, "the policy's core knows the later word"
        assert deadline.keys() <= waiting.keys()
        wait_for(lambda: leader.turn() or any(grant.destination == LAST for grant in leader.grants(1)[before:]))


@pytest.mark.parametrize("later", ["a backlog", "more than is kept"])
@pytest.mark.parametrize("backlog", [URGENT, LONG], ids=["urgent", "of several pages"])
def test_a_backlog_that_waited_for_python_is_dropped_when_the_loop_has_heard_since_what_waits(
    backlog: list[Backlog], later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy's cores know the later word already."""
    with looped("timeslice") as leader:
        leader.learn()
        handled: list[Message] = []
        reception, exchange = leader.coordinator.reception, leader.coordinator.exchange
        spied = {**reception._handlers, Backlog: lambda _, message, __: handled.append(message)}
        monkeypatch.setattr(reception, "_handlers", spied)
        assert exchange is not None
        said = [Backlog(8, 0, 1, ())] if later == "a backlog" else [Yield(LAST, 1, 0, 0)] * (WORDS + 1)
        for message in (*backlog, *said):
            leader.say(message, 1)
        wait_for(lambda: exchange.frames.knows(FIRST_NODE).highest == leader._number)  # type: ignore[union-attr]
        leader.heard()
        assert handled == []


@pytest.mark.parametrize("why", ["distrusted", "other keys"])
def test_a_proven_report_that_waits_for_python_counts_if_its_sender_is_forgotten_meanwhile(why: str) -> None:
    """Its number is spent: judged anew it would be a replay."""
    with looped("timeslice") as leader:
        leader.learn()
        coordinator = leader.coordinator
        guard, exchange = coordinator.guard, coordinator.exchange
        member = coordinator.members.get(FIRST_NODE)
        assert exchange is not None and member is not None
        before = guard.accepted, dict(guard.refused)
        leader.say(Report(50_000_000, 0, 1, (), ((7, 9),), 1), 1)
        wait_for(lambda: exchange.frames.knows(FIRST_NODE).highest == leader._number)  # type: ignore[union-attr]
        if why == "distrusted":
            coordinator.granting.distrust(frozenset({FIRST_NODE}), leader.now())
        else:
            coordinator.keys.changed(member.mac)
        assert FIRST_NODE not in leader.known()
        leader.heard()
        assert (guard.accepted, dict(guard.refused)) == (before[0] + 1, before[1]) and member.refused == {7: 9}


def test_frames_that_python_has_no_time_for_are_lost_and_counted_and_the_others_taken() -> None:
    with looped("free") as leader:
        leader.learn()
        before, until = leader.coordinator.guard.accepted, time.monotonic() + 30
        while not leader.loop.dropped and time.monotonic() < until:
            try:
                leader.link.deliver(bytes(1400))
            except BlockingIOError:
                time.sleep(0.001)
        assert leader.loop.dropped
        leader.waits(1, LAST)
        leader.heard()
        assert leader.coordinator.guard.accepted == before + 1


@some(60)
@given(
    slice_ms=st.integers(1, 30),
    steps=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4_000), st.integers(0, 500)), max_size=25),
)
def test_the_loop_looks_as_far_ahead_as_the_reference(slice_ms: int, steps: list[tuple[int, int, int]]) -> None:
    """`steps`: ms that pass, slots granted and given back meanwhile."""
    made, looked = Frames(bytes(6), 1, 1), Foresight()
    loop = SlotLoop(made, (-1, -1))  # it is never started
    library, state = made.shared()
    tally = Tally.from_address(library.frames_tally(state))
    loop._steering.slice_ns = slice_ms * 10**6
    reach_ns = 10**12
    for passed_ms, granted, returned in steps:
        reach_ns += passed_ms * 10**6
        tally.slots += granted
        tally.yields += returned
        found = loop._c.loop_horizon(loop._pointer, reach_ns)
        assert found == looked.horizon_ns(reach_ns, slice_ms * 10**6, slots=tally.slots, yields=tally.yields)
    loop.end()


def test_a_step_of_many_slots_is_planned_so_early_that_the_last_directive_is_in_time() -> None:
    hosts = 200
    with looped("steps", hosts=hosts) as leader:
        settings = leader.coordinator.granting.settings
        before_ns = leader.loop._c.loop_lead(leader.loop._pointer)
        assert before_ns == settings.lead_ns
        for number in range(1, hosts):
            leader.waits(number, FIRST_NODE + number - hosts // 2 if number > hosts // 2 else FIRST_NODE + number)
        wait_for(lambda: leader.turn() or leader.loop._c.loop_lead(leader.loop._pointer) >= before_ns + settings.lead_ns // 4)
        assert leader.loop._c.loop_lead(leader.loop._pointer) <= before_ns + settings.slice_ns // 4


def test_a_member_that_left_gets_nothing_more() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or leader.grants(2))
        gone = leader.coordinator.members.get(FIRST_NODE + 1)
        assert gone is not None
        leader.coordinator.membership.forget(gone, leader.now(), "h2 left")
        leader.grants(2)
        leader.said.clear()
        wait_for(lambda: len(leader.grants(1)) > 3)
        assert not leader.grants(2)


def test_the_longest_times_are_told_once() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        wait_for(lambda: leader.turn() or len(leader.grants(1)) > 20)
        with leader.loop.lock:  # no turn between the two questions
            first, second = leader.loop.take_longest_us(), leader.loop.take_longest_us()
        assert first["turn"] > 0 and first["delay"] > 0
        assert second == dict.fromkeys(first, 0)


def test_the_loop_says_for_how_long_it_worked_and_how_late_it_was_since_it_was_asked_last() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        began_ns = time.monotonic_ns()
        leader.loop.take_work()
        wait_for(lambda: leader.turn() or len(leader.grants(1)) > 20)
        work, passed_ns = leader.loop.take_work(), time.monotonic_ns() - began_ns
        assert 0 < work.busy_ns <= passed_ns
        assert 0 < work.delay_ns < passed_ns, "no plan is made before it is due"
        assert leader.loop.take_work().busy_ns < work.busy_ns, "counted once"


def spoilt(seed: int, policy: str) -> None:
    """Frames with and without sense come while Python changes members, trust and policy; all that was told can be taken."""
    with looped(policy, hosts=SPEAKERS) as leader:
        hosts = Hosts(seed)
        for turn in range(60):
            for raw in hosts.frames(12):
                with suppress(BlockingIOError):
                    leader.link.deliver(raw)
            leader.settle(leader.now())
            if turn % 10 == 7:
                leader.coordinator.granting.distrust(frozenset({FIRST_NODE + turn % SPEAKERS}), leader.now())
            if turn % 20 == 13:
                leader.coordinator.take([{"policy": {"policy": POLICIES[(turn + seed) % len(POLICIES)]}}], leader.now())
            leader.turn()
            hosts.granted(leader.answers())
        leader.heard()
        assert leader.coordinator.guard.accepted > 20  # most hosts may have spoilt their own sequence numbers early
        assert not leader.coordinator.mishaps._told_ns


@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_comes_the_loop_and_python_go_on(policy: str) -> None:
    spoilt(7, policy)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", POLICIES)
def test_whoever_waits_in_the_end_is_granted_whatever_was_before(policy: str, seed: int) -> None:
    """Hosts begin and stop to wait, are distrusted, trusted, and told of another fabric, while Python comes early and late."""
    with looped(policy) as leader:
        leader.learn()
        dice, coordinator = Random(seed), leader.coordinator
        for _ in range(40):
            number, other = dice.sample(range(1, HOSTS + 1), 2)
            chance = dice.random()
            if chance < 0.45:
                leader.waits(number, FIRST_NODE - 1 + other)
            elif chance < 0.8:
                leader.say(Backlog(leader._number, 0, 1, ()), number)
            elif chance < 0.9:
                nodes = {FIRST_NODE - 1 + number} if chance < 0.85 else set[int]()
                coordinator.granting.distrust(frozenset(nodes), leader.now())
            else:
                fabric = shapes.build("star", hosts=HOSTS, rate_bps=dice.choice((10**8, 10**9)))
                coordinator.take([{"fabric": {"fabric": fabric.to_dict(), "blocked": []}}], leader.now())
            time.sleep(dice.choice((0, 0, 0.001, 0.01, 0.06)))
            if dice.random() < 0.7:
                leader.settle(leader.now())
                leader.turn()
        coordinator.granting.distrust(frozenset(), leader.now())
        for number in range(1, HOSTS + 1):
            leader.say(Backlog(leader._number, 0, 1, ()), number)
        until = time.monotonic() + 0.25
        while time.monotonic() < until:  # leases of rates end, and the cores forget all pairs
            leader.heard()
        for number in range(1, HOSTS):  # one after the other: the next one's beginning would have all shared out anew
            since_ns = leader.now()
            leader.waits(number, LAST)
            time.sleep(0.02)
            wait_for(lambda its=number, then=since_ns: leader.turn() or any(g.start_ns > then for g in leader.grants(its)))  # type: ignore[misc]


def test_the_loop_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    assert "all taken" in run_with_frames(__name__, tmp_path)


def test_an_empty_buffer_has_no_records() -> None:
    assert not list(told.records(b""))


if __name__ == "__main__":
    for number in range(10):
        spoilt(number, POLICIES[number % len(POLICIES)])
    print("all taken")
