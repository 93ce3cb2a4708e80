"""Priorities inside a destination's permission, in the kernel: watched with tc, and with a capture at the other end."""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

import pytest

from agents.priorities.tagger import Tagger, TaggerSettings
from agents.queues.classifier import Backlogged, NewFlow
from agents.queues.host import Host
from protocol.mark_socket import mark_socket
from tests.emulation.namespaces import Pair, inside, pair, run

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
ETH_P_ALL = 3
PAYLOAD, FRAME = 1472, 1514
RATE = 100_000_000
NODE = 16
LEFT, RIGHT = IPv4Address("10.9.0.1"), IPv4Address("10.9.0.2")
INNER = f"{0x4000 | NODE:x}:"
SHUT = 1
"""The one packet that a gate had taken from its queues before it closed leaves first, whatever its priority."""


class Class(NamedTuple):
    """One class: its HTB priority, packets sent, bytes that wait."""

    priority: int
    sent: int
    backlog: int


def shown_classes(ends: Pair) -> dict[str, Class]:
    """The classes behind the destination's gate; tc has no JSON for HTB's."""
    shown = run("ip", "netns", "exec", ends.left, "tc", "-s", "class", "show", "dev", "eth0")
    found = re.findall(
        rf"class htb ({INNER}\w+) .*?prio (\d) .*?bytes (\d+) pkt .*?backlog (\w+)b ", shown.replace("\n", " ")
    )
    scale = {"K": 1024, "M": 1 << 20}
    return {
        handle: Class(int(prio), int(sent), int(waiting.rstrip("KM")) * scale.get(waiting[-1], 1))
        for handle, prio, sent, waiting in found
    }


@dataclass
class Wire:
    """A host under test at the left; at the right a capture of all that arrives."""

    pair: Pair
    host: Host
    capture: socket.socket
    senders: dict[str, socket.socket] = field(default_factory=dict)

    def sender(self, source: str = str(LEFT)) -> socket.socket:
        if source not in self.senders:
            if source != str(LEFT):
                run("ip", "-n", self.pair.left, "addr", "add", f"{source}/24", "dev", "eth0")
            with inside(self.pair.left):
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
            made.bind((source, 0))
            self.senders[source] = made
        return self.senders[source]

    def send(self, dscp: int, count: int, source: str = str(LEFT)) -> None:
        sender = self.sender(source)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        for _ in range(count):
            sender.sendto(bytes(PAYLOAD), (str(RIGHT), 7))

    def arrivals(self, wait_s: float = 0.15) -> list[tuple[int, str]]:
        """(DSCP, source) of the UDP datagrams captured until none came for `wait_s`."""
        self.capture.settimeout(wait_s)
        found = []
        try:
            while True:
                frame, address = self.capture.recvfrom(2048)
                if frame[12:14] == b"\x08\x00" and frame[23] == 17 and address[2] != socket.PACKET_OUTGOING:
                    found.append((frame[15] >> 2, socket.inet_ntoa(frame[26:30])))
        except TimeoutError:
            return found

    def settle(self) -> list[Backlogged]:
        """Creates the queues of new flows, as the agent's loop does; returns the other events."""
        time.sleep(0.02)
        told = []
        for event in self.host.flows.events():
            if isinstance(event, NewFlow):
                self.host.queues.ensure_flow(event.source, event.target, event.destination, event.dscp)
            else:
                told.append(event)
        return told

    def classes(self) -> dict[str, Class]:
        """The classes behind the destination's gate, as tc shows them."""
        return shown_classes(self.pair)

    def tc(self, *arguments: str) -> None:
        run("ip", "netns", "exec", self.pair.left, "tc", *arguments)


def lasting(ends: Pair) -> list[str]:
    """The whole output of tc, except the handles that the kernel chooses."""
    return sorted(re.sub(r"(leaf|pfifo) \w+:", r"\1", ends.found()).splitlines())


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with pair() as ends:
        with inside(ends.right):
            capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            capture.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
            capture.bind(("eth0", ETH_P_ALL))
            deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # or every datagram is answered with an ICMP error
            deaf.bind(("", 7))
        with inside(ends.left):
            host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path, dscp=TaggerSettings().dscp)
        made = Wire(ends, host, capture)
        try:
            host.flows.set_directory({NODE: [RIGHT]})
            made.send(0, 1)
            made.settle()
            made.arrivals()
            yield made
        finally:
            with inside(ends.left):
                host.close()
            for each in (capture, deaf, *made.senders.values()):
                each.close()


