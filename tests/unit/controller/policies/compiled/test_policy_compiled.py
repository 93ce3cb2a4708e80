"""The compiled schedule gives the plans of the reference for the same events, whatever they are; and touches no memory that is
not its own while it does."""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from controller.policies.base import Plan, Policy, Slot
from controller.policies.compiled.auto import CompiledAuto
from controller.policies.compiled.batches import RETURNED
from controller.policies.compiled.library import at
from controller.policies.compiled.places import FILLED_AT_ONCE, SHARED_MOST
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.steps import CompiledSteps
from controller.policies.compiled.timeslice import IDLE_NS, CompiledTimeslice
from controller.policies.slots import FORWARD_AT_ONCE, GRANTS_AT_ONCE
from controller.policies.timeslice import Timeslice
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, Link, TreeNetwork, racks, star, trees
from tests.unit.controller.policies.policy_sanitized import build_under_test, run_with_policies

MS = 1_000_000
NODES = range(FIRST, FIRST + 8)
NODE = st.sampled_from(NODES)
SIZE = st.sampled_from([0, 5000, 5000, 300_000, 1_500_000])
URGENT = st.sampled_from([0, 0, 3000, 10**9])
MOST_EVENTS = 100
"""Of one rule: where hosts use little of their slots there are hundreds in a slice."""
MOST_SLOTS = 400
"""Ahead, while `traffic` goes on: with more, the reference takes seconds a plan."""
WAITS = st.sampled_from([1, MS // 4, MS, 2 * MS - MS // 4, 2 * MS]) | st.integers(1, 6 * MS)
BACKLOG = st.dictionaries(NODE, st.tuples(SIZE, URGENT), max_size=8)


def compiled(**terms: object) -> CompiledTimeslice:
    """The compiled schedule, of the build under test."""
    return CompiledTimeslice(**terms, library=build_under_test("schedule"))  # type: ignore[arg-type]


class BothKinds(RuleBasedStateMachine):
    """The same events to the reference and to the compiled schedule; after each of them both plan."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = MS
        self.slots: dict[int, Slot] = {}

    @initialize(
        drawn=st.lists(trees(8), min_size=1, max_size=2),
        first=st.integers(0, 3),
        fraction=st.sampled_from([1.0, 1.0, 0.5, 0.1]),
        patience=st.sampled_from([1, 2, 2, 5]),
        burst_bytes=st.sampled_from([0, 48_448]),
        at_once=st.sampled_from([1, 2, 5, GRANTS_AT_ONCE]),
        lead_ns=st.sampled_from([0, MS // 2, 3 * MS // 2, 5 * MS]),
        crowded=st.booleans(),
    )
    def begin(
        self, drawn: list[TreeNetwork], first: int, fraction: float, patience: int, burst_bytes: int, at_once: int,
        lead_ns: int, crowded: bool,
    ) -> None:
        uneven = {FIRST: GBIT, FIRST + 1: 40 * MBIT, FIRST + 2: 20_000}
        networks = [star(8), racks(2, 4, uplink_bps=2 * GBIT), star(8, rates=uneven), *drawn]
        terms = {"minimum_fraction": fraction, "patience": patience, "burst_bytes": burst_bytes, "at_once": at_once}
        self.policies: tuple[Policy, Policy] = Timeslice(**terms), compiled(**terms)  # type: ignore[arg-type]
        self.start(networks, first, lead_ns, crowded)

    def start(self, networks: list[TreeNetwork], first: int, lead_ns: int, crowded: bool) -> None:
        """Gives the policies a network; with `crowded` everybody waits for everybody."""
        self.networks, self.lead_ns = networks, lead_ns
        self.network = networks[first]
        self.each(lambda policy: policy.set_network(self.networks[first], now_ns=self.now_ns))
        self.regulate({node: frozenset(NODES) for node in NODES} if crowded else {})
        for node in NODES if crowded else ():
            self.say(node, {other: (5000, 0) for other in NODES if other != node})
        self.plan()

    def each(self, event: Callable[[Policy], None]) -> None:
        for policy in self.policies:
            event(policy)

    def plan(self) -> None:
        one, other = (policy.plan(now_ns=self.now_ns, horizon_ns=self.now_ns + self.lead_ns) for policy in self.policies)
        assert one == other
        assert self.policies[0].next_event_ns() == self.policies[1].next_event_ns()
        for slot in one.revokes:
            self.slots.pop(slot.slot, None)
        self.slots |= {slot.slot: slot for slot in one.grants}
        self.slots = {number: slot for number, slot in self.slots.items() if slot.end_ns > self.now_ns - MS}

    def say(self, node: int, backlog: dict[int, tuple[int, int]]) -> None:
        sizes = {other: size for other, (size, _) in backlog.items() if other != node}
        urgent = {other: its for other, (_, its) in backlog.items() if its}
        self.each(lambda policy: policy.backlog(node, sizes, now_ns=self.now_ns, deadline=urgent))

    def regulate(self, pairs: dict[int, frozenset[int]]) -> None:
        given = {node: others - {node} for node, others in pairs.items()}
        self.each(lambda policy: policy.set_regulated(given, now_ns=self.now_ns))

    def give_back(self, slot: Slot, backlog_bytes: int, unspent_bytes: int) -> None:
        self.each(
            lambda policy: policy.yielded(
                slot.node, slot.destination, slot.slot, now_ns=self.now_ns, backlog_bytes=backlog_bytes,
                unspent_bytes=unspent_bytes,
            )
        )  # fmt: skip

    @rule(seed=st.integers(0, 1 << 32), events=st.integers(20, 120))
    def traffic(self, seed: int, events: int) -> None:
        """Hosts that use a part of their slots, some more and some less, and that come and go."""
        dice = Random(seed)
        for _ in range(events):
            if len(self.slots) > MOST_SLOTS:
                return
            running = [slot for slot in self.slots.values() if slot.start_ns <= self.now_ns < slot.end_ns]
            kind = dice.random()
            if running and kind < 0.5:
                slot = dice.choice(running)
                self.give_back(slot, dice.choice([0, 5000, 10**6]), dice.randrange(slot.bytes + 1))
            elif kind < 0.75:
                node, others = dice.choice(NODES), dice.sample(NODES, dice.randrange(8))
                self.say(node, {other: (dice.choice([5000, 10**6]), dice.choice([0, 0, 0, 3000])) for other in others})
            else:
                self.now_ns += dice.randrange(1, 2 * MS)
            self.plan()

    @rule(node=NODE, backlog=BACKLOG, planned=st.booleans())
    def backlogged(self, node: int, backlog: dict[int, tuple[int, int]], planned: bool) -> None:
        self.say(node, backlog)
        if planned:
            self.plan()

    @precondition(lambda self: self.slots)
    @rule(data=st.data(), backlog_bytes=st.sampled_from([0, 0, 5000]), part=st.sampled_from([0.0, 0.05, 0.5, 0.9, 1.0]))
    def yielded(self, data: st.DataObject, backlog_bytes: int, part: float) -> None:
        slot = data.draw(st.sampled_from(sorted(self.slots.values(), key=lambda slot: slot.slot)))
        self.give_back(slot, backlog_bytes, int(slot.bytes * part))
        self.plan()

    @rule(node=NODE, other=NODE, slot=st.integers(0, 1 << 64), size=st.sampled_from([0, 5000]))
    def yielded_what_it_never_had(self, node: int, other: int, slot: int, size: int) -> None:
        if node != other:
            self.each(lambda policy: policy.yielded(node, other, slot, now_ns=self.now_ns, backlog_bytes=size))
            self.plan()

    @rule(wait_ns=WAITS)
    def time_passes(self, wait_ns: int) -> None:
        self.now_ns += wait_ns
        self.plan()

    @rule(slices=st.integers(1, 12))
    def many_slots_pass(self, slices: int) -> None:
        until_ns = self.now_ns + slices * 2 * MS
        for _ in range(MOST_EVENTS):
            event_ns = self.policies[0].next_event_ns()
            if event_ns is None or event_ns - self.lead_ns >= until_ns:
                break
            self.now_ns = max(event_ns - self.lead_ns, self.now_ns + 1)
            self.plan()

    @rule(node=NODE)
    def left(self, node: int) -> None:
        self.each(lambda policy: policy.left(node, now_ns=self.now_ns))
        self.plan()

    @rule(data=st.data(), planned=st.booleans())
    def rewired(self, data: st.DataObject, planned: bool) -> None:
        network = self.network = data.draw(st.sampled_from(self.networks))
        self.each(lambda policy: policy.set_network(network, now_ns=self.now_ns))
        if planned:
            self.plan()

    @rule(data=st.data(), planned=st.booleans())
    def recharged(self, data: st.DataObject, planned: bool) -> None:
        """Links carry more or less; paths and rates are as they were."""
        links = st.sampled_from(self.network.links)
        factors = data.draw(st.dictionaries(links, st.sampled_from([0.2, 0.75, 1.5]), max_size=4))
        self.network = self.network.times(factors)
        self.each(lambda policy: policy.set_network(self.network, now_ns=self.now_ns))
        if planned:
            self.plan()

    @rule(pairs=st.dictionaries(NODE, st.frozensets(NODE)) | st.just({node: frozenset(NODES) for node in NODES}))
    def regulated(self, pairs: dict[int, frozenset[int]]) -> None:
        self.regulate(pairs)
        self.plan()

    @rule(node=NODE, delay_ns=st.sampled_from([0, 100_000, 700_000]))
    def delayed(self, node: int, delay_ns: int) -> None:
        self.each(lambda policy: policy.set_delay(node, delay_ns))

    @rule(node=NODE | st.none(), other=NODE | st.none(), weight=st.sampled_from([0.001, 0.5, 1.0, 1.5, 3.0]))
    def weighted(self, node: int | None, other: int | None, weight: float) -> None:
        self.each(lambda policy: policy.set_weight(node, other, weight))


def several(examples: int, steps: int) -> settings:
    """Settings of the state machine."""
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )  # fmt: skip


@pytest.mark.hypothesis
def test_both_kinds_give_the_same_plans_for_the_same_events() -> None:
    run_state_machine_as_test(BothKinds, settings=several(40, 30))  # type: ignore[no-untyped-call]


def test_the_compiled_schedule_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    """The same events under the address and the undefined-behaviour sanitizers."""
    assert "same plans" in run_with_policies(__name__, tmp_path)


def test_arrays_that_have_grown_large_hold_what_they_held() -> None:
    """Some megabytes, and for the pairs more than the address space that is kept for an array at first."""
    policy, hosts, others = CompiledTimeslice(), 700, 400
    nodes = np.arange(FIRST, FIRST + hosts, dtype=np.uint32)
    for count in (1, 20, others):
        destinations = np.tile(np.arange(FIRST + hosts, FIRST + hosts + count, dtype=np.uint32), hosts)
        policy.backlogs(nodes, np.arange(0, hosts * count + 1, count), destinations, now_ns=MS)
        policy.set_regulated({node: frozenset(destinations[:count].tolist()) for node in nodes.tolist()}, now_ns=MS)
    known = set(zip(*policy._places.pairs(), strict=True))
    assert known == {(node, FIRST + hosts + other) for node in nodes.tolist() for other in range(others)}


def plan_all(policy: Policy) -> list[Plan]:
    """Plans until nothing more is due now."""
    plans = [policy.plan(now_ns=MS, horizon_ns=MS)]
    while (due_ns := policy.next_event_ns()) is not None and due_ns <= MS:
        plans.append(policy.plan(now_ns=MS, horizon_ns=MS))
    return plans


@pytest.mark.parametrize("seed", range(3))
def test_of_many_pairs_that_begin_at_once_some_are_tried_by_each_plan_in_their_order(seed: int) -> None:
    dice, both = Random(seed), (Timeslice(), CompiledTimeslice())
    nodes = range(FIRST, FIRST + 800)
    for network in (racks(10, 80), racks(10, 80), racks(20, 40)):
        backlogs = {node: dict.fromkeys(dice.sample(nodes, 4), 5000) for node in dice.sample(nodes, 500)}
        deadlines = {node: {min(backlogs[node]): 3000} for node in dice.sample(sorted(backlogs), 50)}
        said = []
        for policy in both:
            policy.set_network(network, now_ns=MS)
            policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=MS)
            for node, backlog in backlogs.items():
                policy.backlog(node, backlog, now_ns=MS, deadline=deadlines.get(node, {}))
            said.append(plan_all(policy))
        assert said[0] == said[1]
        assert len(said[0]) > 2, "one plan does not try all"


@pytest.mark.parametrize("seed", [33, 40, 51])
def test_a_backlog_without_a_deadline_begins_no_selection_anew(seed: int) -> None:
    """Hosts come, go and speak while a selection goes on over several plans, each of which grants one slot."""
    dice, nodes, now_ns = Random(seed), range(FIRST, FIRST + 6), MS
    both = Timeslice(at_once=1, patience=1), compiled(at_once=1, patience=1)
    for policy in both:
        policy.set_network(star(6, rates={FIRST: 10 * MBIT, FIRST + 4: 30 * MBIT}), now_ns=MS)
        policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=MS)
    for _ in range(300):
        now_ns += dice.choice((0, 0, 0, MS // 3, MS, 2 * MS))
        node = dice.choice(nodes)
        waiting = [other for other in dice.sample(nodes, dice.randrange(6)) if other != node]
        leaves, plans = dice.random() < 0.4, []
        for policy in both:
            if leaves:
                policy.left(node, now_ns=now_ns)
            policy.backlog(node, dict.fromkeys(waiting, 5000), now_ns=now_ns)
            plans.append((policy.plan(now_ns=now_ns, horizon_ns=now_ns + 4 * MS), policy.next_event_ns()))
        assert plans[0] == plans[1]


@pytest.mark.parametrize("away_ns", [0, 40 * MS])
def test_what_is_said_of_a_pair_without_a_place_changes_no_turn(away_ns: int) -> None:
    """Its host carries nothing for a while. Half of its slot was given back then, or it waited for nothing, and comes back."""
    both, said = (Timeslice(), compiled()), list[Plan]()
    for policy in both:
        policy.set_network(star(4), now_ns=MS)
        policy.set_regulated({FIRST: frozenset({FIRST + 1})}, now_ns=MS)
        policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=MS)
        [slot] = policy.plan(now_ns=MS, horizon_ns=MS).grants
        policy.set_network(star(4, rates={FIRST: 0}), now_ns=MS)
        left = 0 if away_ns else 5000
        policy.yielded(FIRST, FIRST + 1, slot.slot, now_ns=MS, backlog_bytes=left, unspent_bytes=slot.bytes // 2)
        now_ns = 2 * MS + away_ns
        policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=now_ns)
        policy.set_network(star(4), now_ns=now_ns)
        said.append(policy.plan(now_ns=now_ns, horizon_ns=now_ns))
    assert said[0] == said[1]
    assert [slot.end_ns - slot.start_ns for slot in said[0].grants] == [2 * MS]


def test_a_slot_that_nobody_has_may_be_given_back_where_one_is_over() -> None:
    """So hosts say that a pair begins to wait (`BatchPolicy.begin`): it must not be taken for the slot before."""
    both, senders = (Timeslice(), compiled()), range(FIRST, FIRST + 16, 2)
    said: list[list[Plan]] = []
    for policy in both:
        policy.set_network(star(16), now_ns=MS)
        policy.set_regulated({node: frozenset((node + 1,)) for node in senders}, now_ns=MS)
        plans = list[Plan]()
        for now_ns in range(MS, 40 * MS, MS):
            for node in senders[: 2 if now_ns < 20 * MS else 8]:
                policy.yielded(node, node + 1, 0, now_ns=now_ns, backlog_bytes=5000)
            plans.append(policy.plan(now_ns=now_ns, horizon_ns=now_ns + MS))
        said.append(plans)
    assert said[0] == said[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_stops_after_some_slots_and_the_next_one_goes_on(seed: int) -> None:
    """Hundreds of slots end together, again and again, and some hosts give theirs back in the middle of it."""
    both, nodes = (Timeslice(at_once=64), CompiledTimeslice(at_once=64)), range(FIRST, FIRST + 800)
    said: list[list[Plan]] = []
    for policy in both:
        dice, plans = Random(seed), list[Plan]()
        policy.set_network(racks(20, 40, uplink_bps=16 * GBIT), now_ns=MS)
        policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=MS)
        for node in nodes[:400]:
            policy.backlog(node, dict.fromkeys(dice.sample(nodes[400:], 4), 5000), now_ns=MS)
        now_ns = MS
        while now_ns < 20 * MS:
            plans.append(policy.plan(now_ns=now_ns, horizon_ns=now_ns + MS))
            if plans[-1].grants and dice.random() < 0.1:
                slot = dice.choice(plans[-1].grants)
                policy.yielded(slot.node, slot.destination, slot.slot, now_ns=now_ns, backlog_bytes=dice.choice((0, 5000)))
            due_ns = policy.next_event_ns()
            now_ns = now_ns if due_ns is not None and due_ns <= now_ns else now_ns + MS // 2
        said.append(plans)
    assert said[0] == said[1]
    newest, sizes = 0, []
    for plan in said[0]:
        sizes.append(sum(slot.slot > newest for slot in plan.grants))
        newest = max([newest, *(slot.slot for slot in plan.grants)])
    assert sizes.count(64) > 5, "plans that stopped"
    assert max(sizes) == 64, "those which were passed over count as well"


def test_of_many_slots_that_have_not_begun_some_are_brought_forward_by_each_plan_the_earliest_first() -> None:
    both, nodes, said = (Timeslice(), compiled()), range(FIRST, FIRST + 200), []
    for policy in both:
        policy.set_network(star(200), now_ns=MS)
        policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=MS)
        for node in nodes[1:]:
            policy.backlog(node, {FIRST: 5000}, now_ns=MS)
        ahead = [slot for _ in range(3) for slot in policy.plan(now_ns=MS, horizon_ns=300 * MS).grants]
        first = ahead[0]
        policy.yielded(first.node, first.destination, first.slot, now_ns=MS)
        said.append(policy.plan(now_ns=MS, horizon_ns=300 * MS).grants)
    assert said[0] == said[1]
    again = [slot for slot in said[0] if slot.slot in {one.slot for one in ahead}]
    assert [slot.slot for slot in again] == [slot.slot for slot in ahead[1 : FORWARD_AT_ONCE + 1]]
    assert len(ahead) > 2 * FORWARD_AT_ONCE


class Meddlers:
    """A lock after each release of which others do something with it."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self.meddle, self.held = meddle, 0

    def __enter__(self) -> None:
        self.held += 1

    def __exit__(self, *_: object) -> None:
        self.held -= 1
        if not self.held:
            self.held += 1
            self.meddle()
            self.held -= 1


def unchanged(now_ns: int) -> int:
    return now_ns


@pytest.mark.parametrize("kind", [CompiledTimeslice, CompiledRateLimit, CompiledSteps])
def test_a_new_network_is_put_in_pieces_between_which_nothing_is_granted_or_revoked(
    kind: type[CompiledTimeslice] | type[CompiledRateLimit] | type[CompiledSteps],
) -> None:
    policies = alone, shared = kind(), kind()
    nodes = range(FIRST, FIRST + 800)
    for policy in policies:
        policy.set_network(racks(10, 80), now_ns=MS)
        policy.set_regulated({node: frozenset({node + 400}) for node in nodes[:400]}, now_ns=MS)
        for node in nodes[:400]:
            policy.backlog(node, {node + 400: 5000}, now_ns=MS)
        plan_all(policy)
    plans: list[Plan] = []
    shared.share(Meddlers(lambda: plans.append(shared.plan(now_ns=MS, horizon_ns=MS))), unchanged)
    for policy in policies:
        policy.set_network(racks(20, 40), now_ns=MS)
    assert len(plans) > 4, "others had the lock meanwhile"
    assert not any(plan.grants or plan.revokes for plan in plans[:4])
    expected = plan_all(alone)
    found = [*plans, *plan_all(shared)]
    assert sorted(slot.slot for plan in found for slot in plan.revokes) == sorted(
        slot.slot for plan in expected for slot in plan.revokes
    )


def overbooked(network: TreeNetwork, slots: Iterable[Slot]) -> list[Link]:
    """The links of which slots reserve more than they carry at some time."""
    changes: dict[Link, list[tuple[int, int]]] = {}
    for slot in slots:
        for link in network.path(slot.node, slot.destination):
            changes.setdefault(link, []).extend([(slot.start_ns, slot.reserved_bps), (slot.end_ns, -slot.reserved_bps)])
    return [
        link for link, its in changes.items()
        if max(accumulate(bps for _, bps in sorted(its))) > network.capacity_bps(link)
    ]  # fmt: skip


def compiled_steps() -> CompiledSteps:
    return CompiledSteps(library=build_under_test("steps"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [compiled, compiled_steps])
def test_what_hosts_say_while_a_new_network_is_put_counts_and_no_link_is_promised_twice(
    kind: Callable[[], CompiledTimeslice] | Callable[[], CompiledSteps], seed: int
) -> None:
    dice, policy, nodes = Random(seed), kind(), list(range(FIRST, FIRST + 800))
    slots: dict[int, Slot] = {}
    times = iter(range(0))

    def heed(plan: Plan) -> None:
        for slot in plan.revokes:
            assert slots.pop(slot.slot) == slot
        slots.update((slot.slot, slot) for slot in plan.grants)

    def meddle() -> None:  # as the loop of slots does, which calls the core alone
        if next(times, None) is None:  # places of pairs that come later are filled in one by one
            return
        for node in dice.sample(nodes, 40):
            told = [array("I", one) for one in ((node,), (0, 2), dice.sample([other for other in nodes if other != node], 2))]
            policy._c_backlogs(policy._core, MS, 1, *map(at, told), None)
            policy.meet(*map(np.array, told))
        heed(policy.plan(now_ns=MS, horizon_ns=MS))
        for slot in dice.sample(list(slots.values()), min(20, len(slots))):
            told = [array("q", (slot.slot, slot.node, slot.destination, 0, dice.choice([0, 5000])))]
            policy._c_yields(policy._core, MS, 1, at(told[0]))
            del slots[slot.slot]
        heed(policy.plan(now_ns=MS, horizon_ns=MS))

    everyone = {node: frozenset(nodes) - {node} for node in nodes}
    policy.set_network(racks(10, 80), now_ns=MS)
    policy.set_regulated(everyone, now_ns=MS)
    for node in nodes:
        policy.backlog(node, {FIRST + (node - FIRST + 333) % 800: 5000}, now_ns=MS)
    for plan in plan_all(policy):
        heed(plan)
    assert slots
    last = racks(20, 40)
    less = last.times(dict.fromkeys(last.links[::3], 0.5))
    for network in (racks(20, 40), racks(10, 80, uplink_bps=GBIT), last, less, last):
        times = iter(range(12))
        policy.share(Meddlers(meddle), unchanged)
        policy.set_network(network, now_ns=MS)
        policy.share(nullcontext(), unchanged)
        policy.attend(now_ns=MS)
        for plan in plan_all(policy):
            heed(plan)
        assert slots and not overbooked(network, slots.values())
    late = {(node, FIRST) for node in nodes[1:9]}
    for node in nodes:
        policy.backlog(node, {FIRST: 5000} if (node, FIRST) in late else {}, now_ns=MS)
    for now_ns in range(2 * MS, 40 * MS, MS):
        late -= {(slot.node, slot.destination) for slot in policy.plan(now_ns=now_ns, horizon_ns=now_ns).grants}
    assert not late


def test_where_another_thread_calls_the_core_one_call_gives_some_pairs_their_places_and_later_ones_the_others() -> None:
    policy, nodes, pairs = compiled(), range(FIRST, FIRST + 2 * SHARED_MOST), 2 * SHARED_MOST - 1
    policy.set_network(star(2 * SHARED_MOST), now_ns=MS)
    policy.set_regulated({node: frozenset({FIRST}) for node in nodes[1:]}, now_ns=MS)
    policy.share(nullcontext(), unchanged)
    told = [array("I", one) for one in (nodes[1:], range(pairs + 1), [FIRST] * pairs)]
    policy._c_backlogs(policy._core, MS, pairs, *map(at, told), None)
    left = [policy._c.core_unplaced(policy._core)]
    while left[-1]:
        policy.attend(now_ns=MS)
        left.append(policy._c.core_unplaced(policy._core))
    assert left[0] == pairs
    assert all(0 < before - after <= SHARED_MOST + FILLED_AT_ONCE for before, after in pairwise(left)) and len(left) > 2


def test_who_waits_is_not_tried_anew_when_another_link_carries_less() -> None:
    """2,000 pairs wait for one link. A plan after that takes at most half of one after a new network, which tries them all."""
    network, policy = racks(25, 80), CompiledTimeslice()
    policy.set_network(network, now_ns=MS)
    policy.set_regulated({node: frozenset({FIRST}) for node in range(FIRST + 1, FIRST + 2000)}, now_ns=MS)
    for node in range(FIRST + 1, FIRST + 2000):
        policy.backlog(node, {FIRST: 5000}, now_ns=MS)
    plan_all(policy)

    def took_ns(changed: TreeNetwork) -> int:
        policy.set_network(changed, now_ns=MS)
        began_ns = time.thread_time_ns()
        plan_all(policy)
        return time.thread_time_ns() - began_ns

    after_new = min(took_ns(racks(25, 80)) for _ in range(5))
    network = racks(25, 80)
    policy.set_network(network, now_ns=MS)
    plan_all(policy)
    factors = [{("r1", FIRST + 80): factor} for factor in (0.9, 0.8, 0.7, 0.6, 0.5)]
    assert min(took_ns(network.times(one)) for one in factors) < after_new / 2


@pytest.mark.parametrize(("kind", "plans"), [(Timeslice, 2000), (CompiledTimeslice, 6000)])
def test_what_a_link_carried_once_costs_no_plan_any_time_later(
    kind: type[Timeslice] | type[CompiledTimeslice], plans: int
) -> None:
    """A link carries something else before each plan, as where hosts without an agent take their part of it."""
    network, policy, took_ns = star(8), kind(), list[int]()
    policy.set_network(network, now_ns=MS)
    policy.set_regulated({node: frozenset({FIRST}) for node in NODES[1:]}, now_ns=MS)
    for node in NODES[1:]:
        policy.backlog(node, {FIRST: 5000}, now_ns=MS)
    for number in range(1, plans + 1):
        now_ns = MS + number * 2 * MS
        policy.set_network(network.times({("s", FIRST): 1 - number / 10_000}), now_ns=now_ns)
        began_ns = time.thread_time_ns()
        policy.plan(now_ns=now_ns, horizon_ns=now_ns + 2 * MS)
        took_ns.append(time.thread_time_ns() - began_ns)
    assert min(took_ns[-100:]) < 3 * min(took_ns[:100])


def test_batches_and_arrays_say_what_single_events_and_slots_say() -> None:
    dice, nodes = Random(1), list(NODES)
    single, batched = CompiledTimeslice(), CompiledTimeslice()
    for policy in (single, batched):
        policy.set_network(star(8), now_ns=MS)
        policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=MS)
    for now_ns in range(2 * MS, 60 * MS, MS):
        waiting = {node: dice.sample([other for other in nodes if other != node], dice.randrange(7)) for node in nodes}
        offsets = np.cumsum([0, *map(len, waiting.values())])
        for node, others in waiting.items():
            single.backlog(node, dict.fromkeys(others, 5000), now_ns=now_ns)
        batched.backlogs(np.array(nodes), offsets, np.array([o for others in waiting.values() for o in others]), now_ns=now_ns)
        plan = single.plan(now_ns=now_ns, horizon_ns=now_ns + MS)
        grants, revokes = batched.plan_arrays(now_ns=now_ns, horizon_ns=now_ns + MS)
        assert [Slot(*row) for row in grants.tolist()] == plan.grants
        assert [Slot(*row) for row in revokes.tolist()] == plan.revokes
        back = np.array([(s.slot, s.node, s.destination, s.bytes // 2, 5000) for s in plan.grants[:3]], dtype=RETURNED)
        batched.give_back(back, now_ns=now_ns)
        for number, node, other, unspent, waits in back.tolist():
            single.yielded(node, other, number, now_ns=now_ns, backlog_bytes=waits, unspent_bytes=unspent)


def test_slots_of_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match="RETURNED"):
        CompiledTimeslice().give_back(np.zeros(2, dtype=np.int64), now_ns=0)


@pytest.mark.parametrize(
    "make", [CompiledTimeslice, CompiledRateLimit, lambda: CompiledAuto(CompiledTimeslice(), CompiledRateLimit())]
)
def test_other_capacities_alone_ask_for_no_path_anew(make: Callable[[], Policy]) -> None:
    """The links of a large fabric become contended and are drained one after the other."""
    asked: list[tuple[int, int]] = []

    class Watched(TreeNetwork):
        def path(self, source: int, destination: int) -> tuple[Link, ...]:
            asked.append((source, destination))
            return super().path(source, destination)

    plain = star(8)
    network = Watched(plain._tree, plain._capacities, plain._rates)
    less = Watched(plain._tree, {link: bps // 2 for link, bps in plain._capacities.items()}, plain._rates)
    policy = make()
    policy.set_network(network, now_ns=MS)
    policy.set_regulated({node: frozenset(NODES) - {node} for node in NODES}, now_ns=MS)
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=MS)
    assert asked
    asked.clear()
    policy.set_network(less, now_ns=2 * MS)
    assert not asked


def test_pairs_that_have_long_been_idle_are_forgotten_and_those_that_wait_or_have_a_slot_are_not() -> None:
    network, policy, now_ns = star(60), compiled(slice_ns=MS), MS
    nodes = sorted(network.nodes)
    policy.set_network(network, now_ns=now_ns)
    policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=now_ns)
    policy.set_weight(nodes[1], nodes[2], 10.0 * IDLE_NS / MS)  # its one slot lasts for an hour and a half
    policy.backlog(nodes[1], {nodes[2]: 5000}, now_ns=now_ns)
    (long,) = policy.plan(now_ns=now_ns, horizon_ns=now_ns).grants
    policy.backlog(nodes[1], {}, now_ns=now_ns)
    assert long.end_ns > 2 * IDLE_NS
    known = []
    for to in nodes[3:]:
        policy.backlog(nodes[0], {nodes[59]: 5000}, now_ns=now_ns)
        for node in nodes[4:]:
            for waiting in ({to: 5000}, {}):
                policy.backlog(node, waiting if node != to else {}, now_ns=now_ns)
        policy.plan(now_ns=now_ns, horizon_ns=now_ns)
        now_ns += IDLE_NS // 10
        known.append(set(zip(*policy._places.pairs(), strict=True)))
        assert (nodes[0], nodes[59]) in known[-1] and ((nodes[1], nodes[2]) in known[-1] or now_ns > long.end_ns)
    assert max(map(len, known)) < 56 * 30 and not any(nodes[3] == to for _, to in known[-1])
    policy.backlog(nodes[9], {nodes[3]: 5000}, now_ns=now_ns)
    grants = policy.plan(now_ns=now_ns, horizon_ns=now_ns).grants
    assert (nodes[9], nodes[3]) in {(slot.node, slot.destination) for slot in grants}


def test_memory_does_not_grow_with_nodes_that_come_and_go() -> None:
    policy = CompiledTimeslice()
    policy.set_network(star(8), now_ns=MS)
    policy.set_regulated({node: frozenset(NODES) - {node} for node in NODES}, now_ns=MS)
    sizes = []
    for number in range(1, 6001):
        now_ns = number * MS
        for node in NODES:
            policy.backlog(node, dict.fromkeys((other for other in NODES if other != node), 5000), now_ns=now_ns)
        policy.plan(now_ns=now_ns, horizon_ns=now_ns + MS)
        policy.left(NODES[number % len(NODES)], now_ns=now_ns)
        if number % 3000 == 0:
            gc.collect()
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]))
    assert sizes[1] - sizes[0] < 256  # pages


if __name__ == "__main__":
    run_state_machine_as_test(BothKinds, settings=several(20, 30))  # type: ignore[no-untyped-call]
    for kind in (compiled, compiled_steps):
        test_what_hosts_say_while_a_new_network_is_put_counts_and_no_link_is_promised_twice(kind, 0)
    print("same plans")
