"""The published figures: the catalogue's commands, what makes a figure run again, the runner, and the report."""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bench.figures import pictures, report
from bench.figures.catalogue import ENTRIES, Entry, chosen
from bench.figures.conclusions import COMPARE, conclude
from bench.figures.fingerprint import ROOT, code, fingerprint
from bench.figures.runner import Progress, Runner, State, read_state
from bench.figures.summary import markdown
from bench.karuna import FIGURES as KARUNA
from bench.xco import FIGURES as XCO
from cli.bench.figures import _measure, left
from cli.main import main
from emulation.measuring.confidence import judge
from emulation.measuring.fidelity import Fidelity


class TestCatalogue:
    """Every published figure is there, and can be measured."""

    @pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
    def test_the_command_parses(self, entry: Entry) -> None:
        command: click.Command = main
        words = list(entry.words)
        context = click.Context(command)
        while isinstance(command, click.Group):
            found = command.get_command(context, words[0])
            assert found is not None, words[0]
            command, context = found, click.Context(found, parent=context, info_name=words.pop(0))
        command.parse_args(context, [*words, "--json", "record.json"])

    @pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
    def test_it_asks_a_question_and_names_its_source_and_its_module(self, entry: Entry) -> None:
        assert entry.question.endswith("?") and entry.seconds > 0
        assert any(letter.isdigit() for letter in entry.source) or entry.source == "Baton's goals"
        assert ROOT.joinpath(*entry.module.split(".")).with_suffix(".py").is_file()

    def test_names_differ_and_every_figure_of_xco_and_karuna_is_there(self) -> None:
        names = [entry.name for entry in ENTRIES]
        assert len(set(names)) == len(names)
        assert {f"xco-{name}" for name in XCO} | {f"karuna-{name}" for name in KARUNA} <= set(names)

    def test_all_but_what_measures_a_processor_run_in_virtual_time(self) -> None:
        assert [entry.name for entry in ENTRIES if not entry.virtual] == ["xco-machines", "host-control"]

    def test_together_they_are_expected_to_take_less_than_two_hours_on_two_processors(self) -> None:
        beside = sum(entry.seconds for entry in ENTRIES if entry.virtual) / 2
        assert beside + sum(entry.seconds for entry in ENTRIES if not entry.virtual) < 2 * 3600

    def test_some_are_chosen_in_the_catalogue_s_order(self) -> None:
        assert [entry.name for entry in chosen(("karuna-fct", "demo"))] == ["demo", "karuna-fct"]
        assert chosen(()) == list(ENTRIES)
        with pytest.raises(KeyError):
            chosen(("nothing",))


