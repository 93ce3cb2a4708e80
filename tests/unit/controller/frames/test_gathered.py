"""What the loop of slots tells Python together, and what it keeps to itself."""

from __future__ import annotations

import os
import resource
import time

import pytest

from bench.fuzz.leaders import FIRST_SEQUENCE, Leader, frame
from controller.frames.frames import Batch
from controller.frames.loop import SlotLoop
from controller.frames.told import RawFrame, Told, records
from controller.members.registry import FIRST_NODE
from controller.scheduling.telemetry import EVENTS_OF_MANY
from protocol.messages import Backlog, FlowReport, GateKind, Message, Ping, Register, Report, Yield
from tests.unit.controller.frames.test_loop import HOSTS, LAST, Looped, looped, wait_for

FIRST = FIRST_NODE
"""The node of host 1."""


def taken(leader: Looped, message: Message, number: int) -> None:
    """A host says something, and the loop has taken it."""
    assert leader.coordinator.exchange is not None
    peer = leader.coordinator.exchange.frames.knows(FIRST + number - 1)
    assert peer is not None
    before = peer.highest
    leader.say(message, number)
    wait_for(lambda: peer.highest > before)
    with leader.loop.lock:  # its turn is over
        pass


def waits(*destinations: int) -> Backlog:
    return Backlog(9, 0, 1, tuple((destination, 10**6, 0) for destination in destinations))


def told(leader: Looped) -> list[Told]:
    """What Python was told since the last call, of more than plans and counts."""
    found = [record for _, record in records(leader.loop.told()[0])]
    return [one for one in found if isinstance(one, RawFrame) or (isinstance(one, Batch) and len(one.nodes) + len(one.yields))]




def test_several_batches_are_told_together_each_with_its_time() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        told(leader)
        began_ns = time.monotonic_ns()
        taken(leader, waits(LAST), 1)
        between_ns = time.monotonic_ns()
        taken(leader, waits(LAST, FIRST), 2)
        taken(leader, Yield(LAST, 1, 0, 7), 3)
        (batch,) = told(leader)
    assert isinstance(batch, Batch)
    assert batch.nodes.tolist() == [FIRST, FIRST + 1] and batch.offsets.tolist() == [0, 1, 3]
    assert batch.destinations.tolist() == [LAST, LAST, FIRST]
    assert began_ns < batch.backlog_ns[0] < between_ns < batch.backlog_ns[1] < batch.yielded_ns[0]


def test_what_a_member_says_of_its_queues_keeps_its_order() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        told(leader)
        for message in (waits(LAST, FIRST + 1), Yield(LAST, 1, 0, 7), waits(LAST)):
            taken(leader, message, 1)
        first, second, third = told(leader)
    assert isinstance(first, Batch) and isinstance(second, Batch) and isinstance(third, Batch)
    assert (len(first.nodes), len(second.yields), len(third.nodes)) == (1, 1, 1)
    assert not len(first.yields) and not len(second.nodes)


def test_what_a_member_says_of_its_queues_keeps_its_order_when_its_keys_are_told_anew() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        exchange, member = leader.coordinator.exchange, leader.coordinator.members.get(FIRST)
        assert exchange is not None and member is not None
        speaker = exchange.speaker(FIRST)
        assert speaker is not None
        told(leader)
        taken(leader, waits(LAST), 1)
        exchange.forget(FIRST)
        exchange.learn(member, speaker)
        taken(leader, Yield(LAST, 1, 0, 0), 1)
        leader.heard()
        assert not member.backlog


def test_a_backlog_wakes_python_where_the_pair_is_new_to_it() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        told(leader)
        taken(leader, waits(LAST), 1)
        assert not leader.loop._steering.attend
        taken(leader, waits(LAST, FIRST + 1), 1)
        assert leader.loop._steering.attend
        told(leader)
        taken(leader, waits(FIRST + 1), 1)
        assert not leader.loop._steering.attend


def test_a_backlog_wakes_python_where_another_policy_has_not_met_the_pair() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        taken(leader, waits(), 1)
        leader.heard()
        leader.coordinator.policy.lengthen(2, leader.now())
        leader.heard()
        assert not leader.loop._steering.attend
        taken(leader, waits(LAST), 1)
        assert leader.loop._steering.attend


def test_a_backlog_wakes_python_where_the_destination_left_and_came_back() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        coordinator = leader.coordinator
        member = coordinator.members.get(LAST)
        assert member is not None
        taken(leader, waits(), 1)
        leader.heard()
        coordinator.membership.forget(member, leader.now(), "gone")
        leader._number += 1
        again = Register(f"h{HOSTS}", 99, 10**9, member.addresses, GateKind.TBF, "1")
        coordinator.reception.receive(frame(again, HOSTS, sequence=leader._number, sender=0), leader.now())
        assert coordinator.members.get(LAST) is not None
        leader.heard()
        assert not leader.loop._steering.attend
        taken(leader, waits(LAST), 1)
        assert leader.loop._steering.attend


