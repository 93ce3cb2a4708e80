"""Thresholds on an emulated fabric come from its hosts' reports, by the controller's own code."""

from __future__ import annotations

import random
from ipaddress import IPv4Address
from typing import Any, cast

import pytest

from agents.priorities.mcp_settings import Termination
from agents.priorities.tagger import EndReason, FlowEnd, Tagger
from controller.priorities.completion_model import Thresholds
from controller.priorities.tuning import Tuning, explain
from controller.processes.jsonlines import JsonLines
from emulation import cdfs
from emulation.stack.threshold_control import Kept, ThresholdControl

GIGABIT = 1_000_000_000
PERIOD_NS = 1_000_000_000
HERE = IPv4Address("10.0.0.1")


class FakeTagger:
    """Tells ends of flows that a test gives it, and keeps its thresholds."""

    def __init__(self) -> None:
        self.ends: list[FlowEnd] = []
        self.in_force: tuple[int, Any, Any] = (0, (), ())

    def ended(self) -> list[FlowEnd]:
        found, self.ends = self.ends, []
        return found

    def version(self) -> int:
        return self.in_force[0]

    def set_thresholds(self, version: int, beta: Any, alpha: Any) -> None:  # noqa: ANN401 -- as a tagger's
        self.in_force = (version, beta, alpha)


class FakeTuner:
    """The tuner's arithmetic without its process: a period ends when a test says so."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._answers: list[dict[str, Any]] = []

    def write(self, value: dict[str, Any]) -> bool:
        self.lines.append(value)
        return True

    def read(self) -> list[dict[str, Any]]:
        found, self._answers = self._answers, []
        return found

    def end_period(self) -> None:
        tuning = Tuning(self.lines[0]["bands"], self.lines[0]["in_force"])
        for line in self.lines[1:]:
            tuning.take(line)
        tuned = tuning.period()
        self._answers.append({"tuned": tuned | ({"text": explain(tuned)} if tuned["changed"] else {})})


class Link:
    """What the busiest link has sent."""

    sent_bytes = 0


def end(size_bytes: int, flow_type: int) -> FlowEnd:
    return FlowEnd(HERE, HERE, 6, 1, 2, size_bytes, 0, 1, 0, flow_type, (1,), EndReason.FIN, 0)


@pytest.fixture
def laid() -> tuple[list[FakeTagger], FakeTuner, Link]:
    return [FakeTagger(), FakeTagger()], FakeTuner(), Link()


def control(laid: tuple[list[FakeTagger], FakeTuner, Link], fixed: Thresholds | None = None) -> ThresholdControl:
    taggers, tuner, link = laid
    return ThresholdControl(
        cast(list[Tagger], taggers),
        GIGABIT,
        Kept(7, PERIOD_NS, Termination.NEVER, fixed),
        start_tuner=lambda: cast(JsonLines, tuner),
        sent_bytes=lambda: link.sent_bytes,
        now_ns=0,
    )


class TestThresholdControl:
    """Reports in, thresholds out."""

    def test_hosts_report_once_a_period_what_ended_and_the_busiest_links_load(
        self, laid: tuple[list[FakeTagger], FakeTuner, Link]
    ) -> None:
        taggers, tuner, link = laid
        kept = control(laid)
        taggers[0].ends = [end(1000, 2), end(0, 3)]
        kept.advance(PERIOD_NS - 1)
        assert len(tuner.lines) == 1, "before the period is over"
        link.sent_bytes = 100_000_000
        kept.advance(PERIOD_NS)
        reports = [line["sizes"] for line in tuner.lines if "sizes" in line]
        assert [(rate, period) for rate, period, _ in reports] == [(GIGABIT, PERIOD_NS)] * 2
        assert [bool(rows) for _, _, rows in reports] == [True, False]
        assert [line["busiest"] for line in tuner.lines if "busiest" in line] == [pytest.approx(0.8)]

    def test_every_tagger_gets_the_tuners_thresholds_for_what_its_hosts_reported(
        self, laid: tuple[list[FakeTagger], FakeTuner, Link]
    ) -> None:
        taggers, tuner, link = laid
        kept = control(laid)
        assert kept.in_force is None
        dice, sizes = random.Random(1), cdfs.load("web_search")
        for tagger in taggers:
            tagger.ends = [end(round(float(sizes.quantile(dice.random()))) + 1, dice.choice((2, 3))) for _ in range(200)]
        link.sent_bytes = 100_000_000
        kept.advance(PERIOD_NS)
        tuner.end_period()
        kept.advance(PERIOD_NS + 1)
        assert kept.in_force is not None and kept.in_force.bands == 7
        assert 1_000 < kept.in_force.beta[0] < kept.in_force.beta[-1] < 30_000_000
        assert [tagger.in_force for tagger in taggers] == [(2, kept.in_force.beta, kept.in_force.alpha)] * 2
        assert kept.told[-1]["busiest"] == 0.8 and kept.told[-1]["version"] == 2

    def test_fixed_thresholds_go_to_every_tagger_and_no_tuner_changes_them(
        self, laid: tuple[list[FakeTagger], FakeTuner, Link]
    ) -> None:
        taggers, tuner, _ = laid
        fixed = Thresholds((1, 2, 3, 4, 5, 6), (2, 3, 4, 5, 6, 7))
        kept = control(laid, fixed)
        kept.advance(PERIOD_NS)
        assert kept.in_force == fixed and not tuner.lines
        assert all(tagger.in_force == (1, fixed.beta, fixed.alpha) for tagger in taggers)
