"""What XCo's experiments compute from their runs: transitions, verdicts, scaled sizes, and the rates that a figure can have."""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record import Experiment
from bench.xco import FIGURES, conservation, fairness, migration, ping
from bench.xco.record import GIGABIT, Case, Check, Layout, Measured, More, Options, by_policy, select, verdict
from bench.xco.responsiveness import transition
from cli.bench.xco import host_rate
from cli.experiment_time import ExperimentTime
from emulation.measuring.fidelity import Fidelity
from emulation.measuring.figures import POLICIES
from emulation.measuring.measure import Pings, jain, rate_mbps
from emulation.stack.running import UnderPolicy
from emulation.traffic.experiment import FlowOutcome, Outcome

ROOT = Path(__file__).resolve().parents[3]
REAL, VIRTUAL = ExperimentTime(False, (), ()), ExperimentTime(True, (), ())


class TestTransition:
    """From the instant of the turn to the first full bucket of the new set, or the last byte of the old one."""

    def test_a_set_that_takes_over_at_once_takes_one_bucket(self) -> None:
        assert transition([10, 10, 0, 0], [0, 0, 10, 10], 2, 10, 4) == 1

    def test_it_lasts_until_the_new_set_has_its_rate(self) -> None:
        assert transition([10, 10, 0, 0, 0], [0, 0, 3, 8, 9], 2, 10, 3) == 3

    def test_it_lasts_until_the_old_set_is_silent(self) -> None:
        assert transition([10, 10, 1, 0, 1, 0], [0, 0, 9, 9, 9, 9], 2, 10, 4) == 3

    def test_a_set_that_never_gets_its_rate_has_none(self) -> None:
        assert transition([10, 10, 5, 5], [0, 0, 5, 5], 2, 10, 2) is None

    def test_a_set_that_gets_nothing_at_all_has_none(self) -> None:
        assert transition([10, 10, 10, 10], [0, 0, 0, 0], 2, 0, 2) is None

    def test_an_old_set_that_is_never_silent_has_none(self) -> None:
        assert transition([10, 10, 1, 1, 1, 1], [0, 0, 9, 9, 9, 9], 2, 10, 4) is None

    @given(st.integers(0, 20), st.integers(0, 20))
    def test_idle_buckets_before_the_new_set_count(self, idle: int, old: int) -> None:
        coming = [0] * idle + [10] * 30
        leaving = [1] * old + [0] * 50
        assert transition(leaving, coming, 0, 10, 40) == max(idle + 1, old)


class TestVerdict:
    """One sentence that says what is as published, and what is not."""

    def test_checks_that_hold_are_named_as_published(self) -> None:
        assert verdict([Check("a", True), Check("b", True)]) == "As published: a; b."

    def test_what_is_missing_is_named(self) -> None:
        assert verdict([Check("a", True), Check("b", False)]) == "As published: a; but not: b."
        assert verdict([Check("b", False)]) == "Not as published: b."


class TestOptions:
    """Sizes and times at other rates than the published one."""

    @given(st.integers(1, 1 << 30), st.sampled_from([10**7, 10**8, GIGABIT, 10**10]))
    def test_a_scaled_size_takes_the_same_time_at_every_rate(self, size: int, rate_bps: int) -> None:
        scaled = Options(rate_bps=rate_bps).scaled(size)
        assert scaled >= 1 and abs(scaled / rate_bps - size / GIGABIT) <= 1 / rate_bps

    def test_faster_links_are_measured_for_a_shorter_time(self) -> None:
        lengths = [Options(rate_bps=rate).seconds(1, 4) for rate in (10**7, 10**8, GIGABIT, 10**10, 10**11)]
        assert lengths == sorted(lengths, reverse=True) and lengths[2] == 4
        assert Options(quick=True).seconds(1, 4) == 1

    def test_slices_are_2_ms_at_1_gbps_and_10_ms_at_100_mbps(self) -> None:
        assert Options(rate_bps=GIGABIT).slice_ns == 2_000_000 and Options(rate_bps=10**8).slice_ns == 10_000_000


