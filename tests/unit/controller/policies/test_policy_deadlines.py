"""Deadlines in the timeslice policy: who has one is admitted first, nobody is cut short, and nobody starves for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policies.base import Policy
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.free import Free
from controller.policies.pairs import HURRIED_TURNS
from controller.policies.rates.policy import RateLimit
from controller.policies.timeslice import Timeslice
from tests.unit.controller.policies.policy_kinds import each_kind  # noqa: F401 -- a fixture of all tests here
from tests.unit.controller.policies.policy_networks import FIRST, TreeNetwork, racks, star, trees
from tests.unit.controller.policies.policy_world import World

MS = 1_000_000
SLICE = 2 * MS
A, B, C, D, E, F = range(FIRST, FIRST + 6)
ENDLESS = 10**15
SMALL = 3000


def world_of(hosts: int = 6, *, lead_ns: int = 0, patience: int = 2) -> World:
    return World(Timeslice(slice_ns=SLICE, patience=patience), star(hosts), lead_ns=lead_ns)


def crowd(world: World, *senders: int) -> None:
    """Long flows of all senders to A, the first of them active."""
    for x in senders:
        world.backlog(x, A)


def order(world: World) -> list[int]:
    """The senders of all slots granted, in the order of their starts."""
    return [slot.node for slot in sorted(world.history + list(world.slots.values()), key=lambda s: s.start_ns)]


class TestFirst:
    """A deadline goes to the front of the slice order."""

    def test_a_pair_with_a_deadline_is_admitted_before_those_who_waited_longer(self) -> None:
        world = world_of()
        crowd(world, B, C, D, E)
        world.backlog(F, A, deadline={A: SMALL})
        world.run_until(world.now_ns + 4 * SLICE)
        assert order(world)[:5] == [B, F, C, D, E]

    def test_without_a_deadline_it_waits_its_turn(self) -> None:
        world = world_of()
        crowd(world, B, C, D, E)
        world.backlog(F, A)
        world.run_until(world.now_ns + 4 * SLICE)
        assert order(world)[:5] == [B, C, D, E, F]

    def test_a_deadline_that_comes_while_the_pair_waits_is_noticed(self) -> None:
        world = world_of()
        crowd(world, B, C, D, E, F)
        world.backlog(F, A, deadline={A: SMALL})
        world.run_until(world.now_ns + SLICE)
        assert order(world)[:2] == [B, F]

    def test_a_deadline_that_is_reported_no_more_counts_no_more(self) -> None:
        world = world_of()
        crowd(world, B, C, D, E)
        world.backlog(F, A, deadline={A: SMALL})
        world.backlog(F, A)
        world.run_until(world.now_ns + 4 * SLICE)
        assert order(world)[:5] == [B, C, D, E, F]

    def test_pairs_with_deadlines_take_turns_among_themselves_and_then_come_those_without(self) -> None:
        world = world_of(patience=10**9)
        crowd(world, B, C)
        for x in (D, E, F):
            world.backlog(x, A, deadline={A: ENDLESS})
        world.run_until(world.now_ns + 10 * SLICE - 1)
        assert order(world)[:9] == [B, *[D, E, F] * HURRIED_TURNS, C, B]

    def test_the_destination_with_the_deadline_is_the_first_of_a_nodes_destinations(self) -> None:
        world = world_of()
        world.backlog(A, B)
        world.backlog(A, B, C, D, E, deadline={E: SMALL})
        world.run_until(world.now_ns + 2 * SLICE)
        ordered = sorted(world.history + list(world.slots.values()), key=lambda s: s.start_ns)
        assert [slot.destination for slot in ordered][:2] == [B, E]

    def test_a_deadline_elsewhere_changes_nothing_here(self) -> None:
        world = world_of()
        crowd(world, B, C, D)
        world.backlog(E, F, deadline={F: ENDLESS})
        world.run_until(world.now_ns + 6 * SLICE - 1)
        assert [x for x in order(world) if x != E] == [B, C, D] * 2


class TestUsedUp:
    """What was granted since the report is no longer a deadline."""

    def test_a_credit_that_covers_the_deadline_ends_the_precedence(self) -> None:
        world = world_of()
        crowd(world, B, C, D)
        world.backlog(F, A, deadline={A: SMALL})
        world.run_until(world.now_ns + 8 * SLICE - 1)
        assert order(world) == [B, F, C, D, B, F, C, D]

    def test_a_deadline_of_two_credits_has_precedence_twice(self) -> None:
        world = world_of(patience=10**9)
        crowd(world, B, C, D)
        size = world.running()[0].bytes
        world.backlog(F, A, deadline={A: size + 1})
        world.run_until(world.now_ns + 5 * SLICE - 1)
        assert order(world) == [B, F, F, C, D]

    def test_what_is_reported_anew_counts_anew(self) -> None:
        world = world_of()
        crowd(world, B, C, D)
        world.backlog(F, A, deadline={A: SMALL})
        world.run_until(world.now_ns + SLICE)
        world.backlog(F, A, deadline={A: SMALL})
        world.run_until(world.now_ns + 2 * SLICE - 1)
        assert order(world)[:3] == [B, F, F]

    def test_a_yield_with_nothing_left_ends_the_precedence(self) -> None:
        world = world_of()
        crowd(world, C)
        world.backlog(F, A, deadline={A: ENDLESS})
        world.run_until(world.now_ns + SLICE)
        (slot,) = world.running()
        world.give_back(slot)
        crowd(world, B, D, F)
        world.run_until(world.now_ns + 2 * SLICE)
        assert order(world) == [C, F, C, B, D]


class TestOthers:
    """What deadlines never do to those without."""

    def test_a_slot_that_runs_is_neither_revoked_nor_shortened(self) -> None:
        world = world_of(lead_ns=MS)
        crowd(world, B, C)
        (first,) = world.running()
        world.now_ns += SLICE // 4
        plan = world.backlog(F, A, deadline={A: ENDLESS})
        assert not plan.revokes and not plan.grants
        world.run_until(first.end_ns)
        assert first in world.history

    @pytest.mark.parametrize("patience", [1, 2, 5])
    def test_endless_deadlines_pass_over_the_oldest_so_many_times_at_most(self, patience: int) -> None:
        world = world_of(patience=patience)
        crowd(world, B, C, D)
        for x in (E, F):
            world.backlog(x, A, deadline={A: ENDLESS})
        world.run_until(world.now_ns + 60 * SLICE)
        runs = [(urgent, len(list(slots))) for urgent, slots in groupby(order(world), lambda x: x in (E, F))]
        own = 2  # each of them has a slot in the order, too
        assert max(length for urgent, length in runs if urgent) <= patience + own
        assert all(order(world).count(x) >= 60 // (3 * (patience + 1)) for x in (B, C, D))

    def test_endless_deadlines_have_more_turns_than_the_others(self) -> None:
        world = world_of(patience=4)
        crowd(world, B, C, D)
        for x in (E, F):
            world.backlog(x, A, deadline={A: ENDLESS})
        world.run_until(world.now_ns + 60 * SLICE)
        assert sum(x in (E, F) for x in order(world)) >= 40

    def test_a_host_that_calls_all_its_bytes_urgent_has_three_turns_while_each_other_has_one(self) -> None:
        world = World(Timeslice(slice_ns=SLICE), star(11))
        nodes = range(FIRST, FIRST + 11)
        crowd(world, *nodes[1:10])
        world.backlog(nodes[10], A, deadline={A: ENDLESS})
        world.run_until(world.now_ns + 120 * SLICE)
        counts = Counter(order(world))
        assert counts[nodes[10]] <= (HURRIED_TURNS + 1.3) * min(counts[x] for x in nodes[1:10])
        assert max(counts[x] for x in nodes[1:10]) - min(counts[x] for x in nodes[1:10]) <= 1

    def test_a_host_that_leaves_and_comes_back_after_each_slot_gets_no_more_than_the_others(self) -> None:
        world = World(Timeslice(slice_ns=SLICE), star(11))
        nodes = range(FIRST, FIRST + 11)
        crowd(world, *nodes[1:])
        seen = 0
        for _ in range(120 * 4):
            world.run_until(world.now_ns + SLICE // 4)
            if (its := sum(slot.node == nodes[10] for slot in world.history)) > seen:
                seen = its
                world.policy.left(nodes[10], now_ns=world.now_ns)
                world.policy.set_regulated({x: frozenset({A}) for x in nodes[1:]}, now_ns=world.now_ns)
                crowd(world, nodes[10])
        counts = Counter(slot.node for slot in world.history)
        assert seen >= 8 and counts[nodes[10]] <= max(counts[x] for x in nodes[1:10])

    def test_a_deadline_long_after_the_last_one_counts_again(self) -> None:
        world = world_of(patience=10**9)
        world.backlog(B, A)
        world.backlog(F, A, deadline={A: ENDLESS})
        while sum(slot.node == F for slot in world.history) < HURRIED_TURNS:
            world.run_until(world.now_ns + SLICE // 4)
        world.backlog(F)
        world.run_until(world.now_ns + 1000 * SLICE)
        began_ns = world.now_ns
        for x in (C, D, E):
            world.backlog(x, A, deadline={A: ENDLESS})
        world.backlog(F, A, deadline={A: SMALL})
        world.run_until(world.now_ns + 10 * SLICE)
        slots = sorted((s for s in (*world.history, *world.slots.values()) if s.end_ns > began_ns), key=lambda s: s.start_ns)
        assert [slot.node for slot in slots][:5] == [B, C, D, E, F]

    def test_a_host_that_leaves_after_each_slot_is_not_hurried_anew(self) -> None:
        world = World(Timeslice(slice_ns=SLICE), star(11))
        *others, liar = range(FIRST + 1, FIRST + 11)
        crowd(world, *others)
        world.backlog(liar, A, deadline={A: ENDLESS})
        seen = 0
        for _ in range(120 * 4):
            world.run_until(world.now_ns + SLICE // 4)
            if (its := sum(slot.node == liar for slot in world.history)) > seen:
                seen = its
                world.leave(liar)
                world.regulate(world.regulated)
                world.backlog(liar, A, deadline={A: ENDLESS})
        counts = Counter(slot.node for slot in world.history)
        assert seen >= 8 and counts[liar] <= (HURRIED_TURNS + 1.3) * min(counts[x] for x in others)

    def test_a_destination_that_leaves_and_comes_back_brings_its_senders_no_place(self) -> None:
        world = World(Timeslice(slice_ns=SLICE), racks(2, 10, uplink_bps=1_000_000_000))
        nodes = sorted(world.network.nodes)
        sender, destination = nodes[9], nodes[19]
        for x, y in zip(nodes[:10], nodes[10:], strict=True):
            world.backlog(x, y)
        seen = 0
        for _ in range(120 * 4):
            world.run_until(world.now_ns + SLICE // 4)
            if (its := sum(slot.node == sender for slot in world.history)) > seen:
                seen = its
                world.leave(destination)
                world.regulate(world.regulated)
                world.backlog(sender, destination)
        counts = Counter(slot.node for slot in world.history)
        assert seen >= 8 and counts[sender] <= max(counts[x] for x in nodes[:9])

    @given(trees(5), st.sampled_from([0, MS // 2, 3 * MS // 2]), st.data())
    def test_every_pair_is_served_within_the_bound_whatever_deadlines_are_reported(
        self, network: TreeNetwork, lead_ns: int, data: st.DataObject
    ) -> None:
        policy = Timeslice(slice_ns=SLICE)
        world = World(policy, network, lead_ns=lead_ns)
        nodes = network.nodes
        for x in nodes:
            world.tell_backlog(x, *(y for y in nodes if y != x))
        world.plan()
        begun_ns = world.now_ns
        bound_ns = policy.turn_bound(len(nodes) * (len(nodes) - 1) - 1) * SLICE
        starved = data.draw(st.sampled_from([(x, y) for x in nodes for y in nodes if x != y]))
        while starved not in {(s.node, s.destination) for s in world.history} and world.now_ns < begun_ns + bound_ns:
            x = data.draw(st.sampled_from(nodes))
            size = data.draw(st.sampled_from([0, SMALL, ENDLESS]))
            deadline = {y: size for y in nodes if (x, y) != starved}
            world.backlog(x, *(y for y in nodes if y != x), deadline=deadline)
            world.run_until(world.now_ns + data.draw(st.integers(SLICE // 2, 3 * SLICE)))
        assert starved in {(s.node, s.destination) for s in world.history}


@pytest.mark.parametrize(("make", "grants"), [(Free, 0), (RateLimit, 1), (CompiledRateLimit, 1)])
def test_policies_without_turns_take_deadlines_and_change_nothing(make: Callable[[], Policy], grants: int) -> None:
    policy = make()
    policy.set_network(star(2), now_ns=0)
    policy.set_regulated({A: frozenset({B})}, now_ns=0)
    policy.backlog(A, {B: 5000}, now_ns=0, deadline={B: 5000})
    assert len(policy.plan(now_ns=0, horizon_ns=0).grants) == grants
