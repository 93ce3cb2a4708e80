"""Directives carry several slots where there are many and few are given back, and one each elsewhere."""

from __future__ import annotations

import pytest

from bench.fuzz.leaders import FIRST_SEQUENCE, Leader, frame
from controller.members.registry import FIRST_NODE
from controller.scheduling.foresight import GIVEN_BACK, LONGEST_NS, LOOK_NS, MANY, SLICES, Foresight
from protocol.messages import Backlog, Grant

MS, SECOND_NS = 10**6, 10**9
SLICE_NS = 2 * MS


def planned(slots_a_second: int, given_back: float) -> int:
    """How far beyond what must be told plans reach, in the end."""
    foresight, now_ns, ahead_ns = Foresight(), SECOND_NS, 0
    for look in range(6):
        slots = slots_a_second * look * LOOK_NS // SECOND_NS
        ahead_ns = foresight.horizon_ns(now_ns, SLICE_NS, slots=slots, yields=int(slots * given_back)) - now_ns
        now_ns += LOOK_NS
    return ahead_ns


@pytest.mark.parametrize(
    ("slots_a_second", "given_back", "slices"),
    [
        (2 * MANY, 0.0, SLICES), (2 * MANY, GIVEN_BACK, SLICES), (2 * MANY, 2 * GIVEN_BACK, 0), (MANY + 100, 0.0, SLICES),
        (MANY, 0.0, 0), (0, 0.0, 0),
    ],
)  # fmt: skip
def test_only_many_slots_that_are_used_up_are_planned_farther_ahead(
    slots_a_second: int, given_back: float, slices: int
) -> None:
    assert planned(slots_a_second, given_back) == slices * SLICE_NS


def test_a_plan_farther_ahead_is_made_once_and_not_anew_with_each_message() -> None:
    foresight = Foresight()
    foresight.horizon_ns(SECOND_NS, SLICE_NS, slots=0, yields=0)
    far_ns = foresight.horizon_ns(2 * SECOND_NS, SLICE_NS, slots=10**6, yields=0)
    assert far_ns == 2 * SECOND_NS + SLICES * SLICE_NS
    assert foresight.horizon_ns(2 * SECOND_NS + MS, SLICE_NS, slots=10**6, yields=0) == far_ns
    assert foresight.horizon_ns(far_ns, SLICE_NS, slots=10**6, yields=0) == far_ns + SLICES * SLICE_NS


def test_it_looks_every_tenth_of_a_second_at_what_was_granted_and_given_back_since() -> None:
    foresight = Foresight()
    foresight.horizon_ns(SECOND_NS, SLICE_NS, slots=10**6, yields=10**6)
    now_ns = SECOND_NS + LOOK_NS
    assert foresight.horizon_ns(now_ns - 1, SLICE_NS, slots=2 * 10**6, yields=10**6) == now_ns - 1
    assert foresight.horizon_ns(now_ns, SLICE_NS, slots=2 * 10**6, yields=10**6) == now_ns + SLICES * SLICE_NS


def test_slots_of_long_slices_are_planned_at_most_40_ms_ahead() -> None:
    assert Foresight().horizon_ns(SECOND_NS, 30 * MS, slots=10**6, yields=0) == SECOND_NS + LONGEST_NS == SECOND_NS + 40 * MS


def grants_a_directive(hosts: int) -> float:
    """Of hosts that send in pairs, and use up all that they are granted, at the end of 0.4 s."""
    leader = Leader(compiled=True, hosts=hosts, policy="timeslice", mode="on_demand")
    pairs = {number: FIRST_NODE + (number - 1 ^ 1) for number in range(1, hosts + 1)}
    regulated = {FIRST_NODE + number - 1: frozenset((other,)) for number, other in pairs.items()}
    leader.coordinator.granting.policy.set_regulated(regulated, now_ns=MS)
    waiting = [frame(Backlog(1, 0, 1, ((d, 10**7, 0),)), n, sequence=FIRST_SEQUENCE + 1) for n, d in pairs.items()]
    for raw in waiting:  # one by one: a socket pair holds few frames
        leader.hear([raw], MS)
        leader.answers()
    frames = grants = 0
    for now_ns in range(MS, 400 * MS, MS // 4):
        leader.plan(now_ns)
        answers = leader.answers()
        if now_ns > 300 * MS:
            frames += leader.frames
            grants += sum(isinstance(part, Grant) for parts in answers.values() for part in parts)
    leader.link.close()
    return grants / frames


def test_hosts_of_a_large_fabric_that_use_their_slots_get_several_in_a_directive() -> None:
    assert grants_a_directive(4) == 1.0
    assert grants_a_directive(64) > 1.8
