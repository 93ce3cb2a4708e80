"""`baton agent` carries out weeks and conditions on real packets: tcpdump at the other end captures the schedule."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scapy.utils import RawPcapReader

from bench.host_control.ends import SENDER, Ends, veth_pair
from bench.host_control.partner import FIRST_NODE, Partner
from emulation.processes import end_process
from protocol.bodies.host_control import Conditions, QueueCondition, Transport, Week, WeekKey
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from protocol.messages import Report
from tests.emulation.patience import timed

MS = 1_000_000
RATE_BPS = 100_000_000
PORT, PAYLOAD = 9, 958
FRAME = PAYLOAD + 42
SO_SNDBUFFORCE = 32  # asm-generic/socket.h
UNKNOWN_CLASS, DRAIN_S = "1:3", 5
"""Of what is between no members (agents/queues/queues.py), and for how many seconds at most a test waits until it is empty."""
STRAY = 3
"""Packets of other flows that may come on a day: those that a closing token bucket lets pass, and those under way."""
LATE_NS = 5 * MS
"""How late an agent may be on a busy machine: until then packets of the day before may come."""


@dataclass
class Wire:
    """A host with an agent; at the other end its leader, and tcpdump."""

    ends: Ends
    partner: Partner
    directory: Path
    targets: list[Any] = field(default_factory=list)

    @contextmanager
    def capture(self) -> Iterator[list[tuple[int, int]]]:
        """Fills the list with (time by the monotonic clock in ns, flow) of every packet that arrives inside the block."""
        path = self.directory / "arrived"
        argv = ("tcpdump", "-i", self.ends.receiver.interface, "-n", "-s", "64", "-U", "--immediate-mode", "-w", str(path))
        argv += ("--time-stamp-precision=nano", "udp", "port", str(PORT))
        process = subprocess.Popen(self.ends.receiver.command(*argv), stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert "listening" in process.stderr.readline()
        found: list[tuple[int, int]] = []
        try:
            yield found
        finally:
            end_process(process)
        ahead_ns = time.time_ns() - time.monotonic_ns()
        known = {target.packed: flow for flow, target in enumerate(self.targets)}
        for data, told in RawPcapReader(str(path)):
            found.append((told.sec * 10**9 + told.usec - ahead_ns, known[data[30:34]]))

    @contextmanager
    def backlogged(self, dscps: Sequence[int] = ()) -> Iterator[None]:
        """Sends packets of every flow as fast as its socket takes them. `dscps`: the DSCP of each flow."""
        sockets = []
        with self.ends.sender.entered():
            for flow, target in enumerate(self.targets):
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                made.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 400_000)
                made.connect((str(target), PORT))
                made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscps[flow] << 2 if dscps else 0)
                made.setblocking(False)
                sockets.append(made)
        over = threading.Event()

        def send() -> None:
            while not over.is_set():
                for ready in select.select((), sockets, (), 0.05)[1]:
                    try:
                        for _ in range(8):
                            ready.send(bytes(PAYLOAD))
                    except BlockingIOError:
                        continue

        thread = threading.Thread(target=send)
        thread.start()
        try:
            self._drain_unknown()
            yield
        finally:
            over.set()
            thread.join()
            for made in sockets:
                made.close()

    def _drain_unknown(self) -> None:
        """Waits, for some seconds at most, until what was sent before the agent knew its members has left."""
        until = time.monotonic() + DRAIN_S
        while time.monotonic() < until:
            self.serve(0.1)
            shown = json.loads(self.ends.sender.run("tc", "-s", "-j", "qdisc", "show", "dev", self.ends.sender.interface))
            if not any(qdisc["qlen"] for qdisc in shown if qdisc.get("parent") == UNKNOWN_CLASS):
                return

    def serve(self, seconds: float) -> None:
        self.partner.serve_until(time.monotonic_ns() + round(seconds * 1e9))

    def refused(self) -> dict[int, int]:
        """How many messages the agent has refused, by cause, by its next report."""
        self.partner.received.clear()
        assert self.partner.wait(lambda: any(isinstance(message, Report) for message in self.partner.received), 5)
        return dict(next(message for message in self.partner.received if isinstance(message, Report)).counters)

    def gate_bps(self, flow: int) -> int:
        """The rate of a flow's gate, as tc shows it."""
        shown = json.loads(self.ends.sender.run("tc", "-j", "qdisc", "show", "dev", self.ends.sender.interface))
        (gate,) = [qdisc for qdisc in shown if qdisc["handle"] == f"{FIRST_NODE + flow:x}:"]
        return int(gate["options"]["rate"]) * 8