def test_behind_a_gate_that_was_shut_the_highest_priority_leaves_first(wire: Wire) -> None:
    wire.host.close_gate(NODE)
    for dscp in (0, 4, 2, 7, 1, 5, 3, 6):
        wire.send(dscp, 10)
        wire.settle()
    wire.arrivals()
    wire.host.open_gate(NODE)
    wire.host.wake_queues()
    left = [dscp for dscp, _ in wire.arrivals()][SHUT:]
    assert left == sorted(left, reverse=True)
    assert len(left) >= 80 - 1 - SHUT
    sent = Counter[int]()
    for row in wire.classes().values():
        sent[row.priority] += row.sent
    assert sent == dict.fromkeys(range(8), 10)


def test_a_grant_is_spent_on_the_highest_priority(wire: Wire) -> None:
    wire.host.close_gate(NODE)
    wire.send(0, 30)
    wire.settle()
    wire.send(7, 10)
    wire.arrivals()
    wire.host.grant(NODE, 8 * FRAME + 90)
    wire.host.wake_queues()
    assert [dscp for dscp, _ in wire.arrivals()][SHUT:] == [7] * (8 - SHUT)
    wire.host.grant(NODE, 8 * FRAME + 90)
    wire.host.wake_queues()
    assert sorted((dscp for dscp, _ in wire.arrivals()), reverse=True) == [7] * 3 + [0] * 5


def test_priorities_hold_before_a_queue_of_the_flow_is_made(wire: Wire) -> None:
    wire.host.close_gate(NODE)
    for dscp in (0, 3, 7):
        wire.send(dscp, 10)
    assert len(wire.classes()) == 8 + 1
    wire.arrivals()
    wire.host.open_gate(NODE)
    wire.host.wake_queues()
    left = [dscp for dscp, _ in wire.arrivals()][SHUT:]
    assert left == sorted(left, reverse=True)


def test_flows_of_one_priority_are_served_in_turn(wire: Wire) -> None:
    second = "10.9.0.11"
    for source, dscp in itertools.product((str(LEFT), second), (3, 6)):
        wire.send(dscp, 1, source)
    wire.settle()
    wire.arrivals()
    wire.host.close_gate(NODE)
    for source, dscp in itertools.product((str(LEFT), second), (3, 6)):
        wire.send(dscp, 40, source)
    wire.arrivals()
    wire.host.grant(NODE, 40 * FRAME + 90)
    wire.host.wake_queues()
    left = wire.arrivals()[SHUT:]
    assert {dscp for dscp, _ in left} == {6}
    assert 15 <= [source for _, source in left].count(second) <= 25


def test_a_queue_is_made_for_each_priority_that_a_flow_uses_and_no_other(wire: Wire) -> None:
    before = set(wire.classes())
    wire.send(6, 3)
    wire.send(6, 3)
    wire.settle()
    made = {handle: row for handle, row in wire.classes().items() if handle not in before}
    assert [row.priority for row in made.values()] == [1]


def test_a_codepoint_of_no_priority_has_the_lowest(wire: Wire) -> None:
    wire.host.close_gate(NODE)
    wire.send(46, 10)
    wire.send(1, 10)
    wire.settle()
    wire.arrivals()
    wire.host.open_gate(NODE)
    wire.host.wake_queues()
    assert [dscp for dscp, _ in wire.arrivals()][SHUT:] in ([1] * 10 + [46] * 9, [1] * 10 + [46] * 8)


def test_ipv6_has_the_same_priorities(wire: Wire) -> None:
    shown = [
        (row["protocol"], row["options"]["flowid"])
        for row in wire.pair.tc("filter", "show", "dev", "eth0", "parent", INNER)
        if "flowid" in row.get("options", {})
    ]
    by_version = {version: {flowid for found, flowid in shown if found == version} for version in ("ip", "ipv6")}
    shared = {f"{INNER}{minor}" for minor in range(1, 8)}
    assert shared <= by_version["ip"] and shared == by_version["ipv6"]


