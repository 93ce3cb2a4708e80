"""The compiled `auto` gives the plans, and makes the choices, of the reference for the same events; in memory of its own."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from controller.policies.auto import Auto
from controller.policies.base import Policy
from controller.policies.compiled.auto import CompiledAuto
from controller.policies.compiled.batches import BatchPolicy
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.rate_limit import RateLimit
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
        one, other = ({choice["link"]: choice for choice in policy.choices()} for policy in self.policies)
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


def test_both_kinds_give_the_same_plans_for_the_same_events() -> None:
    run_state_machine_as_test(BothAutos, settings=several(20, 20))  # type: ignore[no-untyped-call]


def test_the_compiled_policy_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    """The same events under the address and the undefined-behaviour sanitizers."""
    assert "same plans" in run_with_policies(__name__, tmp_path)


def test_it_takes_batches() -> None:
    assert isinstance(compiled_auto(), BatchPolicy)


if __name__ == "__main__":
    run_state_machine_as_test(BothAutos, settings=several(10, 20))  # type: ignore[no-untyped-call]
    print("same plans")
