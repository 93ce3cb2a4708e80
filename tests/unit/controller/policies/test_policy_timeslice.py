"""The timeslice policy's promises: feasible at every instant, maximal, nobody starves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policies.base import Plan, Slot
from controller.policies.hybrid import Hybrid
from controller.policies.pairs import Pair
from controller.policies.slots import ATTEMPTS_AT_ONCE, GRANTS_AT_ONCE
from controller.policies.timeslice import Timeslice
from tests.unit.controller.policies import oracle_timeslice as oracle
from tests.unit.controller.policies.policy_kinds import each_kind  # noqa: F401 -- a fixture of all tests here
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, TreeNetwork, racks, star, trees
from tests.unit.controller.policies.policy_slices import MS, SLICE, A, B, C, D, E, examples, timeslice
from tests.unit.controller.policies.policy_world import World

LEADS = st.sampled_from([0, MS // 2, 3 * MS // 2, 5 * MS])


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
    kinds = [*["backlog"] * 3, *["yield"] * 2, *["wait"] * 2, "leave", "rewire", "recharge", "regulate"]
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
    elif kind == "recharge":
        factors = st.dictionaries(st.sampled_from(world.network.links), st.sampled_from([0.2, 0.75, 1.5, 5]), max_size=4)
        world.rewire(world.network.times(draw(factors)))
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
    @given(trees(), LEADS, st.sampled_from([1, 2, GRANTS_AT_ONCE]), st.integers(0, 2**32))
    def test_no_wanted_pair_waits_longer_than_the_bound(
        self, network: TreeNetwork, lead_ns: int, at_once: int, seed: int
    ) -> None:
        random = Random(seed)
        policy = timeslice(at_once=at_once)
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

    def test_a_link_that_carries_more_is_used_at_once_and_one_that_carries_less_keeps_the_earliest_slots(self) -> None:
        network = star(6)
        world = World(timeslice(), network)
        for x in (B, C, D, E):
            world.backlog(x, A)
        half = network.times({("s", A): 0.5})
        (running,) = world.running()
        plan = world.rewire(half)
        assert plan.revokes == [running] and len(plan.grants) == 1, "it would send twice what the link carries"
        world.run_until(world.now_ns + 3 * SLICE)
        assert {slot.reserved_bps for slot in world.running()} == {half.capacity_bps(("s", A))}
        plan = world.rewire(network.times({("s", A): 2}))
        assert len(plan.grants) == 1, "beside the slot that runs there is room for one of the whole rate"
        world.run_until(world.now_ns + 4 * SLICE)
        assert len(world.running()) == 2
        later = max(world.running(), key=lambda slot: (slot.start_ns, slot.slot))
        assert world.rewire(network).revokes == [later]

    def test_only_who_needs_more_or_less_of_a_link_is_tried_anew_when_it_carries_more_or_less(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not hasattr(Timeslice, "_try"):
            pytest.skip("which pairs are tried is seen in the reference alone")
        tried: list[tuple[int, int]] = []
        true_try = Timeslice._try

        def count(self: Timeslice, pair: Pair, instant_ns: int) -> None:
            tried.append((pair.node, pair.destination))
            true_try(self, pair, instant_ns)

        network = star(6)
        world = World(Timeslice(slice_ns=SLICE), network)
        for x in (B, C, D):
            world.backlog(x, A)
        for x in (B, C):
            world.backlog(x, A, E)
        monkeypatch.setattr(Timeslice, "_try", count)
        world.rewire(network.times({("s", E): 0.5}))
        assert tried and {destination for _, destination in tried} == {E}

    def test_a_plan_makes_so_many_attempts_at_most_and_the_next_one_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if not hasattr(Timeslice, "_try"):
            pytest.skip("which pairs are tried is seen in the reference alone")
        attempts = [0]
        true_try = Timeslice._try

        def count(self: Timeslice, pair: Pair, instant_ns: int) -> None:
            attempts[-1] += 1
            true_try(self, pair, instant_ns)

        monkeypatch.setattr(Timeslice, "_try", count)
        policy, nodes = Timeslice(slice_ns=SLICE), range(FIRST, FIRST + 60)
        policy.set_network(star(60), now_ns=MS)
        policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=MS)
        for node in nodes:
            policy.backlog(node, {other: 5000 for other in nodes if other != node}, now_ns=MS)
        granted = list[Slot]()
        while True:
            granted += policy.plan(now_ns=MS, horizon_ns=MS).grants
            due_ns = policy.next_event_ns()
            if due_ns is None or due_ns > MS:
                break
            attempts.append(0)
        assert sum(attempts) == 60 * 59, "each pair is tried once"
        assert attempts[:-1] == [ATTEMPTS_AT_ONCE] * (len(attempts) - 1)
        assert len(granted) == len({slot.node for slot in granted}) == len({slot.destination for slot in granted})

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


def plans_of_crowded_racks(seed: int, *, told_again: bool) -> list[Plan]:
    """Plans of one slot each while backlogs change; with `told_again` the policy hears of the same network before each."""
    dice, now_ns, network = Random(seed), MS, racks(2, 4, uplink_bps=2 * GBIT)
    policy, nodes = Timeslice(at_once=1, patience=2), network.nodes
    policy.set_network(network, now_ns=now_ns)
    policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=now_ns)
    plans = []
    for _ in range(200):
        kind, node = dice.random(), dice.choice(nodes)
        if kind < 0.4:
            others = dice.sample(nodes, dice.randrange(len(nodes)))
            policy.backlog(node, {other: 5000 for other in others if other != node}, now_ns=now_ns)
        else:
            now_ns += dice.randrange(1, 2 * MS) if kind < 0.6 else 1
        if told_again:
            policy.set_network(network, now_ns=now_ns)
        plans.append(policy.plan(now_ns=now_ns, horizon_ns=now_ns + 5 * MS))
    return plans


@pytest.mark.parametrize("seed", range(3))
def test_to_hear_of_the_same_network_again_changes_no_plan(seed: int) -> None:
    """It frees nothing, so a selection that one plan has left to the next goes on where it was."""
    assert plans_of_crowded_racks(seed, told_again=True) == plans_of_crowded_racks(seed, told_again=False)