def idle(number: int, *counters: tuple[int, int]) -> Report:
    return Report(50_000_000, 0, 1, (), counters, number)


def test_that_a_host_is_idle_is_told_once() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        told(leader)
        for message, news in (
            (idle(1), 1),
            (idle(2), 0),
            (idle(3, (5, 1)), 1),
            (idle(4, (5, 1)), 0),
            (idle(5, (5, 2)), 1),
            (Report(50_000_000, 0, 1, (FlowReport(LAST, 9, 0),), ((5, 2),), 6), 1),
            (idle(7, (5, 2)), 1),
            (idle(8, (5, 2)), 0),
            (waits(LAST), 1),
            (idle(9, (5, 2)), 1),
            (idle(10, (5, 2)), 0),
            (Yield(LAST, 1, 0, 0), 1),
            (idle(11, (5, 2)), 1),
            (Ping(7), 0),
            (idle(12, (5, 2)), 0),
            (Report(50_000_000, 0, 2, (), ((5, 2),), 13), 1),
            (idle(14, (5, 2)), 1),
        ):
            taken(leader, message, 1)
            assert len(told(leader)) == news, message


def test_that_a_host_is_idle_is_told_again_if_python_heard_it_before_what_it_said_of_its_queues() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        taken(leader, idle(1), 1)
        leader.heard()
        reports = leader.coordinator.regulation.congestion._reports
        assert reports[FIRST] == {LAST: (0, 10**6)}
        taken(leader, Yield(LAST, 1, 0, 0), 1)
        taken(leader, idle(2), 1)
        leader.heard()
        taken(leader, idle(3), 1)
        leader.heard()
        assert reports[FIRST] == {}
        told(leader)
        taken(leader, idle(4), 1)
        assert not told(leader)


def test_that_a_host_is_idle_is_told_again_after_changed_settings() -> None:
    """What waits there is a demand that Python may have forgotten with them."""
    with looped("timeslice") as leader:
        leader.learn()
        regulation = leader.coordinator.regulation
        for number in (1, 2):
            taken(leader, idle(number), 1)
            leader.heard()
        leader.coordinator.take([{"policy": {"contend_fraction": 0.8}}], leader.now())
        assert regulation.congestion.contend_fraction == 0.8 and FIRST not in regulation.congestion._reports
        taken(leader, idle(3), 1)
        leader.heard()
        assert regulation.congestion._reports[FIRST] == {LAST: (0, 10**6)}


def test_that_a_host_is_idle_is_told_again_if_there_was_no_room_for_it() -> None:
    with looped("timeslice") as leader:
        leader.learn()
        told(leader)
        busy = Report(50_000_000, 0, 1, tuple(FlowReport(LAST, size, 0) for size in range(60)), (), 1)
        while not leader.loop.dropped:
            leader._number += 1
            taken(leader, busy, 1)
        taken(leader, idle(2), 1)
        assert all(isinstance(one, RawFrame) and len(one.raw) > 1000 for one in told(leader))
        taken(leader, idle(3), 1)
        assert len(told(leader)) == 1
        taken(leader, idle(4), 1)
        assert not told(leader)


def test_where_no_loop_can_be_made_python_takes_what_a_member_says_of_its_queues_in_turns() -> None:
    leader = Leader(compiled=True, hosts=HOSTS, policy="timeslice")
    exchange = leader.coordinator.exchange
    assert exchange is not None
    before, lowest = resource.getrlimit(resource.RLIMIT_NOFILE), os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, before[1]))  # for the event of Python, and not for that of C
    try:
        with pytest.raises(OSError, match="no memory for the loop"):
            SlotLoop(exchange.frames, exchange.descriptors)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    said = (waits(LAST), waits(LAST), Yield(LAST, 1, 0, 7), waits(LAST, FIRST + 1), Yield(LAST, 1, 0, 9))
    leader.hear([frame(message, 1, sequence=FIRST_SEQUENCE + at) for at, message in enumerate(said, 1)], 10**9)
    member = leader.coordinator.members.get(FIRST)
    assert member is not None and member.backlog == {LAST: 9, FIRST + 1: 10**6}
    leader.link.close()


def test_the_picture_of_a_leader_with_many_members_has_fewer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.scheduling.telemetry.MANY_MEMBERS", HOSTS)
    leader = Leader(compiled=True, hosts=HOSTS, policy="timeslice")
    assert leader.coordinator.granting._telemetry.room() == EVENTS_OF_MANY
    leader.link.close()
