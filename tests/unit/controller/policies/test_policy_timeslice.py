"""The timeslice policy's promises: feasible at every instant, maximal, nobody starves, nobody is cut short, exact bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.policies.base import Slot
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.hybrid import Hybrid
from controller.policies.pairs import FORGOTTEN_TURNS, VISITS, Host, Pair
from controller.policies.timeslice import Timeslice
from protocol.units import FRAME_BYTES
from tests.unit.controller.policies import oracle_timeslice as oracle
from tests.unit.controller.policies.policy_kinds import each_kind  # noqa: F401 -- a fixture of all tests here
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, TreeNetwork, racks, star, trees
from tests.unit.controller.policies.policy_world import World

MS = 1_000_000
SLICE = 2 * MS
A, B, C, D, E = range(FIRST, FIRST + 5)


def examples(count: int) -> settings:
    """Settings for a property that takes longer than most."""
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


LEADS = st.sampled_from([0, MS // 2, 3 * MS // 2, 5 * MS])


def timeslice(**arguments: Any) -> Timeslice:  # noqa: ANN401 -- ints and floats by name
    return Timeslice(slice_ns=SLICE, **arguments)


def policies() -> st.SearchStrategy[Callable[[], Timeslice]]:
    """Ways to make a policy, strict and sharing, patient or not."""
    return st.sampled_from(
        [
            timeslice,
            lambda: timeslice(patience=1),
            lambda: timeslice(patience=10**9),
            lambda: timeslice(minimum_fraction=0.5, burst_bytes=0),
            lambda: Hybrid(slice_ns=SLICE),
        ]
    )


def assert_feasible(world: World) -> None:
    assert not oracle.overloaded(world.network, list(world.slots.values()), world.now_ns)


def assert_maximal(world: World, fraction: float) -> None:
    """No pair could be added now, but for room that a slot booked further ahead than a slice holds."""
    slots = list(world.slots.values())
    for x, y in oracle.addable(world.network, world.groups(), slots, world.now_ns, SLICE, fraction):
        links = set(world.network.path(x, y))
        held = [
            s
            for s in slots
            if s.start_ns >= world.now_ns + SLICE and (s.node == x or links & set(world.network.path(s.node, s.destination)))
        ]
        assert held, f"{x} -> {y} could be active"


def act(world: World, draw: st.DrawFn, networks: list[TreeNetwork]) -> None:
    """One event of any kind."""
    nodes = world.network.nodes
    kinds = [*["backlog"] * 3, *["yield"] * 2, *["wait"] * 2, "leave", "rewire", "regulate"]
    kind = draw(st.sampled_from(kinds))
    if kind == "backlog":
        node = draw(st.sampled_from(nodes))
        others = [n for n in nodes if n != node]
        waiting = draw(st.lists(st.sampled_from(others), unique=True))
        world.backlog(node, *waiting, deadline={y: draw(st.sampled_from([0, 3000, 10**9])) for y in waiting})
    elif kind == "yield" and world.running():
        slot = draw(st.sampled_from(sorted(world.running(), key=lambda s: s.slot)))
        world.give_back(slot, draw(st.sampled_from([0, 0, 5000])), draw(st.integers(0, slot.bytes)))
    elif kind == "wait":
        world.run_until(world.now_ns + draw(st.sampled_from([MS // 4, MS, SLICE - MS // 4, SLICE]) | st.integers(1, 3 * SLICE)))
    elif kind == "leave":
        world.leave(draw(st.sampled_from(nodes)))
    elif kind == "rewire":
        world.rewire(draw(st.sampled_from(networks)))
    elif kind == "regulate":
        pairs = {n: frozenset(draw(st.sets(st.sampled_from(nodes)))) - {n} for n in nodes}
        world.regulate(pairs if draw(st.booleans()) else {n: frozenset(nodes) - {n} for n in nodes})


class TestAlways:
    """What holds on any tree, whatever happens."""

    @examples(60)
    @given(st.data(), policies(), LEADS)
    def test_no_link_is_overbooked_and_no_room_is_left_at_any_instant(
        self, data: st.DataObject, make: Callable[[], Timeslice], lead_ns: int
    ) -> None:
        networks = data.draw(st.lists(trees(5), min_size=1, max_size=2))
        policy = make()
        world = World(policy, networks[0], lead_ns=lead_ns)
        fraction = policy.terms.minimum_ppm / 1e6

        @st.composite
        def step(draw: st.DrawFn) -> None:
            act(world, draw, networks)

        if data.draw(st.booleans()):  # begin crowded
            for x in world.network.nodes:
                world.backlog(x, *(y for y in world.network.nodes if y != x))
            world.run_until(world.now_ns + data.draw(st.integers(1, 12 * SLICE)))
        for _ in range(data.draw(st.integers(1, 40))):
            data.draw(step())
            assert_feasible(world)
            assert_maximal(world, fraction)

    @examples(60)
    @given(trees(), LEADS, st.integers(0, 2**32))
    def test_no_wanted_pair_waits_longer_than_the_bound(self, network: TreeNetwork, lead_ns: int, seed: int) -> None:
        random = Random(seed)
        policy = timeslice()
        world = World(policy, network, lead_ns=lead_ns)
        nodes = network.nodes
        urgent = {x: {y: size for y in nodes if y != x and (size := random.choice([0, 0, 10**5, 10**12]))} for x in nodes}
        for x in nodes:
            world.tell_backlog(x, *(y for y in nodes if y != x), deadline=urgent[x])
        world.plan()
        pairs = len(nodes) * (len(nodes) - 1)
        until_ns = world.now_ns + 8 * pairs * SLICE
        begun_ns = world.now_ns
        while world.now_ns < until_ns:
            world.run_until(world.now_ns + random.randrange(1, SLICE))
            running = world.running()
            if running and random.random() < 0.7:
                slot = random.choice(running)
                world.give_back(slot, 5000, random.randrange(slot.bytes + 1))
        starts: dict[tuple[int, int], list[int]] = {}
        for slot in world.history + list(world.slots.values()):
            starts.setdefault((slot.node, slot.destination), [begun_ns]).append(slot.start_ns)
        assert len(starts) == pairs, "every pair was served"
        longest_ns = max(b - a for times in starts.values() for a, b in pairwise([*sorted(times), until_ns]))
        assert longest_ns <= policy.turn_bound(pairs - 1) * SLICE
        # What is proven holds against any adversary; dice are far from it, and a bound that is never near would test nothing.
        assert longest_ns <= 3 * pairs * SLICE

    @examples(50)
    @given(trees(), st.data())
    def test_selection_on_an_idle_fabric_is_the_published_greedy_one(self, network: TreeNetwork, data: st.DataObject) -> None:
        world = World(timeslice(), network)
        nodes = network.nodes
        order = []
        for x in data.draw(st.permutations(nodes)):
            y = data.draw(st.sampled_from([n for n in nodes if n != x]))
            world.tell_backlog(x, y)
            order.append((x, y))
        granted = {(s.node, s.destination) for s in world.plan().grants}
        assert granted == oracle.select(network, world.groups(), order, SLICE)

    @examples(50)
    @given(trees(), LEADS)
    def test_planning_again_at_the_same_time_changes_nothing(self, network: TreeNetwork, lead_ns: int) -> None:
        world = World(timeslice(), network, lead_ns=lead_ns)
        for x in network.nodes:
            world.backlog(x, *(y for y in network.nodes if y != x))
        again = world.plan()
        assert not again.grants and not again.revokes


class TestRotation:
    """Least recently served first."""

    def test_senders_of_one_receiver_take_turns(self) -> None:
        world = World(timeslice(), star(5))
        for x in (B, C, D, E):
            world.backlog(x, A)
        world.run_until(world.now_ns + 12 * SLICE - 1)
        order = [slot.node for slot in sorted(world.history + world.running(), key=lambda s: s.start_ns)]
        assert order == [B, C, D, E] * 3

    def test_destinations_of_one_node_take_turns(self) -> None:
        world = World(timeslice(), star(4))
        world.backlog(A, B, C, D)
        world.run_until(world.now_ns + 6 * SLICE - 1)
        order = [slot.destination for slot in sorted(world.history + world.running(), key=lambda s: s.start_ns)]
        assert sorted(order[:3]) == [B, C, D] and order[3:] == order[:3]

    def test_a_lone_sender_is_granted_slot_after_slot(self) -> None:
        world = World(timeslice(), star(2), lead_ns=MS)
        world.backlog(A, B)
        world.run_until(world.now_ns + 5 * SLICE)
        slots = sorted(world.history + list(world.slots.values()), key=lambda s: s.start_ns)
        assert len(slots) >= 5
        assert all(a.end_ns == b.start_ns for a, b in pairwise(slots))

    def test_ten_of_thirteen_cross_a_ten_gigabit_uplink_at_a_time(self) -> None:
        world = World(timeslice(), racks(2, 13))
        for number in range(13):
            world.backlog(FIRST + number, FIRST + 13 + number)
        assert len(world.running()) == 10
        world.run_until(world.now_ns + 13 * SLICE - 1)
        counts = [sum(s.node == FIRST + n for s in world.history + world.running()) for n in range(13)]
        assert counts == [10] * 13

    def test_a_node_sends_to_one_destination_at_a_time(self) -> None:
        world = World(timeslice(), star(4, rates={A: GBIT}))
        world.backlog(A, B, C, D)
        assert len(world.running()) == 1


class TestAhead:
    """Slots are granted before their predecessors end."""

    def test_the_successor_is_granted_a_lead_before_its_start(self) -> None:
        world = World(timeslice(), star(3), lead_ns=MS)
        world.backlog(B, A)
        first = world.running()[0]
        assert not world.backlog(C, A).grants
        world.now_ns = first.end_ns - MS
        (second,) = world.plan().grants
        assert (second.node, second.start_ns) == (C, first.end_ns)

    def test_a_yield_brings_the_successor_forward_under_its_number(self) -> None:
        world = World(timeslice(), star(3), lead_ns=MS)
        world.backlog(B, A)
        world.backlog(C, A)
        first = world.running()[0]
        world.now_ns = first.end_ns - MS
        (second,) = world.plan().grants
        world.now_ns += MS // 4
        (again,) = world.give_back(first).grants
        assert (again.slot, again.start_ns, again.end_ns) == (second.slot, world.now_ns, world.now_ns + SLICE)
        assert again.bytes == second.bytes

    def test_a_pair_that_comes_when_an_end_was_foreseen_with_nobody_waiting_starts_at_that_end(self) -> None:
        world = World(timeslice(), star(3), lead_ns=MS)
        world.backlog(B, A)
        (first,) = world.running()
        world.now_ns = first.end_ns - MS // 2
        world.backlog(B)
        (slot,) = world.backlog(C, A).grants
        assert slot.start_ns == first.end_ns

    def test_a_newly_backlogged_pair_on_an_idle_path_starts_now(self) -> None:
        world = World(timeslice(), star(4), lead_ns=MS)
        world.backlog(B, A)
        world.now_ns += SLICE - MS // 2
        world.plan()
        (slot,) = world.backlog(C, D).grants
        assert slot.start_ns == world.now_ns

    def test_backlog_that_vanished_revokes_what_has_not_begun_and_spares_what_runs(self) -> None:
        world = World(timeslice(), star(2), lead_ns=MS)
        world.backlog(A, B)
        world.now_ns += SLICE - MS
        (ahead,) = world.plan().grants
        plan = world.backlog(A)
        assert plan.revokes == [ahead]
        assert len(world.running()) == 1


class TestLeaving:
    """What is taken back at once."""

    def test_a_node_that_left_frees_its_links_at_once(self) -> None:
        world = World(timeslice(), star(3))
        world.backlog(B, A)
        world.backlog(C, A)
        world.now_ns += SLICE // 4
        (slot,) = world.leave(B).grants
        assert (slot.node, slot.start_ns) == (C, world.now_ns)

    def test_slots_towards_a_node_that_left_are_revoked(self) -> None:
        world = World(timeslice(), star(3))
        world.backlog(B, A)
        (slot,) = world.running()
        assert world.leave(A).revokes == [slot]
        assert not world.running()

    def test_a_changed_fabric_revokes_only_what_no_longer_fits(self) -> None:
        world = World(timeslice(), star(5))
        world.backlog(A, B)
        world.backlog(C, D)
        narrow = star(5, rates={D: 10 * MBIT})
        plan = world.rewire(narrow)
        assert [slot.node for slot in plan.revokes] == [C]
        (slot,) = plan.grants
        assert (slot.node, slot.reserved_bps) == (C, 10 * MBIT)

    def test_a_node_without_a_known_place_is_granted_nothing_until_it_has_one(self) -> None:
        world = World(timeslice(), star(2))
        world.regulate({A: frozenset({B}), C: frozenset({A})})
        assert not world.backlog(C, A).grants
        assert world.rewire(star(3)).grants

    def test_a_node_without_a_known_place_may_come_and_go(self) -> None:
        world = World(timeslice(), star(2))
        world.regulate({C: frozenset({A})})
        world.backlog(C, A)
        world.backlog(C)
        world.now_ns += MS
        assert not world.backlog(C, A).grants
        assert world.rewire(star(3)).grants

    def test_a_node_that_loses_its_place_before_a_plan_is_granted_nothing(self) -> None:
        world = World(timeslice(), star(3))
        world.tell_backlog(C, A)
        assert not world.rewire(star(2)).grants
        assert world.rewire(star(3)).grants

    def test_messages_about_unknown_nodes_and_slots_change_nothing(self) -> None:
        policy = timeslice()
        policy.yielded(7, 8, 9, now_ns=5)
        policy.left(7, now_ns=5)
        policy.backlog(7, {8: 100}, now_ns=5)
        assert not policy.plan(now_ns=5, horizon_ns=5).grants
        assert policy.next_event_ns() is None


class TestMinimumActiveTime:
    """Nobody is cut short for another."""

    def test_a_newly_backlogged_node_never_shortens_a_running_slot(self) -> None:
        world = World(timeslice(), star(4))
        world.backlog(B, A)
        first = world.running()[0]
        for number in range(1, 8):
            world.now_ns += SLICE // 9
            plan = world.backlog(C if number % 2 else D, A)
            assert not plan.revokes and not plan.grants
        world.run_until(first.end_ns)
        assert first in world.history

    def test_a_small_weight_shortens_a_slot_to_the_minimum_active_time_at_most(self) -> None:
        policy = timeslice(minimum_active_ns=MS)
        policy.set_weight(A, B, 0.001)
        world = World(policy, star(2))
        (slot,) = world.backlog(A, B).grants
        assert slot.end_ns - slot.start_ns == MS


class TestStarvation:
    """Pairs that greedy packing would never serve."""

    @staticmethod
    def _never_both_free(patience: int) -> int:
        """How many slots B -> C gets, while others keep its uplink and its downlink busy by turns."""
        world = World(timeslice(patience=patience), star(4))
        # A -> C and B -> D begin half a slice apart, so C's port and B are never free at one time.
        world.backlog(A, C)
        world.now_ns += SLICE // 2
        world.backlog(B, C, D)
        world.run_until(world.now_ns + 40 * SLICE)
        return sum((slot.node, slot.destination) == (B, C) for slot in world.history)

    def test_a_pair_whose_links_are_never_free_together_starves_without_booking_ahead(self) -> None:
        assert self._never_both_free(patience=10**9) == 0

    def test_a_pair_whose_links_are_never_free_together_is_served(self) -> None:
        assert self._never_both_free(patience=2) >= 8

    def test_a_node_as_fast_as_the_link_is_served_beside_many_slow_ones(self) -> None:
        network = star(6, rate_bps=20 * MBIT, rates={A: 100 * MBIT, B: 100 * MBIT})
        world = World(timeslice(), network)
        for number, x in enumerate((C, D, E, E + 1)):
            world.backlog(x, A)
            world.now_ns += SLICE // 5 * (number + 1) // 2
        world.backlog(B, A)
        world.run_until(world.now_ns + 30 * SLICE)
        assert sum(slot.node == B for slot in world.history) >= 5

    def test_senders_that_come_back_at_once_after_every_yield_keep_nobody_out(self) -> None:
        world = World(timeslice(), star(4))
        world.backlog(A, C)
        world.now_ns += SLICE // 2
        world.backlog(B, D)
        world.backlog(B, C, D)
        for _ in range(200):
            world.run_until(world.now_ns + SLICE // 8)
            for slot in world.running():
                if (slot.node, slot.destination) != (B, C):
                    world.give_back(slot)
                    world.run_until(world.now_ns + 10_000)
                    world.backlog(slot.node, *({C, D} if slot.node == B else {C}))
        assert sum((slot.node, slot.destination) == (B, C) for slot in world.history) >= 5

    def test_on_a_star_of_equal_rates_a_pair_waits_a_slot_for_each_other(self) -> None:
        world = World(timeslice(), star(30), lead_ns=MS)
        for x in range(FIRST + 1, FIRST + 30):
            world.tell_backlog(x, FIRST)
        world.plan()
        world.run_until(world.now_ns + 90 * SLICE)
        for x in range(FIRST + 1, FIRST + 30):
            times = [slot.start_ns for slot in world.history if slot.node == x]
            assert all(b - a == 29 * SLICE for a, b in pairwise(times)) and len(times) >= 3


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
        st.integers(1, 4000).map(lambda n: n * 250_000),
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
