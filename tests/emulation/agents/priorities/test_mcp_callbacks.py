"""MCP by callbacks beside the kernel's own congestion control, on real traffic, as kernels without struct_ops have it.

One deadline is tried three times, and two must hold: on a machine that has other work, receivers read late.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

import pytest

from agents.priorities.congestion_control import DCTCP, FORCED, Chooser, CongestionControl, McpEnd, Outcome, Way
from agents.priorities.marked_run import NoCgroup
from agents.priorities.mcp_settings import McpSettings, Termination
from ebpf.build import BuildError
from ebpf.libbpf import BpfError
from protocol.flowmark import FlowMark
from protocol.mark_socket import mark_socket
from tests.emulation.agents.priorities.ecn_port import EcnPort, Sink, bulk, connect, ecn_port, send
from tests.emulation.namespaces import inside

LINK_BPS = 100_000_000
SETTINGS = McpSettings(link_bps=LINK_BPS)
SEGMENT_BYTES = 1448
ATTEMPTS = 3


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Iterator[CongestionControl]:
    monkeypatch.setenv(FORCED, Way.SOCK_OPS.value)
    try:
        made = CongestionControl(SETTINGS)
    except (BuildError, BpfError, NoCgroup) as error:
        pytest.skip(f"no MCP by callbacks here: {error}")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def port() -> Iterator[EcnPort]:
    with ecn_port(LINK_BPS) as made:
        yield made


class Ends:
    """The ends of flows that the kernel has told, by the sender's port."""

    def __init__(self, control: CongestionControl) -> None:
        self._all: list[McpEnd] = []
        ring = control.ends(self._all.append)
        assert ring is not None, "this process has MCP"
        self._consume = ring[1]

    def of(self, number: int) -> list[McpEnd]:
        self._consume()
        return [end for end in self._all if end.source_port == number]


def mark_of(size: int, deadline_ms: int) -> int:
    return FlowMark(size, deadline_ms).encode()


