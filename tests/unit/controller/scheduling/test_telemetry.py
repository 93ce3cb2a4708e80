"""What a coordinator tells of its slots: rows and histograms, bounded, and never a reason to wait."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policies.base import Slot
from controller.scheduling.telemetry import (
    BOUNDS_US,
    EVENTS_MAX,
    EVENTS_OF_MANY,
    LATE,
    LOST,
    MANY_MEMBERS,
    SLOT,
    YIELD,
    Histogram,
    Telemetry,
)
from controller.store.layout import FLUSH_NS
from protocol.timers import Timers

MS = 1_000_000
NODE, TO = 16, 17


class Bridge:
    """A store bridge that keeps what is written to it; without room it says so."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.room = True

    def write(self, line: dict[str, Any]) -> bool:
        if self.room:
            self.lines.append(line)
        return self.room

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for line in self.lines if "slots" in line for row in line["slots"]["rows"]]


@pytest.fixture
def bridge() -> Bridge:
    return Bridge()


@pytest.fixture
def telemetry(bridge: Bridge) -> Telemetry:
    return Telemetry(bridge.write)


def slot(number: int, start_ns: int = 10 * MS) -> Slot:
    return Slot(number, NODE, TO, start_ns, start_ns + 2 * MS, 25_000, 0, 0)


class TestRows:
    """One row for each thing that happens to a slot."""

    def test_a_slot_in_time_is_one_row(self, bridge: Bridge, telemetry: Telemetry) -> None:
        telemetry.granted(slot(1), 12_200_000, 9 * MS)
        telemetry.opened(1, 10_050_000, late=False)
        telemetry.flush(20 * MS)
        assert bridge.rows() == [(SLOT, 1, NODE, TO, 10_000, 12_200, 25_000)]
        assert bridge.lines[0]["slots"]["now_us"] == 20_000

    def test_rows_leave_together_and_while_there_are_none_nothing_wakes(self, bridge: Bridge) -> None:
        timers = Timers()
        telemetry = Telemetry(bridge.write, timers.at)
        assert not timers
        for number, now_ns in ((1, 50 * MS), (2, 51 * MS), (3, 60 * MS)):
            telemetry.granted(slot(number), now_ns + 2 * MS, now_ns)
            timers.run(now_ns)
        assert [len(line["slots"]["rows"]) for line in bridge.lines] == [1]
        assert timers.next_ns() == 50 * MS + FLUSH_NS
        timers.run(timers.next_ns())
        assert [len(line["slots"]["rows"]) for line in bridge.lines] == [1, 2]
        assert not timers

    def test_late_yielded_and_lost_slots_say_when(self, bridge: Bridge, telemetry: Telemetry) -> None:
        for number in (1, 2, 3):
            telemetry.granted(slot(number), 12 * MS, 9 * MS)
        telemetry.opened(1, 11 * MS, late=True)
        telemetry.yielded(2, (NODE, TO), 0, 0, 10_500_000)
        telemetry.lost([3])
        telemetry.flush(20 * MS)
        assert bridge.rows()[3:] == [
            (LATE, 1, NODE, TO, 11_000, 12_000, 25_000),
            (YIELD, 2, NODE, TO, 10_000, 10_500, 25_000),
            (LOST, 3, NODE, TO, 10_000, 12_000, 25_000),
        ]

    def test_what_is_told_of_unknown_slots_is_no_row(self, bridge: Bridge, telemetry: Telemetry) -> None:
        telemetry.opened(9, 0, late=True)
        telemetry.yielded(9, (NODE, TO), 0, 1, 0)
        telemetry.revoked(9, 0)
        telemetry.lost([9])
        telemetry.flush(1)
        assert bridge.lines == []

    def test_a_batch_is_bounded_and_the_rest_is_counted(self, bridge: Bridge, telemetry: Telemetry) -> None:
        for number in range(EVENTS_MAX + 5):
            telemetry.granted(slot(number), 12 * MS, 9 * MS)
        telemetry.flush(20 * MS)
        assert len(bridge.rows()) == EVENTS_MAX and telemetry.dropped == 5

    @pytest.mark.parametrize(("members", "rows"), [(MANY_MEMBERS - 1, EVENTS_MAX), (MANY_MEMBERS, EVENTS_OF_MANY)])
    def test_of_a_large_fabric_it_is_smaller(self, bridge: Bridge, members: int, rows: int) -> None:
        telemetry = Telemetry(bridge.write, members=lambda: members)
        for number in range(EVENTS_MAX + 5):
            telemetry.granted(slot(number), 12 * MS, 9 * MS)
        assert telemetry.room() == 0
        telemetry.flush(20 * MS)
        assert len(bridge.rows()) == rows == telemetry.room() and telemetry.dropped == EVENTS_MAX + 5 - rows

    def test_without_room_rows_are_dropped_not_kept(self, bridge: Bridge, telemetry: Telemetry) -> None:
        bridge.room = False
        telemetry.granted(slot(1), 12 * MS, 9 * MS)
        telemetry.flush(20 * MS)
        bridge.room = True
        telemetry.flush(21 * MS)
        assert bridge.lines == [] and telemetry.dropped == 1

    def test_slots_that_are_over_are_forgotten(self, telemetry: Telemetry) -> None:
        telemetry.granted(slot(1), 12 * MS, 9 * MS)
        telemetry.flush(2_000 * MS)
        telemetry.opened(1, 13 * MS, late=False)
        assert sum(telemetry.latency.counts) == 0


