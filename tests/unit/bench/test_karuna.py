"""Karuna's experiments at other rates, with the congestion controls that a kernel has, and beside the published values."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from agents.priorities.congestion_control import DCTCP, MCP, CongestionControl
from bench.figures.conclusions import conclude
from bench.karuna import FIGURES, fct, queues, sjf_edf, termination, thresholds
from bench.karuna.record import WARM_UP_S, Options, arrivals, remark, sizes_of
from bench.record import Experiment, write
from cli.main import main
from emulation.files import write_whole
from emulation.stack import schemes
from emulation.traffic.flow_run import FlowResult
from emulation.traffic.flow_schedule import Mixture, Schedule, ScheduledFlow

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


class TestPriorities:
    """Who has priorities has them at the hosts as in the switch; DCTCP has none anywhere."""

    def test_schemes_with_priorities_keep_room_for_short_flows_and_the_others_have_the_buffer_in_one_queue(self) -> None:
        for scheme in (schemes.karuna(), schemes.sjf((500,)), schemes.edf((500,))):
            queues = scheme.queues()
            assert scheme.to_dict()["host_priorities"] and queues.reserved[0] > 0 and queues.share is not None
            assert queues.share[0] > queues.share[-1]
        for scheme in (schemes.dctcp(), schemes.cubic(), schemes.Scheme("mcp", DCTCP, deadline_transport=MCP)):
            assert not scheme.to_dict()["host_priorities"] and scheme.queues() == scheme.queues().alike()

    def test_the_queue_of_the_shortest_flows_without_deadline_has_the_large_share_under_each(self) -> None:
        short = ScheduledFlow(1, 0, "h1", "h6", 400, 2)
        for scheme in (schemes.sjf((500,)), schemes.edf((500,))):
            (dscp,) = scheme.choices([short])["dscp"].values()
            share = scheme.queues().share
            assert share is not None and share[7 - dscp] == share[0]
        share = schemes.karuna().queues().share
        assert share is not None and share[1] == share[0], "the first band"


class TestNames:
    """DCTCP and MCP stand for what the kernel has."""

    def test_without_struct_ops_it_is_the_kernels_dctcp(self) -> None:
        assert schemes.real_name(DCTCP, kernel(DCTCP, MCP)) == DCTCP
        assert schemes.real_name(DCTCP, kernel("dctcp", "dctcp")) == "dctcp"
        assert schemes.real_name("cubic", kernel("dctcp", "dctcp")) == "cubic"

    def test_no_application_chooses_its_congestion_control_and_under_karuna_none_its_priority(self) -> None:
        flows = [ScheduledFlow(1, 0, "h1", "h6", 1000, 1, 20), ScheduledFlow(2, 0, "h1", "h6", 1000, 2)]
        assert schemes.karuna().choices(flows) == {"dscp": None}
        assert set(schemes.edf((500,)).choices(flows)) == {"dscp"}


@pytest.mark.parametrize("name", list(FIGURES))
def test_every_figure_has_the_published_result(name: str) -> None:
    published = importlib.import_module(FIGURES[name].module).PUBLISHED
    assert published["source"] and published["result"] and "at hand" not in str(published)


def test_the_published_numbers_stand_beside_ours() -> None:
    from bench.karuna import microbench

    assert sjf_edf.PUBLISHED["sjf_missed_by_size_percentile"] == {"1": 0.0, "20": 0.4}
    assert sjf_edf.PUBLISHED["edf_tail_growth_from_0_to_8_percent"] == 5.0
    assert fct.PUBLISHED["deadlines_missed"] == 0.058 and fct.PUBLISHED["tail_reduction"] == 0.4778
    assert thresholds.PUBLISHED["without_ecn_over_with_at_30_kb"] == 0.91
    assert microbench.PUBLISHED["distance_from_hardware_packets"] == 2


GIGABIT_QUICK = Options(quick=True, rate_bps=GIGABIT)


def load(flows: Schedule, of: Callable[[ScheduledFlow], bool] = lambda flow: True) -> float:
    """The load that these flows of a schedule offer to a link of 1 Gb/s."""
    return sum(flow.size_bytes for flow in flows.flows if of(flow)) * 8e9 / GIGABIT / flows.length_ns


class TestFigures1And2:
    """Responses with deadlines among web search flows of known size; a share of flows with deadlines."""

    def test_the_others_are_web_search_at_load_80_percent_and_the_20th_percentile_is_13_kb(self) -> None:
        flows = sjf_edf.responses(GIGABIT_QUICK, 5)
        others = [flow for flow in flows.flows if flow.flow_type == 2]
        assert load(flows, lambda flow: flow.flow_type == 2) == pytest.approx(0.8, rel=1e-6)
        assert sjf_edf.sizes(GIGABIT_QUICK).quantile(0.2) == pytest.approx(13_000)
        assert sum(flow.size_bytes <= 13_000 for flow in others) / len(others) == pytest.approx(0.2, abs=0.05)

    def test_responses_are_of_the_1st_to_the_20th_percentile_and_beyond_and_add_little(self) -> None:
        flows = sjf_edf.responses(GIGABIT_QUICK, 5)
        due = [flow for flow in flows.flows if flow.flow_type == 1]
        sizes = [sjf_edf.response_bytes(GIGABIT_QUICK, percent) for percent in (1, 5, 10, 15, 20, 40, 60)]
        assert {flow.size_bytes for flow in due} == set(sizes) and sizes[0] < 6_000 and sizes[4] == 13_000
        assert load(flows, lambda flow: flow.flow_type == 1) < 0.05
        assert all(sum(flow.size_bytes == size for flow in due) > 20 for size in sizes)
        assert [flow.number for flow in flows.flows] == list(range(len(flows.flows)))

    def test_their_deadlines_are_exponential_around_10_ms_in_whole_ms(self) -> None:
        due = [flow.deadline_ms or 0 for flow in sjf_edf.responses(GIGABIT_QUICK, 20).flows if flow.flow_type == 1]
        assert sum(due) / len(due) == pytest.approx(10.5, rel=0.08)  # half a ms from rounding up
        assert min(due) == 1 and sum(ms > 10 for ms in due) / len(due) == pytest.approx(0.37, abs=0.05)

    @pytest.mark.parametrize("share", [0.0, 0.04, 0.08])
    def test_from_0_to_8_percent_of_the_flows_have_deadlines_and_no_flow_is_of_type_3(self, share: float) -> None:
        flows = sjf_edf.mixed(GIGABIT_QUICK, share, 60)
        types = [flow.flow_type for flow in flows.flows]
        assert load(flows) == pytest.approx(0.8, rel=1e-6) and 3 not in types
        assert types.count(1) / len(types) == pytest.approx(share, abs=0.015)
        assert sjf_edf.SHARES[0] == 0 and sjf_edf.SHARES[-1] == 0.08

    def test_a_record_has_figure_1_by_size_and_figure_2_by_short_flows(self) -> None:
        sizes = [sjf_edf.response_bytes(GIGABIT_QUICK, percent) for percent in (1, 20)]
        found = [
            result(ScheduledFlow(0, 0, "h1", "h6", sizes[0], 1, 10), 5.0),
            result(ScheduledFlow(1, 0, "h1", "h6", sizes[1], 1, 10), 15.0),
            result(ScheduledFlow(2, 0, "h1", "h6", sizes[1], 1, 10), 5.0),
            result(ScheduledFlow(3, 0, "h1", "h6", 100_000, 2), 7.0),
            result(ScheduledFlow(4, 0, "h1", "h6", 100_001, 2), 70.0),
        ]
        rows = sjf_edf.missed_by_size(found, GIGABIT_QUICK)
        assert {percent: row["missed"] for percent, row in rows.items()} == {"1": 0.0, "20": 0.5}
        assert sjf_edf.short(found, GIGABIT_QUICK)["p99_ms"] == 7.0


class TestFigure8:
    """Three schemes of termination, under web search and under data mining."""

    @pytest.mark.parametrize("quick", [True, False])
    def test_every_scheme_has_the_same_flows_of_both_workloads(self, quick: bool) -> None:
        cases = termination.cases(Options(quick=quick))
        by_row: dict[tuple[str, float], list[Any]] = {}
        for case in cases:
            by_row.setdefault((case.at["workload"], case.at["load"]), []).append(case)
        assert {workload for workload, _ in by_row} == {"web_search", "data_mining"}
        for mine in by_row.values():
            assert [case.scheme.termination.value for case in mine] == [1, 2, 3]
            assert len({id(case.schedule) for case in mine}) == 1

    def test_data_mining_has_more_small_flows(self) -> None:
        median = {
            case.at["workload"]: sorted(flow.size_bytes for flow in case.schedule.flows)[len(case.schedule.flows) // 2]
            for case in termination.cases(GIGABIT_QUICK)
        }
        assert median["data_mining"] < 2_000 < 50_000 < median["web_search"]


class TestFigure9:
    """80 % of flows of 30 KB, 20 % of 10 MB, all of type 3, load 0.8, two queues, three thresholds and the tuner's."""

    def test_the_flows_are_the_published_ones(self) -> None:
        flows = thresholds.cases(Options(rate_bps=GIGABIT))[0].schedule
        sizes = [flow.size_bytes for flow in flows.flows]
        assert set(sizes) == {30_000, 10_000_000} and {flow.flow_type for flow in flows.flows} == {3}
        assert sizes.count(30_000) / len(sizes) == pytest.approx(0.8, abs=0.03)
        assert load(flows) == pytest.approx(0.8, rel=1e-6)

    def test_two_queues_three_given_thresholds_and_the_tuners_with_ecn_and_without(self) -> None:
        cases = thresholds.cases(GIGABIT_QUICK)
        assert [case.scheme.bands for case in cases] == [2] * 8
        given = [case.scheme.thresholds for case in cases]
        assert [None if one is None else one.alpha for one in given] == [(20_000,), (30_000,), (2_000_000,), None] * 2
        assert [case.scheme.marking_packets for case in cases] == [20] * 4 + [None] * 4

    def test_at_100_mbps_too_few_flows_end_for_a_tuner(self) -> None:
        assert all(case.scheme.thresholds is not None for case in thresholds.cases(Options()))


