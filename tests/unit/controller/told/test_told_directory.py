"""However many hosts join at once, each has the whole directory soon, few frames go out, and no turn of the loop is long."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Address
from random import Random

import pytest

from agents.queues.directory import DirectoryCopy
from controller.members.part import Parts
from controller.members.registry import Members
from controller.told.directory import ALL_EVERY_NS, PAUSE_NS, WORK_AT_ONCE, ToldDirectory
from protocol.messages import HEARTBEAT_MAC, Directory, DirectoryChange, DirectoryRequest, Message
from protocol.timers import Timers

MS = 1_000_000
HEARTBEAT_NS = 12 * MS
SECOND_NS = 1000 * MS


class Hosts:
    """A leader's directory, and the copies of hosts that join, ask, and lose a share of the frames."""

    def __init__(self, lose: float = 0.0) -> None:
        self.members, self.timers, self.now_ns = Members(), Timers(), 0
        self.told = ToldDirectory(self.members, Parts(), self.timers, self._send)
        self.copies: dict[bytes, DirectoryCopy] = {}
        self.sent: Counter[tuple[type, bool]] = Counter()
        """By type, and whether it went to all."""
        self.in_a_turn: list[int] = [0]
        self._ask_ns: dict[bytes, int] = {}
        self._dice, self._lose = Random(1), lose
        for period_ns, call in self.told.periodic:
            self.timers.every(0, period_ns, call)

    def _send(self, message: Message, to: bytes) -> None:
        self.in_a_turn[-1] += 1
        self.sent[type(message), to == HEARTBEAT_MAC] += 1
        for copy in self.copies.values() if to == HEARTBEAT_MAC else [self.copies[to]]:
            if self._dice.random() >= self._lose:
                if isinstance(message, Directory):
                    copy.take(message)
                elif isinstance(message, DirectoryChange):
                    copy.change(message)

    def join(self, host: int) -> None:
        mac = host.to_bytes(6)
        self.members.register(mac, f"h{host}", 10**9, (IPv4Address(host + 1),), "tbf", "1", self.now_ns)
        self.copies[mac] = DirectoryCopy()
        self._ask(mac, 0)

    def leave(self, host: int) -> None:
        node = self.members.at(host.to_bytes(6)).node  # type: ignore[union-attr]
        del self.copies[host.to_bytes(6)]
        self.members.leave(node)
        self.told.left(node, self.now_ns)

    def _ask(self, mac: bytes, version: int) -> None:
        member = self.members.at(mac)
        assert member is not None
        self._ask_ns[mac] = self.now_ns + 150 * MS
        self.in_a_turn.append(0)
        if self._dice.random() >= self._lose:
            self.told.handlers[DirectoryRequest](member, DirectoryRequest(version), self.now_ns)

    def go(self, by_ns: int) -> None:
        """Time passes; hosts that hear of another version ask after a while, as agents do."""
        until_ns = self.now_ns + by_ns
        while self.now_ns < until_ns:
            self.now_ns += MS
            self.in_a_turn.append(0)
            self.timers.run(self.now_ns)
            if self.now_ns % HEARTBEAT_NS < MS:
                for mac, copy in self.copies.items():
                    if copy.version == self.members.version:
                        self._ask_ns[mac] = self.now_ns + 150 * MS
                    elif self.now_ns >= self._ask_ns[mac]:
                        self._ask(mac, max(0, copy.version))

    def all_know(self) -> bool:
        whole = dict(self.members.directory())
        return all(copy.entries == whole for copy in self.copies.values())


@pytest.mark.parametrize("lose", [0.0, 0.02])
def test_hundreds_that_join_at_once_all_have_the_whole_within_two_seconds_by_few_frames(lose: float) -> None:
    hosts = Hosts(lose)
    for host in range(600):
        hosts.join(host)
        if host % 4 == 3:
            hosts.go(MS)
    hosts.go(2 * SECOND_NS)
    assert hosts.all_know()
    assert hosts.sent[Directory, False] + hosts.sent[DirectoryChange, False] < 600, "not one answer to each"
    assert hosts.sent[Directory, True] < 100


