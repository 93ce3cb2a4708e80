"""A host that has the key and floods the leader costs it bounded memory, and takes nothing from other hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from bench.fuzz.receivers import EPOCH, LEADER_MAC, DiscardingBridge, FakeControlSocket, FixedLeadership, mac
from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from controller.members.registry import FIRST_NODE, LAST_NODE, REST_NS, Members, NoRoom
from protocol.auth import JUMP, Guard
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.link import ControlSocket
from protocol.messages import (
    UNREGISTERED,
    Backlog,
    Cause,
    Error,
    ErrorCode,
    FlowReport,
    GateKind,
    Leave,
    Message,
    Ping,
    Pong,
    Register,
    Report,
    Welcome,
    decode,
    encode,
)
from protocol.paging import MOST_HELD, MOST_PAGES, Reassemblers
from tests.unit.controller.members.reachable import elements

KEY = Key(bytes(32))
MS = 1_000_000
FORGED = (1 << 64) - 1


def address(number: int) -> bytes:
    return b"\x02" + number.to_bytes(5, "big")


class Fabric:
    """A leader, and hosts by number, each with a clock of its own."""

    def __init__(self) -> None:
        settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=Path("/nowhere"), store="")
        self.link, self.bridge = FakeControlSocket(LEADER_MAC), DiscardingBridge()
        self.leader = Coordinator(
            settings, KEY, cast(ControlSocket, self.link), cast(Any, self.bridge), FixedLeadership(), cast(Any, None)
        )
        self.now_ns = 0
        self.clock = count(10**18)

    def hear(
        self, host: int, message: Message, sender: int, sequence: int | None = None, version: int = NEWEST
    ) -> list[Message]:
        """The leader's answers to this host."""
        self.now_ns += MS
        number = next(self.clock) if sequence is None else sequence
        self.link.sent = []
        words = {"key": KEY, "destination": LEADER_MAC, "source": address(host)}
        raw = encode(message, **words, sender=sender, epoch=EPOCH, sequence=number, version=version)
        self.leader.reception.receive(raw, self.now_ns)
        return [decode(sent, KEY).message for sent in self.link.sent if sent[:6] == address(host)]

    def join(self, host: int) -> int:
        answers = self.hear(host, Register(f"h{host}", host, 10**8, (), GateKind.TBF, "1"), UNREGISTERED)
        (node,) = [answer.node for answer in answers if isinstance(answer, Welcome)]
        return node


