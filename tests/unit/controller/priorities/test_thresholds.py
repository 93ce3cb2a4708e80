"""Thresholds: the model against a simulation, the certificate against search, and what a period may change."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.priorities import threshold_solver
from controller.priorities.completion_model import Thresholds, Traffic, equal_split
from controller.priorities.flow_sizes import FlowSizes
from controller.priorities.thresholds import optimise, revise
from emulation import cdfs

FEW = settings(deadline=None, max_examples=12)
"""No deadline: the machine may be busy. Few: one example is one optimisation."""


FULL = {name: getattr(threshold_solver, name) for name in ("STATES", "MAX_STATES", "FINE")}


@pytest.fixture(autouse=True, scope="module")
def small_grid() -> Iterator[None]:
    """A coarser grid; the bound has to hold on any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threshold_solver, "STATES", 100)
        patch.setattr(threshold_solver, "MAX_STATES", 400)
        patch.setattr(threshold_solver, "FINE", 600)
        yield


@st.composite
def flow_sizes(draw: st.DrawFn) -> FlowSizes:
    steps = draw(st.lists(st.tuples(st.floats(1.2, 30), st.integers(0, 9)), min_size=2, max_size=8))
    edges = [draw(st.floats(100, 1e5))]
    for factor, _ in steps:
        edges.append(edges[-1] * factor)
    counts = [count for _, count in steps]
    return FlowSizes.from_histogram(edges, counts if sum(counts) else [1] * len(counts))


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    load = draw(st.floats(0.2, 0.92))
    shares = draw(st.tuples(*[st.sampled_from((0, 1, 3))] * 3).filter(lambda parts: parts[1] + parts[2] > 0))
    load_1, load_2, load_3 = (load * share / sum(shares) for share in shares)
    return Traffic(load_1, load_2, load_3, draw(flow_sizes()), draw(flow_sizes()))


bands = st.integers(1, 6)