def test_no_turn_sends_more_than_a_few_frames_of_a_long_directory() -> None:
    hosts = Hosts()
    for host in range(2000):
        hosts.members.register(host.to_bytes(6), f"h{host}", 10**9, (IPv4Address(host + 1),), "tbf", "1", 0)
    hosts.go(200 * MS)
    hosts.in_a_turn, before_ns = [0], hosts.now_ns
    hosts.join(2000)
    hosts.go(60 * MS)
    assert hosts.all_know() and max(hosts.in_a_turn) <= WORK_AT_ONCE + 1, "with the change that is told to all"
    pages = hosts.sent[Directory, False]
    assert pages * PAUSE_NS <= 2 * (hosts.now_ns - before_ns) * WORK_AT_ONCE


def test_who_joins_later_gets_the_whole_as_it_was_made_before_and_the_changes_since() -> None:
    hosts = Hosts()
    for host in range(300):
        hosts.join(host)
    hosts.go(SECOND_NS)
    kept = hosts.told._kept
    for host in range(300, 310):
        hosts.join(host)
        hosts.go(100 * MS)
        assert hosts.all_know()
    hosts.leave(3)
    hosts.join(310)
    hosts.go(100 * MS)
    assert hosts.all_know() and hosts.told._kept is kept


def test_members_that_join_and_leave_while_the_whole_is_made_are_known_in_the_end() -> None:
    hosts = Hosts()
    for host in range(1500):
        hosts.members.register(host.to_bytes(6), f"h{host}", 10**9, (IPv4Address(host + 1),), "tbf", "1", 0)
    for host in range(1500, 1510):
        hosts.join(host)
        hosts.members.leave(hosts.members.at((host - 1500).to_bytes(6)).node)  # type: ignore[union-attr]
        hosts.members.leave(hosts.members.at((2900 - host).to_bytes(6)).node)  # type: ignore[union-attr]
        hosts.go(MS)
    hosts.go(ALL_EVERY_NS + 300 * MS)
    assert hosts.all_know()


def test_where_many_missed_changes_the_next_change_to_all_begins_with_the_oldest_version() -> None:
    hosts = Hosts()
    for host in range(100):
        hosts.join(host)
    hosts.go(SECOND_NS)
    hosts._lose = 1.0
    hosts.join(100)
    hosts.go(100 * MS)
    hosts._lose = 0.0
    hosts.sent.clear()
    hosts.go(SECOND_NS)
    assert hosts.all_know()
    assert hosts.sent[DirectoryChange, False] <= 60 and hosts.sent[DirectoryChange, True] <= 10


def _small(monkeypatch: pytest.MonkeyPatch, room: int) -> Hosts:
    for module in ("controller.members.registry", "controller.told.directory"):
        monkeypatch.setattr(f"{module}.DIRECTORY_ADDRESSES", room)
    return Hosts()


def test_with_more_addresses_than_fit_all_are_told_those_of_the_lowest_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = _small(monkeypatch, 40)
    for host in range(50):
        hosts.join(host)
    hosts.go(2 * SECOND_NS)
    assert hosts.members.left_out() == 10 and hosts.all_know()
    hosts.sent.clear()
    hosts.go(SECOND_NS)
    assert not hosts.sent and not hosts.told._under_way, "the leader has nothing left to do"


def test_once_hosts_have_left_and_there_is_room_again_all_are_told_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = _small(monkeypatch, 40)
    for host in range(50):
        hosts.join(host)
    hosts.go(2 * SECOND_NS)
    for host in range(20):
        hosts.leave(host)
        hosts.go(10 * MS)
    hosts.go(2 * SECOND_NS)
    assert hosts.members.left_out() == 0 and hosts.all_know()


def test_with_too_many_addresses_members_are_told_the_others_even_while_hosts_change(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = _small(monkeypatch, 400)
    for host in range(600):
        hosts.members.register(host.to_bytes(6), f"h{host}", 10**9, (IPv4Address(host + 1),), "tbf", "1", 0)
    hosts.join(600)
    for _ in range(200):  # a link's rate changes while the whole is made
        member = hosts.members.at((7).to_bytes(6))
        assert member is not None
        hosts.members.register(member.mac, member.name, member.rate_bps ^ 1, member.addresses, "tbf", "1", hosts.now_ns)
        hosts.go(MS)
    (copy,) = hosts.copies.values()
    assert sum(map(len, copy.entries.values())) == 400
