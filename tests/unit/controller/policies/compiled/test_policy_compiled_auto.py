"""The compiled `auto` gives the plans, and makes the choices, of the reference for the same events; in memory of its own."""

from __future__ import annotations

import ctypes
from array import array
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from controller.policies.auto import LEAST_SLOTS, RECENT_NS, REVIEW_NS, Auto
from controller.policies.base import Policy, Slot
from controller.policies.choice import LINKS_NAMED
from controller.policies.compiled import library
from controller.policies.compiled.auto import CompiledAuto
from controller.policies.compiled.batches import SLOT_BYTES, Lend, address_of
from controller.policies.compiled.batches import slots as unpacked
from controller.policies.compiled.library import at
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.rates.policy import RateLimit
from controller.policies.timeslice import Timeslice
from tests.unit.controller.policies.compiled.test_policy_compiled import MS, NODE, NODES, BothKinds, several
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, TreeNetwork, racks, star, trees
from tests.unit.controller.policies.policy_sanitized import build_under_test, run_with_policies

RATES = st.sampled_from([0, MBIT, 50 * MBIT])


def compiled_auto() -> CompiledAuto:
    """The compiled policy, of the builds under test."""
    turns = CompiledTimeslice(library=build_under_test("schedule"))
    rates = CompiledRateLimit(library=build_under_test("rates"))
    return CompiledAuto(turns, rates, library=build_under_test("choices"))


