"""Deadlines that the coordinator admits or refuses."""

from __future__ import annotations

from dataclasses import replace

from emulation import cdfs
from simulation.admission import Admission
from simulation.cases import Case
from simulation.flows import Flow, Mixture
from simulation.schemes import Settings

GBIT = 1_000_000_000
MS = 1_000_000
LARGE = Admission(share=1.0, from_bytes=1, delay_ns=MS)


def half(start_ms: float, target: int, flow_type: int = 1, source: int = 0) -> Flow:
    """A flow that needs half of a link of 1 Gb/s for 10 ms."""
    return Flow(round(start_ms * MS), source, target, 625_000, flow_type, 10 * MS if flow_type == 1 else 0)


class TestRefused:
    def test_a_receiver_has_as_much_as_its_link(self) -> None:
        assert LARGE.refused([half(0, 9, source=1), half(1, 9, source=2), half(2, 9, source=3), half(3, 8)], GBIT) == {2: 0}

    def test_a_sender_has_as_much_as_its_link(self) -> None:
        assert LARGE.refused([half(0, 1), half(1, 2), half(2, 3), half(3, 1, source=4)], GBIT) == {2: 0}

    def test_what_an_admitted_flow_needed_is_free_after_its_deadline(self) -> None:
        assert LARGE.refused([half(0, 1), half(1, 1), half(10, 1)], GBIT) == {}

    def test_it_is_free_earlier_where_flows_end_earlier(self) -> None:
        flows = [half(0, 1), half(1, 1), half(8.5, 1)]
        assert set(LARGE.refused(flows, GBIT)) == {2}
        assert replace(LARGE, aim=0.8).refused(flows, GBIT) == {}

    def test_a_refused_flow_takes_nothing(self) -> None:
        large = replace(half(0, 1), size_bytes=2_000_000)
        assert LARGE.refused([large, half(1, 1), half(2, 1)], GBIT) == {0: 0}

    def test_a_refused_flow_is_admitted_once_others_have_ended_and_left_it_a_rate(self) -> None:
        """It needs 0.4 of the link for 25 ms; from 6 ms on, when the first has ended, 0.5 for 20 ms."""
        large = replace(half(2, 1), size_bytes=1_250_000, deadline_ns=25 * MS)
        flows = [half(-3, 1), half(0, 1), large, half(7.5, 1)]
        assert LARGE.refused(flows, GBIT) == {2: 5 * MS, 3: 0}, "the last one finds all taken, and nothing free in time"
        assert set(LARGE.refused([half(-1.5, 1), *flows[1:]], GBIT)) == {2, 3}
        assert LARGE.refused([half(-1.5, 1), *flows[1:]], GBIT)[2] == 0, "at 8.5 ms it would need more than half"

    def test_flows_without_deadline_do_not_ask(self) -> None:
        assert replace(LARGE, share=0.1).refused([half(0, 1, flow_type=2)] * 9, GBIT) == {}

    def test_small_flows_do_not_ask_and_reserve_nothing(self) -> None:
        small = replace(half(0, 1), size_bytes=600_000)
        asking = replace(LARGE, from_bytes=625_000)
        assert asking.refused([small, small, small, half(1, 1), half(2, 1), half(3, 1)], GBIT) == {5: 0}


class TestSent:
    def test_a_refused_flow_hears_of_it_after_the_delay_and_goes_by_its_size(self) -> None:
        first, second = LARGE.sent([half(0, 1), half(1, 1)], {1: 0})
        assert first == half(0, 1) and first.goes_by == 1
        assert second == replace(half(1, 1), refused_ns=MS) and second.goes_by == 2

    def test_one_that_is_admitted_later_hears_of_that_too_unless_its_deadline_has_passed_by_then(self) -> None:
        in_time, late = LARGE.sent([half(0, 1), half(1, 1)], {0: 4 * MS, 1: 9 * MS})
        assert in_time == replace(half(0, 1), refused_ns=MS, admitted_ns=5 * MS) and in_time.goes_by == 1
        assert late == replace(half(1, 1), refused_ns=MS) and late.goes_by == 2

    def test_without_delay_it_is_refused_all_the_same(self) -> None:
        (one,) = replace(LARGE, delay_ns=0).sent([half(0, 1)], {0: 0})
        assert one.goes_by == 2


class TestCase:
    def test_a_case_with_admission_tells_the_program_who_is_refused(self) -> None:
        mixture = Mixture((1.0, 0.0, 0.0), reserved=0.75, most_deadline_bytes=10**12)
        case = Case("karuna", "web_search_ns2", 0.9, 300, mixture=mixture)
        flows = case.scheduled(cdfs.load("web_search_ns2"))
        admitting = replace(case, settings=Settings(admit=0.2))
        gone = admitting.refused(flows)
        refused = [
            [line.split()[7] for line in one.program_input(one.sent(flows, gone))[0].splitlines() if line.startswith("flow ")]
            for one in (case, admitting)
        ]
        assert gone and case.refused(flows) == {}
        assert set(refused[0]) == {"0"}
        assert {at for at, value in enumerate(refused[1]) if value == "1000000"} == set(gone)
