"""baton_dctcp over a real link whose marks the test sets; the window is read from TCP_INFO, the wire with tc."""

from __future__ import annotations

import platform
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.bpf.build import object_path
from agents.priorities.congestion_control import DCTCP, MCP, CongestionControl, available
from ebpf.build import BuildError
from ebpf.libbpf import BpfError, BpfMap, BpfObject
from tests.emulation.namespaces import Pair, inside, pair, run

KERNEL = tuple(map(int, platform.release().split(".")[:2]))
FIRST_WINDOW = 64
GAIN = 1 / 16
# struct tcp_info of linux/tcp.h
UNACKED, SSTHRESH, CWND, RETRANSMITTED, DELIVERED, DELIVERED_CE = 24, 76, 80, 100, 192, 196
QUIET = 48  # windows without a mark, by which alpha is below 0.05


@pytest.fixture
def control() -> Iterator[CongestionControl]:
    try:
        made = CongestionControl()
    except (BuildError, BpfError) as error:
        pytest.skip(f"no struct_ops congestion control here: {error}")
    try:
        yield made
    finally:
        made.close()


@dataclass
class Connection:
    """A TCP connection from the left to the right host, in rounds: a window sent, all of it acknowledged."""

    pair: Pair
    sender: socket.socket
    receiver: socket.socket
    marker: BpfObject
    every: BpfMap
    segment: int

    def info(self, offset: int) -> int:
        raw = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return int(struct.unpack_from("I", raw, offset)[0])

    def mark_every(self, interval: int) -> None:
        self.every[bytes(4)] = struct.pack("I", interval)

    def round(self, segments: int) -> None:
        """Sends whole segments, and returns when they are acknowledged and read."""
        data = bytes(segments * self.segment)
        self.sender.sendall(data)
        left = len(data)
        while left:
            left -= len(self.receiver.recv(left))
        end = time.monotonic() + 2
        while self.info(UNACKED):
            assert time.monotonic() < end, "never acknowledged"
            time.sleep(0.0005)


@pytest.fixture
def link() -> Iterator[Pair]:
    with pair() as made:
        run("ip", "-n", made.left, "route", "change", "10.9.0.0/24", "dev", "eth0", "initcwnd", str(FIRST_WINDOW))
        # Segments, not super-packets, pass the marker, and a window is on its way before its first acknowledgement returns.
        run("ip", "-n", made.left, "link", "set", "eth0", "gso_max_segs", "1")
        shape = ("root", "tbf", "rate", "100mbit", "burst", "1600", "limit", "1000000")
        run("ip", "netns", "exec", made.left, "tc", "qdisc", "add", "dev", "eth0", *shape)
        yield made


def connect(link: Pair, control: str, peer_control: str) -> tuple[socket.socket, socket.socket]:
    with inside(link.right):
        listener = socket.socket()
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, peer_control.encode())
        listener.bind(("10.9.0.2", 5001))
        listener.listen()
    with inside(link.left):
        sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sender.settimeout(5)
    sender.connect(("10.9.0.2", 5001))
    receiver, _ = listener.accept()
    receiver.settimeout(5)
    listener.close()
    return sender, receiver


