"""`baton bench random-flows`: what fluids would take, the list of flows, the verdict, and errors of the command."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bench.fabrics import fluid, ideal, random_flows
from bench.fabrics.patterns import SHAPES
from cli.main import main
from emulation.measuring.fidelity import Fidelity
from emulation.traffic.experiment import Flow
from emulation.traffic.flow_run import FlowResult, FlowRun
from emulation.traffic.flow_schedule import Schedule, ScheduledFlow
from topology import shapes
from topology.fabric import DirectedLink

GIGABIT = 10**9
USEFUL, WIRE = ideal.wire_bytes(Flow("tcp", "", ""))
MB_NS = 8_000_000 * WIRE / USEFUL
"""What a megabyte takes on a link of 1 Gb/s alone, with its headers."""


def flow(number: int, start_ms: float, source: str, target: str, size: int = 1_000_000) -> ScheduledFlow:
    return ScheduledFlow(number, round(start_ms * 1e6), source, target, size, 3)


class TestFluids:
    """Completion times on a star of 1 Gb/s, by hand."""

    def took(self, *flows: ScheduledFlow) -> list[float]:
        """In times of a megabyte alone."""
        found = fluid.completion_ns(shapes.build("star", hosts=4, rate_bps=GIGABIT), flows)
        return [found[one.number] / MB_NS for one in flows]

    def test_a_flow_alone_has_the_link(self) -> None:
        assert self.took(flow(0, 0, "h1", "h4")) == [pytest.approx(1)]

    def test_two_at_once_share_it(self) -> None:
        assert self.took(flow(0, 0, "h1", "h4"), flow(1, 0, "h2", "h4")) == pytest.approx([2, 2])

    def test_who_comes_later_has_it_alone_at_the_end(self) -> None:
        half = MB_NS / 2e6
        assert self.took(flow(0, 0, "h1", "h4"), flow(1, half, "h2", "h4")) == pytest.approx([1.5, 1.5], rel=1e-4)

    def test_two_of_a_pair_share_as_two_of_several(self) -> None:
        """So h1 has two thirds of the link, and each of its flows as much as the one of h2."""
        found = self.took(flow(0, 0, "h1", "h4"), flow(1, 0, "h1", "h4"), flow(2, 0, "h2", "h4"))
        assert found == pytest.approx([3, 3, 3])

    def test_a_small_one_overtakes_a_large_one_of_its_pair(self) -> None:
        found = self.took(flow(0, 0, "h1", "h4", 2_000_000), flow(1, 0, "h1", "h4", 500_000))
        assert found == pytest.approx([2.5, 1])

    def test_other_links_do_not_matter(self) -> None:
        assert self.took(flow(0, 0, "h1", "h4"), flow(1, 0, "h2", "h3")) == pytest.approx([1, 1])


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 6), st.integers(1, 6), st.integers(1_000, 10**7)).filter(
            lambda one: one[1] != one[2]
        ),
        max_size=30,
    )
)
def test_every_flow_ends_and_none_sooner_than_alone(drawn: list[tuple[int, int, int, int]]) -> None:
    fabric = SHAPES["three-tier"](GIGABIT, None)
    flows = [flow(number, at, f"h{a}", f"h{b}", size) for number, (at, a, b, size) in enumerate(drawn)]
    found = fluid.completion_ns(fabric, flows)
    assert found.keys() == {one.number for one in flows}
    for one in flows:
        assert found[one.number] >= one.size_bytes / 1e6 * MB_NS * 0.999 - 2


@pytest.mark.parametrize(("receivers", "loads"), [("all", 6), ("one", 1)])
def test_the_flows_have_the_load_that_is_asked_for(receivers: str, loads: int) -> None:
    fabric = SHAPES["three-tier"](GIGABIT, None)
    found = random_flows.flows(fabric, random_flows.Options(receivers=receivers, load=0.5))
    assert found.size_bytes * 8 == pytest.approx(0.5 * loads * GIGABIT * found.length_ns / 1e9)
    assert len({one.destination for one in found.flows}) == loads and found.warm_up_ns == 10**9


def test_slower_links_carry_smaller_flows_in_the_same_time() -> None:
    fast, slow = random_flows.Options(), random_flows.Options(rate_bps=GIGABIT // 10)
    sizes = [
        sum(one.size_bytes for one in random_flows.flows(SHAPES["racks"](options.rate_bps, None), options).flows)
        for options in (fast, slow)
    ]
    assert sizes[0] / sizes[1] == pytest.approx(10, rel=0.2)


def test_the_record_says_how_much_of_the_workload_is_left() -> None:
    record = random_flows._record(random_flows.Options(workload="data_mining"), [], {"completion": {}}, {})
    assert "data_mining without flows above 10 MB (0.0099 of its bytes are left)" in record["scale"]


class TestVerdict:
    """The sentence that compares the default policy with no coordination."""

    @staticmethod
    def run_of(policy: str, **means: float) -> dict[str, Any]:
        return {"policy": policy, "completion": {name: {"mean_ms": mean} for name, mean in means.items()}}

    def of(self, *runs: dict[str, Any]) -> str:
        return random_flows.verdict(runs, self.run_of("fluids", all=1.0))

    def test_a_class_that_takes_longer_is_named(self) -> None:
        found = self.of(self.run_of("uncoordinated", all=5.0, small=2.0), self.run_of("auto", all=4.0, small=3.0))
        assert "4.0 ms under auto, 5.0 uncoordinated, 1.0 of fluids; longer: small 3.0 instead of 2.0 ms" in found

    def test_that_no_class_takes_longer_is_said(self) -> None:
        found = self.of(self.run_of("uncoordinated", all=5.0), self.run_of("auto", all=4.0))
        assert found.endswith("no class takes longer.")

    def test_flows_that_never_ended_are_told(self) -> None:
        """They have no times: who leaves the slow ones open would look fast."""
        fast = self.run_of("auto", all=4.0)
        fast["completion"]["all"] |= {"flows": 750, "incomplete": 300}
        found = self.of(self.run_of("uncoordinated", all=5.0), fast)
        assert "300 of 750 flows under auto never ended" in found and "no class takes longer" not in found

    def test_without_both_nothing_is_compared(self) -> None:
        assert "not both" in self.of(self.run_of("auto", all=4.0))


def test_what_is_sent_again_and_what_is_lost_are_of_the_same_time() -> None:
    ran = [flow(number, at, "h1", "h4") for number, at in enumerate((0, 2000))]
    results = tuple(FlowResult(one, one.start_ns, 1, 1, 100, "", "complete") for one in ran)
    found = FlowRun(results, 3 * 10**9, DirectedLink("s1", "h4"), 0, 0, 0, 0, 0, Fidelity(1.0, 0.0))
    assert random_flows._counts(found, Schedule(tuple(ran), 3 * 10**9, 10**9))["retransmits"] == 100


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--rtt", "1ms"], "--virtual"),
        (["--rate", "1parsec"], "--rate"),
        (["--slice", "soon"], "--slice"),
        (["--load", "2"], "--load"),
        (["--receivers", "none"], "--receivers"),
    ],
)
def test_wrong_options_are_refused_by_name(arguments: list[str], named: str) -> None:
    done = CliRunner().invoke(main, ["bench", "random-flows", *arguments])
    assert done.exit_code == 2 and named in done.output

