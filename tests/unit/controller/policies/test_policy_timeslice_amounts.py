"""The timeslice policy's amounts: how long a slot is, the bytes that it grants, and the rest of a link that `hybrid` grants."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policies.base import Slot
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.hybrid import Hybrid
from controller.policies.pairs import FORGOTTEN_TURNS, VISITS, Host, Pair
from controller.policies.timeslice import Timeslice
from protocol.units import FRAME_BYTES
from tests.unit.controller.policies.policy_kinds import each_kind  # noqa: F401 -- a fixture of all tests here
from tests.unit.controller.policies.policy_networks import GBIT, MBIT, star
from tests.unit.controller.policies.policy_slices import MS, SLICE, A, B, C, D, examples, timeslice
from tests.unit.controller.policies.policy_world import World


class TestShortSlots:
    """A sender whose window is shorter than a slice is granted what it can use, and as much in the end as the others."""

    def test_a_slot_is_as_long_as_its_owner_used_the_last_one_and_grows_until_it_gives_some_back(self) -> None:
        policy = timeslice()
        world = World(policy, star(4))
        world.backlog(A, C)
        (first,) = world.running()
        world.now_ns += SLICE // 8
        world.give_back(first, 5000, first.bytes * 7 // 8)
        lengths = []
        for _ in range(8):
            (slot,) = world.running()
            lengths.append(slot.end_ns - slot.start_ns)
            world.run_until(slot.end_ns)
        used = SLICE // 8
        shortest, margin = policy.terms.least_ns(Pair(A, C, 1, Host(), need_bps=100 * MBIT, turn_ns=SLICE))
        assert abs(lengths[0] - max(shortest, used + max(used // 8, margin))) < 20_000
        assert lengths[1:] == [min(SLICE, length * 3 // 2) for length in lengths[:-1]]
        assert lengths[-1] == SLICE

    def test_who_gave_back_comes_next_until_its_turn_is_used_up(self) -> None:
        world = World(timeslice(), star(4))
        for node in (A, B, C):
            world.tell_backlog(node, D)
        world.plan()
        order = []
        for _ in range(12):
            (slot,) = world.running()
            order.append(slot.node)
            if slot.node == A:
                world.now_ns += (slot.end_ns - slot.start_ns) // 2
                world.give_back(slot, 0, slot.bytes // 2)
                world.now_ns += 100_000
                world.backlog(A, D)
            else:
                world.run_until(slot.end_ns)
        assert order[:4] == [A, B, A, C], "A gave half of its turn back, and comes before C, which was not served yet"

    @pytest.mark.parametrize("told", [False, True])
    def test_a_slot_that_is_used_up_ends_the_turn_whatever_was_given_back_before(self, told: bool) -> None:
        policy = timeslice()
        world = World(policy, star(4))
        world.backlog(A, D)
        if isinstance(policy, CompiledTimeslice):
            pytest.skip("what a pair has used of its turn is seen in the reference alone")
        (pair,) = policy._roster.pairs()
        for used_up in (False, True, False):
            (slot,) = world.running()
            if used_up and told:
                world.give_back(slot, 5000, 0)
            elif used_up:
                world.run_until(slot.end_ns)
            else:
                world.now_ns += MS // 2
                world.give_back(slot, 5000, slot.bytes // 2)
        assert abs(pair.used_ns - (slot.end_ns - slot.start_ns) // 2) < 1000, "what was used since the slot that was used up"

    @pytest.mark.parametrize(("part", "visits"), [(8, 8), (9, 1)])
    def test_a_sender_that_uses_little_is_not_served_for_ever_in_one_turn(self, part: int, visits: int) -> None:
        policy = timeslice()
        world = World(policy, star(4))
        world.tell_backlog(A, D)
        world.tell_backlog(B, D)
        world.plan()
        counted = 0
        while (slot := world.running()[0]).node == A:
            counted += 1
            world.now_ns += 1000
            world.give_back(slot, 5000, slot.bytes - slot.bytes * SLICE // (slot.end_ns - slot.start_ns) // part - 1)
        assert max(1, visits - 1) <= counted <= visits <= VISITS

    def test_half_a_slot_is_the_first_turn_of_a_pair_that_comes_back(self) -> None:
        world = World(timeslice(), star(4))
        world.backlog(A, D)
        world.run_until(world.now_ns + SLICE // 2)
        world.backlog(A)
        world.run_until(world.now_ns + (FORGOTTEN_TURNS + 2) * SLICE)
        world.backlog(A, D)
        world.backlog(B, D)
        (slot,) = world.running()
        assert slot.end_ns - slot.start_ns == SLICE // 2
        world.run_until(slot.end_ns)
        assert [slot.node for slot in world.running()] == [B]

    def test_no_slot_begins_before_a_directive_can_be_there(self) -> None:
        world = World(timeslice(), star(4))
        world.policy.set_delay(A, 400_000)
        (slot,) = world.backlog(A, D).grants
        assert slot.start_ns == world.now_ns + 400_000
        (other,) = world.backlog(B, C).grants
        assert other.start_ns == world.now_ns


class TestAmounts:
    """Credits are whole packets and add up; fast nodes are tamed."""

    @examples(50)
    @given(
        st.integers(16, 4000).map(lambda n: n * 250_000),
        st.sampled_from([1 * MS, 2 * MS, 10 * MS, 1_234_567]),
        st.sampled_from([0.5, 0.96, 0.98, 1.0]),
        st.sampled_from([1.0, 0.3, 2.5]),
    )
    def test_the_bytes_of_many_slots_are_rate_times_time_times_headroom_to_a_packet(
        self, rate_bps: int, slice_ns: int, headroom: float, weight: float
    ) -> None:
        policy = Timeslice(slice_ns=slice_ns, headroom=headroom)
        policy.set_weight(A, None, weight)
        world = World(policy, star(2, rate_bps))
        world.backlog(A, B)
        world.run_until(world.now_ns + 50 * slice_ns)
        slots = world.history
        assert all(slot.bytes % FRAME_BYTES == 0 and slot.bytes for slot in slots)
        time_ns = sum(slot.end_ns - slot.start_ns for slot in slots)
        due = rate_bps * time_ns * headroom / 8e9
        assert 0 <= due - sum(slot.bytes for slot in slots) + 1e-3 < FRAME_BYTES + 1

    @pytest.mark.parametrize(("rate_bps", "slices"), [(2 * MBIT, 3.1), (MBIT, 6.2), (10_000, 8), (1, 8)])
    def test_a_slow_node_holds_a_link_for_the_time_of_a_packet_but_for_no_more_than_eight_slices(
        self, rate_bps: int, slices: float
    ) -> None:
        world = World(timeslice(), star(4, rates={A: rate_bps}))
        for node in (A, B, C):
            world.backlog(node, D)
        world.run_until(world.now_ns + 100 * SLICE)
        slots = [slot for slot in world.history if slot.node == A]
        assert slots and all(slot.end_ns - slot.start_ns == pytest.approx(slices * SLICE, rel=0.01) for slot in slots)
        assert {(slot.bytes, slot.rate_bps) for slot in slots} == {
            (FRAME_BYTES, 0) if rate_bps >= MBIT else (0, max(1, rate_bps * 98 // 100))
        }
        assert sum(slot.node in (B, C) for slot in world.history) >= 20, "the others go on"

    def test_slices_are_as_long_as_weights_say(self) -> None:
        policy = timeslice()
        policy.set_weight(None, A, 0.5)
        policy.set_weight(C, A, 3)
        world = World(policy, star(3))
        world.backlog(B, A)
        world.backlog(C, A)
        world.run_until(world.now_ns + 100 * SLICE)
        time_ns = {x: sum(s.end_ns - s.start_ns for s in world.history if s.node == x) for x in (B, C)}
        assert time_ns[C] / time_ns[B] == pytest.approx(6, rel=0.1)

    @pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
    def test_a_weight_that_is_not_a_positive_number_is_refused(self, weight: float) -> None:
        with pytest.raises(ValueError, match="weight"):
            timeslice().set_weight(A, B, weight)

    def test_a_node_faster_than_its_bottleneck_takes_all_of_it(self) -> None:
        world = World(timeslice(), star(2, rates={A: GBIT}))
        (slot,) = world.backlog(A, B).grants
        assert (slot.reserved_bps, slot.rate_bps) == (100 * MBIT, 0)

    def test_a_slot_whose_burst_no_buffer_holds_is_bounded_by_its_rate(self) -> None:
        world = World(Timeslice(slice_ns=10 * MS), star(2, rates={A: GBIT}))
        (slot,) = world.backlog(A, B).grants
        assert (slot.bytes, slot.rate_bps) == (0, 98 * MBIT)

    @pytest.mark.parametrize(("slice_ns", "weight", "by_rate"), [(170 * MS, 1, False), (999 * MS, 1, True), (9 * MS, 20, True)])
    def test_a_slot_of_more_bytes_than_a_directive_can_say_is_bounded_by_its_rate(
        self, slice_ns: int, weight: float, by_rate: bool
    ) -> None:
        policy = Timeslice(slice_ns=slice_ns)
        policy.set_weight(A, None, weight)
        (slot,) = World(policy, star(2, 100 * GBIT)).backlog(A, B).grants
        assert (slot.end_ns - slot.start_ns, slot.rate_bps) == (slice_ns * weight, 98 * GBIT if by_rate else 0)
        assert slot.bytes < 1 << 31

    @pytest.mark.parametrize(
        "arguments",
        [
            {"slice_ns": 0},
            {"headroom": 0},
            {"headroom": 1.5},
            {"minimum_fraction": 0},
            {"patience": 0},
            {"minimum_active_ns": -1},
        ],
    )
    def test_an_argument_out_of_range_is_refused_by_name(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(arguments))):
            Timeslice(**arguments)


class TestHybrid:
    """A slot takes what is left."""

    @staticmethod
    def _slots(policy: Timeslice) -> dict[int, Slot]:
        world = World(policy, star(4, rates={B: 60 * MBIT}))
        world.backlog(B, A)
        world.backlog(C, A)
        return {slot.node: slot for slot in world.running()}

    def test_timeslice_leaves_a_node_waiting_that_the_rest_does_not_suffice(self) -> None:
        assert self._slots(timeslice()).keys() == {B}

    def test_hybrid_grants_it_the_rest(self) -> None:
        slots = self._slots(Hybrid(slice_ns=SLICE))
        assert slots[C].reserved_bps == 40 * MBIT
        assert slots[C].bytes <= 40 * MBIT * SLICE * 0.98 / 8e9

    def test_hybrid_grants_no_rest_below_the_minimum_fraction(self) -> None:
        world = World(Hybrid(slice_ns=SLICE), star(4, rates={B: 95 * MBIT}))
        world.backlog(B, A)
        assert not world.backlog(C, A).grants
