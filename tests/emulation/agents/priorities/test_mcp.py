"""baton_mcp, baton_dctcp and the choice between them on real traffic, through a 100 Mb/s port that marks at 20 packets of 100.

What is timed is tried up to three times: on a machine that has other work, receivers read late.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import pytest

from agents.priorities.congestion_control import DCTCP, MCP, Chooser, CongestionControl, McpEnd, Outcome, configure
from agents.priorities.marked_run import NoCgroup, cgroup_root
from agents.priorities.mcp_settings import McpSettings, Termination
from ebpf.build import BuildError
from ebpf.libbpf import BpfError
from protocol.flowmark import COFLOW_FIELD, SIZE_BITS, FlowMark
from protocol.mark_socket import mark_socket
from tests.emulation.agents.priorities.ecn_port import FRAME_BYTES, EcnPort, Sink, bulk, connect, ecn_port, send
from tests.emulation.namespaces import inside, run

LINK_BPS = 100_000_000
SEGMENT_BYTES = 1448
SETTINGS = McpSettings(link_bps=LINK_BPS)
FLOWS = ((250_000, 100, 0.0), (250_000, 50, 0.3), (500_000, 200, 0.6), (1_000_000, 400, 0.9))  # bytes, deadline in ms, after s
TCPI_OPT_ECN = 8
ATTEMPTS = 3


@pytest.fixture
def control() -> Iterator[CongestionControl]:
    try:
        made = CongestionControl(SETTINGS)
        configure(SETTINGS)
    except (BuildError, BpfError) as error:
        pytest.skip(f"no struct_ops congestion control here: {error}")
    try:
        yield made
    finally:
        configure(SETTINGS)
        made.close()


@pytest.fixture
def port() -> Iterator[EcnPort]:
    with ecn_port(LINK_BPS) as made:
        yield made


def name_of(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def mark_of(size: int | None, deadline_ms: int | None) -> int:
    return FlowMark(size, deadline_ms).encode()


def until(condition: object, seconds: float = 2.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:  # type: ignore[operator]
        time.sleep(0.005)
    return bool(condition())  # type: ignore[operator]


class TestTheQueue:
    """Mininet-HiFi's micro-benchmark: two long flows into one receiver."""

    def measured(self, control: str, threshold: int | None) -> tuple[int, float]:
        """(p99 of the packets that wait, Mb/s of both flows)."""
        with ecn_port(LINK_BPS, threshold) as port, Sink(port, control) as sink, bulk(sink, control, 2) as ports:
            time.sleep(1)
            before, began = sum(sink.received[p] for p in ports), time.monotonic()
            samples = sorted(port.queue_samples(2))
            goodput = (sum(sink.received[p] for p in ports) - before) * 8e-6 / (time.monotonic() - began)
        return samples[int(len(samples) * 0.99)], goodput

    def test_dctcp_keeps_it_at_the_threshold_and_cubic_fills_the_buffer(self, control: CongestionControl) -> None:
        tries = (self.measured(DCTCP, 20) for _ in range(ATTEMPTS))
        assert any(queue <= 30 and goodput >= 85 for queue, goodput in tries)
        assert self.measured("cubic", None)[0] >= 70


