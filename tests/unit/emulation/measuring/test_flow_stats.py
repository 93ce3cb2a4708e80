"""Statistics of a run's flows."""

from __future__ import annotations

from emulation.traffic.flow_run import FlowResult
from emulation.traffic.flow_schedule import ScheduledFlow
from emulation.traffic.flow_stats import by_size, completion, deadlines, summary


def result(size: int, fct_ms: float | None, *, deadline_ms: int | None = None, end: str = "complete") -> FlowResult:
    flow = ScheduledFlow(0, 0, "h1", "h6", size, 3 if deadline_ms is None else 1, deadline_ms)
    return FlowResult(flow, 0, None if fct_ms is None else round(fct_ms * 1e6), size, 0, "", end)


def test_flows_that_never_completed_are_counted_and_have_no_time() -> None:
    found = completion([result(10, 1.0), result(10, 3.0), result(10, None, end="unfinished")])
    assert (found["flows"], found["incomplete"], found["mean_ms"], found["p99_ms"]) == (3, 1, 2.0, 3.0)
    assert completion([])["mean_ms"] is None


def test_every_flow_is_in_one_bin_and_an_edge_belongs_below() -> None:
    found = by_size([result(10_000, 1.0), result(10_001, 2.0), result(2_000_000, 3.0)], (10_000, 1_000_000))
    assert {name: entry["flows"] for name, entry in found.items()} == {
        "all": 3,
        "0 to 10 KB": 1,
        "10 KB to 1 MB": 1,
        "above 1 MB": 1,
    }


def test_a_terminated_or_incomplete_flow_has_missed_its_deadline() -> None:
    flows = [
        result(10, 9.0, deadline_ms=10),
        result(10, 11.0, deadline_ms=10),
        result(10, 5.0, deadline_ms=10, end="given up"),
        result(10, None, deadline_ms=10, end="unfinished"),
        result(10, 1.0),
    ]
    found = deadlines(flows)
    assert (found["flows"], found["met"], found["missed"], found["terminated"]) == (4, 0.25, 0.75, 0.25)
    assert found["completion_over_deadline"]["p99"] == 1.1, "what was given up does not count as a completion"


def test_flows_with_deadlines_are_not_in_the_bins_of_the_others() -> None:
    found = summary([result(10, 9.0, deadline_ms=10), result(10, 1.0)], (100,))
    assert found["completion"]["all"]["flows"] == 1
    assert found["by_type"]["1"]["flows"] == 1
