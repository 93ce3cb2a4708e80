"""One host cannot push the events of others out of the stream."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

from controller.members.event_budget import MOST, PERIOD_NS, EventBudget
from controller.members.membership import EACH
from protocol.messages import UNREGISTERED, GateKind, Register
from protocol.units import SECOND_NS
from tests.unit.controller.members.test_bounds import Fabric


def test_a_host_that_causes_many_events_is_told_of_a_few_times_a_minute_and_the_rest_is_counted() -> None:
    budget = EventBudget()
    told = [budget.spend("h1", second * SECOND_NS // 10) for second in range(3_000)]
    assert [number for number in told if number is not None] == [0] * MOST + ([600 - MOST] + [0] * (MOST - 1)) * 4


def test_others_are_told_of_meanwhile() -> None:
    budget = EventBudget()
    for second in range(100):
        budget.spend("h1", second)
    assert budget.spend("h2", 100) == 0


def test_quiet_hosts_are_forgotten_but_for_what_they_owe() -> None:
    budget = EventBudget()
    for host in range(1_000):
        budget.spend(f"h{host}", host)
    for _ in range(MOST + 3):
        budget.spend("h7", 2_000)
    budget.spend("h1", 2 * PERIOD_NS)
    assert len(budget._periods) == 2
    assert budget.spend("h7", 2 * PERIOD_NS) == 4


def test_a_host_whose_addresses_change_all_the_time_leaves_room_for_others_events() -> None:
    fabric, lines = Fabric(), list[dict[str, Any]]()
    fabric.leader.membership._write = lines.append
    fabric.join(2)
    for number in range(5 * MOST):
        fabric.hear(1, Register("h1", number, 10**8, (IPv4Address(number + 1),), GateKind.TBF, "1"), UNREGISTERED)
    fabric.join(3)
    told = [line["event"][2] for line in lines if "event" in line]
    assert len([text for text in told if text.startswith("h1")]) == MOST
    assert any(text.startswith("h3") for text in told)


def test_of_many_hosts_that_join_at_once_some_are_told_one_by_one_and_the_others_by_their_number() -> None:
    fabric, lines = Fabric(), list[dict[str, Any]]()
    fabric.leader.membership._write = lines.append
    for host in range(3 * EACH):
        fabric.join(host)
    told = [line["event"][2] for line in lines if "event" in line]
    assert len(told) == EACH and all(" is member " in text for text in told)
    for _ in range(2):
        fabric.leader.membership._tell_joined(fabric.now_ns)
    assert [line["event"][2] for line in lines[EACH:]] == [f"{2 * EACH} more hosts are members"]
    fabric.join(3 * EACH)
    assert lines[-1]["event"][2].startswith(f"h{3 * EACH} is member ")
