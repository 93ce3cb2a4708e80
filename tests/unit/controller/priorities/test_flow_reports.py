"""Size reports added up, and thresholds from period to period."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.priorities.size_counts import SizeCounts
from controller.priorities.completion_model import Thresholds, whole
from controller.priorities.flow_reports import MAX_LOAD, MEMORY, MIN_FLOWS, FlowCounts, Reported
from controller.priorities.thresholds import optimise
from controller.priorities.tuning import Tuning, explain
from protocol.bodies.flows.priorities import SizeCount, size_reports
from protocol.bodies.flows.size_bins import EDGES, bin_of
from protocol.messages import SizeReport
from protocol.units import COUNT_MAX
from tests.unit.protocol.protocol_strategies import PROPERTY

RATE_BPS, PERIOD_NS = 8_000_000_000, 1_000_000_000
CAPACITY = 10**9


def reported(*counts: SizeCount) -> list[Reported]:
    return [Reported(RATE_BPS, report.period_ns, report.rows) for report in size_reports(1, PERIOD_NS, counts)]


def flows(flow_type: int, size: int, count: int) -> SizeCount:
    return SizeCount(flow_type, bin_of(size), count, size * count)


host_counts = st.lists(st.builds(flows, st.integers(1, 3), st.integers(1, 10**5), st.integers(0, 100)), max_size=150)


class TestAggregation:
    """Counts add up, over hosts and pages, whatever their order."""

    @given(st.lists(host_counts, max_size=6))
    @PROPERTY
    def test_every_flow_and_byte_is_counted_once_in_its_place(self, hosts: list[list[SizeCount]]) -> None:
        expected_flows, expected_bytes = np.zeros((2, 3, len(EDGES) - 1))
        for count in (count for host in hosts for count in host):
            expected_flows[count.type - 1, count.bin] += count.flows
            expected_bytes[count.type - 1, count.bin] += count.bytes
        found = FlowCounts.of(report for host in hosts for report in reported(*host))
        assert np.allclose(found.flows, expected_flows, rtol=1e-12)
        assert np.allclose(found.bytes, expected_bytes, rtol=1e-12)
        assert found.capacity_bytes == len(hosts) * CAPACITY

    @given(host_counts, host_counts)
    @PROPERTY
    def test_two_aggregates_together_are_the_aggregate_of_all(self, one: list[SizeCount], two: list[SizeCount]) -> None:
        together = FlowCounts.of(reported(*one) + reported(*two))
        apart = FlowCounts.of(reported(*one)) + FlowCounts.of(reported(*two))
        assert np.allclose(together.bytes, apart.bytes, rtol=1e-12)
        assert np.allclose(together.flows, apart.flows, rtol=1e-12)

    def test_a_lost_report_changes_no_load(self) -> None:
        host = reported(flows(2, 10_000, 1000), flows(3, 50_000, 1000))
        assert FlowCounts.of(host * 9).loads() == pytest.approx(FlowCounts.of(host * 10).loads())

    def test_a_host_counts_what_ended_by_type_and_size_and_a_coflows_flows_as_load_alone(self) -> None:
        counts = SizeCounts()
        for flow_type, size in ((1, 10), (2, 10), (2, 11), (3, 10**9), (4, 10), (3, 0)):
            counts.add(flow_type, size)
        assert counts.take() == [SizeCount(1, bin_of(10), 2, 20), SizeCount(2, bin_of(10), 2, 21), flows(3, 10**9, 1)]
        assert counts.take() == []


class TestTraffic:
    """What thresholds are computed for."""

    def test_loads_are_shares_of_the_hosts_links(self) -> None:
        traffic = FlowCounts.of(reported(flows(1, 10**6, 100), flows(2, 10**6, 200), flows(3, 10**6, 300))).traffic()
        assert traffic is not None
        assert (traffic.load_1, traffic.load_2, traffic.load_3) == pytest.approx((0.1, 0.2, 0.3))

    def test_the_busiest_link_sets_the_sum_and_the_reports_the_shares(self) -> None:
        counts = FlowCounts.of(reported(flows(2, 10**6, 100), flows(3, 10**6, 100)))
        traffic = counts.traffic(0.8)
        assert traffic is not None
        assert (traffic.load_2, traffic.load_3) == pytest.approx((0.4, 0.4))

    def test_an_overloaded_link_still_has_a_model(self) -> None:
        traffic = FlowCounts.of(reported(flows(3, 10**6, 5000))).traffic(1.2)
        assert traffic is not None and traffic.load_3 == pytest.approx(MAX_LOAD)

    def test_too_few_flows_are_no_distribution(self) -> None:
        assert FlowCounts.of(reported(flows(3, 1000, MIN_FLOWS - 1))).traffic() is None
        assert FlowCounts.of(reported(flows(1, 1000, 10 * MIN_FLOWS))).traffic() is None
        assert FlowCounts.of([]).traffic(0.5) is None

    @pytest.mark.parametrize("stays", [1, 2, 3])
    def test_types_that_have_faded_away_are_no_traffic_and_break_no_model(self, stays: int) -> None:
        counts = FlowCounts.of(reported(flows(2, 5_000, 300), flows(3, 100_000, 300)))
        for _ in range(200):
            counts = counts.faded() + FlowCounts.of(reported(flows(stays, 100_000, 300)))
        traffic = counts.traffic(0.3)
        if stays == 1:
            assert traffic is None
            return
        assert traffic is not None and [load > 0 for load in (traffic.load_2, traffic.load_3)] == [stays == 2, stays == 3]
        found = optimise(traffic, 7).thresholds
        assert found.beta == found.alpha, "the first flows of the other type are not all in one band"

    def test_after_a_night_without_flows_there_is_no_traffic(self) -> None:
        counts = FlowCounts.of(reported(flows(2, 5_000, 300)))
        for _ in range(2_000):
            counts = counts.faded() + FlowCounts.of(reported())
        assert 0 < counts.loads()[1] < 1e-300 and counts.traffic(0.3) is None

    def test_a_type_of_which_no_flow_has_ended_for_hours_is_left_out_beside_another(self) -> None:
        counts, fresh = FlowCounts.of(reported(flows(3, 5_000, 3))), FlowCounts.of(reported(flows(2, 5_000, 600)))
        for _ in range(2_500):
            counts = counts.faded() + fresh
        traffic = counts.traffic()
        assert counts.flows[2].any() and traffic is not None and (traffic.load_3, traffic.sizes_3) == (0, None)

    def test_flows_without_bytes_are_no_traffic(self) -> None:
        counts = FlowCounts.of(reported(flows(1, 100_000, 300), flows(2, 5_000, 300)))
        counts.bytes[1] = 0
        assert counts.traffic() is None

    def test_flows_among_few_others_count_in_the_bins_around_and_none_is_lost(self) -> None:
        many, one, first = bin_of(100_000), bin_of(10**9), 0
        reported = np.zeros_like(FlowCounts.none().flows)
        for at, number in ((many, 1_000), (one, 5), (first, 10)):
            reported[2, at] = number
        traffic = FlowCounts(reported, reported * 1_000, 1e9).traffic()
        assert traffic is not None and traffic.sizes_3 is not None
        finished = traffic.sizes_3.partial([*map(float, EDGES)]).finished * 1_015
        flows = np.diff(finished)
        assert flows[many] == pytest.approx(1_000) and flows[many - 1] == pytest.approx(0, abs=1e-6)
        assert flows[one - 3 : one + 4] == pytest.approx([0, 1, 1, 1, 1, 1, 0], abs=1e-6)
        assert flows[:4] == pytest.approx([6, 2, 2, 0], abs=1e-6) and finished[-1] == pytest.approx(1_015)

    def test_older_periods_count_less_with_the_same_loads(self) -> None:
        counts = FlowCounts.of(reported(flows(3, 1000, 1000)))
        assert counts.faded().flows.sum() == pytest.approx(1000 * MEMORY)
        assert counts.faded().loads() == pytest.approx(counts.loads())

    def test_where_few_flows_end_in_a_period_they_add_up_to_enough(self) -> None:
        """Thirty flows a period: faded to 0.7 each time they would never be more than the hundred that are wanted."""
        counts = FlowCounts.none()
        found = []
        for _ in range(12):
            counts = counts.faded() + FlowCounts.of(reported(flows(3, 1000, 30)))
            found.append(counts.traffic() is not None)
        assert found[-1] and not found[0] and counts.flows.sum() > 2 * MIN_FLOWS
        busy = counts.loads()
        nothing = FlowCounts.none()
        quiet = counts.faded() + FlowCounts(nothing.flows, nothing.bytes, counts.capacity_bytes)
        assert quiet.flows.sum() > 1.5 * MIN_FLOWS and quiet.loads()[2] < busy[2]


def period(tuning: Tuning, *counts: SizeCount) -> dict[str, Any]:
    for report in reported(*counts):
        tuning.take({"sizes": [report.rate_bps, report.period_ns, report.rows.hex()]})
    return tuning.period()


SHORT = [flows(3, 1 << exponent, 40_000 >> exponent) for exponent in range(8, 15)]
LONG = [flows(3, 1 << exponent, 4_000_000 >> exponent) for exponent in range(12, 22)]


class TestTuning:
    """Period after period."""

    def test_nothing_is_said_before_there_are_flows(self) -> None:
        found = period(Tuning(3))
        assert (found["changed"], found["thresholds"], found["reports"]) == (False, None, 1)

    def test_the_first_thresholds_are_all_new_and_certified(self) -> None:
        found = period(Tuning(3), *SHORT)
        assert found["changed"] and set(found["moved"]) == {"beta[0]", "beta[1]", "alpha[0]", "alpha[1]"}
        assert found["gap"] < 0.02
        assert explain(found).startswith("first thresholds: beta[0] ")

    def test_the_same_traffic_again_moves_nothing(self) -> None:
        tuning = Tuning(3)
        before = period(tuning, *SHORT)["thresholds"]
        again = period(tuning, *SHORT)
        assert not again["changed"] and again["thresholds"] == before

    def test_another_workload_moves_them_and_tells_the_gain(self) -> None:
        tuning = Tuning(3)
        before = period(tuning, *SHORT)["thresholds"]
        found = [period(tuning, *LONG) for _ in range(6)]
        first = next(one for one in found if one["changed"])
        assert first["gain"] >= 0.02 and first["mean_fct_ms"] < first["mean_fct_before_ms"]
        assert found[-1]["thresholds"]["alpha"] > before["alpha"]
        assert "less" in explain(first)

    def test_a_period_without_reports_keeps_what_is_in_force(self) -> None:
        tuning = Tuning(3)
        before = period(tuning, *SHORT)["thresholds"]
        for _ in range(30):
            assert tuning.period()["thresholds"] == before

    def test_it_goes_on_from_what_is_in_force_unless_for_another_number_of_bands(self) -> None:
        in_force = {"beta": [1000, 5000], "alpha": [1000, 5000]}
        assert Tuning(3, in_force).period()["thresholds"] == in_force
        assert Tuning(4, in_force).period()["thresholds"] is None


def test_rows_of_a_report_are_read_as_they_are_on_the_wire() -> None:
    size = 6 * EDGES[5] + 1
    (report,) = size_reports(1, PERIOD_NS, [SizeCount(2, 5, 6, size)])
    assert report == SizeReport(1, PERIOD_NS, b"\2\5" + (6).to_bytes(4, "big") + size.to_bytes(8, "big"))
    found = FlowCounts.of([Reported(RATE_BPS, PERIOD_NS, report.rows)])
    assert (found.flows[1, 5], found.bytes[1, 5]) == (6, size)
    assert found.histogram(2) == [(EDGES[5], 6, size)]


@pytest.mark.parametrize(("told", "each"), [(2**64 - 1, EDGES[6]), (0, EDGES[5])])
def test_flows_count_as_no_more_and_no_fewer_bytes_than_their_bin_has(told: int, each: int) -> None:
    assert FlowCounts.of(reported(SizeCount(2, 5, 6, told)) * 2).histogram(2) == [(EDGES[5], 12, 12 * each)]


class TestAHostThatIsWrong:
    """One report can't decide for all hosts, and no thresholds leave 64 bits."""

    @staticmethod
    def honest(host: int) -> Reported:
        rows = [flows(3, size, count) for size, count in ((2_000 + host, 200), (50_000, 60), (1_000_000, 8), (20_000_000, 1))]
        return reported(*rows)[0]

    @pytest.mark.parametrize(
        "row",
        [
            SizeCount(3, bin_of(20_000_000), 2**32 - 1, 1000),
            SizeCount(3, len(EDGES) - 2, 200, 2**63),
            SizeCount(1, bin_of(150), 1, COUNT_MAX),
        ],
    )
    def test_a_single_report_costs_the_others_little(self, row: SizeCount) -> None:
        reports = [self.honest(host) for host in range(16)]
        true = FlowCounts.of(reports).traffic(0.7)
        told = FlowCounts.of([*reports, *reported(row)]).traffic(0.7)
        assert true is not None and told is not None
        best, found = optimise(true, 7), optimise(told, 7)
        assert true.mean_fct(found.thresholds) <= 1.25 * best.value

    def test_a_period_without_end_takes_no_load_away(self) -> None:
        reports = [self.honest(host) for host in range(16)]
        loads = FlowCounts.of([*reports, Reported(RATE_BPS, 2**64 - 1, b"")]).loads()
        assert loads[2] > 0.5 * FlowCounts.of(reports).loads()[2]

    def test_thresholds_fit_on_the_wire(self) -> None:
        assert whole([8.0, float(EDGES[-1])], [5.0, float(EDGES[-1])]) == Thresholds((8, COUNT_MAX), (5, COUNT_MAX))
