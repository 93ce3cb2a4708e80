"""What commands say of how sure their figures are, and how they end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cli.demo import _disturbed, _table
from cli.experiments import MOST_REASONS, confidence_lines, enter_box
from emulation.measuring.confidence import judge, together
from emulation.measuring.fidelity import Fidelity

QUIET = judge(Fidelity(0.4, 0.0, (50_000,) * 100), duration_ns=10**9).to_dict()
BUSY = judge(Fidelity(0.01, 0.0, (50_000,) * 100), duration_ns=10**9, slots=100, late_slots=8).to_dict()


def run_of(policy: str, confidence: dict[str, Any]) -> dict[str, Any]:
    rtt = {"p50": 1.0, "p99": 2.0, "max": None}
    return {
        "policy": policy, "k": 5, "confidence": confidence, "goodput_mbps": 95.0, "tcp_mean_mbps": None, "jain": 1.0,
        "drops": 0, "rtt_ms": rtt, "slots": 100, "late_slots": 8,
    }  # fmt: skip


class TestTheDemo:
    """Rows of disturbed runs are dimmed, with the reason."""

    runs = (run_of("uncoordinated", QUIET), run_of("timeslice", BUSY))

    def test_only_disturbed_rows_are_dim(self) -> None:
        table = _table(list(self.runs))
        assert [row.style for row in table.rows] == [None, "dim"] and "indicative" in table.caption

    def test_each_has_a_line_that_says_why_and_what_it_can_have_changed(self) -> None:
        (line,) = _disturbed(list(self.runs))
        assert line.startswith("K = 5, timeslice: indicative;")
        assert "8 of 100 slots began late" in line and "goodput: off by at most 8.0% of the link's rate" in line

    def test_undisturbed_runs_need_no_words(self) -> None:
        assert not _disturbed([self.runs[0]]) and _table([self.runs[0]]).caption is None


class TestOtherExperiments:
    """The level, what was disturbed, and what holds; never a refusal."""

    def test_a_good_result_says_what_holds(self) -> None:
        assert confidence_lines(QUIET) == ["confidence: good", f"  holds: {QUIET['holds']}"]

    def test_a_disturbed_one_says_what_can_have_changed_and_still_what_holds(self) -> None:
        lines = confidence_lines(together({"first": {"confidence": BUSY}}, "timeslices gain"))
        assert lines[0] == "confidence: indicative" and lines[-1] == "  holds: timeslices gain"
        assert any("first: 8 of 100 slots began late" in line for line in lines)

    def test_of_many_reasons_the_first_are_told_and_the_rest_counted(self) -> None:
        lines = confidence_lines(together({str(number): {"confidence": BUSY} for number in range(9)}))
        assert sum("slots began late" in line or "idle" in line for line in lines) == MOST_REASONS
        assert any(f"and {2 * 9 - MOST_REASONS} more" in line for line in lines)


@pytest.fixture
def kept_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("kept_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_sigterm_and_a_closed_terminal_end_an_experiment_as_ctrl_c_does(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """So what it made is removed: a master key in a temporary directory, say. A second signal does not disturb that."""
    monkeypatch.setattr("emulation.box.inside", lambda: True)
    enter_box()
    assert callable(signal.getsignal(number))
    cleaned = False
    try:
        signal.raise_signal(number)
    except SystemExit as end:
        signal.raise_signal(number)
        cleaned = end.code == 128 + number
    assert cleaned


@pytest.mark.usefixtures("kept_signals")
def test_with_nohup_an_experiment_outlives_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulation.box.inside", lambda: True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    enter_box()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


FORKING = """
import os, signal, time
from contextlib import ExitStack
from cli.experiments import end_on_sigterm

end_on_sigterm()
runs, running = os.pipe()
with ExitStack() as stack:
    stack.callback(lambda: print("undone", flush=True))
    if (child := os.fork()) == 0:
        os.write(running, b"!")
        time.sleep(30)
    os.read(runs, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)
"""


def test_a_child_that_a_library_forked_undoes_nothing_of_its_parent_s_when_it_is_ended() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["143", "undone"] and done.returncode == 143, done.stderr
