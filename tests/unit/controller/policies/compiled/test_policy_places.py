"""Places of pairs in a new network: found while nobody waits for the lock; pairs that come meanwhile get theirs."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from types import TracebackType

import pytest

from controller.policies.compiled.auto import CompiledAuto
from controller.policies.compiled.batches import Batched
from controller.policies.compiled.library import POINTER, at
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.steps import CompiledSteps
from controller.policies.compiled.timeslice import CompiledTimeslice
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, Link, TreeNetwork, racks

MS = 10**6
MAKES: dict[str, Callable[[], Batched]] = {
    "timeslice": CompiledTimeslice,
    "rate_limit": CompiledRateLimit,
    "steps": CompiledSteps,
    "auto": lambda: CompiledAuto(CompiledTimeslice(), CompiledRateLimit()),
}
BACKLOGS = ctypes.CFUNCTYPE(None, POINTER, ctypes.c_int64, ctypes.c_uint32, POINTER, POINTER, POINTER, POINTER)
HOSTS = 4
"""Of each of the two racks."""
PAIRS = {FIRST + at: {FIRST + HOSTS + at} for at in range(HOSTS)}
"""Each host of the first rack sends to one of the second."""


class Lock:
    """A lock of one thread that knows whether it is held."""

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.depth -= 1


class Observed(TreeNetwork):
    """A network that has something done whenever it is asked for a path."""

    def __init__(self, network: TreeNetwork, asked: Callable[[int, int], None]) -> None:
        super().__init__(network._tree, network._capacities, network._rates)
        self._asked = asked

    def path(self, source: int, destination: int) -> tuple[Link, ...]:
        self._asked(source, destination)
        return super().path(source, destination)


def waiting(policy: Batched, nodes: int) -> None:
    """All pairs are regulated, and these first hosts have bytes for theirs."""
    policy.set_contended(frozenset({("r0", "core")}))
    policy.set_regulated(PAIRS, now_ns=0)
    for node in range(FIRST, FIRST + nodes):
        policy.backlog(node, dict.fromkeys(PAIRS[node], 10**6), now_ns=0)


def granted(policy: Batched, now_ns: int) -> set[int]:
    """The hosts that get something, now or when directives may rise."""
    return {
        slot.node
        for then_ns in range(now_ns, now_ns + 60 * MS, MS)
        for slot in policy.plan(now_ns=then_ns, horizon_ns=then_ns + MS).grants
    }


@pytest.mark.parametrize("name", MAKES)
def test_paths_are_looked_up_while_nobody_waits_for_the_lock(name: str) -> None:
    policy, lock, depths = MAKES[name](), Lock(), list[int]()
    policy.share(lock, lambda now_ns: now_ns)
    policy.set_network(racks(2, HOSTS), now_ns=0)
    waiting(policy, HOSTS)
    assert granted(policy, 0) == PAIRS.keys()
    policy.set_network(Observed(racks(2, HOSTS, uplink_bps=2 * GBIT), lambda *_: depths.append(lock.depth)), now_ns=100 * MS)
    assert depths and not any(depths)
    assert granted(policy, 100 * MS) == PAIRS.keys()


@pytest.mark.parametrize("name", MAKES)
def test_who_begins_to_wait_while_places_are_found_is_granted_in_the_new_network(name: str) -> None:
    policy, begun = MAKES[name](), list[int]()
    policy.set_network(racks(2, HOSTS), now_ns=0)
    waiting(policy, HOSTS - 1)
    last = FIRST + HOSTS - 1

    def asked(_: int, __: int) -> None:
        if not begun:
            begun.append(last)
            policy.backlog(last, dict.fromkeys(PAIRS[last], 10**6), now_ns=MS)

    policy.set_network(Observed(racks(2, HOSTS), asked), now_ns=MS)
    assert begun
    assert last in granted(policy, 2 * MS)


@pytest.mark.parametrize("name", MAKES)
def test_a_member_without_a_place_in_the_new_network_gets_nothing_and_the_others_do(name: str) -> None:
    policy, network = MAKES[name](), racks(2, HOSTS)
    policy.set_network(network, now_ns=0)
    waiting(policy, HOSTS)
    assert granted(policy, 0) == PAIRS.keys()
    less = racks(2, HOSTS)
    less.remove(FIRST)
    policy.set_network(less, now_ns=200 * MS)
    assert granted(policy, 201 * MS) == PAIRS.keys() - {FIRST}


@pytest.mark.parametrize("name", ["timeslice", "rate_limit", "auto"])
@pytest.mark.parametrize("changed", [{}, {("r0", "core"): 0.75}], ids=["unchanged", "recharged"])
def test_who_begins_to_wait_before_capacities_change_is_granted_all_the_same(
    name: str, changed: dict[tuple[str, str], float]
) -> None:
    """The loop of slots tells the cores of a backlog; Python gives the pair its place later."""
    policy, network = MAKES[name](), racks(2, HOSTS)
    policy.share(Lock(), lambda now_ns: now_ns)
    policy.set_network(network, now_ns=0)
    policy.set_contended(frozenset({("r0", "core")}))
    policy.set_regulated(PAIRS, now_ns=0)
    node, offset, destination = array("I", [FIRST]), array("I", [0, 1]), array("I", [*PAIRS[FIRST]])
    planners, chooser = policy.cores()
    for core in (planners if chooser is None else (chooser, *planners)):
        BACKLOGS(core.backlogs)(core.core, 0, 1, at(node), at(offset), at(destination), None)
    if changed:
        policy.set_network(network.times(changed), now_ns=1)
    policy.meet(node, offset, destination)
    policy.attend(now_ns=2)
    assert granted(policy, 2) == {FIRST}