class BothAutos(BothKinds):
    """The same events to both kinds of `auto`."""

    @initialize(
        drawn=st.lists(trees(8), min_size=1, max_size=2),
        first=st.integers(0, 3),
        lead_ns=st.sampled_from([0, MS // 2, 5 * MS]),
        crowded=st.booleans(),
        quick=st.booleans(),
    )
    def begin(  # type: ignore[override]
        self, drawn: list[TreeNetwork], first: int, lead_ns: int, crowded: bool, quick: bool
    ) -> None:
        self.policies: tuple[Policy, Policy] = Auto(Timeslice(), RateLimit()), compiled_auto()
        for node in NODES if quick else ():
            self.each(lambda policy, node=node: policy.set_delay(node, 10_000))  # type: ignore[misc]
        networks = [star(8), racks(2, 4, uplink_bps=2 * GBIT), star(8, rates={FIRST: GBIT}), *drawn]
        self.start(networks, first, lead_ns, crowded)

    def plan(self) -> None:
        super().plan()
        one, other = (
            {
                (row["mode"], row["why"]): (row["count"], set(row["links"]) if row["count"] <= LINKS_NAMED else None)
                for row in policy.choices()
            }
            for policy in self.policies
        )
        assert one == other

    @rule(ends=st.frozensets(NODE, max_size=3), uplinks=st.booleans())
    def contended(self, ends: frozenset[int], uplinks: bool) -> None:
        network = self.networks[0] if not uplinks else self.networks[1]
        links = {network.path(FIRST if end != FIRST else FIRST + 1, end)[-1] for end in ends}
        if uplinks:
            links.add(network.path(FIRST, FIRST + 7)[1])
        self.each(lambda policy: policy.set_contended(frozenset(links)))
        self.plan()

    @rule(node=NODE, rates_bps=st.dictionaries(NODE, RATES, max_size=8))
    def reported(self, node: int, rates_bps: dict[int, int]) -> None:
        self.each(lambda policy: policy.sent(node, rates_bps, now_ns=self.now_ns))
        self.plan()

    @rule(seconds=st.sampled_from([0.3, 1.1, 2.5, 11.0]))
    def a_long_time_passes(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1000) * MS
        self.plan()

    @rule(end=NODE, senders=st.integers(1, 6), wasted=st.booleans(), slices=st.integers(10, 120))
    def many_send_to_one(self, end: int, senders: int, wasted: bool, slices: int) -> None:
        """Until turns have begun and it can be said how much of them is used."""
        nodes = [node for node in NODES if node != end][:senders]
        for _ in range(slices):
            for node in nodes:
                self.say(node, {end: (5000, 0)})
            for slot in list(self.slots.values()):
                if wasted and slot.bytes and slot.start_ns <= self.now_ns < slot.end_ns:
                    self.give_back(slot, 5000, slot.bytes // 2)
            self.now_ns += 2 * MS
            self.plan()


@pytest.mark.hypothesis
def test_both_kinds_give_the_same_plans_for_the_same_events() -> None:
    run_state_machine_as_test(BothAutos, settings=several(20, 20))  # type: ignore[no-untyped-call]


def test_the_compiled_policy_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    """The same events under the address and the undefined-behaviour sanitizers."""
    assert "same plans" in run_with_policies(__name__, tmp_path)


def test_a_group_that_has_the_choice_of_one_before_it_follows_what_that_one_has_chosen_now() -> None:
    """Two links were one group, and have one choice. They part; the first one leaves turns, and so does the other, which
    is one with a third link now that takes turns."""
    network = star(8)
    a, b, c, g, d, e, f = network.nodes[:7]
    link = {end: network.path(end + 1, end)[-1] for end in (d, e, f)}
    policies = Auto(Timeslice(), RateLimit()), compiled_auto()
    rows: list[dict[object, str]] = []
    for policy in policies:
        policy.set_network(network, now_ns=MS)
        for node in network.nodes:
            policy.set_delay(node, 10_000)
        policy.set_contended(frozenset(link.values()))
        policy.set_regulated({node: frozenset(network.nodes) - {node} for node in network.nodes}, now_ns=MS)

        def say(pairs: dict[int, tuple[int, ...]], begin_ms: int, end_ms: int, policy: Policy = policy) -> None:
            for now_ns in range(begin_ms * MS, end_ms * MS, 50 * MS):
                for node, ends in pairs.items():
                    policy.backlog(node, dict.fromkeys(ends, 5000), now_ns=now_ns)
                policy.plan(now_ns=now_ns, horizon_ns=now_ns)

        say({b: (d,), a: (d, e), g: (f,), c: (e,)}, 2, 3000)
        assert [(row["mode"], row["count"]) for row in policy.choices()] == [("turns", 3)]
        policy.backlog(a, {}, now_ns=3000 * MS)
        say({b: (d,), g: (f,), c: (e,)}, 3001, 5000)
        policy.set_delay(b, 50 * MS)
        policy.backlog(c, {e: 5000, f: 5000}, now_ns=5000 * MS)
        policy.plan(now_ns=5000 * MS, horizon_ns=5000 * MS)
        rows.append({one: row["mode"] for row in policy.choices() for one in row["links"]})
    assert rows[0] == rows[1] == dict.fromkeys(link.values(), "rates")


def dealt(policy: CompiledAuto, turns: bool) -> set[tuple[int, int]]:
    """The pairs that were given to turns, or to rates."""
    its = library.Dealt.from_address(policy._c.choices_dealt(policy._core, turns))
    nodes = (ctypes.c_uint32 * its.count).from_address(its.nodes)
    offsets = (ctypes.c_uint32 * (its.count + 1)).from_address(its.offsets)
    destinations = (ctypes.c_uint32 * its.total).from_address(its.destinations)
    return {(node, to) for one, node in enumerate(nodes) for to in destinations[offsets[one] : offsets[one + 1]]}


def hosts_speak_while_groups_are_found(seed: int) -> None:
    """As in the coordinator, where the loop of slots has the lock in the pauses of a review: it tells backlogs, plans, counts
    what it granted, and takes slots back."""
    dice, policy, nodes = Random(seed), compiled_auto(), list(range(FIRST, FIRST + 300))
    network, now_ns, pauses = racks(3, 100), MS, 0
    waiting: dict[int, set[int]] = {}
    told_ns: dict[tuple[int, int], int] = {}
    slots: dict[int, Slot] = {}
    returned: list[Slot] = []
    faults: list[BaseException] = []

    def tell(node: int, destinations: list[int]) -> None:
        told = [array("I", one) for one in ((node,), (0, len(destinations)), destinations)]
        policy._c.choices_backlogs(policy._core, now_ns, 1, *map(at, told), None)
        for part in policy.parts():
            part._c_backlogs(part._core, now_ns, 1, *map(at, told), None)
        waiting[node] = set(destinations)
        told_ns.update({(node, to): now_ns for to in destinations})

    def meddle() -> None:
        for node in dice.sample(nodes, 3):
            tell(node, dice.sample([other for other in nodes if other != node], dice.choice([0, 2, 9])))
        for part in policy.parts():
            grants, revokes = part.packed_plan(now_ns, now_ns)
            policy._c.choices_count(policy._core, len(grants) // SLOT_BYTES, grants)
            for slot in unpacked(revokes):
                slots.pop(slot.slot, None)
            slots.update((slot.slot, slot) for slot in unpacked(grants) if slot.bytes)
        for slot in dice.sample(list(slots.values()), min(5, len(slots))):
            told = array("q", (slot.slot, slot.node, slot.destination, 100, 5000))
            policy._c.choices_yields(policy._core, now_ns, 1, at(told))
            for part in policy.parts():
                part._c_yields(part._core, now_ns, 1, at(told))
            waiting.setdefault(slot.node, set()).add(slot.destination)
            told_ns[slot.node, slot.destination] = now_ns
            del slots[slot.slot]
            returned.append(slot)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def lend(_: int | None) -> None:
        nonlocal pauses
        try:
            meddle()
            pauses += 1
        except BaseException as error:  # which C can't raise
            faults.append(error)

    for node in nodes:
        policy.set_delay(node, 10_000)
    policy.set_network(network, now_ns=now_ns)
    policy.set_contended(frozenset(network.path(nodes[0], node)[-1] for node in nodes[1::2]))
    policy.set_regulated({node: frozenset(nodes) - {node} for node in nodes}, now_ns=now_ns)
    for node in nodes:
        tell(node, dice.sample([other for other in nodes if other != node], dice.choice([1, 8])))
    for _ in range(12):
        now_ns += dice.choice([1, 300, 1200]) * MS
        policy.share(nullcontext(), lambda now_ns: now_ns, Lend(address_of(lend), 0))
        policy.attend(now_ns=now_ns)
        policy.share(nullcontext(), lambda now_ns: now_ns)
        now_ns += REVIEW_NS
        policy.attend(now_ns=now_ns)
        assert policy._sending.value == sum(now_ns - then_ns < RECENT_NS for then_ns in told_ns.values())
        in_turns, in_rates = dealt(policy, turns=True), dealt(policy, turns=False)
        assert not faults and not in_turns & in_rates
        assert in_turns | in_rates >= {(node, to) for node, its in waiting.items() for to in its}
    assert returned, "some took turns"
    for node in nodes:
        tell(node, [])
    for _ in range(2):
        now_ns += 2 * RECENT_NS
        policy.attend(now_ns=now_ns)
        policy._review(now_ns)
    assert policy._c.choices_pairs(policy._core, 0, None, None) <= LEAST_SLOTS, "no turn is kept for ever"
    assert pauses > 12 * 4, "some thousand pairs are no piece of work to be done in one go"


@pytest.mark.parametrize("seed", range(3))
def test_what_hosts_say_while_groups_are_found_counts_and_each_pair_has_one_policy(seed: int) -> None:
    hosts_speak_while_groups_are_found(seed)


if __name__ == "__main__":
    run_state_machine_as_test(BothAutos, settings=several(10, 20))  # type: ignore[no-untyped-call]
    hosts_speak_while_groups_are_found(0)
    print("same plans")
