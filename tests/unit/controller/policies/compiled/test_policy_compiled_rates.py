"""The compiled rate limit gives the plans of the reference for the same events, and touches no memory that is not its own."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from controller.policies.base import Policy, Slot
from controller.policies.compiled.batches import BatchPolicy
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.rates.policy import STEPS_AT_ONCE, RateLimit
from tests.unit.controller.policies.compiled.test_policy_compiled import MS, NODE, NODES, BothKinds, several
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, TreeNetwork, racks, star, trees
from tests.unit.controller.policies.policy_sanitized import build_under_test, run_with_policies

LEASE = 20 * MS
RATES = st.sampled_from([0, 1, MBIT, 9 * MBIT, 50 * MBIT, 100 * MBIT, GBIT, 1 << 60])


class BothRates(BothKinds):
    """The same events to both rate limits."""

    @initialize(
        drawn=st.lists(trees(8), min_size=1, max_size=2),
        first=st.integers(0, 3),
        headroom=st.sampled_from([1.0, 0.98, 0.5]),
        lead_ns=st.sampled_from([0, MS // 2, 5 * MS]),
        crowded=st.booleans(),
        steps_at_once=st.sampled_from([1, 10, 50, STEPS_AT_ONCE, STEPS_AT_ONCE]),
    )
    def begin(  # type: ignore[override]
        self, drawn: list[TreeNetwork], first: int, headroom: float, lead_ns: int, crowded: bool, steps_at_once: int
    ) -> None:
        terms = {"lease_ns": LEASE, "headroom": headroom, "steps_at_once": steps_at_once}
        self.policies: tuple[Policy, Policy] = (
            RateLimit(**terms), CompiledRateLimit(**terms, library=build_under_test("rates"))  # type: ignore[arg-type]
        )  # fmt: skip
        self.start([star(8), racks(2, 4), star(8, rates={FIRST: GBIT, FIRST + 1: 40 * MBIT}), *drawn], first, lead_ns, crowded)

    @rule(node=NODE, rates_bps=st.dictionaries(NODE, RATES, max_size=8), times=st.integers(1, 4))
    def reported(self, node: int, rates_bps: dict[int, int], times: int) -> None:
        for _ in range(times):
            self.each(lambda policy: policy.sent(node, rates_bps, now_ns=self.now_ns))
            self.now_ns += LEASE // 4
            self.plan()

    @rule(node=NODE, part=st.sampled_from([0.0, 0.3, 0.94, 0.95, 1.0]), queued=st.booleans(), times=st.integers(1, 5))
    def uses_a_part(self, node: int, part: float, queued: bool, times: int) -> None:
        """A host that sends at a part of each of its rates, with or without a queue."""
        for _ in range(times):
            rates_bps = {slot.destination: int(part * slot.rate_bps) for slot in self.slots.values() if slot.node == node}
            self.say(node, dict.fromkeys(rates_bps, (5000 if queued else 0, 0)))
            self.each(lambda policy, given=rates_bps: policy.sent(node, given, now_ns=self.now_ns))  # type: ignore[misc]
            self.now_ns += LEASE // 4
            self.plan()

    @rule(plans=st.integers(1, 200))
    def plans_follow_one_another(self, plans: int) -> None:
        """As long as something is left to do at once."""
        for _ in range(plans):
            event_ns = self.policies[0].next_event_ns()
            if event_ns is None or event_ns > self.now_ns:
                break
            self.now_ns += 1000
            self.plan()

    @rule(leases=st.integers(1, 6))
    def leases_pass(self, leases: int) -> None:
        self.many_slots_pass(leases * LEASE // (4 * MS))


@pytest.mark.hypothesis
def test_both_kinds_give_the_same_plans_for_the_same_events() -> None:
    run_state_machine_as_test(BothRates, settings=several(40, 30))  # type: ignore[no-untyped-call]


def test_the_compiled_rates_touch_no_foreign_memory_and_overflow_nowhere(tmp_path: Path) -> None:
    """The same events under the address and the undefined-behaviour sanitizers."""
    assert "same plans" in run_with_policies(__name__, tmp_path)


def test_all_compiled_policies_take_batches_and_give_arrays() -> None:
    for policy in (CompiledTimeslice(), CompiledRateLimit()):
        assert isinstance(policy, BatchPolicy)
        policy.set_network(star(3), now_ns=MS)
        policy.set_regulated({node: frozenset(range(FIRST, FIRST + 3)) - {node} for node in range(FIRST, FIRST + 3)}, now_ns=MS)
        nodes, offsets, destinations = np.array([FIRST, FIRST + 1]), np.array([0, 1, 2]), np.array([FIRST + 2, FIRST + 2])
        policy.backlogs(nodes, offsets, destinations, now_ns=MS)
        grants, revokes = policy.plan_arrays(now_ns=MS, horizon_ns=2 * MS)
        assert not len(revokes)
        assert {Slot(*row).destination for row in grants.tolist()} == {FIRST + 2}


def test_both_kinds_give_the_same_plans_among_many_senders() -> None:
    """So many that shares rest after they were found."""
    network, chance = star(40), random.Random(3)
    policies = RateLimit(lease_ns=LEASE), CompiledRateLimit(lease_ns=LEASE, library=build_under_test("rates"))
    for policy in policies:
        policy.set_network(network, now_ns=0)
        policy.set_regulated({node: frozenset(network.nodes) - {node} for node in network.nodes}, now_ns=0)
    waits = 0
    for number in range(150):
        node, now_ns = network.nodes[number % 40], number * MS // 5
        others = [other for other in network.nodes if other != node]
        told = dict.fromkeys(others if number < 40 else chance.sample(others, 38), 5000)
        plans = []
        for policy in policies:
            if number >= 40:
                policy.left(node, now_ns=now_ns)
            policy.backlog(node, told, now_ns=now_ns)
            plans.append((policy.plan(now_ns=now_ns, horizon_ns=now_ns + MS), policy.next_event_ns()))
        assert plans[0] == plans[1]
        waits += policies[0]._waits
    assert 10 < waits < 150


def settle(policy: CompiledRateLimit, now_ns: int) -> dict[tuple[int, int], int]:
    """The rates that plans grant until nothing is left to do at once."""
    rates: dict[tuple[int, int], int] = {}
    for _ in range(1000):
        plan = policy.plan(now_ns=now_ns, horizon_ns=now_ns)
        rates.update({(slot.node, slot.destination): slot.rate_bps for slot in plan.grants})
        event_ns = policy.next_event_ns()
        if event_ns is None or event_ns > now_ns:
            return rates
    raise AssertionError("something is always left to do")


def test_a_longer_path_that_is_known_while_shares_are_found_moves_nobody_out_of_a_full_link() -> None:
    network = racks(2, 4)
    policy = CompiledRateLimit(headroom=1.0, steps_at_once=1, library=build_under_test("rates"))
    policy.set_network(network, now_ns=MS)
    policy.set_regulated({node: frozenset(NODES) - {node} for node in NODES}, now_ns=MS)
    for node in NODES[1:4]:
        policy.backlog(node, {NODES[0]: 5000}, now_ns=MS)
    fill, policy._places.fill = policy._places.fill, lambda: None  # type: ignore[method-assign]
    policy.backlog(NODES[4], {NODES[0]: 5000}, now_ns=MS)
    for _ in range(3):
        policy.plan(now_ns=MS, horizon_ns=MS)
    fill()  # from the other rack, over two more links
    rates = settle(policy, MS)
    assert rates == {(node, NODES[0]): rates[NODES[1], NODES[0]] for node in NODES[1:5]}
    assert sum(rates.values()) == network.capacity_bps(network.path(NODES[1], NODES[0])[-1])


def test_a_thousand_hosts_that_come_and_go_leave_shares_that_fill_the_link() -> None:
    policy = CompiledRateLimit(headroom=1.0)
    policy.set_network(star(8), now_ns=MS)
    policy.set_regulated({node: frozenset(NODES) - {node} for node in NODES}, now_ns=MS)
    for number in range(1000):
        now_ns = MS + number * MS
        policy.backlog(FIRST + 1 + number % 7, {FIRST: 5000}, now_ns=now_ns)
        policy.left(FIRST + 1 + (number + 3) % 7, now_ns=now_ns)
        policy.plan(now_ns=now_ns, horizon_ns=now_ns)
    for node in NODES[1:]:
        policy.backlog(node, {FIRST: 5000}, now_ns=2000 * MS)
    plan = policy.plan(now_ns=2000 * MS, horizon_ns=2000 * MS)
    assert {slot.rate_bps for slot in plan.grants} == {100 * MBIT // 7} and len(plan.grants) == 7


if __name__ == "__main__":
    run_state_machine_as_test(BothRates, settings=several(20, 30))  # type: ignore[no-untyped-call]
    print("same plans")