class TestRuns:
    """Finding runs in a record."""

    RUNS = (
        {"udp": 0, "policy": "timeslice", "goodput_mbps": 1.0},
        {"udp": 5, "policy": "timeslice", "goodput_mbps": 2.0},
        {"udp": 5, "policy": "rate_limit", "goodput_mbps": 3.0},
    )

    def test_a_value_by_policy_at_a_place(self) -> None:
        assert by_policy(self.RUNS, "goodput_mbps", udp=5) == {"timeslice": 2.0, "rate_limit": 3.0}

    def test_a_place_that_was_not_measured_is_an_error(self) -> None:
        assert select(self.RUNS, udp=0)["goodput_mbps"] == 1.0
        with pytest.raises(KeyError):
            select(self.RUNS, udp=3)


class TestRates:
    """The rates that a figure can have."""

    def test_virtual_time_has_the_published_rate_unless_given(self) -> None:
        assert all(host_rate(None, figure, VIRTUAL) == GIGABIT for figure in FIGURES.values())
        assert host_rate("10gbit", FIGURES["mix"], VIRTUAL) == 10 * GIGABIT

    def test_in_real_time_the_fastest_link_has_100_mbit(self) -> None:
        assert host_rate(None, FIGURES["mix"], REAL) == 10**8
        assert host_rate(None, FIGURES["uplink"], REAL) == 10**7

    @pytest.mark.parametrize(
        ("text", "figure", "time", "remedy"),
        [
            ("1gbit", "mix", REAL, "--virtual"),
            ("0", "mix", VIRTUAL, "write a rate above 0"),
            ("200gbit", "mix", VIRTUAL, "100gbit"),
            ("fast", "mix", VIRTUAL, "write"),
            ("100mbit", "uplink", REAL, "at most 10mbit, or add --virtual"),
            ("20gbit", "uplink", VIRTUAL, "at most 10gbit"),
        ],
    )
    def test_another_rate_is_refused_with_the_remedy(self, text: str, figure: str, time: ExperimentTime, remedy: str) -> None:
        with pytest.raises(click.BadParameter) as refused:
            host_rate(text, FIGURES[figure], time)
        assert remedy in refused.value.message and text in refused.value.message and "\n" not in refused.value.message


