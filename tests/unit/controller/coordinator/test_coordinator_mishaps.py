"""Whatever goes wrong in a leader's loop is counted, told and survived."""

from __future__ import annotations

import pytest

from protocol.messages import Backlog, Cause, Heartbeat, Leave, Ping, Pong, decode
from protocol.timers import MOST_FAILURES, Timers
from tests.unit.controller.members.test_bounds import KEY, MS, Fabric


def fails(*_: object) -> None:
    raise ValueError("made to fail")


def test_no_message_and_no_document_ends_a_leader() -> None:
    fabric = Fabric()
    node = fabric.join(1)
    fabric.leader.reception._handlers[Backlog] = fails
    for _ in range(100):
        fabric.hear(1, Backlog(1, 0, 1, ()), node)
    wrong = [{"fabric": 7}, {"policy": {"policy": 7}}, {"pfc": {"x": {}}}, {"queues": {}}, {"ports": {"links": [{}]}}]
    fabric.leader.take(wrong, fabric.now_ns)
    assert fabric.leader.guard.refused[Cause.FAILED] >= 100 + 4
    (pong,) = fabric.hear(1, Ping(1), node)
    assert isinstance(pong, Pong)
    fabric.leader.membership.register = fails  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="not enough"):
        fabric.join(2)
    fabric.hear(1, Leave("stopped"), node)
    assert not fabric.leader.members.present()


def test_a_call_that_fails_is_made_again_and_the_heartbeat_goes_on() -> None:
    fabric = Fabric()
    leader = fabric.leader
    leader.timers = Timers()
    leader.timers.every(0, 12 * MS, fails)
    leader.timers.every(0, 12 * MS, leader._heartbeat)
    fabric.link.sent = []
    for _ in range(2 * 5):
        leader._serve_timers()
        leader.timers._heap.sort()
        leader.timers._heap = [(0, number, call) for _, number, call in leader.timers._heap]
    heartbeats = [frame for frame in fabric.link.sent if isinstance(decode(frame, KEY).message, Heartbeat)]
    assert len(heartbeats) >= 3 and leader.guard.refused[Cause.FAILED] >= 3


def test_calls_that_take_long_are_not_all_made_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease would run out."""
    monkeypatch.setattr("controller.coordinator.coordinator.CALLS_NS", 0)
    leader, made = Fabric().leader, list[int]()
    leader.timers = Timers()
    for _ in range(3):
        leader.timers.at(0, made.append)
    leader._serve_timers()
    assert len(made) == 1
    leader._serve_timers()
    assert len(made) == 2


def test_a_leader_that_can_do_nothing_any_more_ends_to_be_started_anew() -> None:
    fabric = Fabric()
    fabric.leader.granting.due_ns = 1
    fabric.leader.granting.plan = fails  # type: ignore[method-assign,assign]
    for _ in range(MOST_FAILURES):
        fabric.leader._serve_timers()
    with pytest.raises(ValueError, match="made to fail"):
        fabric.leader._serve_timers()
