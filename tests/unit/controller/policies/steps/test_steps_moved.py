"""A node that leaves and comes back at another place of the same network is planned where it is now."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import pytest

from controller.policies.base import Policy, Slot
from controller.policies.compiled.steps import CompiledSteps
from controller.policies.steps.policy import Steps
from tests.unit.controller.policies.policy_networks import racks

GBIT, MS, STEP = 10**9, 10**6, 2 * 10**6
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


class Racks:
    """Nodes in racks, each joined to the core by a link that carries as much as one node sends."""

    def __init__(self) -> None:
        self.rack_of = dict(RACKS)

    def path(self, source: int, destination: int) -> tuple[Hashable, ...]:
        one, other = self.rack_of[source], self.rack_of[destination]
        middle = () if one == other else ((one, "core"), ("core", other))
        return ((source, one), *middle, (other, destination))

    def capacity_bps(self, _: Hashable) -> int:
        return GBIT

    def node_rate_bps(self, _: int) -> int:
        return GBIT


@pytest.mark.parametrize("make", [Steps, CompiledSteps])
@pytest.mark.parametrize("mover", [1, 3])  # the first one is by whose place the others' are known
def test_no_link_of_its_new_place_is_granted_twice(make: type[Policy], mover: int) -> None:
    policy, network = make(), Racks()
    policy.set_network(network, now_ns=MS)
    policy.set_regulated({node: RACKS.keys() - {node} for node in RACKS}, now_ns=MS)
    for node in RACKS:
        policy.backlog(node, {other: 10**6 for other in RACKS if other != node}, now_ns=MS)
    now_ns = MS
    for _ in range(20):
        policy.plan(now_ns=now_ns, horizon_ns=(now_ns := now_ns + STEP))
    policy.left(mover, now_ns=now_ns)
    for node in RACKS.keys() - {mover}:
        policy.backlog(node, {}, now_ns=now_ns)
    policy.plan(now_ns=now_ns, horizon_ns=now_ns)
    network.rack_of[mover] = "c"
    senders = {mover: 2 if mover == 1 else 1, 5: 4, 6: 3 if mover == 1 else 2}  # all from one rack to three nodes
    for node, other in senders.items():
        policy.backlog(node, {other: 10**9}, now_ns=now_ns)
    slots: list[Slot] = []
    now_ns += 4 * STEP
    for _ in range(20):
        slots += policy.plan(now_ns=now_ns, horizon_ns=(now_ns := now_ns + STEP)).grants
    assert {slot.node for slot in slots} == senders.keys()
    for slot in slots:
        together = [one for one in slots if one.start_ns <= slot.start_ns < one.end_ns]
        crossing = [one for one in together if ("c", "core") in network.path(one.node, one.destination)]
        assert sum(one.reserved_bps for one in crossing) <= GBIT, slot


def test_memory_does_not_grow_with_the_host_by_which_places_are_known_that_comes_and_goes() -> None:
    policy, network, now_ns = CompiledSteps(), racks(40, 2), MS
    nodes = sorted(network.nodes)
    everyone = {node: frozenset(nodes) - {node} for node in nodes}
    policy.set_network(network, now_ns=now_ns)
    sizes = []
    for _ in range(1500):
        policy.left(nodes[0], now_ns=now_ns)
        policy.set_regulated(everyone, now_ns=now_ns)
        policy.backlog(nodes[0], dict.fromkeys(nodes[2::2], 10**6), now_ns=now_ns)
        policy.plan(now_ns=now_ns, horizon_ns=now_ns)
        now_ns += 2 * STEP
        sizes.append(int(Path("/proc/self/statm").read_text().split()[1]))
    assert sizes[-1] - sizes[500] < 200, "pages"