def name_of(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


@pytest.fixture
def connection(link: Pair, control: CongestionControl) -> Iterator[Connection]:
    marker = BpfObject(object_path("mark_ce", Path(__file__).parent))
    try:
        with inside(link.left):
            marker.attach_egress("mark_ce", socket.if_nametoindex("eth0"), 1)
        sender, receiver = connect(link, DCTCP, DCTCP)
        with sender, receiver:
            segment = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            yield Connection(link, sender, receiver, marker, marker.map("every", 4, 4), segment)
    finally:
        marker.close()


class TestRegistration:
    """The name is registered while it is in use, and gone afterwards."""

    def test_the_name_is_known_while_it_is_held_and_unknown_after(self, control: CongestionControl) -> None:
        if not control.owner:
            pytest.skip("registered by another process of this machine")
        assert DCTCP in available()
        control.close()
        assert DCTCP not in available()
        with socket.socket() as sock, pytest.raises(FileNotFoundError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, DCTCP.encode())

    @pytest.mark.skipif(KERNEL < (6, 4), reason="no links of struct_ops before Linux 6.4")
    def test_a_killed_agent_leaves_none_behind(self) -> None:
        if DCTCP in available():
            pytest.skip("registered by another process of this machine")
        held = (
            "import time, agents.priorities.congestion_control as c; "
            "c = c.CongestionControl(); print('up', flush=True); time.sleep(60)"
        )
        agent = subprocess.Popen((sys.executable, "-c", held), cwd=Path(__file__).parents[4], stdout=subprocess.PIPE)
        assert agent.stdout is not None and agent.stdout.readline() == b"up\n"
        try:
            assert {DCTCP, MCP} <= available()
        finally:
            agent.kill()
            agent.communicate()
        end = time.monotonic() + 5
        while {DCTCP, MCP} & available():
            assert time.monotonic() < end
            time.sleep(0.01)

    def test_a_second_agent_shares_it_and_does_not_take_it_away(self, control: CongestionControl) -> None:
        second = CongestionControl()
        assert not second.owner
        second.close()
        assert DCTCP in available()

    @pytest.mark.skipif(KERNEL < (6, 4), reason="no links of struct_ops before Linux 6.4")
    def test_a_second_agent_still_has_it_when_the_first_ends(self, control: CongestionControl) -> None:
        if not control.owner:
            pytest.skip("registered by another process of this machine")
        second = CongestionControl()
        control.close()
        assert {DCTCP, MCP} <= available() and second.gone() == []
        second.close()
        assert not {DCTCP, MCP} & available()


class TestTheWindow:
    """Marks reduce it by half of alpha (RFC 8257, section 3.3)."""

    def test_data_arrives_and_without_marks_the_window_does_not_fall(self, connection: Connection) -> None:
        for _ in range(5):
            connection.round(FIRST_WINDOW)
        assert name_of(connection.sender) == DCTCP
        assert connection.info(DELIVERED) >= 5 * FIRST_WINDOW and connection.info(DELIVERED_CE) == 0
        assert connection.info(CWND) >= FIRST_WINDOW

    def test_at_first_a_mark_halves_it(self, connection: Connection) -> None:
        connection.mark_every(1)
        connection.round(4)
        assert connection.info(DELIVERED_CE) == 4
        assert connection.info(SSTHRESH) == pytest.approx(FIRST_WINDOW / 2, abs=1)

    @pytest.mark.parametrize("quiet_windows", [8, 24, QUIET])
    def test_after_quiet_windows_one_marked_window_cuts_it_by_half_of_what_alpha_has_become(
        self, connection: Connection, quiet_windows: int
    ) -> None:
        sent = FIRST_WINDOW // 4  # far below the window: it does not grow
        for _ in range(quiet_windows):
            connection.round(sent)
        before = connection.info(CWND)
        connection.mark_every(1)
        connection.round(sent)
        # A round whose first acknowledgement came before its last segment left, as on a busy machine, was two windows.
        least, most = (before * (1 - (1 - GAIN) ** windows / 2) for windows in (quiet_windows, 2 * quiet_windows))
        assert least - 1.5 <= connection.info(SSTHRESH) <= most + 1.5

    def test_many_marks_in_a_window_cut_it_once(self, connection: Connection) -> None:
        for _ in range(QUIET):
            connection.round(16)
        before = connection.info(CWND)
        connection.mark_every(2)
        connection.round(32)
        assert connection.info(DELIVERED_CE) == pytest.approx(16, abs=1)  # a busy machine leaves a call out now and then
        assert connection.info(SSTHRESH) >= before - 2

    @pytest.mark.parametrize("interval", [2, 4, 8])
    def test_the_receiver_echoes_the_segments_that_were_marked(self, connection: Connection, interval: int) -> None:
        for _ in range(3):
            connection.round(16)
        connection.mark_every(interval)
        connection.round(32)
        assert connection.info(DELIVERED_CE) == pytest.approx(32 // interval, abs=1)

    def test_alpha_follows_the_fraction_that_is_marked(self, connection: Connection) -> None:
        """Each window's cut is compared with the formula's, alpha being computed here from the counts of TCP_INFO."""
        alpha, found, expected = 1.0, [], []
        connection.round(8)
        for _ in range(QUIET):
            connection.round(8)
            alpha -= GAIN * alpha
        connection.mark_every(2)
        window = connection.info(CWND)
        for _ in range(8):
            before = self.counts(connection)
            connection.round(8)
            delivered, marked = (now - then for now, then in zip(self.counts(connection), before, strict=True))
            expected.append(window * (1 - alpha / 2))
            window = connection.info(SSTHRESH)
            found.append(window)
            alpha += GAIN * (marked / delivered - alpha)
        assert found == pytest.approx(expected, abs=1.5)

    @staticmethod
    def counts(connection: Connection) -> tuple[int, int]:
        return connection.info(DELIVERED), connection.info(DELIVERED_CE)

    def test_a_lost_segment_halves_it_whatever_alpha_is(self, connection: Connection) -> None:
        for _ in range(QUIET):
            connection.round(16)
        before = connection.info(CWND)
        connection.marker.map("lose", 4, 4)[bytes(4)] = struct.pack("I", 1)
        connection.round(16)
        assert connection.info(RETRANSMITTED) == 1
        assert connection.info(SSTHRESH) == before // 2


class TestTheOtherEnd:
    """A connection to a host without ECN does not use it."""

    def test_a_peer_without_ecn_gets_reno(self, link: Pair, control: CongestionControl) -> None:
        sender, receiver = connect(link, DCTCP, "cubic")
        with sender, receiver:
            sender.sendall(b"x" * 1000)
            assert receiver.recv(2000)
            time.sleep(0.02)
            assert name_of(sender) == "reno"
