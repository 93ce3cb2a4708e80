"""The timeslice policy's order: who is served next, ahead of time, after a host left, and never at a running slot's cost."""

from __future__ import annotations

from itertools import pairwise

from tests.unit.controller.policies.policy_kinds import each_kind  # noqa: F401 -- a fixture of all tests here
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, racks, star
from tests.unit.controller.policies.policy_slices import MS, SLICE, A, B, C, D, E, timeslice
from tests.unit.controller.policies.policy_world import World


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


def serve(world: World, *pairs: tuple[int, int]) -> None:
    """Gives each pair a slot, one after the other."""
    for node, destination in pairs:
        world.backlog(node, destination)
        world.now_ns += SLICE
        world.backlog(node)


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

    def test_who_left_and_came_back_is_after_a_node_that_was_served_less_recently(self) -> None:
        """Both pairs go on from the turn of D -> A; of their nodes C was served before that, and A counts as served then."""
        world = World(timeslice(), star(4))
        serve(world, (C, B), (D, A))
        world.leave(A)
        world.tell_backlog(A, B)
        world.tell_backlog(C, A)
        first, second = sorted(world.plan().grants, key=lambda slot: slot.slot)
        assert (first.node, second.node) == (C, A)

    def test_a_pair_that_was_never_regulated_is_no_turn_of_who_leaves(self) -> None:
        """B's last turn is later than C's; A only waited for B, and needed no slot for that."""
        world = World(timeslice(), star(4))
        serve(world, (C, D), (D, B))
        world.leave(B)
        world.regulate({})
        world.backlog(A, B)
        world.leave(A)
        world.regulate({node: frozenset({A, B, C, D}) - {node} for node in (A, B, C, D)})
        world.tell_backlog(C, D)
        world.tell_backlog(A, C)
        first, second = sorted(world.plan().grants, key=lambda slot: slot.slot)
        assert (first.node, second.node) == (A, C)

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
