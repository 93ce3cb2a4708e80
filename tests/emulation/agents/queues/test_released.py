"""TCP at a closed gate: how much of a connection waits there, watched in the kernel's queues."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from agents.priorities.tagger import Tagger, TaggerSettings
from tests.emulation.agents.queues.gated_wire import RIGHT, Wire
from tests.emulation.namespaces import inside

FRAME = 1514
WINDOW = 10
"""Packets that a new connection may send without an acknowledgement (RFC 6928)."""
SO_MAX_PACING_RATE = 47  # asm-generic/socket.h
QUARTER_BPS = 25_000_000


@pytest.fixture
def connection(wire: Wire) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A paced TCP connection from left to right, through a closed gate."""
    with inside(wire.pair.right):
        listener = socket.create_server(("10.9.0.2", 9))
    with inside(wire.pair.left):
        sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with closing(listener), closing(sender):
        sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, QUARTER_BPS // 8)
        sender.connect((str(RIGHT), 9))
        sender.setblocking(False)
        receiver, _ = listener.accept()
        with closing(receiver):
            wire.host.close_gate(16)
            yield sender, receiver


def waiting(wire: Wire, sender: socket.socket) -> int:
    """How many packets wait at the gate once the connection has sent what it may."""
    sender.send(bytes(100_000))
    time.sleep(0.1)
    return wire.host.state(16)[1] // FRAME


def passes(wire: Wire, receiver: socket.socket, payload: bytes) -> bool:
    """Whether an open gate lets all of it pass, in order."""
    time.sleep(0.05)
    wire.host.open_gate(16)
    wire.host.wake_queues()
    receiver.settimeout(30)  # a packet that was lost is sent again after a time that doubles
    return receiver.recv(len(payload), socket.MSG_WAITALL) == payload


def test_a_connection_fills_its_window_at_a_closed_gate(wire: Wire, connection: tuple[socket.socket, socket.socket]) -> None:
    wire.host.free_senders(16, 40 * FRAME)
    assert waiting(wire, connection[0]) >= WINDOW - 2


def test_without_it_two_packets_wait(wire: Wire, connection: tuple[socket.socket, socket.socket]) -> None:
    assert waiting(wire, connection[0]) <= 3


def test_what_a_connection_has_on_its_way_is_bounded(wire: Wire, connection: tuple[socket.socket, socket.socket]) -> None:
    wire.host.free_senders(16, 4 * FRAME)
    assert 4 <= waiting(wire, connection[0]) <= 7


def test_all_arrives_in_order_and_each_packet_is_counted_once(
    wire: Wire, connection: tuple[socket.socket, socket.socket]
) -> None:
    sender, receiver = connection
    wire.host.free_senders(16, 40 * FRAME)
    dict(wire.host.flows.sent_bytes())
    payload = bytes(range(250)) * 40  # 10 kB: seven packets
    sender.send(payload)
    assert passes(wire, receiver, payload)
    sent = dict(wire.host.flows.sent_bytes())[16]
    assert len(payload) < sent < 1.5 * len(payload), "TCP may probe once (RFC 8985); counted twice it would be double"


def test_a_tagger_before_the_gate_counts_it_once_too(wire: Wire, connection: tuple[socket.socket, socket.socket]) -> None:
    sender, _ = connection
    wire.host.free_senders(16, 40 * FRAME)
    with inside(wire.pair.left):
        tagger = Tagger("eth0", TaggerSettings(dscp=(56, 48, 40, 32, 24, 16, 8, 1)))
    with closing(tagger):
        sender.send(bytes(5 * 1448))
        time.sleep(0.05)
        assert wire.host.state(16)[1] >= 4 * FRAME
        assert 5 <= tagger.counters().tagged <= 7, "five packets, and TCP may probe"


def test_a_full_queue_drops_the_packet_and_its_connection_sends_it_again(
    wire: Wire, connection: tuple[socket.socket, socket.socket]
) -> None:
    sender, receiver = connection
    wire.host.free_senders(16, 40 * FRAME)
    wire.send(1100)  # more than the flow's queue holds
    payload = bytes(range(250)) * 20
    sender.send(payload)
    assert passes(wire, receiver, payload)