@contextmanager
def wired(directory: Path, flows: int) -> Iterator[Wire]:
    key_file = directory / "key"
    master = Master(Key(b"Z" * 32))
    host_file.save(host := master.enroll("host"), key_file)
    with veth_pair() as ends:
        partner = Partner(ends.receiver, master, host, ends.targets(flows))
        words = ("--interface", ends.sender.interface, "--key", str(key_file), "--run-dir", str(directory), "--rate", "100mbit")
        argv = (sys.executable, "-m", "cli.main", "agent", *words, "--name", "host", "--address", str(SENDER))
        with (directory / "log").open("w") as log:
            agent = subprocess.Popen(ends.sender.command(*argv), stdout=log, stderr=log)
        try:
            assert partner.wait(lambda: partner.welcomed, 10), (directory / "log").read_text()
            wire = Wire(ends, partner, directory, ends.targets(flows))
            wire.serve(0.3)  # the agent learns its clock
            yield wire
        finally:
            end_process(agent)
            partner.close()


def week(number: int, start_ns: int, flows: Sequence[int], days: Sequence[int], day_ns: int, night_ns: int = 0) -> Week:
    nodes = tuple(FIRST_NODE + flow for flow in flows)
    return Week(number, start_ns, day_ns, night_ns, 10**10, WeekKey.DESTINATION, Transport.SCHEDULE, nodes, tuple(days))