def until(condition: object, seconds: float = 3.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:  # type: ignore[operator]
        time.sleep(0.005)
    return bool(condition())  # type: ignore[operator]


def pour(sock: socket.socket, size: int) -> None:
    with suppress(OSError):
        sock.sendall(bytes(size))


def pouring(sock: socket.socket, size: int) -> None:
    threading.Thread(target=pour, args=(sock, size), daemon=True).start()


class TestAFlowWithADeadline:
    def finished(self, control: CongestionControl, port: EcnPort, mark: int, size: int) -> tuple[float, list[McpEnd]]:
        """(its seconds, what was told of it) beside two long DCTCP flows."""
        ends = Ends(control)
        with Sink(port, control.dctcp) as sink, bulk(sink, control.dctcp, 2):
            time.sleep(0.5)
            began, number = send(sink, control.mcp, size, mark)
            assert until(lambda: sink.received.get(number) == size)
            time.sleep(0.05)
            return sink.last[number] - began, ends.of(number)

    def test_ends_just_in_time_beside_long_ones(self, control: CongestionControl, port: EcnPort) -> None:
        size, deadline_ms = 500_000, 100
        tries = [self.finished(control, port, mark_of(size, deadline_ms), size) for _ in range(ATTEMPTS)]
        assert all(seconds >= 0.07 for seconds, _ in tries), "a busy machine makes none of them end too soon"
        in_time = [seconds <= 0.1 and [end.outcome for end in told] == [Outcome.IN_TIME] for seconds, told in tries]
        assert sum(in_time) > ATTEMPTS / 2, tries

    def test_on_an_idle_link_it_takes_its_time(self, control: CongestionControl, port: EcnPort) -> None:
        with Sink(port, control.dctcp) as sink:
            began, number = send(sink, control.mcp, 250_000, mark_of(250_000, 200))
            assert until(lambda: sink.received.get(number) == 250_000)
            assert 0.14 <= sink.last[number] - began <= 0.2

    def test_another_message_of_the_connection_has_a_deadline_of_its_own(
        self, control: CongestionControl, port: EcnPort
    ) -> None:
        ends, size = Ends(control), 100_000
        with Sink(port, control.dctcp) as sink, connect(sink, control.mcp, mark_of(size, 100)) as sock:
            number = sock.getsockname()[1]
            for message in (1, 2, 3):
                began = time.monotonic()
                sock.sendall(bytes(size))
                assert until(lambda sent=message * size: sink.received.get(number) == sent)  # type: ignore[misc]
                assert sink.last[number] - began <= 0.12
                time.sleep(0.3)
        assert until(lambda: len(ends.of(number)) == 3)
        assert {end.outcome for end in ends.of(number)} == {Outcome.IN_TIME}

    def test_past_it_the_flow_goes_on_at_dctcps_rate(self, control: CongestionControl, port: EcnPort) -> None:
        ends, size = Ends(control), 2_000_000
        with Sink(port, control.dctcp) as sink, connect(sink, control.mcp, mark_of(size, 50)) as sock:
            number = sock.getsockname()[1]
            pouring(sock, size)
            assert until(lambda: sink.received.get(number) == size, 1.0)
            (end,) = ends.of(number)
        assert end.outcome is Outcome.LATE and 0 < end.remaining_bytes < size and str(end.target) == port.target

    def test_a_hopeless_one_is_given_up_until_it_has_another_mark(self, control: CongestionControl, port: EcnPort) -> None:
        control.configure(McpSettings(link_bps=LINK_BPS, termination=Termination.BY_RATE))
        ends, size = Ends(control), 2_000_000
        with Sink(port, control.dctcp) as sink, connect(sink, control.mcp, mark_of(size, 100)) as sock:
            number = sock.getsockname()[1]
            pouring(sock, size)
            assert until(lambda: [end.outcome for end in ends.of(number)] == [Outcome.GIVEN_UP])
            time.sleep(0.3)
            before = sink.received[number]
            time.sleep(0.5)
            assert 0 < sink.received[number] - before < 30 * SEGMENT_BYTES
            mark_socket(sock)
            assert until(lambda: sink.received[number] == size, 5)

    def test_towards_a_gate_it_is_left_to_dctcp(self, control: CongestionControl, port: EcnPort) -> None:
        chooser, ends, size = Chooser(control=control), Ends(control), 250_000
        try:
            chooser.gate([ip_address(port.target)])
            with Sink(port, control.dctcp) as sink:
                began, number = send(sink, None, size, mark_of(size, 200))
                assert until(lambda: sink.received.get(number) == size)
                assert sink.last[number] - began < 0.1, "as fast as it goes"
                assert not ends.of(number)
        finally:
            chooser.close()


def test_of_two_processes_the_first_handles_a_connection(control: CongestionControl, port: EcnPort) -> None:
    second = CongestionControl(SETTINGS)
    try:
        first_told, second_told = Ends(control), Ends(second)
        with Sink(port, control.dctcp) as sink:
            _, number = send(sink, control.mcp, 100_000, mark_of(100_000, 100))
            assert until(lambda: sink.received.get(number) == 100_000)
            assert until(lambda: len(first_told.of(number)) == 1)
        assert not second_told.of(number)
    finally:
        second.close()


def test_where_the_kernel_has_no_dctcp_batons_takes_its_place(control: CongestionControl) -> None:
    assert control.dctcp in ("dctcp", DCTCP) and control.mcp in ("dctcp", "reno")


TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, SEND_QUEUE, SO_MAX_PACING_RATE = 19, 20, 21, 2, 47


@pytest.mark.parametrize("first", [0x10000000, 0x90000000])
def test_lost_segments_halve_the_rate_wherever_sequence_numbers_begin(
    control: CongestionControl, port: EcnPort, first: int
) -> None:
    size = 1_000_000

    def buffer(packets: int) -> None:
        port.state[bytes(4)] = struct.pack("=5I", 20, packets, 0, 0, 0)

    def halvings(sink: Sink) -> int:
        with inside(port.senders):
            sock = socket.socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.mcp.encode())
        for option, value in ((TCP_REPAIR, 1), (TCP_REPAIR_QUEUE, SEND_QUEUE), (TCP_REPAIR_QUEUE, 0), (TCP_REPAIR, -1)):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
            if value == SEND_QUEUE:
                sock.setsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, struct.pack("=I", first))
        mark_socket(sock, size_bytes=size, deadline_ms=400)
        sock.connect(sink.address)
        pouring(sock, size)
        found, last, began, drops, closed = 0, 0, time.monotonic(), 0, 0.0
        while (now := time.monotonic()) < began + 0.4:
            rate = struct.unpack("I", sock.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 4))[0]
            found += bool(last) and rate < 0.55 * last
            last = rate
            if drops < 5 and now >= began + 0.06 * (drops + 1):
                buffer(0)
                drops, closed = drops + 1, now
            elif closed and now > closed + 0.0007:
                buffer(100)
                closed = 0.0
            time.sleep(0.0002)
        sock.close()
        return found

    with Sink(port, control.dctcp) as sink:
        assert sum(halvings(sink) for _ in range(4)) > 0
