"""Pairs that are regulated by groups are granted the same slots as when they are listed, under every policy with slots."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.policies.auto import Auto
from controller.policies.base import Plan, Policy
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.groups import Groups
from controller.policies.rates.policy import RateLimit
from controller.policies.timeslice import Timeslice
from tests.unit.controller.policies.policy_networks import TreeNetwork, racks, trees

MS = 1_000_000
MAKE: dict[str, Callable[[], Policy]] = {
    "timeslice": Timeslice,
    "compiled timeslice": CompiledTimeslice,
    "rate_limit": RateLimit,
    "compiled rate_limit": CompiledRateLimit,
    "auto": lambda: Auto(Timeslice(), RateLimit()),
    "compiled auto": lambda: Auto(CompiledTimeslice(), CompiledRateLimit()),
}


def plans(policy: Policy, network: TreeNetwork, contended: list[frozenset], events: list, listed: bool) -> list[Plan]:
    """What a policy plans when groups of links become contended and backlogs come."""
    found = []
    policy.set_network(network, now_ns=0)
    for step, (links, backlogs) in enumerate(zip(contended, events, strict=True)):
        now_ns = step * 3 * MS
        groups = Groups(links, network)
        policy.set_contended(links)
        policy.set_regulated({node: frozenset(its) for node, its in groups.items()} if listed else groups, now_ns=now_ns)
        for node, waiting in backlogs.items():
            policy.backlog(node, dict.fromkeys(waiting, 100_000), now_ns=now_ns)
        found.append(policy.plan(now_ns=now_ns, horizon_ns=now_ns + 2 * MS))
    return found


@pytest.mark.parametrize("name", MAKE)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_groups_and_lists_lead_to_the_same_slots(name: str, data: st.DataObject) -> None:
    network = data.draw(trees())
    links = sorted({link for a in network.nodes for b in network.nodes for link in network.path(a, b)}, key=str)
    steps = data.draw(st.integers(1, 4))
    some = st.frozensets(st.sampled_from(links))
    contended = data.draw(st.lists(some, min_size=steps, max_size=steps))
    nodes = st.sampled_from(network.nodes)
    backlog = st.dictionaries(nodes, st.sets(nodes), max_size=4).map(
        lambda told: {node: sorted(its - {node}) for node, its in told.items()}
    )
    events = data.draw(st.lists(backlog, min_size=steps, max_size=steps))
    assert plans(MAKE[name](), network, contended, events, True) == plans(MAKE[name](), network, contended, events, False)


class Counting(Groups):
    """Groups that count how often a pair is asked for."""

    asked = 0

    def has(self, node: int, destination: int) -> bool:
        Counting.asked += 1
        return super().has(node, destination)


def test_a_policy_asks_for_the_pairs_that_were_backlogged_and_not_for_all() -> None:
    network = racks(10, 10)
    policy = CompiledTimeslice()
    policy.set_network(network, now_ns=0)
    groups = Counting(frozenset({("core", "r0")}), network)
    Counting.asked = 0
    policy.set_regulated(groups, now_ns=0)
    assert Counting.asked == 0
    for node in network.nodes[50:60]:
        policy.backlog(node, {network.nodes[0]: 10_000}, now_ns=0)
    assert policy.plan(now_ns=0, horizon_ns=2 * MS).grants
    assert Counting.asked <= 10 + sum(range(11))
