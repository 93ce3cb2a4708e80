"""What a host reports of coflows: totals that only grow, sent again, however short the kernel's table is kept."""

from __future__ import annotations

from time import process_time_ns

from agents.priorities.coflow_counts import FORGET_NS, MOST_ROWS, REPEATS, SILENT_NS, CoflowCounts
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


def test_a_row_that_is_forgotten_lowers_no_sum_that_another_row_keeps() -> None:
    """The leader would take the smaller number for a tagger that began anew, and count the rest twice."""
    counts: CoflowCounts[str] = CoflowCounts()
    counts.take({(5, "b"): 30}, node_of, 0)
    counts.silent(SILENT_NS)
    counts.take({(5, "b2"): 4}, node_of, FORGET_NS - 1)
    counts.silent(FORGET_NS)
    assert counts.take({(5, "b2"): 5}, node_of, FORGET_NS) == [(5, 17, 35)]
    for then_ns in (FORGET_NS + SILENT_NS, 2 * FORGET_NS):
        counts.silent(then_ns)
    assert counts.take({(5, "b2"): 6}, node_of, 2 * FORGET_NS) == [(5, 17, 6)], "both are forgotten"


def test_another_leader_hears_of_the_nodes_by_its_own_numbers() -> None:
    counts: CoflowCounts[str] = CoflowCounts()
    counts.take({(5, "a"): 100, (5, "b"): 30}, node_of, 0)
    counts.again()
    assert counts.take({(5, "a"): 110}, {"a": 17, "b": 16}.__getitem__, 1) == [(5, 16, 30), (5, 17, 110)]


def test_what_has_ended_costs_the_agent_nothing_more() -> None:
    """Rows are kept for an hour, and the kernel's read every 20 ms: a walk over all of them would take the agent's loop."""
    looked = 0

    class Target(str):
        def __hash__(self) -> int:
            nonlocal looked
            looked += 1
            return super().__hash__()

    counts: CoflowCounts[str] = CoflowCounts()
    counts.take({(number, Target(number)): 5 for number in range(1000)}, node_of, 0)
    for _ in range(REPEATS):
        counts.take({}, node_of, 0)
    assert len(counts.silent(SILENT_NS)) == 1000
    looked = 0
    begun = process_time_ns()
    for _ in range(1000):
        assert counts.take({}, node_of, SILENT_NS) == [] and counts.silent(SILENT_NS) == [] and not counts.busy
    assert looked == 0 and process_time_ns() - begun < 100_000_000, "a walk over all rows takes 100 us and more"


def test_of_very_many_rows_those_that_changed_first_are_forgotten() -> None:
    counts: CoflowCounts[str] = CoflowCounts()
    counts.take({(number, "a"): 5 for number in range(MOST_ROWS)}, node_of, 0)
    counts.take({(0, "a"): 6, (MOST_ROWS, "a"): 7}, node_of, 1)
    counts.again()
    found = {coflow for coflow, _, _ in counts.take({}, node_of, 2)}
    assert len(found) == MOST_ROWS and 0 in found and MOST_ROWS in found and 1 not in found


def test_entries_are_parted_into_frames() -> None:
    entries = tuple((number, 16, 5) for number in range(COFLOWS_SENT_MAX + 1))
    assert coflow_reports(entries) == [CoflowReport(entries[:-1]), CoflowReport(entries[-1:])]
    assert coflow_reports(()) == []


def test_an_address_that_gets_a_node_counts_to_it_from_then_on() -> None:
    """What the leader heard before stays with none: it would count a sum that falls as begun anew."""
    counts: CoflowCounts[str] = CoflowCounts()
    nodes = {"a": 16}
    kernel = {(5, "late"): 100, (5, "never"): 7}

    def lookup(target: str) -> int:
        return nodes.get(target, 0)

    assert counts.take(kernel, lookup, 0) == [(5, 0, 107)]
    nodes["late"] = 17
    assert counts.take({(5, "late"): 130}, lookup, 1) == [(5, 0, 107), (5, 17, 30)]
    assert counts.take({(5, "late"): 150}, lookup, 2) == [(5, 0, 107), (5, 17, 50)]
    assert counts.take({(5, "late"): 150, (5, "never"): 8}, lookup, 3) == [(5, 0, 108), (5, 17, 50)]
    counts.again()
    assert counts.take({}, lookup, 4) == [(5, 0, 8), (5, 17, 150)], "another leader hears of the node alone"


def test_a_row_of_two_nodes_is_forgotten_at_both() -> None:
    counts: CoflowCounts[str] = CoflowCounts()
    counts.take({(5, "late"): 100}, lambda _: 0, 0)
    counts.take({(5, "late"): 130}, lambda _: 17, 1)
    counts.silent(FORGET_NS + 1)
    assert counts.take({(5, "late"): 140}, lambda _: 17, FORGET_NS + 2) == [(5, 17, 140)]
    counts.silent(2 * FORGET_NS + 2)
    assert counts.take({(5, "other"): 9}, lambda _: 0, 2 * FORGET_NS + 2) == [(5, 0, 9)]


def test_what_goes_to_an_address_that_has_moved_is_counted_to_its_new_node() -> None:
    nodes = {"vm": 16}
    counts: CoflowCounts[str] = CoflowCounts()

    def taken(size_bytes: int) -> list[tuple[int, int, int]]:
        return counts.take({(5, "vm"): size_bytes}, lambda target: nodes.get(target, 0), 0)

    assert taken(100) == [(5, 16, 100)]
    nodes["vm"] = 17
    assert taken(130) == [(5, 17, 30)]
    del nodes["vm"]
    assert taken(140) == [(5, 17, 40)], "of none only for a while"
    nodes["vm"] = 16
    assert taken(145) == [(5, 16, 105)]
    counts.again()
    assert taken(145) == [(5, 16, 145)], "another leader knows the present place alone"
    counts.silent(FORGET_NS)
    assert not counts.busy and not counts._sums and not counts._rows_of
