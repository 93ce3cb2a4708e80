"""How sure a measurement is: levels, reasons, bounds, and which conclusions hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.measuring.confidence import (
    MAX_LATE_SLOTS,
    MAX_LATE_START_NS,
    MAX_LINK_ERROR,
    MAX_OVERRUNS,
    MAX_PROCESS_WAIT,
    Bound,
    Disturbance,
    Level,
    goodput,
    judge,
    level_of,
    margin,
    reasons,
    sure,
    together,
)
from emulation.measuring.fidelity import MAX_LATE_P99_NS, MAX_STEAL, MAX_SWITCH_WAIT, MIN_IDLE, Fidelity, process_name

MS = 1_000_000
SECOND_NS = 10**9
QUIET = Fidelity(0.4, 0.0, (50_000,) * 200, processors=2)


class TestLevels:
    """From what was observed to one word."""

    def test_a_quiet_machine_gives_good_figures_with_small_bounds(self) -> None:
        found = judge(QUIET, duration_ns=SECOND_NS, switch_wait_ns=2 * MS, slots=100, late_slots=1)
        assert found.level is Level.GOOD and found.share == pytest.approx(0.012) and found.wait_ms == 2

    def test_virtual_time_is_exact_whatever_the_counters_say(self) -> None:
        found = judge(Fidelity(0.0, 0.5, (9 * MS,), virtual=True), duration_ns=1, switch_wait_ns=5, slots=9, late_slots=9)
        assert found.level is Level.EXACT and found.share == found.wait_ms == 0
        assert found.to_dict()["disturbed"] == [] and "virtual time" in found.to_dict()["holds"]

    @pytest.mark.parametrize(
        ("fidelity", "observed", "said"),
        [
            (Fidelity(0.4, 0.06, (), 2), {}, "took 6.0% of the processors"),
            (Fidelity(0.4, 0.0, (50_000,) * 90 + (5 * MS,) * 10), {}, "up to 5.0 ms late"),
            (Fidelity(0.01, 0.0, (50_000,) * 100), {}, "1.0% idle"),
            (QUIET, {"switch_wait_ns": 30 * MS}, "the switch waited 30.0 ms for a processor, 3.0% of the time"),
            (QUIET, {"overruns": 10, "frames": 990}, "the switch lost 10 frames of 1000"),
            (QUIET, {"slots": 100, "late_slots": 8}, "8 of 100 slots began late"),
            (QUIET, {"late_start_ns": 7 * MS}, "flows started up to 7.0 ms late"),
            (QUIET, {"waits": {"an agent (7)": 300 * MS, "a receiver (8)": 10 * MS}}, "an agent (7) waited 300 ms"),
            (QUIET, {"links": {"s1-h6": 1.3, "s1-h1": 0.1}}, "s1-h6 left up to 130.0% of their spacing"),
        ],
    )
    def test_each_disturbance_alone_makes_figures_indicative_and_is_named(
        self, fidelity: Fidelity, observed: dict[str, Any], said: str
    ) -> None:
        found = judge(fidelity, duration_ns=SECOND_NS, **observed)
        record = found.to_dict()
        assert found.level is Level.INDICATIVE
        assert any(said in text for text in record["disturbed"]), record["disturbed"]
        assert record["affected"] and record["holds"]

    def test_more_than_half_of_the_time_disturbed_is_poor(self) -> None:
        assert judge(QUIET, duration_ns=SECOND_NS, switch_wait_ns=SECOND_NS * 6 // 10).level is Level.POOR

    def test_a_run_that_nobody_watched_is_poor(self) -> None:
        assert judge(None).level is Level.POOR

    def test_links_that_are_off_by_less_than_a_packet_are_told_but_leave_figures_good(self) -> None:
        found = judge(QUIET, duration_ns=SECOND_NS, links={"s1-h6": 0.3})
        assert found.level is Level.GOOD and "s1-h6" in found.to_dict()["disturbed"][0]
        assert not judge(QUIET, links={"s1-h6": 0.05}).to_dict()["disturbed"]

    def test_virtual_time_makes_no_run_exact_whose_switch_lost_frames(self) -> None:
        virtual = Fidelity(0, 0, (), 1, True)
        few, many = (judge(virtual, duration_ns=SECOND_NS, overruns=lost, frames=100_000) for lost in (3, 30_000))
        assert few.level is Level.GOOD and many.level is Level.INDICATIVE
        assert "the switch lost 30000 frames" in many.to_dict()["disturbed"][0] and many.share == 0.3
        told = judge(virtual, more=(Disturbance("the capture lost 3 packets", 0.1),))
        assert told.level is Level.INDICATIVE
        assert judge(virtual, duration_ns=SECOND_NS, slots=10, late_slots=9, frames=1).level is Level.EXACT

    @pytest.mark.parametrize(
        ("fidelity", "observed"),
        [
            (Fidelity(0.4, MAX_STEAL, (50_000,) * 9, 2), {}),
            (Fidelity(0.4, 0.0, (MAX_LATE_P99_NS,) * 9, 2), {}),
            (Fidelity(MIN_IDLE, 0.0, (50_000,) * 9, 2), {}),
            (QUIET, {"switch_wait_ns": round(MAX_SWITCH_WAIT * SECOND_NS)}),
            (QUIET, {"overruns": 1, "frames": round(1 / MAX_OVERRUNS)}),
            (QUIET, {"slots": 100, "late_slots": round(100 * MAX_LATE_SLOTS)}),
            (QUIET, {"late_start_ns": MAX_LATE_START_NS}),
            (QUIET, {"waits": {"an agent (7)": round(MAX_PROCESS_WAIT * SECOND_NS)}}),
            (QUIET, {"links": {"s1-h6": MAX_LINK_ERROR}}),
        ],
    )
    def test_what_is_just_at_its_limit_leaves_figures_good(self, fidelity: Fidelity, observed: dict[str, Any]) -> None:
        assert judge(fidelity, duration_ns=SECOND_NS, **observed).level is Level.GOOD

    def test_timers_that_are_a_little_later_than_the_limit_at_p99_make_figures_indicative(self) -> None:
        late_ns = (50_000,) * 90 + (MAX_LATE_P99_NS + 1,) * 10
        assert judge(Fidelity(0.4, 0.0, late_ns, 2)).level is Level.INDICATIVE

    def test_what_disturbed_one_percent_of_the_time_is_told_though_figures_stay_good(self) -> None:
        for late, is_told in ((1, True), (0.5, False)):
            found = judge(QUIET, duration_ns=SECOND_NS, switch_wait_ns=round(late * 10 * MS)).to_dict()
            assert (found["level"], bool(found["disturbed"])) == ("good", is_told)

    def test_exactly_half_of_the_time_disturbed_is_not_yet_poor(self) -> None:
        assert judge(QUIET, duration_ns=SECOND_NS, switch_wait_ns=SECOND_NS // 2).level is Level.INDICATIVE

    def test_processor_time_that_the_host_took_may_have_disturbed_each_processor_at_another_time(self) -> None:
        assert judge(Fidelity(0.4, 0.06, (), 4)).share == pytest.approx(0.24)

    def test_frames_that_the_switch_lost_count_as_the_goodput_that_each_costs(self) -> None:
        assert judge(QUIET, overruns=2, frames=1_000, frames_each=10).share == pytest.approx(0.02)
        assert judge(QUIET, overruns=2, frames=0).share == 1.0, "all that came"

    def test_a_polling_agent_is_no_disturbance(self) -> None:
        assert judge(Fidelity(0.0, 0.0, (50_000,) * 9), duration_ns=SECOND_NS, busy=True).level is Level.GOOD

    def test_what_only_the_experiment_knows_counts(self) -> None:
        found = judge(QUIET, more=(Disturbance("the capture lost 3 packets", 0.1),))
        assert found.level is Level.INDICATIVE and found.share == 0.1

    @given(
        st.floats(0, 1), st.floats(0, 1), st.lists(st.integers(0, 10**9), max_size=30), st.integers(0, 10**10),
        st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 1000), st.floats(0, 50),
    )  # fmt: skip
    def test_a_share_is_never_more_than_all_and_nothing_is_disturbed_without_a_reason(
        self, idle: float, steal: float, late: list[int], wait: int, overruns: int, frames: int, slots: int, each: float
    ) -> None:
        fidelity = Fidelity(idle, steal, tuple(sorted(late)), 2)
        found = judge(
            fidelity, duration_ns=SECOND_NS, switch_wait_ns=wait, overruns=overruns, frames=frames, frames_each=each,
            slots=slots, late_slots=slots // 2,
        )  # fmt: skip
        record = found.to_dict()
        assert 0 <= found.share <= 1
        assert bool(record["disturbed"]) or found.level is Level.GOOD


class TestConclusions:
    """What holds whatever the disturbance did."""

    def run(self, mbps: float, **observed: Any) -> dict[str, Any]:  # noqa: ANN401 -- what `judge` takes
        return {"goodput_mbps": mbps, "confidence": judge(QUIET, duration_ns=SECOND_NS, **observed).to_dict()}

    def test_three_percent_of_late_slots_do_not_change_95_against_0(self) -> None:
        with_it, without = self.run(95.4, slots=100, late_slots=3), self.run(0.4)
        least = margin(goodput(with_it, 95.4, 100), goodput(without, 0.4, 100))
        assert least == pytest.approx(92.0)

    def test_a_margin_within_the_bounds_does_not_hold(self) -> None:
        assert margin(Bound(95, 3), Bound(94, 0)) < 0

    @given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 50), st.floats(0, 50))
    def test_a_conclusion_that_holds_is_true_of_every_pair_within_the_bounds(
        self, more: float, less: float, off: float, other: float
    ) -> None:
        if margin(Bound(more, off), Bound(less, other)) > 0:
            assert more - off > less + other

    def test_a_record_of_several_runs_has_the_level_of_the_worst_and_names_it(self) -> None:
        good, bad = self.run(90), self.run(80, switch_wait_ns=50 * MS)
        found = together({"first": good, "second": bad})
        assert found["level"] == "indicative"
        assert found["disturbed"] == ["second: the switch waited 50.0 ms for a processor, 5.0% of the time"]
        assert found["affected"] and "1 of 2 runs" in found["holds"]
        assert found["bounds"]["goodput_share"] == 0.05

    def test_together_each_kind_of_figure_is_named_once_with_the_largest_bound(self) -> None:
        parts = {str(wait): self.run(80, switch_wait_ns=wait * MS) for wait in (20, 50)}
        found = together(parts)["affected"]
        assert found == [
            "goodput: off by at most 5.0% of the link's rate, most likely too low",
            "ping and completion times: too long, by at most 50.0 ms at a time",
        ]

    def test_exact_runs_together_are_exact(self) -> None:
        exact = {"confidence": judge(Fidelity(0, 0, (), 1, True)).to_dict()}
        found = together({"a": exact, "b": exact})
        assert found["level"] == "exact" and not found["disturbed"]

    def test_a_good_runs_small_disturbances_are_none_of_several_runs(self) -> None:
        good, bad = self.run(90, switch_wait_ns=10 * MS), self.run(80, switch_wait_ns=50 * MS)
        assert good["confidence"]["disturbed"]
        assert [text.split(":")[0] for text in together({"first": good, "second": bad})["disturbed"]] == ["second"]

    def test_runs_together_are_off_by_the_most_that_one_of_them_is(self) -> None:
        parts = {str(wait): self.run(80, switch_wait_ns=wait * MS) for wait in (30, 50, 40)}
        assert together(parts)["bounds"] == {"goodput_share": 0.05, "wait_ms": 50.0}

    def test_no_run_at_all_is_poor(self) -> None:
        assert together({})["level"] == "poor"


class TestOlderRecords:
    """Records from before there was a confidence."""

    def test_they_are_read_by_their_valid(self) -> None:
        assert level_of({"valid": True}) is Level.GOOD and sure({"valid": True}) and not reasons({"valid": True})
        assert level_of({"valid": False}) is Level.INDICATIVE and reasons({"valid": False})
        assert goodput({"valid": False}, 50, 100) == Bound(50, 100)

    def test_older_and_newer_records_together_are_as_sure_as_the_less_sure(self) -> None:
        new = {"confidence": judge(QUIET, duration_ns=SECOND_NS, switch_wait_ns=50 * MS).to_dict()}
        found = together({"old": {"valid": False}, "new": new})
        assert found["level"] == "indicative" and len(found["disturbed"]) == 2
        assert found["affected"] == new["confidence"]["affected"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python", "-m", "cli.main", "agent", "--interface", "h1-eth0", "--name", "h1", ""], "the agent of h1"),
        (["python", "-m", "controller.coordinator.process", "--fd", "3"], "the coordinator"),
        (["python", "-IS", "/x/emulation/traffic/workloads.py", "receive", "--udp"], "a receiver"),
        (["python", "-IS", "/x/emulation/traffic/workloads.py", "udp-send"], None),
        (["python", "-IS", "/x/emulation/traffic/workloads.py"], None),
        (["redis-server"], None),
        ([""], None),
    ],
)
def test_processes_have_names_for_sentences(words: list[str], name: str | None) -> None:
    assert process_name(words) == name