class TestFingerprint:
    """A changed module changes the hash of what uses it, and of nothing else."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        files = {
            "one/__init__.py": "",
            "one/top.py": "from one import middle\nPROGRAM = 'two.process'\n",
            "one/middle.py": "def f():\n    from two.leaf import g\n    return g()\n",
            "one/other.py": "x = 1\n",
            "two/__init__.py": "",
            "two/leaf.py": "def g():\n    return 1\n",
            "two/process.py": "print()\n",
            "two/program.c": "int main() { return 0; }\n",
        }
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return tmp_path

    def test_what_it_imports_or_runs_and_the_programs_beside_that_count(self, project: Path) -> None:
        found = [path.relative_to(project).as_posix() for path in code("one.top", root=project)]
        assert found == [
            *("one/__init__.py", "one/middle.py", "one/top.py"),
            *("two/__init__.py", "two/leaf.py", "two/process.py", "two/program.c"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("changed", "differs"),
        [
            *((name, True) for name in ("one/middle.py", "two/leaf.py", "two/process.py", "two/program.c")),
            ("one/other.py", False),
        ],
    )
    def test_a_change_shows_where_it_matters(self, project: Path, changed: str, differs: bool) -> None:
        before = fingerprint("one.top", ("demo",), root=project)
        path = project / changed
        path.write_text(path.read_text() + "\n")
        assert (fingerprint("one.top", ("demo",), root=project) != before) is differs

    def test_another_command_is_another_figure(self, project: Path) -> None:
        assert fingerprint("one.top", ("--seed", "1"), root=project) != fingerprint("one.top", ("--seed", "2"), root=project)

    def test_a_missing_module_is_named(self, project: Path) -> None:
        with pytest.raises(ValueError, match=r"one\.nothing"):
            fingerprint("one.nothing", (), root=project)

    def test_of_this_project_it_covers_the_agents_the_controller_and_the_virtual_machine(self) -> None:
        found = {path.relative_to(ROOT).as_posix() for path in code("emulation.stack.demo", virtual=True)}
        for part in ("agents/agent.py", "agents/bpf/classify.bpf.c", "agents/reflex/reflex.c", "controller/app.py",
                     "controller/coordinator/coordinator.py", "controller/coordinator/store_bridge.py", "protocol/messages.py",
                     "emulation/traffic/workloads.py", "emulation/virtual/kernel.patch",
                     "controller/policies/core/schedule/schedule.c", "controller/policies/core/plan.h",
                     "controller/switch_queues/bpf/switch_queues.bpf.c", "emulation/fabric/bpf/departure.bpf.c",
                     "ebpf/include/wire.h"):  # fmt: skip
            assert part in found
        assert not any(name.startswith(("webui/", "bench/", "tests/")) for name in found)


def an_entry(name: str, *words: str, seconds: int = 2) -> Entry:
    return Entry(name, f"What is {name}?", "A paper, figure 1", words or ("demo", "--virtual"), "emulation.stack.demo", seconds)


class TestRunner:
    """What runs, what need not run again, what becomes of a failure, and what an interrupt leaves."""

    def runner(self, entries: Sequence[Entry], results: Path, *, keys: dict[str, str] | None = None, **more: Any) -> Runner:  # noqa: ANN401 -- Runner's
        def command(entry: Entry, record: Path) -> list[str]:
            program = f"import pathlib; pathlib.Path({str(record)!r}).write_text('{{}}'); print('measured')"
            if "fails" in entry.name:
                program = "import sys; print('first'); print('Error: there is no fabric', file=sys.stderr); sys.exit(3)"
            if "hangs" in entry.name:
                program = "import time; time.sleep(100)"
            return [sys.executable, "-ISc", program]

        return Runner(
            entries, results, command=command, draw=more.pop("draw", lambda entry, directory: None),
            key_of=lambda entry: (keys or {}).get(entry.name, "key"), **more,
        )  # fmt: skip

    def run(self, runner: Runner) -> tuple[dict[str, State], list[str], list[Progress]]:
        ended: list[str] = []
        said: list[Progress] = []
        return runner.run(said.append, lambda entry, state: ended.append(f"{entry.name} {state.status}")), ended, said

    def test_figures_are_measured_and_their_records_kept(self, tmp_path: Path) -> None:
        found, ended, said = self.run(self.runner([an_entry("a"), an_entry("b")], tmp_path))
        assert {name: state.status for name, state in found.items()} == {"a": "done", "b": "done"}
        assert sorted(ended) == ["a done", "b done"]
        assert (tmp_path / "a" / "record.json").exists() and read_state(tmp_path / "a").key == "key"
        assert all(0 <= one.share <= 1 and one.left_s >= 0 for one in said) and said[-1].share == 1

    def test_what_is_done_does_not_run_again_unless_its_code_changed_or_it_is_asked_for(self, tmp_path: Path) -> None:
        entries = [an_entry("a"), an_entry("b")]
        self.run(self.runner(entries, tmp_path))
        before = {name: (tmp_path / name / "record.json").stat().st_mtime_ns for name in ("a", "b")}
        self.run(self.runner(entries, tmp_path))
        assert {name: (tmp_path / name / "record.json").stat().st_mtime_ns for name in ("a", "b")} == before
        self.run(self.runner(entries, tmp_path, keys={"b": "its code changed"}))
        after = {name: (tmp_path / name / "record.json").stat().st_mtime_ns for name in ("a", "b")}
        assert after["a"] == before["a"] and after["b"] != before["b"]
        self.run(self.runner(entries, tmp_path, keys={"b": "its code changed"}, again=True))
        assert (tmp_path / "a" / "record.json").stat().st_mtime_ns != before["a"]

    def test_a_failure_stops_no_other_is_shown_by_its_last_line_and_runs_again(self, tmp_path: Path) -> None:
        entries = [an_entry("fails"), an_entry("good")]
        found, _, _ = self.run(self.runner(entries, tmp_path))
        assert found["fails"].status == "failed" and found["fails"].line == "Error: there is no fabric"
        assert found["good"].status == "done"
        again, ended, _ = self.run(self.runner(entries, tmp_path))
        assert ended[0] == "good done" and again["fails"].status == "failed"

    def test_a_picture_that_cannot_be_drawn_is_a_failure_that_says_so(self, tmp_path: Path) -> None:
        def draw(entry: Entry, directory: Path) -> None:
            raise KeyError("goodput_mbps")

        found, _, _ = self.run(self.runner([an_entry("a")], tmp_path, draw=draw))
        assert found["a"] == found["a"]._replace(status="failed", line="the picture: KeyError: 'goodput_mbps'")

    def test_an_interrupt_ends_what_runs_and_keeps_what_is_done(self, tmp_path: Path) -> None:
        runner = self.runner([an_entry("good"), an_entry("hangs")], tmp_path)

        def tell(progress: Progress) -> None:
            if progress.running == ("hangs",):
                raise KeyboardInterrupt

        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            runner.run(tell, lambda entry, state: None)
        assert time.monotonic() - begun < 20
        assert read_state(tmp_path / "good").status == "done" and read_state(tmp_path / "hangs").status == "missing"

    def test_a_closed_terminal_is_an_interrupt(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The figures run in sessions of their own: nothing else would end them."""

        def run(*_: object) -> dict[str, State]:
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL  # it would end this test, too
            signal.raise_signal(signal.SIGHUP)
            return {}

        before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
        monkeypatch.setattr("emulation.virtual.kernel.find", lambda: tmp_path)
        monkeypatch.setattr(Runner, "run", run)
        try:
            with pytest.raises(KeyboardInterrupt):
                _measure([an_entry("a")], tmp_path, 1, False)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @pytest.mark.parametrize(("again", "key"), [(True, "key"), (False, "of older code")])
    def test_an_interrupt_keeps_what_an_earlier_run_has_measured_of_the_figure(
        self, tmp_path: Path, again: bool, key: str
    ) -> None:
        """Until it is measured anew the report shows what there is."""
        (tmp_path / "hangs").mkdir()
        (tmp_path / "hangs" / "state.json").write_text(json.dumps(State("done", key, 9.0, "", "2026")._asdict()))
        (tmp_path / "hangs" / "record.json").write_text("{}")
        before = {path.name: path.read_bytes() for path in (tmp_path / "hangs").iterdir()}

        def tell(progress: Progress) -> None:
            if progress.running:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.runner([an_entry("hangs")], tmp_path, again=again).run(tell, lambda entry, state: None)
        assert {path.name: path.read_bytes() for path in (tmp_path / "hangs").iterdir()} == before
        assert [path.name for path in tmp_path.iterdir()] == ["hangs"]

    def test_a_second_interrupt_leaves_nothing_running(self, tmp_path: Path) -> None:
        words = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(100)"
        runner = self.runner([an_entry("a"), an_entry("b")], tmp_path)
        runner._command = lambda entry, record: [sys.executable, "-ISc", words]
        processes = list[Any]()

        def tell(progress: Progress) -> None:
            if all((tmp_path / f"{name}.new" / "output.txt").read_text() for name in ("a", "b")):
                processes.extend(one.process for one in runner._running)
                signal.signal(signal.SIGALRM, signal.default_int_handler)
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                raise KeyboardInterrupt

        before = signal.getsignal(signal.SIGALRM)
        try:
            with pytest.raises(KeyboardInterrupt):
                runner.run(tell, lambda entry, state: None)
            assert len(processes) == 2 and all(process.poll() is not None for process in processes)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            for process in processes:
                process.kill()

    def test_a_figure_that_fails_when_it_is_measured_again_keeps_its_record(self, tmp_path: Path) -> None:
        (tmp_path / "fails").mkdir()
        (tmp_path / "fails" / "state.json").write_text(json.dumps(State("done", "key", 9.0, "", "2026")._asdict()))
        (tmp_path / "fails" / "record.json").write_text("{}")
        found, _, _ = self.run(self.runner([an_entry("fails")], tmp_path, again=True))
        assert found["fails"].status == "failed" and "there is no fabric" in found["fails"].line
        assert read_state(tmp_path / "fails").status == "done" and (tmp_path / "fails" / "record.json").exists()
        assert "there is no fabric" in (tmp_path / "fails.failed" / "errors.txt").read_text()

    def test_a_figure_that_takes_too_long_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bench.figures.runner.MOST_S", 0.3)
        found, _, _ = self.run(self.runner([an_entry("hangs")], tmp_path))
        assert found["hangs"].status == "failed" and "longer than" in found["hangs"].line

    def test_a_figure_in_real_time_has_the_machine_for_itself(self, tmp_path: Path) -> None:
        entries = [an_entry("real", "bench", "host-control"), an_entry("a"), an_entry("b"), an_entry("c")]
        _, ended, said = self.run(self.runner(entries, tmp_path))
        assert ended[-1] == "real done"
        assert all(one.running == ("real",) for one in said if "real" in one.running)
        assert max(len(one.running) for one in said) <= 2

    def test_time_left_is_told_in_minutes_or_below_a_minute_in_seconds(self) -> None:
        assert (left(3600), left(59)) == ("60 min left", "59 s left")


