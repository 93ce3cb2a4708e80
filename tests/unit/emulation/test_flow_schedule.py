"""Lists of flows: their load is exact, their arrivals Poisson, and a seed gives the same list again; and fixed priorities."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation import cdfs
from emulation.traffic import fixed_priorities
from emulation.traffic.flow_schedule import HEADER_BYTES, Mixture, Schedule, ScheduledFlow, poisson, scaled
from protocol.flowmark import DEADLINE_MAX_MS

PAIRS = (("h1", "h6"), ("h2", "h6"))
RATE_BPS = 100_000_000
SMALL = scaled(cdfs.load("web_search"), 0.1)


def listed(seed: int = 1, load: float = 0.6, seconds: float = 20, mixture: Mixture | None = None) -> Schedule:
    return poisson(
        SMALL,
        load=load,
        rate_bps=RATE_BPS,
        duration_ns=round(seconds * 1e9),
        pairs=PAIRS,
        mixture=mixture or Mixture(),
        seed=seed,
    )


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), load=st.floats(0.05, 1.2), seconds=st.floats(0.5, 5))
def test_the_load_is_exact_whatever_the_seed(seed: int, load: float, seconds: float) -> None:
    schedule = listed(seed, load, seconds)
    assert schedule.size_bytes * 8e9 / (RATE_BPS * schedule.length_ns) == pytest.approx(load, rel=1e-6)
    assert schedule.length_ns >= seconds * 1e9 * (1 - 1e-6)
    assert all(0 <= flow.start_ns < schedule.length_ns for flow in schedule.flows)


def test_a_seed_gives_the_same_list_again_and_another_seed_another() -> None:
    assert listed(7) == listed(7)
    assert listed(7) != listed(8)


def test_arrivals_are_poisson() -> None:
    """Gaps are exponential (mean, variation, distribution), and counts of intervals have the variance of their mean."""
    schedule = listed(3, seconds=120)
    gaps = np.diff([flow.start_ns for flow in schedule.flows])
    mean = statistics.fmean(gaps)
    assert np.std(gaps) / mean == pytest.approx(1, abs=0.06)
    ordered = np.sort(gaps)
    expected = 1 - np.exp(-ordered / mean)
    found = np.arange(1, len(ordered) + 1) / len(ordered)
    assert np.abs(expected - found).max() < 1.63 / math.sqrt(len(ordered)), "Kolmogorov and Smirnov, 1 %"
    counts, _ = np.histogram([flow.start_ns for flow in schedule.flows], bins=300)
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.3)


def test_sizes_follow_the_workload() -> None:
    sizes = np.sort([flow.size_bytes for flow in listed(5, seconds=200).flows])
    for probability in (0.15, 0.3, 0.53, 0.7, 0.9):
        size = float(SMALL.quantile(probability))
        assert (sizes <= size).mean() == pytest.approx(probability, abs=0.03)
    assert sizes[0] >= HEADER_BYTES


def test_a_cap_leaves_larger_flows_out_and_keeps_the_shares_of_the_others() -> None:
    capped = scaled(cdfs.load("web_search"), 0.1, 100_000)
    whole = cdfs.load("web_search").scaled(0.1)
    assert capped.sizes[-1] == 100_000 and capped.cdf[-1] == 1
    kept = float(whole.partial(100_000).finished)
    for size in (1500, 8000, 50_000):
        assert float(capped.partial(size).finished) == pytest.approx(float(whole.partial(size).finished) / kept)
    with pytest.raises(ValueError, match="cap_bytes is 0"):
        scaled(cdfs.load("web_search"), 0.1, 0)


def test_types_have_their_shares_and_marks_say_what_is_known() -> None:
    flows = listed(2, seconds=200, mixture=Mixture((0.5, 0.3, 0.2))).flows
    for kind, share in ((1, 0.5), (2, 0.3), (3, 0.2)):
        assert sum(flow.flow_type == kind for flow in flows) / len(flows) == pytest.approx(share, abs=0.03)
    assert all(flow.mark().flow_type == flow.flow_type for flow in flows)
    assert {flow.mark().encode() for flow in flows if flow.flow_type == 3} == {0}


def test_deadlines_leave_the_slack_and_fit_the_mark() -> None:
    mixture = Mixture((1.0, 0.0, 0.0), deadline_mean_ms=20, deadline_least_ms=5, slack=3)
    for flow in listed(4, mixture=mixture).flows:
        assert flow.deadline_ms is not None
        alone_ms = flow.size_bytes * 8e3 / RATE_BPS
        assert flow.deadline_ms >= min(DEADLINE_MAX_MS, 3 * alone_ms)
        assert 5 <= flow.deadline_ms <= DEADLINE_MAX_MS


@pytest.mark.parametrize(("field", "change"), [("load", {"load": 0.0}), ("duration_ns", {"seconds": 0.0})])
def test_nonsense_is_refused_by_name(field: str, change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=field):
        listed(**change)  # type: ignore[arg-type]  # all of them are floats
    with pytest.raises(ValueError, match="shares"):
        Mixture((0.5, 0.5, 0.5))


class TestFixedPriorities:
    """pFabric on eight queues."""

    flows = (
        ScheduledFlow(0, 0, "h1", "h6", 500, 1, 100),
        ScheduledFlow(1, 0, "h1", "h6", 5_000, 1, 20),
        ScheduledFlow(2, 0, "h1", "h6", 50_000, 2),
        ScheduledFlow(3, 0, "h1", "h6", 700, 3),
        ScheduledFlow(4, 0, "h1", "h6", 10**7, 3),
    )

    def test_sjf_goes_by_size_alone(self) -> None:
        codepoints = fixed_priorities.sjf(self.flows, (1_000, 10_000, 100_000))
        assert [codepoints[flow.number] for flow in self.flows] == [7, 6, 5, 7, 4]

    def test_edf_puts_every_deadline_before_all_else_and_the_earliest_first(self) -> None:
        codepoints = fixed_priorities.edf(self.flows, (1_000, 100_000))
        assert [codepoints[flow.number] for flow in self.flows] == [5, 7, 2, 3, 1]