def test_the_bytes_of_flows_with_a_deadline_are_those_that_tc_shows(wire: Wire) -> None:
    assert wire.host.urgent(NODE) == 0
    wire.host.close_gate(NODE)
    wire.send(0, 12)
    wire.send(7, 5)
    wire.settle()
    wire.send(7, 4)
    wire.arrivals()
    waiting = sum(row.backlog for row in wire.classes().values() if row.priority == 0)
    assert wire.host.urgent(NODE) == waiting == 9 * FRAME
    assert wire.host.state(NODE)[1] >= 20 * FRAME


def test_an_agent_that_asks_is_told_of_the_first_packet_with_a_deadline_only(wire: Wire) -> None:
    wire.host.close_gate(NODE)
    wire.host.arm(NODE, urgent=True)
    wire.send(3, 5)
    assert wire.settle() == []
    wire.send(7, 5)
    assert wire.settle() == [Backlogged(NODE, urgent=True)]
    wire.send(7, 5)
    assert wire.settle() == []


def test_an_agent_that_asks_for_any_packet_learns_whether_it_has_a_deadline(wire: Wire) -> None:
    wire.host.close_gate(NODE)
    for dscp in (7, 3):
        wire.host.arm(NODE)
        wire.send(dscp, 2)
        assert wire.settle() == [Backlogged(NODE, urgent=dscp == 7)]


def test_what_somebody_else_changed_is_found_and_put_back(wire: Wire) -> None:
    wire.send(6, 1)
    wire.settle()
    assert wire.host.queues.repair() == []
    before = lasting(wire.pair)
    change = ("htb", "rate", "100gbit", "burst", "1mb", "prio", "7")
    wire.tc("class", "change", "dev", "eth0", "classid", f"{INNER}1", *change)
    wire.tc("filter", "del", "dev", "eth0", "parent", INNER, "pref", str(0xFFF1))
    lines = wire.host.queues.repair()
    assert any(f"class {INNER}1 has priority 7, not 0" in line for line in lines)
    assert sum("filters to class" in line for line in lines) == 7
    assert wire.host.queues.repair() == []
    assert lasting(wire.pair) == before


def test_the_tagger_writes_the_priority_before_the_queues_read_it(wire: Wire) -> None:
    with inside(wire.pair.left):
        tagger = Tagger("eth0", TaggerSettings(short_bytes=0))
        senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    try:
        mark_socket(senders[1], size_bytes=30_000, deadline_ms=20)
        wire.host.close_gate(NODE)
        for sender in senders:
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
            for _ in range(10):
                sender.sendto(bytes(PAYLOAD), (str(RIGHT), 7))
            wire.settle()
        assert wire.host.urgent(NODE) >= 9 * FRAME
        wire.arrivals()
        wire.host.open_gate(NODE)
        wire.host.wake_queues()
        left = [dscp for dscp, _ in wire.arrivals()][SHUT:]
        assert left[:9] == [7] * 9 and set(left[10:]) == {6}
    finally:
        with inside(wire.pair.left):
            tagger.close()
        for sender in senders:
            sender.close()


def test_without_priorities_the_queues_are_as_they_were(tmp_path: Path) -> None:
    with pair() as ends, inside(ends.left):
        host = Host("eth0", RATE, gate_kind="tbf", run_dir=tmp_path)
        host.queues.ensure_flow(LEFT, RIGHT, NODE)
        assert [row.priority for row in shown_classes(ends).values()] == [0, 0]
        assert host.urgent(NODE) == 0
        host.arm(NODE, urgent=True)
        host.close()


def test_a_queue_is_made_within_milliseconds(wire: Wire) -> None:
    took: dict[str, list[int]] = {"destination": [], "flow": [], "question": []}
    for last in range(20, 60):
        target = IPv4Address(f"10.9.0.{last}")
        for what, dscp in (("destination", 0), ("flow", 7)):
            began = time.perf_counter_ns()
            wire.host.queues.ensure_flow(LEFT, target, 100 + last, dscp)
            took[what].append(time.perf_counter_ns() - began)
        began = time.perf_counter_ns()
        wire.host.urgent(100 + last)
        took["question"].append(time.perf_counter_ns() - began)
    for what, times in took.items():
        print(f"{what}: {sorted(times)[20] / 1e6:.3f} ms (p50), {max(times) / 1e6:.3f} ms (max)")
    assert sorted(took["destination"])[20] < 20e6
    assert sorted(took["flow"])[20] < 5e6
