"""Karuna's experiments at other rates, with the congestion controls that a kernel has, and beside the published values."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from agents.priorities.congestion_control import DCTCP, MCP, CongestionControl
from bench.karuna import FIGURES
from bench.karuna.record import Options, sizes_of
from cli.main import main
from controller.priorities.completion_model import Thresholds
from emulation.stack import schemes
from emulation.traffic.flow_schedule import ScheduledFlow

GIGABIT = 1_000_000_000


def kernel(dctcp: str, mcp: str) -> CongestionControl:
    """A stand-in that has only the names."""
    return cast(CongestionControl, SimpleNamespace(dctcp=dctcp, mcp=mcp))


class TestRates:
    """Faster links: larger flows in the same times, and thresholds as the papers have them."""

    def test_flows_are_of_the_published_sizes_at_the_published_rate(self) -> None:
        slow, fast = Options(), Options(rate_bps=GIGABIT)
        assert (slow.scale, fast.scale) == (0.1, 1)
        assert sizes_of("web_search", fast).sizes[-1] == pytest.approx(10 * sizes_of("web_search", slow).sizes[-1])
        assert (slow.sized(250_000), fast.sized(250_000)) == (250_000, 2_500_000)

    @pytest.mark.parametrize(("rate_bps", "marking", "buffer"), [(10**8, 20, 100), (10**9, 20, 100), (10**10, 65, 325)])
    def test_ports_mark_at_20_packets_and_at_65_from_10_gbps_on(self, rate_bps: int, marking: int, buffer: int) -> None:
        queues = schemes.dctcp().at_rate(rate_bps).queues()
        assert queues.marking_threshold_bytes == marking * 1514 and queues.buffer_packets == buffer
        assert schemes.cubic().at_rate(rate_bps).marking_packets is None

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (("deadlines", "--rate", "10gbit", "--virtual"), "deadlines cannot have 10gbit; write 100mbit or 1gbit"),
            (("microbench", "--rate", "5gbit", "--virtual"), "microbench cannot have 5gbit; write 100mbit, 1gbit or 10gbit"),
            (("microbench", "--rate", "10gbit"), "needs --virtual"),
            (("microbench", "--rate", "fast"), "fast"),
            (("figure-99",), "figure-99"),
        ],
    )
    def test_a_rate_that_a_figure_cannot_have_is_named_with_those_that_it_can(
        self, words: tuple[str, ...], problem: str
    ) -> None:
        done = CliRunner().invoke(main, ["bench", "karuna", *words])
        assert done.exit_code == 2 and problem in done.output


class TestNames:
    """DCTCP and MCP stand for what the kernel has."""

    def test_with_struct_ops_a_flow_with_a_deadline_chooses_batons_mcp(self) -> None:
        assert self.chosen(kernel(DCTCP, MCP)) == (MCP, None)

    def test_without_it_it_chooses_dctcp_which_the_callbacks_pace(self) -> None:
        assert self.chosen(kernel("dctcp", "dctcp")) == ("dctcp", None)
        assert schemes.real_name(DCTCP, kernel("dctcp", "dctcp")) == "dctcp"
        assert schemes.real_name("cubic", kernel("dctcp", "dctcp")) == "cubic"

    @staticmethod
    def chosen(control: CongestionControl) -> tuple[Any, Any]:
        flows = [ScheduledFlow(1, 0, "h1", "h6", 1000, 1, 20), ScheduledFlow(2, 0, "h1", "h6", 1000, 2)]
        choose = schemes.karuna(Thresholds((), ())).choices(flows, control)["control"]
        return choose(flows[0]), choose(flows[1])


@pytest.mark.parametrize("name", list(FIGURES))
def test_every_figure_has_the_published_result(name: str) -> None:
    published = importlib.import_module(FIGURES[name].module).PUBLISHED
    assert published["source"] and published["result"] and "at hand" not in str(published)


def test_the_published_numbers_stand_beside_ours() -> None:
    from bench.karuna import fct, microbench, sjf_edf, thresholds

    assert sjf_edf.PUBLISHED["sjf_missed_by_size_percentile"] == {"1": 0.0, "20": 0.4}
    assert sjf_edf.PUBLISHED["edf_tail_growth_from_0_to_8_percent"] == 5.0
    assert fct.PUBLISHED["deadlines_missed"] == 0.058 and fct.PUBLISHED["tail_reduction"] == 0.4778
    assert thresholds.PUBLISHED["without_ecn_over_with_at_30_kb"] == 0.91
    assert microbench.PUBLISHED["distance_from_hardware_packets"] == 2