class TestDeadlines:
    """Flows with deadlines against two long DCTCP flows."""

    def finished(self, port: EcnPort, control: str) -> tuple[list[float], float]:
        """(completion times as parts of the deadlines, the background's part of the remaining capacity in theory)."""
        ended: list[tuple[int, float, int]] = []

        def one(size: int, deadline_ms: int, after: float) -> None:
            began, number = send(sink, control, size, mark_of(size, deadline_ms), after)
            ended.append((deadline_ms, began, number))

        with Sink(port, DCTCP) as sink, bulk(sink, DCTCP, 2) as ports:
            time.sleep(0.7)
            before, began = sum(sink.received[p] for p in ports), time.monotonic()
            threads = [threading.Thread(target=one, args=flow) for flow in FLOWS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(1)
            seconds = time.monotonic() - began
            background = sum(sink.received[p] for p in ports) - before
            ratios = [(sink.last[number] - began) / (deadline_ms / 1000) for deadline_ms, began, number in sorted(ended)]
            assert all(sink.received[number] >= 250_000 for _, _, number in ended)
        capacity = LINK_BPS / 8 * SEGMENT_BYTES / FRAME_BYTES * seconds
        return ratios, background / (capacity - sum(size for size, _, _ in FLOWS))

    def test_they_are_in_time_and_leave_the_rest_to_the_background(self, control: CongestionControl, port: EcnPort) -> None:
        tries = (self.finished(port, MCP) for _ in range(ATTEMPTS))
        assert any(max(ratios) <= 1.0 and min(ratios) >= 0.8 and background >= 0.9 for ratios, background in tries)

    def test_with_dctcp_instead_the_tightest_is_much_later(self, control: CongestionControl, port: EcnPort) -> None:
        tries = ((self.finished(port, DCTCP)[0], self.finished(port, MCP)[0]) for _ in range(ATTEMPTS))
        assert any(max(dctcp) > max(1.0, *mcp) for dctcp, mcp in tries)

    def test_on_an_idle_link_it_takes_its_time(self, control: CongestionControl, port: EcnPort) -> None:
        with Sink(port, DCTCP) as sink:
            began, number = send(sink, MCP, 250_000, mark_of(250_000, 200))
            assert until(lambda: sink.received.get(number) == 250_000)
            assert 0.75 <= (sink.last[number] - began) / 0.2 <= 1.0


    def test_the_last_gap_of_a_flow_of_few_segments_does_not_reach_to_the_deadline(
        self, control: CongestionControl, port: EcnPort
    ) -> None:
        """Ten segments leave at once, four at their time: 0.75 of it with one segment added to the remaining ones, else 0.81
        and more."""
        size, deadline_ms, ratios = 19_197, 161, []
        for _ in range(5):
            with Sink(port, DCTCP) as sink:
                began, number = send(sink, MCP, size, mark_of(size, deadline_ms))
                assert until(lambda sink=sink, number=number: sink.received.get(number) == size)  # type: ignore[misc]
                ratios.append((sink.last[number] - began) / (deadline_ms / 1000))
        assert 0.6 <= sorted(ratios)[2] <= 0.785, ratios


class TestWhatMcpDoesNotDo:
    """Marks without a size, deadlines that have passed, flows that cannot be in time."""

    def test_without_a_size_it_is_dctcps(self, control: CongestionControl, port: EcnPort) -> None:
        with Sink(port, DCTCP) as sink, connect(sink, MCP, mark_of(None, 50)) as sock:
            sock.sendall(b"x" * 1000)
            assert until(lambda: name_of(sock) == DCTCP)

    def test_past_the_deadline_it_is_dctcps_and_arrives(self, control: CongestionControl, port: EcnPort) -> None:
        size = 2_000_000
        with Sink(port, DCTCP) as sink, connect(sink, MCP, mark_of(size, 50)) as sock:
            number = sock.getsockname()[1]
            sock.sendall(bytes(size))
            assert until(lambda: sink.received.get(number) == size)
            assert name_of(sock) == DCTCP

    @pytest.mark.parametrize("scheme", [Termination.BY_RATE, Termination.BY_BACKLOG])
    def test_a_hopeless_flow_is_given_up_and_its_connection_stays(
        self, control: CongestionControl, port: EcnPort, scheme: Termination
    ) -> None:
        ends: list[McpEnd] = []
        ring = control.ends(ends.append)
        if ring is None:
            pytest.skip("registered by another process of this machine")
        configure(McpSettings(link_bps=LINK_BPS, termination=scheme))
        size = 2_000_000
        with Sink(port, DCTCP) as sink, connect(sink, MCP, mark_of(size, 100)) as sock:
            number = sock.getsockname()[1]
            sender = threading.Thread(target=self.pour, args=(sock, size), daemon=True)
            sender.start()
            time.sleep(0.3)
            ring[1]()
            (end,) = (end for end in ends if end.source_port == number)
            assert end.outcome is Outcome.GIVEN_UP and end.size_bytes >= size and 0 < end.remaining_bytes < size
            before = sink.received[number]
            time.sleep(0.5)
            assert 0 < sink.received[number] - before < 30 * SEGMENT_BYTES
            mark_socket(sock)  # another mark: sent like any other
            assert until(lambda: sink.received[number] == size, 5)

    @staticmethod
    def pour(sock: socket.socket, size: int) -> None:
        with suppress(OSError):
            sock.sendall(bytes(size))

    def test_a_flow_in_time_is_told(self, control: CongestionControl, port: EcnPort) -> None:
        ends: list[McpEnd] = []
        ring = control.ends(ends.append)
        if ring is None:
            pytest.skip("registered by another process of this machine")
        with Sink(port, DCTCP) as sink:
            _, number = send(sink, MCP, 100_000, mark_of(100_000, 100))
            assert until(lambda: sink.received.get(number) == 100_000)
            time.sleep(0.02)
        ring[1]()
        (end,) = (end for end in ends if end.source_port == number)
        assert end.outcome is Outcome.IN_TIME and str(end.target) == port.target and end.deadline_ms == 100
        assert 50_000 <= end.elapsed_us <= 100_000


@contextmanager
def own_group() -> Iterator[Path]:
    """This process in a cgroup of its own, so that the choice applies to no other connections."""
    try:
        root = cgroup_root()
    except NoCgroup as error:
        pytest.skip(str(error))
    group = root / f"baton-test-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (root / "cgroup.procs").write_text(pid)
        group.rmdir()


@pytest.fixture
def group() -> Iterator[Path]:
    with own_group() as made:
        yield made


def chosen(port: EcnPort, mark: int) -> tuple[str, str, bool]:
    """(the sender's congestion control, the receiver's, whether ECN was agreed) of a connection that asks for neither."""
    with inside(port.receiver):
        listener = socket.create_server((port.target, 0))
    with inside(port.senders):
        sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, struct.pack("I", mark))
    with listener, sock:
        sock.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            options = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5]
            return name_of(sock), name_of(accepted), bool(options & TCPI_OPT_ECN)


