"""Members that know no groups are told their destinations: not before they had time to ask, and a few at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from controller.members.part import SWEEP_NS
from controller.members.registry import Members
from controller.policies.groups import Groups
from controller.told.destinations import AT_ONCE, EMPTY, ToldDestinations
from protocol.bodies.nodes import NodeSet
from protocol.messages import Message, Regulate
from protocol.timers import REFRESH_NS, Timers

MS = 1_000_000


class Told:
    """So many members of version 3, or of an older one, among which each pair needs permission."""

    def __init__(self, hosts: int, wire: int = 3) -> None:
        self.members, self.timers, self.now_ns = Members(), Timers(), 0
        self.sent: list[bytes] = []
        self.lists: list[Regulate] = []
        groups = Groups(network=cast(Any, SimpleNamespace(nodes={16 + host for host in range(hosts)})), everyone=True)
        self.behind = False
        self.told = ToldDestinations(
            self.members, self.timers, self._send, lambda: groups, lambda: self.behind
        )
        for period_ns, call in self.told.periodic:
            self.timers.every(0, period_ns, call)
        self.go(MS)
        for host in range(hosts):
            member = self.members.register(host.to_bytes(6), f"h{host}", 10**9, (), "tbf", "1", 0, wire)
            self.told.joined(member.node)

    def _send(self, message: Message, to: bytes) -> None:
        assert isinstance(message, Regulate)
        self.sent.append(to)
        self.lists.append(message)

    def go(self, by_ns: int) -> list[bytes]:
        """Who is sent a list, in this time."""
        self.sent.clear()
        self.lists.clear()
        until_ns = self.now_ns + by_ns
        while self.timers.next_ns() <= until_ns:
            self.now_ns = self.timers.next_ns()
            self.timers.run(self.now_ns)
        self.now_ns = until_ns
        return list(self.sent)


def test_who_may_still_ask_for_groups_is_told_nothing_for_a_second_and_all_within_two() -> None:
    told = Told(3)
    assert told.go(REFRESH_NS - MS) == []
    assert set(told.go(REFRESH_NS + SWEEP_NS)) == {host.to_bytes(6) for host in range(3)}


def test_who_has_not_asked_is_sent_an_empty_list_first_and_its_destinations_later() -> None:
    told = Told(3)
    told.go(2 * REFRESH_NS + SWEEP_NS)
    assert [message.destinations for message in told.lists] == [()] * 3
    empty = told.lists[0].version
    assert told.go(REFRESH_NS) == []
    told.go(REFRESH_NS)
    assert [len(message.destinations) for message in told.lists] == [2] * 3 and told.lists[0].version > empty


def test_who_asks_when_it_is_sent_an_empty_list_is_sent_no_other() -> None:
    told = Told(3)
    assert len(told.go(2 * REFRESH_NS + SWEEP_NS)) == 3
    for node in (16, 17, 18):
        told.told.knows_groups(node)
    assert told.go(5 * REFRESH_NS) == []


def test_of_thousands_that_were_not_heard_some_at_a_time_are_sent_an_empty_list() -> None:
    told = Told(2_000)
    told.go(2 * REFRESH_NS - 2 * MS)
    assert 0 < len(told.go(MS + SWEEP_NS)) <= 4 * AT_ONCE // EMPTY
    told.go(REFRESH_NS - SWEEP_NS - MS)
    assert told.lists and not any(message.destinations for message in told.lists)


def test_who_waits_for_its_empty_list_is_sent_no_other_before() -> None:
    told = Told(4_000)
    for _ in range(8):
        told.go(REFRESH_NS)
        for to in told.sent:
            told.told.knows_groups(16 + int.from_bytes(to))
        assert not any(message.destinations for message in told.lists)


def test_who_may_have_asked_in_a_frame_that_waits_unread_is_told_nothing() -> None:
    told = Told(3)
    told.behind = True
    assert told.go(5 * REFRESH_NS) == []
    told.behind = False
    assert told.go(2 * REFRESH_NS + SWEEP_NS)


def test_who_asks_for_groups_is_never_told() -> None:
    told = Told(3)
    told.told.knows_groups(17)
    assert (1).to_bytes(6) not in told.go(5 * REFRESH_NS)
    assert (0).to_bytes(6) in told.go(REFRESH_NS)


def test_who_registers_anew_has_time_again() -> None:
    told = Told(3)
    told.go(3 * REFRESH_NS)
    told.told.left(17, told.now_ns)
    told.told.joined(17)
    assert (1).to_bytes(6) not in told.go(REFRESH_NS - MS)


def test_members_of_an_older_version_are_told_of_a_change_at_once_and_twice_more() -> None:
    told = Told(3, wire=2)
    told.go(MS)
    told.told.changed(NodeSet((16, 17)), told.now_ns)
    told.go(0)
    assert len(told.go(150 * MS)) >= 2 * 2


def test_of_many_members_a_few_are_told_at_a_time() -> None:
    hosts = 200
    told = Told(hosts, wire=2)
    told.go(62 * MS - told.now_ns)
    told.told.changed(NodeSet(range(16, 16 + hosts)), told.now_ns)
    at_once = len(told.sent)
    assert AT_ONCE // hosts <= at_once <= 1 + AT_ONCE // hosts
    assert set(told.go(3 * REFRESH_NS)) == {host.to_bytes(6) for host in range(hosts)}
