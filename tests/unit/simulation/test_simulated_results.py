"""simulation/results.py, comparison.py, sweep.py, figure.py: what is made of a run's lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from cli.simulate import COLUMNS
from emulation import cdfs
from simulation import run as run_module
from simulation import sweep as sweep_module
from simulation import toolchain
from simulation.cases import Case
from simulation.comparison import gains, rows
from simulation.fabric import SIZES
from simulation.figure import draw
from simulation.flows import Flow
from simulation.results import ended, summary
from simulation.run import Progress, RunError, lines_of
from simulation.sweep import ClusterError, keep, kept, sweep
from simulation.toolchain import ToolchainError, code_digest, find_ns3
from simulation.validation import PacketClass, cobham_ns, time_percentile

FABRIC = SIZES["small"]
FLOWS = (
    Flow(0, 0, 1, 1_000, 1, 1_000_000),
    Flow(0, 0, 1, 1_000, 1, 1_000_000),
    Flow(0, 0, 1, 1_000, 1, 1_000_000),
    Flow(0, 0, 1, 50_000, 2),
    Flow(0, 0, 1, 20_000_000, 3),
)
LINES = (
    {"flow": 0, "end": "finished", "took_ns": 900_000, "promotions": 0},
    {"done": 1, "now_ns": 5},
    {"flow": 1, "end": "finished", "took_ns": 1_100_000, "promotions": 0},
    {"flow": 2, "end": "given_up", "took_ns": 500_000, "promotions": 0},
    {"flow": 3, "end": "finished", "took_ns": 2 * FABRIC.alone_ns(0, 1, 50_000), "promotions": 2},
)


def result(scheme: str, missed: float, p95: float, seed: int = 1) -> dict[str, Any]:
    """What `simulate` returns, as far as a comparison reads it."""
    found = summary(ended(FLOWS, LINES, FABRIC))
    found["deadlines"]["missed"] = missed
    found["without_deadline"]["all"]["p95_ms"] = p95
    case = Case(scheme, "web_search", 0.8, 5, seed)
    return {"case": case.described(), "key": case.key, "code": code_digest(), "wall_s": 1.0, **found}


class TestResults:
    """Completion times, slowdowns, deadlines."""

    def test_late_flows_and_those_given_up_have_missed_their_deadlines(self) -> None:
        found = summary(ended(FLOWS, LINES, FABRIC))["deadlines"]
        assert found["flows"] == 3
        assert (found["missed"], found["given_up"]) == pytest.approx((2 / 3, 1 / 3), abs=1e-4)
        assert found["bytes"] == pytest.approx(3_000 / 20_053_000, abs=1e-4)

    def test_flows_within_the_margins_are_sent_and_not_counted(self) -> None:
        case = Case("dctcp", "web_search", 0.5, 100, margin=0.1)
        assert (case.counted.start, case.counted.stop) == (10, 90)
        assert Case("dctcp", "web_search", 0.5, 3, margin=0.3).counted == slice(0, 3), "a margin of less than a flow is none"
        assert case.scheduled(cdfs.load("web_search")) == replace(case, margin=0.0).scheduled(cdfs.load("web_search"))
        assert case.key != replace(case, margin=0.0).key
        with pytest.raises(ValueError, match="margin"):
            Case("dctcp", "web_search", 0.5, 100, margin=0.5)

    def test_deadlines_are_told_by_size(self) -> None:
        found = summary(ended(FLOWS, LINES, FABRIC))["deadlines"]["by_size"]
        assert found["to 100 KB"]["used_p50"] == pytest.approx(0.9)  # of 0.9 and 1.1; the third was given up
        assert found["above 5 MB"] == {"flows": 0, "missed": None, "used_p50": None}

    def test_slowdowns_refer_to_the_flow_alone_and_classes_to_its_size(self) -> None:
        found = summary(ended(FLOWS, LINES, FABRIC))["without_deadline"]
        assert found["to 100 KB"]["slowdown_mean"] == 2 and found["to 100 KB"]["flows"] == 1
        assert found["above 10 MB"]["unfinished"] == 1 and found["above 10 MB"]["mean_ms"] is None
        assert found["all"]["flows"] == 2

    def test_without_deadlines_no_share_of_them_is_missed(self) -> None:
        assert summary(ended(FLOWS[3:], (), FABRIC))["deadlines"]["missed"] is None


class TestComparison:
    """Rows and gains."""

    def test_a_row_has_the_median_of_its_seeds(self) -> None:
        seeds = [result("karuna", missed, p95, seed) for seed, (missed, p95) in enumerate([(0.0, 4), (0.1, 5), (0.9, 60)])]
        (row,) = rows(seeds)
        assert (row.missed, row.p95_ms, row.seeds, row.wall_s) == (0.1, 5, 3, 3.0)

    def test_gains_pair_the_seeds_that_both_have(self) -> None:
        own = [result("karuna", 0.0, p95, seed) for seed, p95 in enumerate([8, 9, 7, 1])]
        (gain,) = gains([*own, *(result("pfabric", 0.0, 10, seed) for seed in range(3))])
        assert gain.by_seed == pytest.approx((0.2, 0.1, 0.3)) and gain.median == pytest.approx(0.2)
        assert (gain.low, gain.high) == pytest.approx((0.2 - 4.303 * 0.1 / 3**0.5, 0.2 + 4.303 * 0.1 / 3**0.5), abs=1e-3)
        assert "20.0% below pfabric's (median of 3 seeds" in str(gain)

    def test_flows_that_never_ended_are_told_beside_a_gain(self) -> None:
        ours, theirs = result("karuna", 0.1, 5), result("pfabric_edf", 0.1, 10)
        ours["without_deadline"]["all"]["unfinished"], theirs["without_deadline"]["all"]["unfinished"] = 3, 0
        assert "never ended: 3 of Karuna's, 0 of pfabric_edf's" in str(gains([ours, theirs])[0])
        assert "unfinished" in dict(COLUMNS), "and in the table"
        ours["without_deadline"]["all"]["unfinished"] = 0
        assert "never ended" not in str(gains([ours, theirs])[0])

    def test_one_seed_has_no_interval(self) -> None:
        (gain,) = gains([result("karuna", 0.0, 8), result("pfabric", 0.0, 10)])
        assert gain.low is None and "interval" not in str(gain)

    @pytest.mark.parametrize(("p95", "words"), [(6.0, "40.0% below pfabric's"), (15.0, "50.0% above pfabric's")])
    def test_karunas_gain_is_told_whichever_way_it_goes(self, p95: float, words: str) -> None:
        (gain,) = gains([result("pfabric", 0.1, 10), result("karuna", 0.02, p95)])
        line = str(gain)
        assert words in line and "2.0%" in line and "10.0%" in line

    def test_rows_are_drawn_into_a_file_whose_folder_is_made(self, tmp_path: Path) -> None:
        draw(rows([result("karuna", 0.1, 5)]), tmp_path / "new" / "sweep.png")
        assert (tmp_path / "new" / "sweep.png").stat().st_size > 1000

    def test_without_deadlines_a_picture_names_its_schemes_all_the_same(self, tmp_path: Path) -> None:
        from matplotlib import rc_context

        table = [row._replace(missed=None) for row in rows([result("karuna", 0.1, 5), result("pfabric", 0.1, 5)])]
        with rc_context({"svg.fonttype": "none"}):
            draw(table, tmp_path / "sweep.svg")
        text = (tmp_path / "sweep.svg").read_text()
        assert text.count(">karuna<") == text.count(">pfabric<") == 1


class TestSweep:
    """What is done is kept."""

    def test_kept_results_are_not_simulated_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        keep(result("karuna", 0.1, 5), tmp_path)
        monkeypatch.setattr(sweep_module, "program", lambda name: pytest.fail("compiles"))
        told: list[float] = []
        case = Case("karuna", "web_search", 0.8, 5)
        (found,) = sweep([case], tmp_path, lambda _, done: told.append(done), jobs=1)
        assert found["deadlines"]["missed"] == 0.1 and told == [1.0]

    @pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"key": "another"})])
    def test_a_damaged_result_counts_as_none(self, tmp_path: Path, text: str) -> None:
        case = Case("karuna", "web_search", 0.8, 5)
        keep(result("karuna", 0.1, 5), tmp_path)
        (file,) = tmp_path.iterdir()
        assert kept(case, tmp_path) is not None
        file.write_text(text)
        assert kept(case, tmp_path) is None

    def test_a_result_of_other_code_is_not_used_and_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        case = Case("karuna", "web_search", 0.8, 5)
        keep({**result("karuna", 0.1, 5), "code": "another"}, tmp_path)
        assert kept(case, tmp_path) is None
        keep(result("karuna", 0.2, 5), tmp_path)
        assert (kept(case, tmp_path) or {})["deadlines"]["missed"] == 0.2 and len(list(tmp_path.iterdir())) == 2

    @pytest.mark.parametrize(
        "changed", ["simulation/program/tagger.cc", "agents/bpf/mcp.h", "simulation/flows.py", "emulation/cdfs/web_search.txt"]
    )
    def test_the_code_is_another_when_what_decides_a_result_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
    ) -> None:
        for pattern in toolchain.DECIDING:
            paths = list(toolchain.ROOT.glob(pattern))
            assert paths, pattern
            for path in paths:
                copy = tmp_path / path.relative_to(toolchain.ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(path.read_bytes())
        monkeypatch.setattr(toolchain, "ROOT", tmp_path)
        before = code_digest.__wrapped__()
        assert before == code_digest()
        (tmp_path / changed).write_text((tmp_path / changed).read_text() + "\n")
        assert code_digest.__wrapped__() != before

    def test_an_interrupted_sweep_has_kept_what_was_done(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def simulate(case: Case, progress: object) -> dict[str, Any]:
            if case.scheme == "pias":
                raise RunError("out of memory")
            return result(case.scheme, 0.1, 5)

        monkeypatch.setattr(sweep_module, "program", lambda name: None)
        monkeypatch.setattr(sweep_module, "simulate", simulate)
        cases = [Case(scheme, "web_search", 0.8, 5) for scheme in ("karuna", "pias")]
        with pytest.raises(RunError, match="out of memory"):
            sweep(cases, tmp_path, lambda _, done: None, jobs=1)
        assert kept(cases[0], tmp_path) and not kept(cases[1], tmp_path)

    def test_what_still_runs_is_stopped_when_one_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ended_early = Event()

        def simulate(case: Case, progress: Progress) -> dict[str, Any]:
            if case.scheme == "pias":
                raise RunError("out of memory")
            try:
                while not ended_early.wait(0.01):
                    progress(0.5)
            except RunError:
                ended_early.set()
                raise
            return result(case.scheme, 0.1, 5)

        monkeypatch.setattr(sweep_module, "program", lambda name: None)
        monkeypatch.setattr(sweep_module, "simulate", simulate)
        cases = [Case(scheme, "web_search", 0.8, 5) for scheme in ("karuna", "pias")]
        with pytest.raises(RunError, match="out of memory"):
            sweep(cases, tmp_path, lambda _, done: None, jobs=2)
        assert ended_early.is_set()

    @pytest.mark.parametrize("half", ["", '{"flow": 1, "en'])
    def test_a_program_that_was_killed_is_told_with_a_remedy(
        self, half: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As by the kernel, when memory ran out: what it had not written yet is cut anywhere."""
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\nprintf '%s' '{half}'\nkill -9 $$\n")
        program.chmod(0o755)
        monkeypatch.setattr(run_module, "program", lambda name: program)
        with pytest.raises(RunError, match="fabric_run was killed; if memory ran out, run fewer --jobs"):
            lines_of("fabric_run", "")

    def test_a_cluster_without_dask_says_how_to_install_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "dask", None)
        with pytest.raises(ClusterError, match="pip install"):
            sweep([Case("karuna", "web_search", 0.8, 5)], tmp_path, lambda _, done: None, jobs=1, scheduler="tcp://127.0.0.1:1")

    def test_without_ns3_the_error_says_how_to_install_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BATON_NS3", str(tmp_path))
        with pytest.raises(ToolchainError, match="BATON_NS3"):
            find_ns3()


