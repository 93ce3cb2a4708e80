"""The demo's figure and its closing sentence, also if every run was disturbed, and of records from before `confidence`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

from emulation.measuring import figures
from emulation.measuring.confidence import judge
from emulation.measuring.fidelity import Fidelity

BUSY = judge(Fidelity(0.01, 0.02, (50_000,) * 100, 2), duration_ns=10**9, slots=100, late_slots=6).to_dict()
QUIET = judge(Fidelity(0.4, 0.0, (50_000,) * 100, 2), duration_ns=10**9).to_dict()
MARKS: dict[str, dict[str, Any]] = {
    "good": {"confidence": QUIET},
    "indicative": {"confidence": BUSY},
    "older, valid": {"valid": True},
    "older, invalid": {"valid": False},
}


def run_of(policy: str, k: int, mark: str, mbps: float = 90.0) -> dict[str, Any]:
    rtt = {"p50": 1.0, "p99": 2.0, "max": 3.0}
    return {
        "policy": policy, "k": k, **MARKS[mark],
        "goodput_mbps": mbps, "tcp_mean_mbps": 18.0, "drops": 3, "jain": 1.0, "rtt_ms": rtt,
    }  # fmt: skip


@pytest.mark.parametrize("mark", list(MARKS))
def test_the_demos_figure_names_every_policy_in_its_legend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    made = []
    monkeypatch.setattr(pyplot, "close", made.append)
    runs = [run_of(policy, k, mark) for policy in figures.POLICIES for k in (0, 5)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        figures.demo_figure(runs, tmp_path / "demo.png", rate_mbps=100.0, caption="made for a test")
    legend = made[0].axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [figures.LABELS[policy] for policy in figures.POLICIES]
    assert (tmp_path / "demo.png").stat().st_size > 10_000


class TestTheClosingSentence:
    """The demo always ends with what was gained."""

    def runs(self, mark: str, without: float = 0.4, with_it: float = 95.4) -> list[dict[str, Any]]:
        return [run_of("uncoordinated", 5, mark, without), run_of("timeslice", 5, mark, with_it)]

    @pytest.mark.parametrize("mark", list(MARKS))
    def test_it_states_the_gain_whatever_the_machine_did(self, mark: str) -> None:
        assert "delivers 95.4 Mb/s instead of 0.4" in figures.gain(self.runs(mark), 100)

    @pytest.mark.parametrize("mark", ["good", "older, valid"])
    def test_on_a_quiet_machine_it_says_no_more(self, mark: str) -> None:
        assert "indicative" not in figures.gain(self.runs(mark), 100)

    def test_on_a_busy_machine_it_says_what_was_disturbed_what_holds_and_how_to_be_exact(self) -> None:
        found = figures.gain(self.runs("indicative"), 100)
        assert "indicative" in found and "6 of 100 slots began late" in found and "baton demo --virtual" in found
        assert "at most 10.0 and 10.0 Mb/s" in found  # 6 % of late slots, and 2 % stolen from each of two processors
        assert "at least 75.0 Mb/s of the difference hold" in found

    def test_a_difference_within_the_bounds_is_said_to_be_one(self) -> None:
        found = figures.gain(self.runs("indicative", without=90.0, with_it=95.0), 100)
        assert "delivers 95.0 Mb/s instead of 90.0" in found and "more than their difference" in found

    def test_it_prefers_the_difference_that_holds_best(self) -> None:
        pairs = [*self.runs("indicative"), run_of("uncoordinated", 3, "good", 5.0), run_of("timeslice", 3, "good", 94.0)]
        assert figures.gain(pairs, 100).startswith("With 3 of 5 senders")

    def test_without_a_pair_it_says_so(self) -> None:
        assert "nothing to compare" in figures.gain([run_of("timeslice", 5, "good")], 100)


def test_short_times_keep_their_digits() -> None:
    found = [figures.milliseconds(value) for value in (0.0, 0.00128, 0.0362, 0.94, 1.0, 21.44)]
    assert found == ["0.0", "0.0013", "0.036", "0.94", "1.0", "21.4"]