class TestTimes:
    """Latency counts from when a directive was due, waiting from when bytes had no slot."""

    def test_a_directive_sent_after_its_start_is_due_when_it_was_sent(self, telemetry: Telemetry) -> None:
        telemetry.granted(slot(1, start_ns=10 * MS), 12 * MS, 11 * MS)
        telemetry.opened(1, 11_070_000, late=False)
        assert telemetry.latency.sum_ns == 70_000

    def test_waiting_begins_with_the_backlog_and_again_at_the_slots_end(self, telemetry: Telemetry) -> None:
        telemetry.backlog(NODE, {TO: 10}, 5 * MS)
        telemetry.granted(slot(1), 12 * MS, 9 * MS)
        telemetry.opened(1, 10 * MS, late=False)
        assert telemetry.waiting_us[NODE][TO] == 5_000
        telemetry.backlog(NODE, {TO: 20}, 11 * MS)
        telemetry.granted(slot(2, start_ns=15 * MS), 17 * MS, 14 * MS)
        telemetry.opened(2, 15 * MS, late=False)
        assert telemetry.waiting.sum_ns == 5 * MS + 3 * MS

    def test_a_queue_that_was_empty_does_not_wait(self, telemetry: Telemetry) -> None:
        telemetry.backlog(NODE, {TO: 10}, 5 * MS)
        telemetry.backlog(NODE, {}, 6 * MS)
        telemetry.granted(slot(1), 12 * MS, 9 * MS)
        telemetry.opened(1, 10 * MS, late=False)
        assert telemetry.waiting.sum_ns == 0

    def test_a_member_that_left_leaves_nothing(self, telemetry: Telemetry) -> None:
        telemetry.backlog(NODE, {TO: 10}, 5 * MS)
        telemetry.left(NODE, 11 * MS)
        assert telemetry.waiting_us == {}

    def test_a_destination_that_left_is_in_no_members_document(self, telemetry: Telemetry) -> None:
        """Hosts come and go, and each is another id: a member that stays would be told of thousands."""
        telemetry.backlog(NODE, {TO: 9_000}, 4 * MS)
        telemetry.granted(slot(1), 12 * MS, 9 * MS)
        telemetry.opened(1, 10 * MS, late=False)
        assert telemetry.of_member(NODE)["waiting_us"] == {TO: 6_000}
        telemetry.left(TO, 11 * MS)
        assert telemetry.of_member(NODE) == {"waiting_us": {}} and not telemetry._since[NODE]

    def test_bytes_are_told_apart_by_permission(self, bridge: Bridge, telemetry: Telemetry) -> None:
        telemetry.reported(NODE, {17: 10, 18: 5}, frozenset({17}))
        telemetry.summary(0)
        told = bridge.lines[0]["telemetry"]
        assert (told["regulated_bytes"], told["free_bytes"]) == (10, 5)

    @given(st.lists(st.integers(-(10**9), 10**10), max_size=50))
    def test_every_duration_is_in_one_bucket_that_holds_it(self, durations_ns: list[int]) -> None:
        histogram = Histogram()
        for duration_ns in durations_ns:
            histogram.add(duration_ns)
        assert sum(histogram.counts) == len(durations_ns)
        for at, bound_us in enumerate(BOUNDS_US):
            assert sum(histogram.counts[: at + 1]) == sum(max(0, one) <= bound_us * 1000 for one in durations_ns)
