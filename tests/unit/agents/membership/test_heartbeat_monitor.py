"""Which heartbeats count, and when the leader was heard."""

from __future__ import annotations

import pytest

from agents.membership.heartbeat_monitor import LATEST_NS, MOST_NS, HeartbeatMonitor
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Frame, Heartbeat, Message, Override, Ping


def frame(sequence: int, message: Message | None = None) -> Frame:
    what = message or Heartbeat(Override.COORDINATE, 1, 1)
    return Frame(HEARTBEAT_MAC, b"\x02" * 6, COORDINATOR, 1, sequence, what)


def test_a_heartbeat_that_is_read_after_a_newer_one_says_nothing() -> None:
    """Else one that waited would shut the gates that the operator's override has just opened."""
    monitor = HeartbeatMonitor()
    assert monitor.heard(frame(9), 100)
    assert not monitor.heard(frame(8), 200)
    assert monitor.heard(frame(10), 300)


def test_of_other_messages_each_counts() -> None:
    monitor = HeartbeatMonitor()
    monitor.heard(frame(9), 100)
    assert monitor.heard(frame(8, Ping(0)), 200)


def test_an_old_frame_that_is_read_late_does_not_make_the_leader_heard_earlier_or_later() -> None:
    monitor = HeartbeatMonitor()
    monitor.heard(frame(9), 100)
    monitor.heard(frame(8), 50)
    assert monitor.last_heartbeat_ns == 100


def test_a_new_leader_begins_its_sequence_anew() -> None:
    monitor = HeartbeatMonitor()
    monitor.heard(frame(9), 100)
    monitor.new_leader()
    assert monitor.heard(frame(1), 200)


@pytest.mark.parametrize("now", [0, 5 * LATEST_NS])
def test_it_looks_in_passing_and_wakes_up_if_nothing_else_wakes_it(now: int) -> None:
    monitor = HeartbeatMonitor()
    assert monitor.looked(now) == 0 and monitor.looked(now) == now
    assert not monitor.due(now + LATEST_NS // 2 - 1) and monitor.due(now + LATEST_NS // 2)
    assert monitor.latest_ns() == now + LATEST_NS


@pytest.mark.parametrize(
    ("fail_open_ns", "heartbeat_ns", "within_ns"),
    [
        (5_000_000, 1_000_000, LATEST_NS), (50_000_000, 12_000_000, LATEST_NS), (1_000_000_000, 12_000_000, 400_000_000),
        (10**10, 12_000_000, MOST_NS), (10**10, 500_000_000, 2 * 10**9), (10**10, 10**9, 4 * 10**9),
    ],
)  # fmt: skip
def test_the_longer_the_leader_may_be_silent_the_less_often_it_wakes_up(
    fail_open_ns: int, heartbeat_ns: int, within_ns: int
) -> None:
    monitor = HeartbeatMonitor()
    monitor.looked(7)
    monitor.patience(fail_open_ns, heartbeat_ns)
    assert monitor.latest_ns() == 7 + within_ns