class TestNobodyTakesAnothersNumbers:
    """A frame in another host's name does not silence that host."""

    @pytest.mark.parametrize("forged", [FORGED, (1 << 62) - 1, 10**18 + JUMP // 2])
    @pytest.mark.parametrize("registered", [True, False])
    def test_a_host_goes_on_after_the_highest_number_that_was_used_in_its_name(self, forged: int, registered: bool) -> None:
        fabric = Fabric()
        node = fabric.join(1)
        sender = node if registered else UNREGISTERED
        fabric.hear(1, Ping(1), sender, forged)
        self.is_heard_again(fabric, sender)

    def test_a_host_whose_name_was_used_before_it_came_is_heard(self) -> None:
        fabric = Fabric()
        fabric.hear(1, Ping(1), UNREGISTERED, FORGED)
        fabric.hear(1, Ping(1), UNREGISTERED, (1 << 62) - 1)
        self.is_heard_again(fabric, UNREGISTERED)

    @staticmethod
    def is_heard_again(fabric: Fabric, sender: int) -> None:
        """Within three frames."""
        sequence = 10**18 + 1000
        for _ in range(3):
            message = Register("h1", 1, 10**8, (), GateKind.TBF, "1") if sender == UNREGISTERED else Ping(7)
            answers = fabric.hear(1, message, sender, sequence)
            if any(isinstance(answer, Pong | Welcome) for answer in answers):
                return
            (error,) = answers
            assert isinstance(error, Error) and error.code is ErrorCode.SEQUENCE
            sequence = error.sequence + 1
        raise AssertionError("it is not heard")

    def test_a_clock_that_ran_ahead_for_days_is_told_where_to_go_on(self) -> None:
        guard = Guard(KEY, epoch=1, leader=True)
        words = {"key": KEY, "destination": LEADER_MAC, "source": mac(1), "sender": 16, "epoch": 1}
        assert guard.accept(encode(Ping(1), **words, sequence=5)) is not None
        assert guard.accept(encode(Ping(1), **words, sequence=6 + JUMP)) is None
        assert guard.refused == {Cause.AHEAD: 1} and guard.astray == (mac(1), 5, NEWEST)
        assert guard.accept(encode(Ping(1), **words, sequence=6)) is not None

    def test_frames_that_are_played_again_cost_one_answer_a_millisecond(self) -> None:
        fabric = Fabric()
        node = fabric.join(1)
        for number in range(200):
            fabric.hear(1, Ping(1), node, 2 * 10**18 + number)
        frame = encode(
            Ping(1), key=KEY, destination=LEADER_MAC, source=address(1), sender=node, epoch=EPOCH, sequence=2 * 10**18
        )
        fabric.link.sent = []
        for _ in range(50):
            fabric.leader.reception.receive(frame, fabric.now_ns + 2 * MS)
        assert len(fabric.link.sent) <= 1


class TestPages:
    """Unfinished messages take bounded memory, of one sender and of all."""

    def test_however_many_senders_leave_messages_unfinished_few_pages_are_kept(self) -> None:
        pages: Reassemblers[Backlog] = Reassemblers()
        for sender in range(100):
            for page in range(MOST_PAGES - 1):
                for report in (1, 2):
                    assert pages.add(sender, Backlog(report, page, MOST_PAGES, ())) is None
        assert sum(one.held for one in pages._senders.values()) == pages._held <= MOST_HELD
        assert pages.dropped == 100 * 2 * (MOST_PAGES - 1) - pages._held
        assert pages.add(7, Backlog(3, 0, 1, ((17, 1, 0),))) is not None

    def test_a_message_of_more_pages_than_there_can_be_is_not_kept(self) -> None:
        pages: Reassemblers[Backlog] = Reassemblers()
        for page in range(65_535):
            assert pages.add(1, Backlog(1, page, 65_535, ())) is None
        assert not pages._held and pages.dropped == 65_535

    def test_a_whole_message_comes_out_and_one_that_began_before_does_not_follow_it(self) -> None:
        pages: Reassemblers[Backlog] = Reassemblers()
        first, second = Backlog(1, 0, 2, ()), Backlog(1, 1, 2, ((17, 1, 0),))
        assert pages.add(1, first) is None and pages.add(1, second) == (first, second)
        assert pages.add(1, first) is None
        pages.clear(1)
        assert pages.add(1, second) is None and pages._held == 1

    def test_the_leader_keeps_few_pages_of_a_flood(self) -> None:
        fabric = Fabric()
        nodes = [fabric.join(host) for host in range(4)]
        for host, node in enumerate(nodes):
            for page in range(1500):
                fabric.hear(host, Backlog(1, page, 65_535, ((17, 1, 0),)), node)
                fabric.hear(host, Report(MS, page, MOST_PAGES, (FlowReport(17, 1, 1),), (), page), node) if page < 255 else None
        assert elements(fabric.leader, Backlog) == 0 and elements(fabric.leader, Report) <= 4 * 2 * MOST_PAGES
        assert fabric.leader.granting.status()["dropped_pages"] == 4 * 1500

    def test_counters_of_a_report_are_as_many_as_there_are_causes(self) -> None:
        fabric = Fabric()
        node = fabric.join(1)
        for page in range(10):
            counters = tuple((60 * page + cause, 1) for cause in range(60))
            fabric.hear(1, Report(MS, page, 10, (), counters, 1), node)
        member = fabric.leader.members.get(node)
        assert member is not None and len(member.refused) == 64


class TestIds:
    """There are as many as hosts' queues can have; a host that finds none is told, and all others go on."""

    @staticmethod
    def crowd(members: Members, hosts: Iterable[int], now_ns: int = 0) -> None:
        for host in hosts:
            members.register(address(host), f"h{host}", 1, (), "tbf", "1", now_ns)

    def test_the_last_id_is_given_out_and_the_next_host_is_refused(self) -> None:
        members = Members()
        self.crowd(members, range(LAST_NODE - FIRST_NODE + 1))
        assert [member.node for member in members.present()] == list(range(FIRST_NODE, LAST_NODE + 1))
        with pytest.raises(NoRoom, match="node ids are taken"):
            self.crowd(members, [1 << 20])
        self.crowd(members, [5])

    def test_ids_of_hosts_that_are_long_gone_are_given_out_again_and_others_are_not(self) -> None:
        members = Members()
        self.crowd(members, range(LAST_NODE - FIRST_NODE + 1))
        members.leave(FIRST_NODE + 7)
        with pytest.raises(NoRoom):
            self.crowd(members, [1 << 20], REST_NS - 1)
        self.crowd(members, [1 << 20], REST_NS + 10**9)
        newest = next(member for member in members.present() if member.mac == address(1 << 20))
        assert newest.node == FIRST_NODE + 7

    def test_the_leader_says_so_and_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("controller.members.registry.LAST_NODE", FIRST_NODE + 1)
        fabric = Fabric()
        nodes = [fabric.join(host) for host in range(2)]
        (answer,) = fabric.hear(9, Register("h9", 1, 10**8, (), GateKind.TBF, "1"), UNREGISTERED)
        assert isinstance(answer, Error) and answer.code is ErrorCode.BUSY and "node ids" in answer.text
        assert fabric.leader.membership.status()["turned_away"] == 1
        assert [isinstance(fabric.hear(0, Ping(1), nodes[0])[0], Pong)] == [True]

    def test_ids_in_the_store_that_no_host_can_have_are_not_believed(self) -> None:
        members = Members()
        members.reserve({address(1): 1 << 40, address(2): 1, address(3): LAST_NODE})
        self.crowd(members, range(8))
        assert all(FIRST_NODE <= member.node <= LAST_NODE for member in members.present())


def test_nothing_but_an_id_is_kept_of_members_that_left() -> None:
    fabric = Fabric()

    def come_and_go(hosts: range) -> None:
        for host in hosts:
            node = fabric.join(host)
            fabric.hear(host, Backlog(1, 0, 1, ((node + 1, 9_000, 0),)), node)
            fabric.hear(host, Backlog(2, 0, 2, ((node + 1, 9_000, 0),)), node)
            fabric.hear(host, Report(MS, 0, 1, (FlowReport(16, 10**6, 1),), ((5, 1),), 1), node)
            fabric.hear(host, Report(MS, 0, 2, (FlowReport(16, 10**6, 1),), ((5, 1),), 2), node)
            fabric.hear(host, Leave("stopped"), node)
        for part in fabric.leader.parts:
            for _, call in part.periodic:
                call(fabric.now_ns)
        fabric.leader.timers.run(1 << 62)

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    come_and_go(range(50))
    fabric.link.sent = []
    before = elements(fabric.leader)
    come_and_go(range(1000, 1200))
    fabric.link.sent = []
    grown = elements(fabric.leader) - before
    assert not fabric.leader.members.present()
    windows = 2 * 200  # of sequence numbers, of the registration and of the member: bounded by the guard
    a_few = 20  # what is told once in a while, whoever comes
    assert grown <= 200 + 3 * windows + a_few, grown


@pytest.mark.parametrize("rate_bps", [0, 1, 10**6 - 1, 10**12 + 1, FORGED])
def test_a_host_with_a_rate_that_no_link_has_is_refused(rate_bps: int) -> None:
    fabric = Fabric()
    (answer,) = fabric.hear(1, Register("h1", 1, rate_bps, (), GateKind.TBF, "1"), UNREGISTERED)
    assert isinstance(answer, Error) and answer.code is ErrorCode.REFUSED and "1Mbit to 1Tbit" in answer.text
    assert not len(fabric.leader.members)
    fabric.join(1)