class TestOptimise:
    """Thresholds and their certificate."""

    @FEW
    @given(traffics(), bands)
    def test_thresholds_never_fall_and_are_one_fewer_than_the_bands(self, traffic: Traffic, count: int) -> None:
        found = optimise(traffic, count).thresholds
        for cuts in (found.beta, found.alpha):
            assert len(cuts) == count - 1 and list(cuts) == sorted(cuts)

    @FEW
    @given(traffics(), bands)
    def test_the_bound_is_below_the_value_which_the_thresholds_have(self, traffic: Traffic, count: int) -> None:
        found = optimise(traffic, count)
        assert found.bound <= found.value == traffic.mean_fct(found.thresholds)

    @FEW
    @given(traffics(), bands, st.integers(0, 1 << 32))
    def test_no_thresholds_are_below_the_bound(self, traffic: Traffic, count: int, seed: int) -> None:
        """Random ones, then improved one by one."""
        bound, chance = threshold_solver.solve(traffic, count).bound, random.Random(seed)
        assert traffic.sizes_2 is not None and traffic.sizes_3 is not None
        quantiles = [sorted(chance.random() for _ in range(count - 1)) for _ in range(2)]
        cuts = [list(sizes.quantile(at)) for sizes, at in zip((traffic.sizes_2, traffic.sizes_3), quantiles, strict=True)]
        for _ in range(60):
            tried = [sorted(cut * chance.lognormvariate(0, 0.3) for cut in axis) for axis in cuts]
            value, other = (
                traffic.mean_fct(Thresholds(*(tuple(round(cut) for cut in axis) for axis in both))) for both in (cuts, tried)
            )
            assert min(value, other) >= bound * (1 - 1e-9)
            cuts = tried if other < value else cuts

    @FEW
    @given(traffics(), bands)
    def test_never_worse_than_the_equal_split(self, traffic: Traffic, count: int) -> None:
        assert optimise(traffic, count).value <= traffic.mean_fct(equal_split(traffic, count))

    @FEW
    @given(traffics(), bands, st.sampled_from((8.0, 1024.0)))
    def test_larger_flows_have_thresholds_as_much_larger(self, traffic: Traffic, count: int, factor: float) -> None:
        """Powers of two, so that nothing but the rounding to whole bytes differs; up, so that a flow as large as a threshold is
        below. Of thresholds that are equally good the solver may choose any: so those of the small flows, as much larger, are
        as good for the larger flows (to the solver's grid)."""
        assert traffic.sizes_2 is not None and traffic.sizes_3 is not None
        scaled = Traffic(
            traffic.load_1, traffic.load_2, traffic.load_3, traffic.sizes_2.scaled(factor), traffic.sizes_3.scaled(factor)
        )
        small, large = threshold_solver.solve(traffic, count), threshold_solver.solve(scaled, count)
        assert large.value == pytest.approx(small.value * factor) and large.bound == pytest.approx(small.bound * factor)
        larger = Thresholds(*(tuple(math.ceil(float(cut) * factor) for cut in cuts) for cuts in (small.beta, small.alpha)))
        assert scaled.mean_fct(larger) == pytest.approx(large.value, rel=1e-2)

    def test_more_bands_never_make_flows_take_longer(self) -> None:
        sizes = cdfs.load("web_search")
        traffic = Traffic(0.2, 0.3, 0.3, sizes, sizes)
        values = [optimise(traffic, count).value for count in range(1, 9)]
        assert all(after <= before * 1.001 for before, after in itertools.pairwise(values))

    @pytest.mark.parametrize("workload", ["web_search", "data_mining"])
    @pytest.mark.parametrize("load", [0.5, 0.9])
    @pytest.mark.parametrize("flows", [0, 300, 20_000])
    def test_eight_bands_are_certified_within_one_percent(
        self, workload: str, flows: int, load: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """For the published distribution, and for histograms of so many flows as hosts report them."""
        for name, value in FULL.items():
            monkeypatch.setattr(threshold_solver, name, value)
        sizes = cdfs.load(workload)
        if flows:
            sizes = cdfs.reported(sizes, flows, seed=1)
        assert optimise(Traffic(load / 3, load / 3, load / 3, sizes, sizes), 8).gap <= 0.01

    @pytest.mark.parametrize("load", [0.5, 0.6, 0.9])
    def test_a_histogram_of_few_flows_needs_few_refinements(self, load: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its stretches without flows took ten grids, the last of 7,000 states, while cells there were charged too much."""
        for name, value in FULL.items():
            monkeypatch.setattr(threshold_solver, name, value)
        grids: list[int] = []
        lengths = threshold_solver._Lengths

        def counted(load_1: float, split: threshold_solver._Axis, demote: threshold_solver._Axis) -> threshold_solver._Lengths:
            grids.append(len(split.at) * len(demote.at))
            return lengths(load_1, split, demote)

        monkeypatch.setattr(threshold_solver, "_Lengths", counted)
        sizes = cdfs.reported(cdfs.load("data_mining"), 300, seed=1)
        assert optimise(Traffic(load / 3, load / 3, load / 3, sizes, sizes), 8).gap <= 0.01
        assert len(grids) <= 7 and max(grids) <= 6_000

    def test_a_type_without_load_gets_the_thresholds_of_the_other(self) -> None:
        found = optimise(Traffic(0, 0, 0.7, None, cdfs.load("web_search")), 4).thresholds
        assert found.beta == found.alpha and found.alpha[0] > 0

    def test_a_start_with_other_bands_is_refused(self) -> None:
        with pytest.raises(ValueError, match="bands"):
            optimise(Traffic(0, 0, 0.7, None, cdfs.load("web_search")), 4, Thresholds((1,), (1,)))


class TestRevise:
    """What a period changes."""

    sizes = cdfs.load("web_search")
    traffic = Traffic(0.2, 0.3, 0.3, sizes, sizes)

    def test_the_first_thresholds_are_all_new(self) -> None:
        first = revise(self.traffic, None, 4)
        assert first.changed and first.before is None and len(first.moved) == 6
        assert first.moved["beta[0]"] == (None, first.in_force.beta[0])

    def test_the_same_traffic_changes_nothing(self) -> None:
        first = revise(self.traffic, None, 4)
        again = revise(self.traffic, first.in_force, 4)
        assert not again.changed and again.in_force == first.in_force and again.gain is not None and abs(again.gain) < 1e-9

    def test_noise_in_the_reports_does_not_move_them(self) -> None:
        chance = np.random.default_rng(7)
        edges = np.geomspace(1_000, 3e7, 60)
        shares = np.diff(self.sizes.partial(edges).finished)
        in_force = revise(self.traffic, None, 4).in_force
        for _ in range(3):
            noisy = FlowSizes.from_histogram([*edges], [int(n) for n in chance.poisson(shares * 20_000)])
            assert not revise(Traffic(0.2, 0.3, 0.3, noisy, noisy), in_force, 4).changed

    def test_other_traffic_moves_them_and_says_what_that_gains(self) -> None:
        first = revise(self.traffic, None, 4)
        mining = cdfs.load("data_mining")
        after = revise(Traffic(0.2, 0.3, 0.3, mining, mining), first.in_force, 4)
        assert after.changed and after.gain is not None and after.gain > 0.02
        assert after.before is not None and after.best.value == pytest.approx(after.before * (1 - after.gain))
        assert all(old != new for old, new in after.moved.values())

    def test_another_number_of_bands_is_always_put_in_force(self) -> None:
        first = revise(self.traffic, None, 3)
        assert revise(self.traffic, first.in_force, 4).in_force.bands == 4


class TestTheModel:
    """T of controller/priorities/completion_model.py."""

    def test_a_simulation_of_the_bands_has_the_mean_fct_that_the_formula_says(self) -> None:
        sizes = FlowSizes((0.0, 10.0, 100.0, 400.0), (0.0, 0.5, 0.8, 1.0))
        traffic = Traffic(0.0, 0.35, 0.35, sizes, sizes)
        thresholds = Thresholds((20, 120), (30, 150))
        assert _simulate(traffic, thresholds, flows=30_000) == pytest.approx(traffic.mean_fct(thresholds), rel=0.08)

    def test_one_band_is_pollaczek_and_khinchine(self) -> None:
        sizes = FlowSizes((0.0, 2.0), (0.0, 1.0))  # E[S] = 1, E[S^2] = 4/3
        assert Traffic(0, 0.25, 0.25, sizes, sizes).mean_fct(Thresholds((), ())) == pytest.approx(1 + 0.5 * (4 / 3) / 2 / 0.5)

    @pytest.mark.parametrize("loads", [(0.5, 0.3, 0.2), (0.1, 0, 0), (0, -0.1, 0.3)])
    def test_loads_that_no_link_carries_are_refused(self, loads: tuple[float, float, float]) -> None:
        sizes = FlowSizes((0.0, 2.0), (0.0, 1.0))
        with pytest.raises(ValueError, match="load"):
            Traffic(*loads, sizes, sizes)

    def test_falling_thresholds_are_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match=r"alpha\[1\]"):
            Thresholds((1, 2), (2, 1))


def _simulate(traffic: Traffic, thresholds: Thresholds, flows: int) -> float:
    """Mean FCT: strict preemptive priorities, in a band by arrival of the flow."""
    chance = random.Random(3)
    assert traffic.sizes_2 is not None
    rate = traffic.flows_2() + traffic.flows_3()
    sizes = traffic.sizes_2.quantile([chance.random() for _ in range(flows)])
    waiting: list[list[float]] = []  # (band, arrival, left to send in the band, left after it, how many bands on it goes then)
    clock = total = 0.0
    for size in sizes:
        arrival = clock + chance.expovariate(rate)
        total += _serve(waiting, clock, arrival, thresholds)
        clock = arrival
        if chance.random() < traffic.flows_2() / rate:
            band = sum(size > cut for cut in thresholds.beta)
            heapq.heappush(waiting, [band, clock, *_raised(float(size), band, thresholds), -1])
        else:
            heapq.heappush(waiting, [0, clock, *_demoted(float(size), 0, thresholds), 1])
    return (total + _serve(waiting, clock, float("inf"), thresholds)) / flows


def _raised(left: float, band: int, thresholds: Thresholds) -> tuple[float, float]:
    after = thresholds.beta[band - 1] if band else 0
    return left - after, after


def _demoted(left: float, band: int, thresholds: Thresholds) -> tuple[float, float]:
    cuts = (0, *thresholds.alpha)
    here = min(left, thresholds.alpha[band] - cuts[band]) if band < len(thresholds.alpha) else left
    return here, left - here


def _serve(waiting: list[list[float]], clock: float, until: float, thresholds: Thresholds) -> float:
    """Sends until then; the FCTs of what finished, summed."""
    total = 0.0
    while waiting and clock < until:
        flow = waiting[0]
        sent = min(flow[2], until - clock)
        clock += sent
        flow[2] -= sent
        if flow[2] > 0:
            break
        heapq.heappop(waiting)
        if flow[3] > 0:
            band, moved = int(flow[0] + flow[4]), _raised if flow[4] < 0 else _demoted
            heapq.heappush(waiting, [band, flow[1], *moved(flow[3], band, thresholds), flow[4]])
        else:
            total += clock - flow[1]
    return total