RECORD = {
    "title": "made for a test",
    "published": {"result": "1 & 2 <Mb/s>"},
    "scale": "a tenth",
    "compared": [
        {"what": "goodput <b>", "published": {"timeslice": "near 1000 & more"}, "ours": {"timeslice": 959.25, "odd": None}}
    ],
    "verdict": "As published: 5 > 4 & <i>true</i>.",
    "confidence": judge(Fidelity(0, 0, (), 1, True)).to_dict(),
    "environment": {"commit": "abc<def", "kernel": "6.12", "cpus": 1},
    "runs": [],
}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><title>THEME</title></svg>'


class Page(HTMLParser):
    """Checks that tags nest, and collects identities, texts, and what the page loads."""

    VOID = frozenset({"meta", "img", "source", "br", "link", "input"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"]] if values.get("id") else []  # type: ignore[list-item]  # not None
        self.loads += [str(values[name]) for name in ("src", "srcset", "href") if name in values]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words += data


class TestReport:
    """One page: well-formed, complete, safe, and in need of nothing else."""

    @pytest.fixture
    def page(self, tmp_path: Path) -> Page:
        entries = [an_entry("good"), an_entry("fails"), an_entry("missing"), an_entry("broken")]
        good = tmp_path / "figures" / "good"
        good.mkdir(parents=True)
        (good / "record.json").write_text(json.dumps(RECORD))
        for theme in ("light", "dark"):
            (good / f"picture-{theme}.svg").write_text(SVG.replace("THEME", theme))
        (good / "state.json").write_text(json.dumps(State("done", "key", 12.3, "", "2026-01-02T03:04:05Z")._asdict()))
        for name, state in (("fails", State("failed", "key", 1.0, "Error: <no> & nothing")), ("broken", State("done", "key"))):
            (tmp_path / "figures" / name).mkdir()
            (tmp_path / "figures" / name / "state.json").write_text(json.dumps(state._asdict()))
        self.sections = report.write(entries, tmp_path / "figures", tmp_path / "report.html")
        self.text = (tmp_path / "report.html").read_text()
        return Page(self.text)

    def test_every_figure_has_a_section_with_its_question_and_command(self, page: Page) -> None:
        assert page.ids == ["good", "fails", "missing", "broken"]
        assert page.words.count("baton demo --virtual") == 4
        assert all(page.words.count(f"What is {name}?") >= 2 for name in page.ids)  # in the table at the top, too

    def test_texts_are_escaped(self, page: Page) -> None:
        texts = ("As published: 5 > 4 & <i>true</i>.", "goodput <b>", "near 1000 & more", "Error: <no> & nothing", "abc<def")
        for text in texts:
            assert text in page.words
        assert "i" not in page.tags and "no" not in page.tags

    def test_values_stand_beside_published_ones(self, page: Page) -> None:
        assert "959" in page.words and "published: near 1000 & more" in page.words and "timeslice" in page.words

    @pytest.mark.parametrize(
        ("name", "record"),
        [
            ("karuna-queues", {"runs": []}),
            ("karuna-microbench", {"runs": [{"scheme": {"name": "cubic"}, "queue_packets": {"p50": 1}, "goodput_mbps": 1}]}),
            ("xco-mix", {"verdict": "so", "compared": [{"what": "a", "published": {}, "ours": {"auto": float("inf")}}]}),
        ],
    )  # fmt: skip
    def test_a_record_that_cannot_be_read_spoils_no_other_figure(
        self, name: str, record: dict[str, Any], tmp_path: Path
    ) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(json.dumps({"environment": {}, "confidence": {}, **record}))
        (tmp_path / name / "state.json").write_text(json.dumps(State("done", "key")._asdict()))
        found = report.write([an_entry(name), an_entry("missing")], tmp_path, tmp_path / "report.html")
        assert found[0].state.status == "failed" and "not as expected" in found[0].state.line
        assert (tmp_path / "report.html").exists()

    def test_a_failure_and_what_was_not_measured_are_shown_as_such(self, page: Page) -> None:
        assert "It failed: Error: <no> & nothing" in page.words and "It has not been measured." in page.words
        assert "its record is not as expected" in page.words
        assert "1 of 4 figures measured" not in page.words or "failed" in page.words

    def test_it_loads_nothing_and_has_both_forms_of_each_picture_and_one_for_paper(self, page: Page) -> None:
        assert all(load.startswith(("data:image/svg+xml;base64,", "#")) for load in page.loads)
        assert sum(load.startswith("data:") for load in page.loads) == 2
        assert "prefers-color-scheme: dark" in self.text and "@media print" in self.text
        assert "<script" not in self.text and "http-equiv" not in self.text and "url(" not in self.text

    def test_its_text_is_there_as_a_document_too(self, page: Page) -> None:
        text = markdown(self.sections)
        assert "Measured: 1 of 4 figures, the last one 2026-01-02." in text
        assert "Not in this sample: fails, missing, broken." in text
        assert "What is good? **As published: 5 > 4 & <i>true</i>.**" in text
        assert "| goodput <b> | 959 (near 1000 & more) | " in text and "`baton demo --virtual`: real time, Linux 6.12" in text

    def test_confidence_commit_and_environment_are_stated(self, page: Page) -> None:
        assert "exact" in page.words and "Linux 6.12" in page.words and "in 12 s" in page.words


class TestConclusions:
    """A verdict for each record, from its own figures."""

    def demo(self, sliced: float) -> dict[str, Any]:
        def run(policy: str, k: int, mbps: float) -> dict[str, Any]:
            return {"policy": policy, "k": k, "goodput_mbps": mbps, "tcp_mean_mbps": 190.0, "rtt_ms": {"max": 1.0}}

        rates = {"uncoordinated": (950.0, 300.0, 3.0), "rate_limit": (940.0,) * 3, "timeslice": (sliced,) * 3}
        runs = [run(policy, k, mbps) for policy, values in rates.items() for k, mbps in zip((0, 3, 5), values, strict=True)]
        return {"environment": {"rate_mbps": 1000}, "runs": runs}

    def test_a_record_s_own_verdict_counts(self) -> None:
        assert conclude("xco-mix", RECORD).verdict == RECORD["verdict"]

    def test_the_demo_is_as_published_if_timeslices_fill_the_link(self) -> None:
        assert conclude("demo", self.demo(955.0)).verdict.startswith("As published: with timeslices 955 to 955 of 1000 Mb/s")
        assert "but not: with timeslices 500" in conclude("demo", self.demo(500.0)).verdict

    def test_of_flows_that_never_ended_no_time_is_claimed(self) -> None:
        def run(scheme: str, parts: list[float | None]) -> dict[str, Any]:
            return {"scheme": {"name": scheme}, "completion_over_deadline": parts, "background_of_what_is_left": 0.95}

        said = conclude("karuna-deadlines", {"runs": [run("mcp", [None] * 2), run("dctcp", [None]), run("edf", [0.2])]}).verdict
        assert "but not: MCP ends no flow, 2 never" in said and "DCTCP ends none, 1 never" in said
        assert "0.00" not in said and "9.00" not in said

    @pytest.mark.parametrize(
        ("median", "filled", "missed"),
        [(19, 89, ""), (2, 89, "DCTCP keeps the queue near"), (19, 55, "CUBIC fills the buffer"), (35, 89, "DCTCP keeps")],
    )
    def test_a_queue_far_below_the_threshold_is_not_near_it(self, median: int, filled: int, missed: str) -> None:
        """Nor is a buffer full that is half empty."""

        def run(name: str, p50: int, p99: int) -> dict[str, Any]:
            scheme = {"name": name, "marking_packets": 20 if name == "dctcp" else None}
            rest = {"goodput_mbps": 95.0, "buffer_packets": 100, "meets": {"queue p99 <= 30 packets": p99 <= 30}}
            return {"scheme": scheme, "queue_packets": {"p50": p50, "p99": p99}, **rest}

        runs = [run("dctcp", median, median + 4), run("cubic", 50, filled)]
        said = conclude("karuna-microbench", {"runs": runs}).verdict
        assert missed in said.partition("but not: ")[2] and ("but not" in said) == bool(missed)

    @staticmethod
    def delays(agent: str, off: dict[str, Any], leaked: dict[str, Any], size: int = 64) -> dict[str, Any]:
        at = {"kind": "delays", "size_bytes": size, "flows": 2, "gate": "tbf", "agent": agent}
        at["transport"] = "none" if agent == "none" else "pfc"
        return {**at, "off_us": off, "on_us": {"samples": 0}, "packets_after_close": leaked}

    def test_what_host_control_does_at_worst_is_of_all_sizes(self) -> None:
        runs = [
            self.delays("none", {"samples": 1, "p50": worst}, {"samples": 1, "max": worst}, size)
            for size, worst in ((64, 0), (1000, 3))
        ]
        verdict = conclude("host-control", {"runs": runs}).verdict
        assert "stops 3 us after a command to its gate" in verdict and "at most 3 packets leak" in verdict

    def test_commands_without_effect_are_told_beside_the_delays_of_the_others(self) -> None:
        some = {**self.delays("none", {"samples": 90, "p50": 5}, {"samples": 90, "max": 0}), "never_opened": 3}
        verdict = conclude("host-control", {"runs": [{**some, "never_closed": 7}]}).verdict
        assert "7 commands to close and 3 to open had no effect" in verdict
        assert "no effect" not in conclude("host-control", {"runs": [{**some, "never_opened": 0, "never_closed": 0}]}).verdict

    def test_host_control_without_a_sample_claims_no_delay_and_no_leak(self) -> None:
        run, nothing = self.delays, {"samples": 0}
        verdict = conclude("host-control", {"runs": [run("none", nothing, nothing), run("blocking", nothing, nothing)]}).verdict
        assert "0 us" not in verdict and "0 packets" not in verdict and verdict.count("not measured") == 3
        some = [run("none", {"samples": 1, "p50": 5.0}, {"samples": 1, "max": 1}), run("blocking", nothing, nothing)]
        verdict = conclude("host-control", {"runs": some}).verdict
        assert "5 us after a command to its gate" in verdict and "at most 1 packets leak" in verdict

    def test_what_is_published_without_values_is_not_as_published(self) -> None:
        def queues(least: float, most: float) -> str:
            times = {"flows": 9, "incomplete": 0}
            runs = [{"queues": count, "completion": {"all": {**times, "mean_ms": ms}}} for count, ms in ((2, least), (8, most))]
            return conclude("karuna-queues", {"runs": runs}).verdict

        def starvation(last_ms: float | None) -> str:
            cases = [(ecn, ageing, 9.0 if ageing else 12.0) for ecn in (True, False) for ageing in (True, False)]
            runs = [{"ecn": ecn, "ageing": ageing, "starved": [{"fct_ms": ms}]} for ecn, ageing, ms in cases]
            runs[2]["starved"] = [{"fct_ms": last_ms}]
            return conclude("karuna-starvation", {"runs": runs}).verdict

        assert queues(90, 60).startswith("Published in a picture only. Seen: 8 queues instead of 2 shorten")
        assert queues(60, 90).startswith("Published in a picture only. Not seen: 8 queues instead of 2")
        assert starvation(9.0).startswith("No figure is published. Seen: with ageing no starved flow is left")
        assert "Not seen: with ageing some starved flows are left" in starvation(None)

    def test_every_figure_without_a_verdict_of_its_own_has_a_comparison(self) -> None:
        own = {f"xco-{name}" for name in (*XCO, "machines")}
        own |= {entry.name for entry in ENTRIES if entry.name.startswith("fabrics")}
        assert {entry.name for entry in ENTRIES} - own <= set(COMPARE)

    @pytest.mark.parametrize(
        "module", [entry.module for entry in ENTRIES if entry.name.startswith(("xco", "karuna", "fabrics"))]
    )
    def test_every_module_can_draw_its_record(self, module: str) -> None:
        assert callable(importlib.import_module(module).draw)

    def test_pictures_have_a_light_and_a_dark_form(self, tmp_path: Path) -> None:
        record = self.demo(955.0)
        for run in record["runs"]:
            run |= {"drops": 3, "valid": True}
        (tmp_path / "record.json").write_text(json.dumps(record))
        pictures.draw(an_entry("demo"), tmp_path)
        (light,), (dark,) = (pictures.pictures(tmp_path, name) for name in ("light", "dark"))
        assert "#15181c" in dark.read_text() and "#15181c" not in light.read_text()


class TestSummary:
    """The report's text in a file that is named."""

    def test_the_folder_of_the_named_file_is_made(self, tmp_path: Path) -> None:
        file = tmp_path / "new" / "figures.md"
        found = CliRunner().invoke(main, ["bench", "figures", "--report", "--into", str(tmp_path), "--summary", str(file)])
        assert found.exit_code == 0 and file.read_text().startswith("# Published figures")

    @pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
    def test_a_full_disk_is_told_in_one_line_that_names_the_file(self, tmp_path: Path) -> None:
        words = ("bench", "figures", "--report", "--into", str(tmp_path))
        found = CliRunner().invoke(main, [*words, "--summary", "/dev/full"])
        assert found.exit_code == 1 and "Error: /dev/full cannot be written: No space left on device; make room" in found.output

    def test_a_report_that_has_no_room_leaves_no_half_of_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "replace", full)
        found = CliRunner().invoke(main, ["bench", "figures", "--report", "--into", str(tmp_path)])
        assert found.exit_code == 1 and f"{tmp_path / 'report.html'} cannot be written: No space left" in found.output
        assert [path.name for path in tmp_path.iterdir()] == ["figures"]

    def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cli.bench.figures._measure", lambda *_: pytest.fail("it measures"))
        (tmp_path / "file").touch()
        file = tmp_path / "file" / "figures.md"
        found = CliRunner().invoke(main, ["bench", "figures", "--into", str(tmp_path), "--summary", str(file)])
        assert found.exit_code == 2 and "--summary" in found.output