class TestThresholds:
    """Where thresholds are not what an experiment is about, they are the tuner's."""

    @pytest.mark.parametrize("module", [fct, queues, sjf_edf, termination])
    def test_no_figure_gives_any_by_hand(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401 -- a module
        seen: list[Any] = []
        monkeypatch.setattr(module, "measure", lambda title, published, cases, *_, **__: seen.extend(cases))
        module.run(Options(quick=True), lambda what, done: None)
        karuna = [case for case in seen if case.scheme.name == "karuna"]
        assert karuna and all(case.scheme.thresholds is None and case.scheme.bands for case in karuna)
        assert all(case.schedule.warm_up_ns == WARM_UP_S * 1e9 for case in seen), "no first thresholds to measure with"

    def test_two_queues_have_one_band_and_eight_have_seven(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Any] = []
        monkeypatch.setattr(queues, "measure", lambda title, published, cases, *_, **__: seen.extend(cases))
        queues.run(Options(quick=True), lambda what, done: None)
        assert [(case.at["queues"], case.scheme.bands) for case in seen] == [(2, 1), (4, 3), (8, 7)]

    def test_the_warm_up_is_before_what_is_measured(self) -> None:
        flows = arrivals(sizes_of("web_search", GIGABIT_QUICK), 0.8, 4, Mixture(), GIGABIT_QUICK)
        assert flows.length_ns >= (WARM_UP_S + 4) * 1e9 and flows.warm_up_ns == WARM_UP_S * 1e9


def result(flow: ScheduledFlow, fct_ms: float) -> FlowResult:
    """A flow that is complete after so many milliseconds."""
    return FlowResult(flow, flow.start_ns, round(fct_ms * 1e6), flow.size_bytes, 0, "dctcp", "complete")


class TestConclusions:
    """Our values beside the published ones, and what the verdict says of them."""

    def test_figures_1_and_2_as_published(self) -> None:
        found = conclude("karuna-sjf-edf", self.sjf_edf(large=0.45, slow=50.0))
        assert "but not" not in found.verdict
        values = {row.what: row.ours for row in found.compared}
        assert values["deadlines missed, responses of the 20th percentile, %"] == {"sjf": 45.0, "karuna": 1.0}
        assert values["growth of p99"] == {"edf": 5.0, "karuna": 1.5}

    def test_a_tail_that_hardly_grows_under_edf_and_a_sjf_that_misses_little_are_told(self) -> None:
        verdict = conclude("karuna-sjf-edf", self.sjf_edf(large=0.1, slow=11.0)).verdict
        assert "but not: SJF misses 10.0 % of those of the 20th percentile" in verdict and "1.1 times as long" in verdict

    @staticmethod
    def sjf_edf(large: float, slow: float) -> dict[str, Any]:
        def first(name: str, missed: float) -> dict[str, Any]:
            rows = {"1": {"missed": 0.0}, "20": {"missed": missed}, "60": {"missed": 0.5}}
            return {"figure": 1, "scheme": {"name": name}, "responses": rows}

        def second(name: str, share: float, p99_ms: float) -> dict[str, Any]:
            common = {"figure": 2, "share": share, "deadlines": {"missed": 0.02}}
            return {**common, "scheme": {"name": name}, "short": {"p95_ms": 1.0, "p99_ms": p99_ms}}

        runs = [first("sjf", large), first("karuna", 0.01), second("edf", 0.0, 10.0), second("edf", 0.08, slow)]
        return {"runs": [*runs, second("karuna", 0.0, 10.0), second("karuna", 0.08, 15.0)]}

    def test_figure_8_is_judged_for_each_workload(self) -> None:
        runs = [
            {"workload": workload, "load": 0.9, "termination": number, "deadlines": {"terminated": gone, "missed": 0.2 + gone}}
            for workload in ("web_search", "data_mining")
            for number, gone in ((1, 0.1), (2, 0.2), (3, 0.0))
        ]
        found = conclude("karuna-termination", {"runs": runs})
        assert [row.what.split(":")[0] for row in found.compared] == ["web search"] * 2 + ["data mining"] * 2
        assert "data mining: scheme 1 gives up 10.0 %, scheme 2 20.0" in found.verdict

    @pytest.mark.parametrize(("tuned", "told"), [(3.0, "1.00"), (6.0, "2.00")])
    def test_figure_9_has_the_tuners_threshold_beside_the_published_ones(self, tuned: float, told: str) -> None:
        means = {20_000: (5.0, 9.0), 30_000: (3.0, 2.7), 2_000_000: (4.0, 20.0), "tuned": (tuned, tuned)}
        runs = [
            {"ecn": ecn, "threshold_bytes": cut, "completion": {"all": {}, "0 to 30 KB": {"mean_ms": pair[at]}}}
            for cut, pair in means.items()
            for at, ecn in enumerate((True, False))
        ]
        found = conclude("karuna-thresholds", {"runs": runs})
        assert found.compared[0].ours == {"20 KB": 5.0, "30 KB": 3.0, "2 MB": 4.0, "tuner's": tuned}
        assert f"{told} times those at 30 KB" in found.verdict and ("but not" in found.verdict) == (tuned > 3.3)
        assert "at 30 KB means without ECN are 0.90 times those with it" in found.verdict


def test_a_record_says_how_many_bytes_of_a_workload_its_flows_have() -> None:
    """Without flows above 30 MB data mining has 2 % of the published bytes."""
    both, one = (remark(Options(rate_bps=GIGABIT), names) for names in (("web_search", "data_mining"), ("web_search",)))
    assert "without flows above 30 MB (1 of the bytes of web search, 0.02 of the bytes of data mining are left)" in both
    assert one == "links (1 Gb/s) and flow sizes as published"
    assert "above 3 MB" in remark(Options(), ("data_mining",))


@pytest.mark.parametrize(("names", "rows"), [
    (("load-0.8", "load-0.9"), ("load-0.8.raw.jsonl", "load-0.9.raw.jsonl")),
    (("a.json", "b.1gbit.json"), ("a.raw.jsonl", "b.1gbit.raw.jsonl")),
])  # fmt: skip
def test_each_record_has_raw_rows_of_its_own(names: tuple[str, ...], rows: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        write(Experiment({}, [{"of": name}]), tmp_path / name)
    assert [json.loads((tmp_path / name).read_text()) for name in rows] == [{"of": name} for name in names]
    assert [json.loads((tmp_path / name).read_text())["raw"] for name in names] == list(rows)


def test_a_flow_that_never_ended_has_not_ended_in_time() -> None:
    """It has no time, and must not be left out of what is said of all flows."""

    def verdict(mcp: list[float | None], dctcp: list[float | None]) -> str:
        ratios = {"mcp": mcp, "karuna": [0.9], "dctcp": dctcp, "edf": [0.2]}
        runs = [
            {"scheme": {"name": name}, "completion_over_deadline": found, "background_of_what_is_left": 0.95}
            for name, found in ratios.items()
        ]
        return conclude("karuna-deadlines", {"runs": runs}).verdict

    assert verdict([0.9, 0.95], [0.8, 1.2]).startswith("As published: MCP ends flows at 0.90 to 0.95 of their deadline;")
    met, _, missed = verdict([0.9, None, None], [0.9, None]).partition("; but not: ")
    assert missed == "MCP ends flows at 0.90 to 0.90 of their deadline, 2 never."
    assert "DCTCP ends some at 0.90, 1 never" in met


def test_flows_that_never_ended_are_told_beside_the_times_of_the_others() -> None:
    """A scheme that leaves the slow flows open would have the shortest times."""

    def verdict(incomplete: int) -> str:
        runs = []
        for name, mean_ms, open_flows in (("karuna", 10.0, incomplete), ("dctcp", 20.0, 0)):
            times = {"flows": 1000, "incomplete": open_flows, "mean_ms": mean_ms, "p95_ms": mean_ms}
            missed = 0.01 if name == "karuna" else 0.2
            completion = {"all": times, "0 to 100 KB": times}
            at = {"workload": "web_search", "load": 0.8, "scheme": {"name": name}}
            runs.append({**at, "completion": completion, "deadlines": {"missed": missed}})
        return conclude("karuna-fct", {"runs": runs}).verdict

    assert verdict(0).startswith("As published") and "but not" not in verdict(0)
    assert verdict(300).endswith("but not: web search, load 0.8, Karuna: all flows end (300 of 1000 do not).")


@pytest.mark.parametrize(
    ("karuna", "dctcp", "holds"), [(0.0, 0.03, True), (0.03, 0.0, False), (0.0, 0.0, True), (0.07, 0.2, False)]
)
def test_karuna_that_misses_more_deadlines_than_dctcp_is_told(karuna: float, dctcp: float, holds: bool) -> None:
    times = {"flows": 10, "incomplete": 0}
    runs = [
        {
            "workload": "web_search", "load": 0.8, "scheme": {"name": name}, "deadlines": {"missed": missed},
            "completion": {group: {**times, "mean_ms": ms, "p95_ms": ms} for group in ("all", "0 to 100 KB")},
        }
        for name, missed, ms in (("karuna", karuna, 1.0), ("dctcp", dctcp, 2.0))
    ]  # fmt: skip
    assert ("but not: web search, load 0.8: Karuna" in conclude("karuna-fct", {"runs": runs}).verdict) is not holds


def test_a_flow_of_figure_6_that_never_ended_has_no_time_in_the_verdict() -> None:
    def run(name: str, first_ms: float | None) -> dict[str, Any]:
        times = ((0, first_ms), (1, 90.0))
        return {"scheme": {"name": name}, "each": [{"flow": at, "deadline_ms": 100, "fct_ms": ms} for at, ms in times]}

    verdict = conclude("karuna-throughput", {"runs": [run("karuna", None), run("dctcp", None)]}).verdict
    assert "9.00" not in verdict
    assert "DCTCP's at never and 0.90" in verdict and "but not: Karuna's flows end at never and 0.90" in verdict


def test_a_record_that_cannot_be_written_leaves_the_earlier_one_whole(tmp_path: Path) -> None:
    write(Experiment({"of": 1}, [{"row": 1}]), tmp_path / "a.json")
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    with pytest.raises(TypeError):
        write(Experiment({"of": object()}, [{"row": 2}]), tmp_path / "a.json")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before


def test_a_record_may_go_to_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as readers:
        read = readers.submit(pipe.read_text)
        write_whole(pipe, "1\n")
        assert read.result(5) == "1\n" and pipe.is_fifo()


def test_the_rows_of_a_record_that_goes_to_a_pipe_or_a_device_go_nowhere(tmp_path: Path) -> None:
    """`--json >(jq .)`: nothing can be written beside /dev/fd/63, and the record was lost with the rows."""
    reading, writing = os.pipe()
    try:
        assert write(Experiment({"of": 1}, [{"row": 1}]), Path(f"/dev/fd/{writing}")) == [Path(f"/dev/fd/{writing}")]
        assert json.loads(os.read(reading, 1 << 16)) == {"of": 1}
    finally:
        os.close(reading)
        os.close(writing)
    device = tmp_path / "device"
    device.symlink_to("/dev/null")
    assert write(Experiment({"of": 1}, [{"row": 1}]), device) == [device] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("with_ms", "without_ms", "slower"), [(2e3, None, True), (2e3, 5e3, True), (5e3, 2e3, False), (None, None, False)]
)
def test_ageing_helps_only_if_starved_flows_end_with_it(with_ms: float | None, without_ms: float | None, slower: bool) -> None:
    """Where flows are left with ageing and without it, nobody knows which takes longer."""
    runs = [
        {"ecn": ecn, "ageing": ageing, "starved": [{"fct_ms": 1e3}, {"fct_ms": took_ms}]}
        for ecn in (True, False)
        for ageing, took_ms in ((True, with_ms), (False, without_ms))
    ]
    verdict = conclude("karuna-starvation", {"runs": runs}).verdict
    seen = verdict.partition("but not:")[0] if " Seen: " in verdict else ""
    assert ("without ageing it takes longer" in seen) is slower


def test_a_record_whose_writing_is_interrupted_leaves_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "a.json").write_text("the last result")
    monkeypatch.setattr("emulation.files.Path.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a.json", "the next one")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "the last result")]
