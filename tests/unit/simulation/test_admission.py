"""Deadlines that the coordinator admits or refuses."""

from __future__ import annotations

from dataclasses import replace

from emulation import cdfs
from simulation.admission import Admission, Decided
from simulation.cases import Case
from simulation.flows import Flow, HeadStart, Mixture
from simulation.schemes import Settings

GBIT = 1_000_000_000
MS = 1_000_000
LARGE = Admission(share=1.0, from_bytes=1, delay_ns=MS)


def half(start_ms: float, target: int, flow_type: int = 1, source: int = 0) -> Flow:
    """A flow that needs half of a link of 1 Gb/s for 10 ms."""
    return Flow(round(start_ms * MS), source, target, 625_000, flow_type, 10 * MS if flow_type == 1 else 0)


class TestRefused:
    def test_a_receiver_has_as_much_as_its_link(self) -> None:
        flows = [half(0, 9, source=1), half(1, 9, source=2), half(2, 9, source=3), half(3, 8)]
        assert LARGE.decided(flows, GBIT).refused == {2: 0}

    def test_a_sender_has_as_much_as_its_link(self) -> None:
        assert LARGE.decided([half(0, 1), half(1, 2), half(2, 3), half(3, 1, source=4)], GBIT).refused == {2: 0}

    def test_what_an_admitted_flow_needed_is_free_after_its_deadline(self) -> None:
        assert LARGE.decided([half(0, 1), half(1, 1), half(10, 1)], GBIT).refused == {}

    def test_it_is_free_earlier_where_flows_end_earlier(self) -> None:
        flows = [half(0, 1), half(1, 1), half(8.5, 1)]
        assert set(LARGE.decided(flows, GBIT).refused) == {2}
        assert replace(LARGE, aim=0.8).decided(flows, GBIT).refused == {}

    def test_a_refused_flow_takes_nothing(self) -> None:
        large = replace(half(0, 1), size_bytes=2_000_000)
        assert LARGE.decided([large, half(1, 1), half(2, 1)], GBIT).refused == {0: 0}

    def test_a_refused_flow_is_admitted_once_others_have_ended_and_left_it_a_rate(self) -> None:
        """It needs 0.4 of the link for 25 ms; from 6 ms on, when the first has ended, 0.5 for 20 ms."""
        large = replace(half(2, 1), size_bytes=1_250_000, deadline_ns=25 * MS)
        flows = [half(-3, 1), half(0, 1), large, half(7.5, 1)]
        assert LARGE.decided(flows, GBIT).refused == {2: 5 * MS, 3: 0}, "the last one finds all taken, and nothing free in time"
        assert set(LARGE.decided([half(-1.5, 1), *flows[1:]], GBIT).refused) == {2, 3}
        assert LARGE.decided([half(-1.5, 1), *flows[1:]], GBIT).refused[2] == 0, "at 8.5 ms it would need more than half"

    def test_flows_without_deadline_do_not_ask(self) -> None:
        assert replace(LARGE, share=0.1).decided([half(0, 1, flow_type=2)] * 9, GBIT).refused == {}

    def test_small_flows_do_not_ask_and_reserve_nothing(self) -> None:
        small = replace(half(0, 1), size_bytes=600_000)
        asking = replace(LARGE, from_bytes=625_000)
        assert asking.decided([small, small, small, half(1, 1), half(2, 1), half(3, 1)], GBIT).refused == {5: 0}


class TestAhead:
    """Half of a link is needed, and a tenth more at most while that is below 0.9 of it."""

    AHEAD = replace(LARGE, ahead=True)

    def test_while_there_is_room_a_flow_goes_ahead_and_has_ended_earlier(self) -> None:
        flows = [half(0, 1), half(9.2, 1), half(9.3, 1)]
        assert self.AHEAD.decided(flows, GBIT).starts[0] == HeadStart(0, 0, 1.1)
        assert set(self.AHEAD.decided(flows, GBIT).refused) == set()
        assert set(LARGE.decided(flows, GBIT).refused) == {2}

    def test_not_beside_another_that_takes_the_room_but_again_when_that_has_ended(self) -> None:
        first, second, third = half(0, 1), half(4, 1, source=2), half(2, 7, source=8)
        starts = self.AHEAD.decided([first, third, second], GBIT).starts
        assert [one for one in starts if one.flow != 1] == [
            HeadStart(0, 0, 1.1), HeadStart(0, 4 * MS, 1.0), HeadStart(2, starts[-1].at_ns, 1.1)
        ]  # fmt: skip
        assert [one for one in starts if one.flow == 1] == [HeadStart(1, 2 * MS, 1.1)]

    def test_a_host_hears_of_it_after_the_delay_and_nothing_after_the_deadline(self) -> None:
        starts = (HeadStart(0, 0, 1.1), HeadStart(0, 9 * MS, 1.0))
        assert self.AHEAD.heard([half(0, 1)], Decided(starts=starts)) == [HeadStart(0, MS, 1.1)]


class TestSent:
    def test_a_refused_flow_hears_of_it_after_the_delay_and_goes_by_its_size(self) -> None:
        first, second = LARGE.sent([half(0, 1), half(1, 1)], Decided({1: 0}))
        assert first == half(0, 1) and first.goes_by == 1
        assert second == replace(half(1, 1), refused_ns=MS) and second.goes_by == 2

    def test_one_that_is_admitted_later_hears_of_that_too_unless_its_deadline_has_passed_by_then(self) -> None:
        in_time, late = LARGE.sent([half(0, 1), half(1, 1)], Decided({0: 4 * MS, 1: 9 * MS}))
        assert in_time == replace(half(0, 1), refused_ns=MS, admitted_ns=5 * MS) and in_time.goes_by == 1
        assert late == replace(half(1, 1), refused_ns=MS) and late.goes_by == 2

    def test_without_delay_it_is_refused_all_the_same(self) -> None:
        (one,) = replace(LARGE, delay_ns=0).sent([half(0, 1)], Decided({0: 0}))
        assert one.goes_by == 2


class TestCase:
    def test_a_case_with_admission_tells_the_program_who_is_refused(self) -> None:
        mixture = Mixture((1.0, 0.0, 0.0), reserved=0.75, most_deadline_bytes=10**12)
        case = Case("karuna", "web_search_ns2", 0.9, 300, mixture=mixture)
        flows = case.scheduled(cdfs.load("web_search_ns2"))
        admitting = replace(case, settings=Settings(admit=0.2))
        gone = admitting.decided(flows).refused
        refused = [
            [line.split()[7] for line in text.splitlines() if line.startswith("flow ")]
            for text in (one.program_input(flows, one.decided(flows))[0] for one in (case, admitting))
        ]
        assert gone and case.decided(flows) == Decided()
        assert set(refused[0]) == {"0"}
        assert {at for at, value in enumerate(refused[1]) if value == "1000000"} == set(gone)

    def test_a_case_with_head_starts_tells_the_program_of_each(self) -> None:
        mixture = Mixture((1.0, 0.0, 0.0), reserved=0.75, most_deadline_bytes=10**12)
        case = Case("karuna", "web_search_ns2", 0.9, 300, mixture=mixture, settings=Settings(admit=1.0, ahead=True))
        flows = case.scheduled(cdfs.load("web_search_ns2"))
        decided = case.decided(flows)
        told = [line for line in case.program_input(flows, decided)[0].splitlines() if line.startswith("ahead ")]
        first = decided.starts[0]
        assert told[0] == f"ahead {first.flow} {first.at_ns + 1_000_000} 1126"
        assert len(told) == len(decided.starts)
