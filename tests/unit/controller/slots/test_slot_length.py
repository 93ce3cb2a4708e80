"""Slots last several slices while the loop of slots has too much to do, and a slice again when it has time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slots.slot_length import (
    BUSIEST,
    BUSY,
    CALM_AT_MOST_NS,
    CALM_NS,
    IDLE,
    LATE,
    LONGEST_NS,
    LOOK_NS,
    LOOKS,
    MANY,
    SlotLength,
    SlotLengths,
    Work,
)
from protocol.messages import Backlog
from tests.unit.controller.coordinator.test_status_document import Lines, coordinator, documents, hear

MS = 10**6
SLICE_NS = 2 * MS


class Looks:
    """Looks at a loop of so much work, one after another."""

    def __init__(self, slice_ns: int = SLICE_NS) -> None:
        self.length, self.slice_ns, self.now_ns = SlotLength(), slice_ns, 0

    def look(self, busy: float, times: int = 1, slots: float = 2 * MANY, delay_ns: int = 0) -> int:
        """How many slices long slots are after so many looks."""
        for _ in range(times):
            self.now_ns += LOOK_NS
            self.length.update(busy, delay_ns, slots, self.slice_ns, self.now_ns)
        return self.length.times


@pytest.mark.parametrize(
    ("busy", "looks", "slots", "wanted"),
    [
        (BUSY, LOOKS - 1, 2 * MANY, 1),  # a moment
        (BUSY, LOOKS, 2 * MANY, 2), (BUSY, 2 * LOOKS, 2 * MANY, 4), (BUSIEST, LOOKS, 2 * MANY, 4), (1.0, 100, 2 * MANY, 16),
        (BUSY - 0.01, 100, 2 * MANY, 1),
        (1.0, 100, MANY - 1, 1),  # by something else
        (1.0, LOOKS, MANY, 4),
    ],
)  # fmt: skip
def test_slots_become_longer_where_the_loop_is_busy_with_many_of_them(busy: float, looks: int, slots: int, wanted: int) -> None:
    assert Looks().look(busy, looks, slots) == wanted


def test_slots_become_longer_where_plans_are_late_by_a_part_of_a_slot_though_the_loop_is_not_busy() -> None:
    """Others take its processors."""
    looks, late_ns = Looks(), int(LATE * SLICE_NS)
    assert looks.look(0.2, 100, delay_ns=late_ns - 1) == 1
    assert looks.look(0.2, LOOKS, delay_ns=late_ns) == 2
    assert looks.look(0.2, 100, delay_ns=2 * late_ns - 1) == 2, "slots are twice as long"
    assert looks.look(0.2, LOOKS, delay_ns=2 * late_ns) == 4
    assert looks.look(0.2, 100, MANY - 1, delay_ns=10 * SLICE_NS) == 4


def test_slots_of_a_long_slice_stay_as_they_are() -> None:
    assert Looks(LONGEST_NS // 2 + 1).look(1.0, 100) == 1
    assert Looks(LONGEST_NS // 2).look(1.0, 100) == 2


def test_a_loop_that_is_busy_now_and_then_changes_nothing() -> None:
    looks = Looks()
    for _ in range(9):
        assert looks.look(1.0, LOOKS - 1) == 1 and looks.look(0.2) == 1


def test_a_busy_moment_begins_the_wait_for_shorter_slots_anew() -> None:
    looks, calm = Looks(), CALM_NS // LOOK_NS
    looks.look(BUSY, LOOKS)
    assert looks.look(0.0, calm) == 2
    assert looks.look(BUSY) == 2 and looks.look(0.0, calm) == 2
    assert looks.look(0.0) == 1


def test_the_wait_doubles_once_for_each_time_that_slots_were_shortened_too_early() -> None:
    looks, calm = Looks(), CALM_NS // LOOK_NS
    looks.look(BUSY, LOOKS)
    looks.look(0.0, calm + 1)
    assert looks.look(BUSY, 3 * LOOKS) == 8
    assert looks.look(0.0, 2 * calm) == 8 and looks.look(0.0) == 4


def test_they_become_shorter_one_step_at_a_time_when_the_loop_was_idle_for_long_enough() -> None:
    looks = Looks()
    assert looks.look(BUSIEST, LOOKS) == 4
    calm = CALM_NS // LOOK_NS
    assert looks.look(IDLE - 0.01, calm) == 4
    assert looks.look(IDLE - 0.01) == 2
    assert looks.look(IDLE - 0.01, calm) == 2 and looks.look(IDLE) == 2, "not idle for a moment"
    assert looks.look(IDLE - 0.01, calm) == 2 and looks.look(IDLE - 0.01) == 1


def test_the_wait_doubles_when_slots_were_shortened_too_early() -> None:
    looks, waits = Looks(), []
    for _ in range(9):
        looks.look(BUSY, LOOKS)
        waits.append(0)
        while looks.length.times > 1:
            looks.look(0.0)
            waits[-1] += LOOK_NS
    assert waits[:3] == [CALM_NS + LOOK_NS, 2 * CALM_NS + LOOK_NS, 4 * CALM_NS + LOOK_NS]
    assert waits[-1] == CALM_AT_MOST_NS + LOOK_NS


LOOKED = st.tuples(st.floats(0, 2), st.integers(0, 10**10), st.floats(0, 1e6), st.integers(1, 10**11))


@given(st.lists(LOOKED, max_size=80), st.integers(10**5, 10**9))
def test_slots_last_a_power_of_two_of_slices_and_never_longer_than_is_good(
    looks: list[tuple[float, int, float, int]], slice_ns: int
) -> None:
    length, now_ns = SlotLength(), 0
    for busy, delay_ns, slots, passed_ns in looks:
        now_ns, before = now_ns + passed_ns, length.times
        changed = length.update(busy, delay_ns, slots, slice_ns, now_ns)
        assert changed is (length.times != before)
        assert length.times & (length.times - 1) == 0 and length.times * slice_ns <= max(slice_ns, LONGEST_NS)


class Policy:
    """What was asked of a policy."""

    def __init__(self, slice_ns: int | None = SLICE_NS) -> None:
        self.slices, self.of_slice_ns = 1, slice_ns

    def slice_ns(self) -> int | None:
        return self.of_slice_ns

    def lengthen(self, slices: int, now_ns: int) -> None:
        self.slices = slices


class Part:
    """A part that looks at a loop which always works, and grants many slots."""

    def __init__(self, policy: Policy, *, looped: bool = True) -> None:
        self.told: list[dict[str, Any]] = []
        self.slots = self.now_ns = 0
        work = Work(LOOK_NS, 1_500_000) if looped else None
        self.part = SlotLengths(policy, lambda: work, lambda: self.slots, self.told.append)

    def look(self, times: int) -> None:
        for _ in range(times):
            self.now_ns += LOOK_NS
            self.slots += 2 * MANY * LOOK_NS // 10**9
            self.part.look(self.now_ns)


def test_operators_are_told_once_and_warned_as_long_as_it_lasts() -> None:
    policy = Policy()
    part = Part(policy)
    part.look(LOOKS + 1)
    assert policy.slices == 4 and part.part.status() == {"loop_busy": 1.0, "slot_slices": 4}
    text = (
        "slots last 8 instead of 2 ms, as the controller has no time for so many short ones: "
        "its loop of slots works 100% of the time, and is late by 1.5 ms"
    )
    assert part.told == [{"event": ["policy", "warning", text]}]
    (warning,) = part.part.warnings()
    assert warning.startswith(text) and "policy auto" in warning


def test_an_operators_new_policy_begins_with_slots_of_a_slice() -> None:
    policy = Policy()
    part = Part(policy)
    part.look(LOOKS + 1)
    policy.slices = 1  # as PolicyControl does
    part.look(LOOKS)
    assert policy.slices == 1 and not part.part.warnings()
    part.look(1)
    assert policy.slices == 4


@pytest.mark.parametrize(("slice_ns", "looped"), [(None, True), (SLICE_NS, False)])
def test_without_slices_or_without_a_loop_nothing_happens(slice_ns: int | None, looped: bool) -> None:
    policy = Policy(slice_ns)
    part = Part(policy, looped=looped)
    part.look(10)
    assert policy.slices == 1 and not part.told and not part.part.warnings()


def test_slots_that_were_granted_long_ago_do_not_count() -> None:
    policy = Policy()
    part = Part(policy)
    part.slots = 10**9
    for now_ns in range(0, 20 * LOOK_NS, LOOK_NS):
        part.part.look(now_ns)
    assert policy.slices == 1


def test_a_look_at_the_same_instant_as_the_last_changes_nothing() -> None:
    policy = Policy()
    part = Part(policy)
    for _ in range(20):
        part.part.look(LOOK_NS)
    assert policy.slices == 1 and not part.told


def lengths(lines: Lines) -> list[int]:
    found = [(grant.end_ns - grant.start_ns) // MS for grant in lines.grants]
    lines.grants.clear()
    return found


@pytest.mark.parametrize("policy", ["timeslice", "hybrid", "steps"])
def test_the_coordinator_grants_slots_of_so_many_slices_until_the_operator_chooses_anew(policy: str) -> None:
    lines = Lines()
    made = coordinator(lines, policy)
    hear(made, 1, 2, Backlog(1, 0, 1, ((17, 10**8, 0),)))
    assert set(lengths(lines)) == {2}
    made.policy.lengthen(4, 8 * MS)
    assert set(lengths(lines)) == {8}
    documents(made, lines, 9 * MS)
    made.take([{"override": "free"}], 16 * MS)
    made.take([{"override": "coordinate"}], 16 * MS)
    assert set(lengths(lines)) == {8}, "an override changes no lengths"
    made.take([{"policy": {"headroom": 0.9}}], 24 * MS)
    assert set(lengths(lines)) == {8} and made.policy.slices == 4, "nor does what has nothing to do with them"
    made.take([{"policy": {"slice_ns": 4 * MS}}], 32 * MS)
    assert set(lengths(lines)) == {4} and made.policy.slices == 1


def test_policies_without_slices_have_none_to_lengthen() -> None:
    assert [coordinator(Lines(), policy).policy.slice_ns() for policy in ("auto", "rate_limit", "free")] == [None] * 3