@pytest.mark.parametrize("name", FIGURES)
class TestEveryFigure:
    """What every figure has."""

    def test_its_fabric_has_the_bottleneck_and_no_faster_link_than_it_says(self, name: str) -> None:
        options = Options(quick=True)
        layout: Layout = importlib.import_module(FIGURES[name].module).layout(options)
        fastest = max(layout.fabric.capacity_bps(link) for link in layout.fabric.links)
        assert fastest == FIGURES[name].factor * options.rate_bps
        assert layout.fabric.capacity_bps(layout.bottleneck) == fastest

    def test_what_was_measured_does_not_overwrite_the_place_of_a_run(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = importlib.import_module(FIGURES[name].module)
        places: list[set[str]] = []

        def measure(layout: Layout, cases: Sequence[Case], options: Options, *_: object, **more: object) -> Measured:
            places.extend(set(case.at) for case in cases)
            return Measured([], [], {})

        monkeypatch.setattr(module, "measure", measure)
        with contextlib.suppress(KeyError, ValueError):  # nothing was measured, so nothing can be concluded
            module.run(Options(quick=True), lambda *_: None)
        assert places and not any(place & {"policy", "slice_ms", *UnderPolicy._fields} for place in places)

    def test_a_researcher_has_a_script_for_it(self, name: str) -> None:
        assert f'as_script("{name}")' in (ROOT / "mininet" / f"xco_{name}.py").read_text()


CONFIDENCE = {"level": "exact", "disturbed": [], "affected": [], "holds": "", "bounds": {"goodput_share": 0, "wait_ms": 0}}


def test_a_transfers_link_use_is_of_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the link carries half of its rate until the transfer ends, and then, without it, all."""

    def measured(layout: Layout, cases: Sequence[Case], options: Options, *_: object, more: More, **__: object) -> Measured:
        runs = []
        for case, policy in itertools.product(cases, POLICIES):
            duration_ns = round(case.seconds * 1e9)
            took_ns, bucket_ns = duration_ns // 3, case.bucket_ns or 10_000_000
            full = options.rate_bps // 8 * bucket_ns // 10**9
            bulk = [full // 4 if (at + 1) * bucket_ns <= took_ns else 0 for at in range(duration_ns // bucket_ns)]
            beside = [full // 4 if size else full for size in bulk]
            flows = tuple(
                FlowOutcome(flow, sum(sizes), rate_mbps(sum(sizes), duration_ns), tuple(sizes), {"completed_ns": took_ns})
                for flow, sizes in zip(case.flows, (bulk, beside), strict=False)
            )
            found = UnderPolicy(Outcome(duration_ns, 0, flows, {}, Pings(), Fidelity(0, 0, ()), {}), 0, 0)
            runs.append({**case.at, "policy": policy, "slice_ms": None, **found.to_dict(), **more(case, found)})
        return Measured(runs, [], {})

    monkeypatch.setattr(migration, "measure", measured)
    record = migration.run(Options(quick=True), lambda *_: None).record
    row = next(row for row in record["compared"] if "link use" in row["what"])
    assert all(value == pytest.approx(500, rel=0.02) for value in row["ours"].values()), row


def concluded_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch, runs: Callable[[Case, str], dict[str, Any]]) -> str:
    """The verdict on a figure's runs that are made up."""

    def measured(layout: Layout, cases: Sequence[Case], *_: object, **__: object) -> Measured:
        made = [{**case.at, "policy": policy, **runs(case, policy)} for case in cases for policy in case.policies]
        return Measured([{**run, "slice_ms": 2.0, "confidence": CONFIDENCE} for run in made], [], {})

    monkeypatch.setattr(module, "measure", measured)
    return str(module.run(Options(quick=True), lambda *_: None).record["verdict"])


@pytest.mark.parametrize(("kept", "gains"), [(940.0, False), (500.0, True)])
def test_what_it_gains_to_give_slots_back_is_judged(monkeypatch: pytest.MonkeyPatch, kept: float, gains: bool) -> None:
    """As published from more than 500 to more than 800 Mb/s. That there is no such gap here is part of the verdict."""

    def run(case: Case, policy: str) -> dict[str, Any]:
        coordinated = 941.0 if case.at["given_back"] else kept
        return {"goodput_mbps": 152.0 if policy == "uncoordinated" else coordinated}

    said = concluded_of(conservation, monkeypatch, run)
    assert said.startswith("As published") and ("but not: to give them back gains much" in said) is not gains


def test_flows_that_get_nothing_have_no_near_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jain's index of them is 1."""
    nothing = {"jain": jain([0.0] * 5), "flows_mbps": [0.0] * 5, "flows": []}
    said = concluded_of(fairness, monkeypatch, lambda case, policy: nothing)
    assert "with timeslices the shares are near equal" in said.partition("ot as published")[2] + said.partition("but not")[2]


def test_a_lost_fabric_still_draws(tmp_path: Path) -> None:
    """With no coordination no ping comes back, and no transfer ends: the pictures are drawn all the same."""
    runs: list[dict[str, Any]] = [
        {"senders": count, "kind": "udp", "policy": policy, "transfer_s": None, "given_up_s": 1.0, "confidence": CONFIDENCE}
        for count in (1, 2)
        for policy in POLICIES
    ]
    record = {"title": "t", "published": {"result": "r"}, "scale": "s", "seed": 1, "runs": runs, "confidence": CONFIDENCE}
    migration.draw(Experiment(record, []), tmp_path / "migration.png")
    lost = {"pings": {"sent": 10, "lost": 10}, "confidence": CONFIDENCE}
    record["runs"] = [{"load": load, "policy": policy, **lost} for load in ping.LOADS for policy in POLICIES]
    ping.draw(Experiment(record, []), tmp_path / "ping.png")
    assert {path.name for path in tmp_path.iterdir()} == {"migration.png", "ping.png"}


@pytest.mark.parametrize(("sliced_s", "faster"), [(1.0, True), (None, False)])
def test_a_transfer_that_never_ends_is_slower_than_one_that_does(
    monkeypatch: pytest.MonkeyPatch, sliced_s: float | None, faster: bool
) -> None:
    """Where it is given up with timeslices, too, nobody knows which takes longer."""

    def run(case: Case, policy: str) -> dict[str, Any]:
        took_s = sliced_s if policy == "timeslice" else None
        return {"transfer_s": took_s, "use_mbps": 900.0, "moved_fraction": 0.5, "given_up_s": 3.0}

    said = concluded_of(migration, monkeypatch, run)
    seen = said.partition("but not:")[0] if said.startswith("As published") else ""
    assert ("without coordination it grows much faster" in seen) is faster