def check(arrived: list[tuple[int, int]], start_ns: int, day_ns: int, owners: Sequence[int]) -> None:
    """Flows come in the order of the days, none twice, with hardly any packet on another flow's day.

    On a busy machine one day in ten may be lost: the agent, the sender or tcpdump was too late.
    """
    own = 0
    strays: list[int] = []
    order: list[int] = []
    for day, owner in enumerate(owners):
        begin = start_ns + day * day_ns
        seen = Counter(flow for at_ns, flow in arrived if begin + LATE_NS <= at_ns < begin + day_ns)
        own += seen[owner]
        strays.append(sum(seen.values()) - seen[owner])
        order += [flow for flow, count in seen.most_common(1) if count > STRAY]
    days = iter(owners)
    assert all(flow in days for flow in order), order
    assert len(order) >= 0.9 * len(owners), order
    assert own >= 0.5 * len(owners) * (day_ns - LATE_NS) * RATE_BPS // 8 // 10**9 // FRAME
    assert sum(sorted(strays)[: len(owners) - len(owners) // 10]) <= 0.02 * own + STRAY, strays


@timed
def test_packets_come_in_the_order_of_the_days_and_after_a_remapping_none_of_the_former_flows(tmp_path: Path) -> None:
    """Eight flows, then eight others in the same eight classes, while the first eight still have backlog."""
    day_ns = 20 * MS
    with wired(tmp_path, 16) as wire, wire.backlogged(), wire.capture() as arrived:
        start_ns = time.monotonic_ns() + 400 * MS
        turns = [1 << bit for bit in range(8)]
        wire.partner.send(week(1, start_ns, range(16), turns, day_ns))
        wire.partner.send(week(2, start_ns + 8 * day_ns, range(16), [mask << 8 for mask in reversed(turns)], day_ns))
        wire.partner.send(week(2, start_ns + 8 * day_ns, range(16), [mask << 8 for mask in reversed(turns)], day_ns))
        wire.partner.serve_until(start_ns + 16 * day_ns + 20 * MS)
        assert wire.refused().get(15, 0) == 0
    check(arrived, start_ns, day_ns, [*range(8), *reversed(range(8, 16))])


@timed
def test_64_flows_have_a_day_each(tmp_path: Path) -> None:
    day_ns = 20 * MS
    with wired(tmp_path, 64) as wire, wire.backlogged(), wire.capture() as arrived:
        start_ns = time.monotonic_ns() + 600 * MS
        order = [(5 * day) % 64 for day in range(64)]
        wire.partner.send(week(1, start_ns, range(64), [1 << flow for flow in order], day_ns))
        wire.partner.serve_until(start_ns + 64 * day_ns + 20 * MS)
    check(arrived, start_ns, day_ns, order)


@timed
def test_in_the_nights_nothing_is_sent_and_an_empty_week_frees_all(tmp_path: Path) -> None:
    day_ns = 30 * MS
    with wired(tmp_path, 2) as wire, wire.backlogged(), wire.capture() as arrived:
        start_ns = time.monotonic_ns() + 400 * MS
        wire.partner.send(week(1, start_ns, (0, 1), (1, 2, 1, 2), day_ns, night_ns=15 * MS))
        end_ns = start_ns + 4 * day_ns
        wire.partner.serve_until(end_ns + 30 * MS)
        wire.partner.send(week(2, end_ns, (), (), day_ns))
        wire.partner.serve_until(end_ns + 100 * MS)
    for day in range(4):
        night = start_ns + (day + 1) * day_ns - 15 * MS
        assert sum(night + LATE_NS <= at_ns < night + 15 * MS for at_ns, _ in arrived) <= 2 * STRAY
    assert sum(end_ns + LATE_NS <= at_ns < end_ns + 30 * MS for at_ns, _ in arrived) <= 2 * STRAY
    assert len({flow for at_ns, flow in arrived if at_ns > end_ns + 40 * MS}) == 2


def test_what_cannot_be_executed_is_counted_and_changes_no_gate(tmp_path: Path) -> None:
    with wired(tmp_path, 2) as wire, wire.backlogged():
        wire.serve(0.2)
        before = [wire.gate_bps(flow) for flow in range(2)]
        now = time.monotonic_ns()
        wire.partner.send(week(1, now + 100 * MS, (0, 99), (1, 2), 10 * MS))
        wire.partner.send(week(2, now - 10**9, (0, 1), (1, 2), 10 * MS))
        wire.partner.send(Conditions(1, 0, 1, (QueueCondition(FIRST_NODE, 1, rate_bps=RATE_BPS + 1),)))
        wire.serve(0.3)
        assert [wire.gate_bps(flow) for flow in range(2)] == before
        refused = wire.refused()
    assert {cause: refused.get(cause, 0) for cause in (14, 15, 16)} == {14: 1, 15: 1, 16: 1}


@timed
def test_conditions_pause_limit_and_free_a_queue(tmp_path: Path) -> None:
    with wired(tmp_path, 2) as wire, wire.backlogged():
        wire.serve(0.2)
        free = wire.gate_bps(0)
        for number, (condition, expected) in enumerate(
            (
                (QueueCondition(FIRST_NODE, 0, 0, 0), 32_000),
                (QueueCondition(FIRST_NODE, 1, rate_bps=8_000_000), 8_000_000),
                (QueueCondition(0, 1, rate_bps=16_000_000), 16_000_000),  # its class
                (None, free),
            )
        ):
            wire.partner.send(Conditions(number, 0, 1, () if condition is None else (condition,)))
            wire.serve(0.1)
            assert wire.gate_bps(0) == expected
        assert wire.gate_bps(1) == free


@timed
def test_a_condition_with_times_opens_and_closes_by_the_leaders_clock(tmp_path: Path) -> None:
    with wired(tmp_path, 1) as wire, wire.backlogged(), wire.capture() as arrived:
        wire.serve(0.3)
        begin = time.monotonic_ns() + 100 * MS
        wire.partner.send(Conditions(1, 0, 1, (QueueCondition(FIRST_NODE, 1, begin, begin + 50 * MS),)))
        wire.partner.serve_until(begin + 100 * MS)
    end = begin + 50 * MS
    shut = [at_ns for at_ns, _ in arrived if begin - 80 * MS < at_ns < begin or end + LATE_NS < at_ns < end + 50 * MS]
    opened = [at_ns for at_ns, _ in arrived if begin + LATE_NS < at_ns < end]
    assert len(shut) <= 2 * STRAY
    assert len(opened) >= 0.5 * 45 * MS * RATE_BPS // 8 // 10**9 // FRAME


@timed
def test_flows_by_tos_are_queued_by_their_dscp_whatever_their_destination(tmp_path: Path) -> None:
    day_ns = 20 * MS
    dscps = (10, 46, 0)
    with wired(tmp_path, 3) as wire, wire.backlogged(dscps), wire.capture() as arrived:
        start_ns = time.monotonic_ns() + 300 * MS
        days = [1, 2, 1, 2]
        wire.partner.send(Week(1, start_ns, day_ns, 0, 10**10, WeekKey.TOS, Transport.SCHEDULE, (10, 46), tuple(days)))
        wire.partner.serve_until(start_ns + 4 * day_ns + 20 * MS)
    own = strays = others = 0
    for day in range(4):
        begin = start_ns + day * day_ns
        seen = Counter(flow for at_ns, flow in arrived if begin + LATE_NS <= at_ns < begin + day_ns)
        own, strays, others = own + seen[day % 2], strays + seen[1 - day % 2], others + seen[2]
    assert own > 100  # they share the link with the flow that is not scheduled
    assert others > 100
    assert strays <= 0.02 * own + STRAY
