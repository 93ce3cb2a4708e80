"""The control socket over a real pair of interfaces: what may wait does not wake, and says how old it is when it is read."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator
from statistics import quantiles

import pytest

from agents.queues.host import HEARTBEATS
from bench.fuzz.seeds import SEEDS
from controller.coordinator.coordinator import DEFERRED
from protocol.auth import Key
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Ack, Heartbeat, Kind, Message, Override, Ping, Report, decode, encode
from protocol.wire import TYPE
from tests.emulation.namespaces import inside, pair, run

KEY = Key(b"k" * 32)
SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID, ETH_P_ALL = 263, 8, 1 << 4, 3  # linux/if_packet.h, linux/if_ether.h
AGE_NS = 30_000_000
MAY_WAIT = {
    "agent": {Kind.HEARTBEAT},
    "coordinator": {Kind.ACK, Kind.REPORT, Kind.CLOCK_REPORT, Kind.HOST_STATE, Kind.HOST_LINK, Kind.COFLOW_REPORT},
}
"""The messages on which no slot depends, by who receives them."""


class Wire:
    """A sender at one end, a receiver at the other."""

    def __init__(self, sender: ControlSocket, receiver: ControlSocket) -> None:
        self.sender, self.receiver = sender, receiver
        self._sequence = 0

    def send(self, message: Message, to: bytes | None = None) -> None:
        assert self.sender.send(self.sealed(message, to))

    def sealed(self, message: Message, to: bytes | None = None) -> bytes:
        self._sequence += 1
        return encode(
            message,
            key=KEY,
            destination=to or self.receiver.address,
            source=self.sender.address,
            sender=COORDINATOR,
            epoch=1,
            sequence=self._sequence,
        )

    def wakes(self, seconds: float = 0.2) -> bool:
        return bool(select.select([self.receiver], (), (), seconds)[0])


@pytest.fixture(params=[HEARTBEATS, DEFERRED], ids=["agent", "coordinator"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    with pair() as ends:
        with inside(ends.left):
            sender = ControlSocket("eth0")
        with inside(ends.right):
            receiver = ControlSocket("eth0", deferred=request.param)
        time.sleep(0.1)  # the kernel stamps what comes soon after it was asked to
        try:
            yield Wire(sender, receiver)
        finally:
            sender.close()
            receiver.close()


@pytest.mark.parametrize("wire", [HEARTBEATS], indirect=True)
def test_a_heartbeat_waits_until_it_is_looked_for_and_when_it_came_is_known(wire: Wire) -> None:
    before_ns = time.monotonic_ns()
    wire.send(Heartbeat(Override.COORDINATE, 1, 1), HEARTBEAT_MAC)
    assert not wire.wakes() and wire.receiver.receive() is None
    time.sleep(AGE_NS / 1e9)
    (frame, came_ns), *more = wire.receiver.deferred_frames()
    assert not more and frame[:6] == HEARTBEAT_MAC and before_ns - AGE_NS / 10 < came_ns < time.monotonic_ns() - AGE_NS
    assert wire.receiver.deferred_frames() == []


@pytest.mark.parametrize("wire", [HEARTBEATS], indirect=True)
def test_that_every_gate_is_to_be_opened_wakes_at_once(wire: Wire) -> None:
    wire.send(Heartbeat(Override.FREE, 1, 1), HEARTBEAT_MAC)
    assert wire.wakes(1) and wire.receiver.receive() is not None and wire.receiver.deferred_frames() == []


@pytest.mark.parametrize("wire", [DEFERRED], indirect=True)
def test_acknowledgements_and_reports_wait_in_their_order(wire: Wire) -> None:
    for message in (Ack(7, 1, 2, 3), Report(1, 0, 1, (), ())):
        wire.send(message)
    assert not wire.wakes()
    found = [decode(frame, KEY).message for frame, _ in wire.receiver.deferred_frames()]
    assert [type(message) for message in found] == [Ack, Report]


def test_every_other_kind_of_message_wakes_at_once(wire: Wire, request: pytest.FixtureRequest) -> None:
    woke, slept = set(), []
    for frame in map(wire.sealed, SEEDS):
        kind = Kind(frame[TYPE])
        if kind in MAY_WAIT[request.node.callspec.id]:
            continue
        assert wire.sender.send(frame)
        woke.add(kind)
        if not wire.wakes(1) or wire.receiver.receive() != frame:
            slept.append(kind.name)
    assert slept == [] and wire.receiver.deferred_frames() == []
    assert woke == set(Kind) - MAY_WAIT[request.node.callspec.id]


def test_frames_of_other_kinds_are_nobodys(wire: Wire) -> None:
    foreign = wire.receiver.address + wire.sender.address + b"\x08\x00" + bytes(46)
    assert wire.sender.send(foreign) and wire.sender.send(foreign[:14])
    assert not wire.wakes() and wire.receiver.receive() is None and wire.receiver.deferred_frames() == []


def test_a_frame_arrived_when_the_kernel_had_it_and_not_when_it_was_read(wire: Wire) -> None:
    for wait_s in (0.0, 0.03):  # the kernel stamps frames from the first time on that it is asked
        before_ns = time.monotonic_ns()
        wire.send(Ping(1))
        assert wire.wakes(1)
        time.sleep(wait_s)
        read_ns = time.monotonic_ns()
        assert wire.receiver.receive() is not None
        arrived_ns = wire.receiver.arrived_ns()
    assert before_ns <= arrived_ns <= read_ns - 20_000_000


@pytest.mark.parametrize("wire", [HEARTBEATS], indirect=True)
def test_a_stamped_frame_says_when_it_left_however_long_it_took_to_make(wire: Wire) -> None:
    making_ns, ways = 3_000_000, []

    def slowly(leaving_ns: int) -> bytes:
        until_ns = time.monotonic_ns() + making_ns
        while time.monotonic_ns() < until_ns:
            pass
        return wire.sealed(Ping(leaving_ns))

    for _ in range(20):
        assert wire.sender.send_stamped(slowly) and wire.wakes(1)
        raw = wire.receiver.receive()
        assert raw is not None
        message = decode(raw, KEY).message
        assert isinstance(message, Ping)
        ways.append(wire.receiver.arrived_ns() - message.sent_ns)
    quarter, *_ = quantiles(ways[1:], n=4)  # beside other programs many a frame waits for a processor
    assert abs(quarter) < making_ns / 10  # a way of some microseconds


def test_without_deferred_kinds_all_wake() -> None:
    with pair() as ends:
        with inside(ends.left):
            sender = ControlSocket("eth0")
        with inside(ends.right):
            receiver = ControlSocket("eth0")
        wire = Wire(sender, receiver)
        wire.send(Heartbeat(Override.COORDINATE, 1, 1), HEARTBEAT_MAC)
        assert wire.wakes(1) and receiver.receive() is not None and receiver.deferred_frames() == []
        with pytest.raises(ValueError, match="defers no kind"):
            receiver.deferred_fileno()
        sender.close()
        receiver.close()


def test_a_frame_is_received_with_a_priority_tag_or_without_and_the_tag_is_on_the_wire() -> None:
    with pair() as ends:
        with inside(ends.left):
            sender = ControlSocket("eth0", priority_tag=7)
        with inside(ends.right):
            receiver = ControlSocket("eth0", deferred=HEARTBEATS)
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            tap.bind(("eth0", ETH_P_ALL))
            tap.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            tap.settimeout(1)
        try:
            wire = Wire(sender, receiver)
            wire.send(Ping(1))
            assert wire.wakes(1)
            frame = receiver.receive()
            assert frame is not None and decode(frame, KEY).message == Ping(1)
            _, control, *_ = tap.recvmsg(2048, 64)
            (auxiliary,) = [data for level, kind, data in control if (level, kind) == (SOL_PACKET, PACKET_AUXDATA)]
            status, *_, tag, protocol = struct.unpack("IIIHHHH", auxiliary)
            assert status & TP_STATUS_VLAN_VALID and (tag, protocol) == (7 << 13, 0x8100)
        finally:
            for one in (sender, receiver, tap):
                one.close()


def test_a_socket_knows_what_became_of_its_interface_even_if_there_is_another_of_that_name() -> None:
    with pair() as hosts, inside(hosts.left):
        link = ControlSocket("eth0", deferred=DEFERRED)
        run("ip", "link", "set", "eth0", "down")
        assert not link.fault()
        run("ip", "link", "set", "eth0", "up")
        assert not link.fault()
        before = ":".join(f"{byte:02x}" for byte in link.address)
        run("ip", "link", "set", "eth0", "address", "02:00:00:00:00:77")
        assert link.fault() == "has another MAC address"
        run("ip", "link", "set", "eth0", "address", before)
        assert not link.fault()
        run("ip", "link", "del", "eth0")
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        assert link.fault() == "is gone" and not link.send(bytes(60)) and link.receive() is None
        link.close()
