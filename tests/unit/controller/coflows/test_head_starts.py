"""Who may send ahead of time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.coflows.ahead import head_starts
from controller.coflows.ahead.head_starts import HeadStartPlan
from controller.coflows.coflow import Coflow, Flow
from controller.coflows.links import BigSwitch, Links

GBIT = 1_000_000_000
MS = 1_000_000
FULL = 125_000
"""Bytes a millisecond at that rate."""


def made(times: float = 1.1, below: float = 0.9) -> HeadStartPlan:
    return HeadStartPlan(Links(BigSwitch(lambda _: GBIT)), times, below)


def coflow(number: int, *flows: tuple[str, str, float], at_ms: float = 0) -> Coflow:
    """Flows of so many milliseconds of a whole link."""
    at_ns = round(at_ms * MS)
    some = tuple(Flow(source, target, round(size * FULL)) for source, target, size in flows)
    return Coflow(number, at_ns, at_ns + 10**12, at_ns + 10**12, flows=some)


def test_where_there_is_room_a_flow_goes_ahead_and_is_through_earlier() -> None:
    found = made()
    assert not found and found.next_end() is None
    found.begin(coflow(1, ("a", "b", 5)), 10 * MS)
    assert found.next_end() == (0, 1), "nothing is known before it is worked out"
    assert found.work_out(0) == {1: True} and found.pairs() == {("a", "b")}
    end_ns, number = found.next_end() or (0.0, 0)
    assert (end_ns, number) == (pytest.approx(10 * MS / 1.1), 1)


def test_the_earliest_deadline_takes_what_room_there_is() -> None:
    found = made()
    found.begin(coflow(1, ("a", "z", 8)), 20 * MS)
    found.begin(coflow(2, ("b", "z", 4.5)), 10 * MS)
    assert found.work_out(0) == {1: False, 2: True}, "0.85 are needed, with 0.045 more 0.895"
    assert found.pairs() == {("b", "z")}
    found.end(2)
    assert found.work_out(0) == {1: True}


def test_a_pair_goes_ahead_when_all_its_flows_do() -> None:
    found = made()
    found.begin(coflow(1, ("a", "z", 2)), 10 * MS)
    found.begin(coflow(2, ("a", "z", 12)), 20 * MS)
    assert found.work_out(0) == {1: True, 2: True} and found.pairs() == {("a", "z")}
    found.begin(coflow(3, ("a", "y", 1.9)), 20 * MS)
    assert found.work_out(0) == {1: False, 2: False, 3: False} and found.pairs() == frozenset()


def test_what_was_sent_ahead_is_needed_no_more() -> None:
    found = made(times=2.0)
    found.begin(coflow(1, ("a", "z", 4)), 10 * MS)
    assert found.work_out(0) == {1: True}
    assert found.work_out(2 * MS) == {1: True}, "2.4 of 4 ms are left, for 8 ms"
    found.begin(coflow(2, ("b", "z", 6.5), at_ms=2), 12 * MS)
    found.work_out(2 * MS)
    assert found.next_end() == (pytest.approx(10 * MS), 1), "0.3 and 0.65 of the link are needed"


def test_without_times_nobody_does_and_ends_are_just_in_time() -> None:
    found = made(times=1.0)
    found.begin(coflow(1, ("a", "z", 1)), 10 * MS)
    assert found.work_out(0) == {1: False}
    assert found.next_end() == (10 * MS, 1)


def test_where_there_are_too_many_nobody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_starts, "MOST_FLOWS", 2)
    found = made()
    found.begin(coflow(1, ("a", "b", 1), ("c", "d", 1), ("e", "f", 1)), 10 * MS)
    assert found.work_out(0) == {1: False}


hosts = st.sampled_from("abcd")
sizes, ends_ms = st.floats(0.01, 9), st.integers(1, 40)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(hosts, hosts, sizes, ends_ms).filter(lambda one: one[0] != one[1]), max_size=12), st.data())
def test_with_those_that_go_ahead_no_link_is_needed_beyond_the_bound(
    drawn: list[tuple[str, str, float, int]], data: st.DataObject
) -> None:
    found, now_ns = made(), 0
    for number, (source, target, size, end_ms) in enumerate(drawn):
        found.begin(coflow(number, (source, target, size)), end_ms * MS)
    for _ in range(3):
        found.work_out(now_ns)
        taken: Counter[str] = Counter()
        for (flow,) in found._flows.values():
            for port in flow.ports:
                taken["-".join(port)] += flow.rate  # type: ignore[assignment]
        for (flow,) in found._flows.values():
            if flow.ahead:
                assert all(taken["-".join(port)] <= 0.9 * 0.125 * (1 + 1e-9) for port in flow.ports)
        now_ns += data.draw(st.integers(0, 10 * MS))