class TestTheChoice:
    """The choice by mark, for the processes of a cgroup."""

    @pytest.fixture(autouse=True)
    def plain(self, port: EcnPort) -> None:
        """The hosts' own settings are ECN only where asked for, and reno."""
        for namespace in (port.senders, port.receiver):
            settings = ("net.ipv4.tcp_ecn=2", "net.ipv4.tcp_congestion_control=reno")
            run("ip", "netns", "exec", namespace, "sysctl", "-qw", *settings)

    @pytest.mark.parametrize(
        ("mark", "expected"),
        [
            (FlowMark(100_000, 20).encode(), MCP),
            (FlowMark(100_000, 4000).encode(), MCP),
            (FlowMark(100_000).encode(), DCTCP),
            (COFLOW_FIELD << SIZE_BITS | 7, DCTCP),
            (0, DCTCP),
        ],
    )
    def test_a_deadline_gets_mcp_and_all_else_dctcp_both_with_ecn(
        self, control: CongestionControl, port: EcnPort, group: Path, mark: int, expected: str
    ) -> None:
        chooser = Chooser(group)
        try:
            assert chosen(port, mark) == (expected, DCTCP, True)
        finally:
            chooser.close()
        assert chosen(port, mark) == ("reno", "reno", False)

    def test_a_deadline_gets_dctcp_where_a_gate_waits_for_permission(
        self, control: CongestionControl, port: EcnPort, group: Path
    ) -> None:
        chooser, mark = Chooser(group), mark_of(100_000, 20)
        target = ip_address(port.target)
        try:
            chooser.gate([target, ip_address("2001:db8::1")])
            assert chosen(port, mark)[0] == DCTCP
            with Sink(port, "reno") as sink, connect(sink, None) as sock:
                mark_socket(sock, size_bytes=200_000, deadline_ms=100)
                assert name_of(sock) == DCTCP
            chooser.gate([ip_address("2001:db8::1")])
            assert chosen(port, mark)[0] == MCP
        finally:
            chooser.close()

    def test_a_routes_own_congestion_control_does_not_undo_the_choice(
        self, control: CongestionControl, port: EcnPort, group: Path
    ) -> None:
        route = run("ip", "netns", "exec", port.senders, "ip", "route", "show").splitlines()[0].split()
        run("ip", "netns", "exec", port.senders, "ip", "route", "change", *route, "congctl", "reno")
        chooser = Chooser(group)
        try:
            assert chosen(port, mark_of(100_000, 20))[0] == MCP
            assert chosen(port, mark_of(100_000, None))[0] == DCTCP
        finally:
            chooser.close()

    def test_unmarked_connections_keep_what_they_have_if_told_so(
        self, control: CongestionControl, port: EcnPort, group: Path
    ) -> None:
        chooser = Chooser(group, unmarked=False)
        try:
            assert chosen(port, 0) == ("reno", "reno", False)
            assert chosen(port, mark_of(1000, None))[0] == DCTCP
        finally:
            chooser.close()

    def test_a_listener_that_was_there_before_takes_ecn_too(
        self, control: CongestionControl, port: EcnPort, group: Path
    ) -> None:
        with Sink(port, "reno") as sink:
            chooser = Chooser(group)
            try:
                with connect(sink, None, mark_of(100_000, 50)) as sock:
                    options = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5]
                    assert name_of(sock) == MCP and options & TCPI_OPT_ECN
                    sock.sendall(bytes(20_000))
                    shown = run("ip", "netns", "exec", port.receiver, "ss", "-tiHn", "state", "established")
                    assert DCTCP in shown
            finally:
                chooser.close()

    def test_a_mark_set_on_an_open_connection_counts_from_the_next_message(
        self, control: CongestionControl, port: EcnPort, group: Path
    ) -> None:
        chooser = Chooser(group)
        try:
            with Sink(port, "reno") as sink, connect(sink, None) as sock:
                assert name_of(sock) == DCTCP
                sock.sendall(bytes(10_000))
                time.sleep(0.05)
                mark_socket(sock, size_bytes=200_000, deadline_ms=100)
                assert name_of(sock) == MCP
                began, number = time.monotonic(), sock.getsockname()[1]
                sock.sendall(bytes(200_000))
                assert until(lambda: sink.received[number] == 210_000)
                assert 0.06 <= sink.last[number] - began <= 0.12
        finally:
            chooser.close()

    @pytest.mark.parametrize("killed", [False, True])
    def test_it_ends_with_its_process(self, control: CongestionControl, port: EcnPort, group: Path, killed: bool) -> None:
        script = (
            "import sys; from pathlib import Path; from agents.priorities.congestion_control import Chooser;"
            " Chooser(Path(sys.argv[1])); print(1, flush=True); sys.stdin.read()"
        )
        command: Sequence[str] = (sys.executable, "-c", script, str(group))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdin is not None
            child.stdout.readline()
            assert chosen(port, 0)[0] == DCTCP
            if killed:
                child.send_signal(signal.SIGKILL)
            else:
                child.stdin.close()
            child.wait(5)
        assert chosen(port, 0)[0] == "reno"
