"""Deadlines that receivers admit or refuse."""

from __future__ import annotations

from dataclasses import replace

from emulation import cdfs
from simulation.admission import refused, without
from simulation.cases import Case
from simulation.flows import Flow, Mixture
from simulation.schemes import Settings

GBIT = 1_000_000_000
MS = 1_000_000


def half(start_ms: float, target: int, flow_type: int = 1) -> Flow:
    """A flow that needs half of a link of 1 Gb/s for 10 ms."""
    return Flow(round(start_ms * MS), 0, target, 625_000, flow_type, 10 * MS if flow_type == 1 else 0)


class TestRefused:
    def test_a_receiver_admits_what_its_link_has(self) -> None:
        assert refused([half(0, 1), half(1, 1), half(2, 1), half(3, 2)], GBIT, 1.0) == {2}

    def test_what_an_admitted_flow_needed_is_free_after_its_deadline(self) -> None:
        assert refused([half(0, 1), half(1, 1), half(10, 1)], GBIT, 1.0) == set()

    def test_a_refused_flow_takes_nothing(self) -> None:
        large = replace(half(0, 1), size_bytes=2_000_000)
        assert refused([large, half(1, 1), half(2, 1)], GBIT, 1.0) == {0}

    def test_flows_without_deadline_are_not_asked(self) -> None:
        assert refused([half(0, 1, flow_type=2)] * 9, GBIT, 0.1) == set()


class TestWithout:
    def test_a_refused_flow_goes_by_its_size(self) -> None:
        first, second = without([half(0, 1), half(1, 1)], frozenset({1}))
        assert first == half(0, 1)
        assert second == replace(half(1, 1), flow_type=2, deadline_ns=0)


class TestCase:
    def test_a_case_with_admission_sends_fewer_deadlines(self) -> None:
        mixture = Mixture((1.0, 0.0, 0.0), reserved=0.75, most_deadline_bytes=10**12)
        case = Case("karuna", "web_search_ns2", 0.9, 300, mixture=mixture)
        flows = case.scheduled(cdfs.load("web_search_ns2"))
        admitting = replace(case, settings=Settings(admit=0.2))
        gone = admitting.refused(flows)
        deadlines = [
            sum(line.startswith("flow ") and line.split()[5] == "1" for line in one.program_input(flows)[0].splitlines())
            for one in (case, admitting)
        ]
        assert gone and case.refused(flows) == frozenset()
        assert deadlines[1] == deadlines[0] - len(gone)
