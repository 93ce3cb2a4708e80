"""How many V2V flows of one destination have a queue of their own."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from agents.queues.flow_queues import LOOKED_AT, MOST_FLOWS, MOST_LEFT_OUT, FlowQueues

TARGET = IPv4Address("10.0.0.1")
SECOND = 1_000_000_000
IDLE_NS = 60 * SECOND


def source(number: int) -> IPv4Address:
    return IPv4Address(0x0A010000 + number)


def crowded(flows: int, dscp: tuple[int, ...] = ()) -> FlowQueues:
    queues = FlowQueues(1, 16, 1514, dscp)
    for number in range(flows):
        queues.add(source(number), TARGET, dscp[0] if dscp else 0)
    return queues


@pytest.mark.parametrize("dscp", [(), (46, 10)], ids=["one priority", "two"])
def test_however_many_sources_there_are_the_queues_are_bounded(dscp: tuple[int, ...]) -> None:
    queues = crowded(70_000, dscp)
    assert len(queues.flows) == MOST_FLOWS
    assert len(queues.classes()) == MOST_FLOWS + max(1, len(dscp)) and max(queues.classes()) & 0xFFFF <= 2 * MOST_FLOWS
    assert len(queues.welcome_back()) == MOST_LEFT_OUT and queues.welcome_back() == []


def test_few_flows_are_left_alone() -> None:
    assert list(crowded(MOST_FLOWS // 2 - 1).to_look_at()) == []


def test_all_are_looked_at_in_turn() -> None:
    queues = crowded(MOST_FLOWS)
    looks = [list(queues.to_look_at()) for _ in range(MOST_FLOWS // LOOKED_AT)]
    assert {len(look) for look in looks} == {LOOKED_AT}
    assert {flow for look in looks for flow, _ in look} == set(queues.flows)


def test_what_nothing_has_passed_for_a_minute_is_idle_and_what_waits_is_not() -> None:
    queues = crowded(MOST_FLOWS)
    flow = queues.flows[0]
    assert not queues.idle(flow, 100, 0, 0, IDLE_NS)
    assert not queues.idle(flow, 100, 0, IDLE_NS - 1, IDLE_NS)
    assert queues.idle(flow, 100, 0, IDLE_NS, IDLE_NS)
    assert not queues.idle(flow, 100, 60, IDLE_NS, IDLE_NS)
    assert not queues.idle(flow, 200, 0, 2 * IDLE_NS, IDLE_NS)


def test_a_queue_that_goes_makes_room_under_its_own_number() -> None:
    queues = crowded(MOST_FLOWS)
    numbers = set(queues.classes())
    assert not queues.add(source(9_999), TARGET, 0)
    assert len(queues.remove(queues.flows[7])) == 2
    assert queues.add(source(9_999), TARGET, 0) and set(queues.classes()) == numbers