class TestTable:
    """What `baton simulate` prints."""

    def test_no_name_and_no_number_is_cut_off(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def kept_one(scheme: str) -> None:
            case = Case(scheme, "web_search_ns2", 0.8, 5, fabric=SIZES["small"], margin=0.1)
            found = result(scheme, 0.1, 12_345.6)
            found["without_deadline"]["all"] |= dict.fromkeys(("mean_ms", "p99_ms"), 65_432.1)
            found["without_deadline"]["to 100 KB"] |= dict.fromkeys(("mean_ms", "p99_ms"), 65_432.1)
            keep({**found, "case": case.described(), "key": case.key}, tmp_path)

        from rich.console import Console

        from cli import simulate

        schemes = ("pfabric", "pfabric_edf")
        for scheme in schemes:
            kept_one(scheme)
        monkeypatch.setattr(simulate, "make_console", lambda: Console(width=80, markup=False))
        words = [word for scheme in schemes for word in ("--scheme", scheme)]
        found = CliRunner().invoke(simulate.simulate, [*words, "--flows", "5", "--folder", str(tmp_path)])
        assert found.exit_code == 0, found.output
        assert " pfabric " in found.output and " pfabric_edf " in found.output and "…" not in found.output
        assert "12,346" in found.output and "e+" not in found.output


class TestFormulas:
    """What the simulator is compared with."""

    def test_one_class_waits_as_in_m_d_1(self) -> None:
        (wait,) = cobham_ns([PacketClass(0, 500_000, 1250)], 10_000_000_000)  # load 0.5, service 1 us
        assert wait == pytest.approx(0.5 * 1000 / (2 * 0.5))

    def test_the_conservation_law_holds(self) -> None:
        """Kleinrock: priorities move waiting time from one class to another; the sum weighted by load stays."""
        classes = [PacketClass(queue, 200_000, 1250) for queue in range(4)]
        waits, (alone,) = cobham_ns(classes, 10_000_000_000), cobham_ns([PacketClass(0, 800_000, 1250)], 10_000_000_000)
        assert waits == sorted(waits) and sum(waits) / 4 == pytest.approx(alone)

    def test_a_full_link_is_refused(self) -> None:
        with pytest.raises(ValueError, match="load"):
            cobham_ns([PacketClass(0, 1e9, 1250)], 10_000_000_000)

    def test_a_percentile_of_time_counts_how_long_each_value_lasted(self) -> None:
        assert [time_percentile({1.0: 98, 2.0: 1, 3.0: 1}, percent) for percent in (50, 99, 100)] == [1.0, 2.0, 3.0]


class TestCluster:
    """Workers elsewhere, whose Baton may be another one."""

    @pytest.fixture
    def answers(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """What a cluster's workers answer, one after the other: a result, or what they raise."""
        said: list[Any] = []

        class Answer:
            def __init__(self, key: int) -> None:
                self.key = key

            def result(self) -> Any:  # noqa: ANN401 -- as Dask's
                if isinstance(said[self.key], Exception):
                    raise said[self.key]
                return said[self.key]

        class Client(nullcontext[None]):
            def __init__(self, *_: object, **__: object) -> None:
                super().__init__()

            def map(self, _: object, cases: Sequence[Case], **__: object) -> list[Answer]:
                return [Answer(number) for number in range(len(cases))]

        distributed = SimpleNamespace(Client=Client, as_completed=iter)
        monkeypatch.setitem(sys.modules, "dask", SimpleNamespace(distributed=distributed))
        return said

    def swept(self, folder: Path) -> list[Any]:
        cases = [Case("karuna", "web_search", 0.8, 5)]
        return sweep(cases, folder, lambda _, done: None, jobs=1, scheduler="tcp://far:8786")

    def test_a_result_of_the_same_code_is_kept(self, answers: list[Any], tmp_path: Path) -> None:
        answers.append(result("karuna", 0.1, 5))
        assert self.swept(tmp_path)[0]["deadlines"]["missed"] == 0.1 and list(tmp_path.iterdir())

    def test_where_no_ns3_is_a_workers_result_is_kept_and_read_again(
        self, answers: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing() -> None:
            raise ToolchainError("no ns-3 here")

        try:
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(toolchain, "find_ns3", lambda: SimpleNamespace(prefix="ns3.44"))
                code_digest.cache_clear()
                answers.append(result("karuna", 0.1, 5))
            monkeypatch.setattr(toolchain, "find_ns3", missing)
            code_digest.cache_clear()
            assert self.swept(tmp_path) == answers
            answers.clear()
            assert [one["code"] for one in self.swept(tmp_path)] == [f"{code_digest()}+ns3.44"]
            assert len(list(tmp_path.iterdir())) == 1
        finally:
            code_digest.cache_clear()

    def test_where_all_is_kept_nobody_asks_the_cluster_nor_for_ns3(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case = Case("karuna", "web_search_ns2", 0.8, 5, margin=0.1)
        keep({**result("karuna", 0.1, 5), "case": case.described(), "key": case.key}, tmp_path)
        monkeypatch.setitem(sys.modules, "dask", None)
        assert sweep([case], tmp_path, lambda _, done: None, jobs=1, scheduler="tcp://gone:8786")
        monkeypatch.setattr(toolchain, "why_missing", lambda: "no ns-3 here")
        words = ["--scheme", "karuna", "--load", "0.8", "--flows", "5", "--folder", str(tmp_path)]
        from cli.simulate import simulate

        found = CliRunner().invoke(simulate, words)
        case = Case("karuna", "web_search_ns2", 0.8, 5, fabric=SIZES["small"], margin=0.1)
        assert found.exit_code == 1 and "no ns-3 here" in found.output  # another fabric
        keep({**result("karuna", 0.1, 5), "case": case.described(), "key": case.key}, tmp_path)
        found = CliRunner().invoke(simulate, words)
        assert found.exit_code == 0 and "karuna" in found.output, found.output

    def test_a_worker_of_other_code_is_named_and_its_result_not_kept(self, answers: list[Any], tmp_path: Path) -> None:
        answers.append({**result("karuna", 0.1, 5), "code": "another"})
        with pytest.raises(ClusterError, match=r"tcp://far:8786 simulates by other code \(another, .*install this Baton"):
            self.swept(tmp_path)
        assert not list(tmp_path.iterdir())

    def test_a_worker_that_is_gone_is_told_in_one_line(self, answers: list[Any], tmp_path: Path) -> None:
        answers.append(KeyError("KilledWorker"))
        with pytest.raises(ClusterError, match="KilledWorker"):
            self.swept(tmp_path)
