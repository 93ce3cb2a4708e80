"""What a host reports of coflows: totals that only grow, sent again, however short the kernel's table is kept."""

from __future__ import annotations

from agents.priorities.coflow_counts import FORGET_NS, REPEATS, SILENT_NS, CoflowCounts
from protocol.bodies.flows.coflow_report import COFLOWS_SENT_MAX, CoflowReport, coflow_reports

NODES = {"a": 16, "b": 17, "b2": 17}


def node_of(target: str) -> int:
    return NODES.get(target, 0)


def test_a_change_is_reported_a_few_times_and_addresses_of_one_node_add_up() -> None:
    counts: CoflowCounts[str] = CoflowCounts()
    kernel = {(5, "a"): 100, (5, "b"): 30, (5, "b2"): 4, (6, "elsewhere"): 7}
    expected = [(5, 16, 100), (5, 17, 34), (6, 0, 7)]
    assert [counts.take(kernel, node_of, 0) for _ in range(REPEATS + 2)] == [expected] * (REPEATS + 1) + [[]]
    assert not counts.busy
    assert counts.take({**kernel, (5, "b"): 40}, node_of, 1) == [(5, 17, 44)]
    assert counts.busy


def test_what_is_silent_leaves_the_kernels_table_and_is_counted_on() -> None:
    counts: CoflowCounts[str] = CoflowCounts()
    counts.take({(5, "a"): 100}, node_of, 0)
    assert counts.silent(SILENT_NS - 1) == []
    assert counts.silent(SILENT_NS) == [(5, "a")]
    assert counts.silent(SILENT_NS) == []
    assert counts.take({(5, "a"): 20}, node_of, SILENT_NS + 1) == [(5, 16, 120)]
    assert counts.take({(5, "a"): 3}, node_of, SILENT_NS + 2) == [(5, 16, 123)], "the kernel made room by itself"


def test_another_leader_hears_everything_again_and_after_its_longest_life_a_coflow_is_forgotten() -> None:
    counts: CoflowCounts[str] = CoflowCounts()
    for _ in range(REPEATS + 1):
        counts.take({(5, "a"): 100}, node_of, 0)
    counts.again()
    assert counts.take({}, node_of, 1) == [(5, 16, 100)]
    counts.silent(FORGET_NS)
    counts.again()
    assert counts.take({}, node_of, FORGET_NS) == []


def test_another_leader_hears_of_the_nodes_by_its_own_numbers() -> None:
    counts: CoflowCounts[str] = CoflowCounts()
    counts.take({(5, "a"): 100, (5, "b"): 30}, node_of, 0)
    counts.again()
    assert counts.take({(5, "a"): 110}, {"a": 17, "b": 16}.__getitem__, 1) == [(5, 16, 30), (5, 17, 110)]


def test_entries_are_parted_into_frames() -> None:
    entries = tuple((number, 16, 5) for number in range(COFLOWS_SENT_MAX + 1))
    assert coflow_reports(entries) == [CoflowReport(entries[:-1]), CoflowReport(entries[-1:])]
    assert coflow_reports(()) == []
