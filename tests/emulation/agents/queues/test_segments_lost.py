"""Which segments of TCP an agent counts as lost, seen in frames made by hand."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv6Address

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from tests.emulation.agents.queues.gated_wire import LEFT, RIGHT, Wire
from tests.emulation.namespaces import inside


@pytest.fixture
def frames(wire: Wire) -> Iterator[socket.socket]:
    """Sends whole frames at the left."""
    with inside(wire.pair.left):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.bind(("eth0", 0))
    with made:
        yield made


def segment(sequence: int, flags: str = "A", size: int = 1000, **fields: int) -> bytes:
    ip = IP(src=str(LEFT), dst=str(RIGHT), **fields) / TCP(sport=40000, dport=8, seq=sequence % 2**32, flags=flags)
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / Raw(bytes(size)))


def test_a_connection_with_the_ports_of_an_earlier_one_loses_nothing_where_it_begins_below_it(
    wire: Wire, frames: socket.socket
) -> None:
    for first in (3_000_000_000, 2_000_000_000):
        frames.send(segment(first, "S", 0))
        for number in range(20):
            frames.send(segment(first + 1 + 1000 * number))
        assert wire.host.flows.lost_segments(16) == 0
        frames.send(segment(first + 1))
        assert wire.host.flows.lost_segments(16) == 1


def test_a_super_packet_whose_header_has_no_length_is_lost_as_little_as_another(wire: Wire, frames: socket.socket) -> None:
    for number in range(20):
        frames.send(segment(1000 * number, len=0) if number % 2 else segment(1000 * number))
    assert wire.host.flows.lost_segments(16) == 0
    frames.send(segment(19_000))
    assert wire.host.flows.lost_segments(16) == 1


def test_a_super_packet_of_ipv6_whose_header_has_no_length_is_no_bare_acknowledgement(
    wire: Wire, frames: socket.socket
) -> None:
    """Linux 7.0 and later build super-packets of IPv6 beyond 64 KB like that."""
    target = IPv6Address("fd09::2")
    wire.host.flows.set_directory({16: [RIGHT], 21: [target]})
    ip = IPv6(src="fd09::1", dst=str(target), plen=0) / TCP(sport=40000, dport=8, flags="A")
    frame = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / Raw(bytes(1000)))
    frames.send(frame)
    assert dict(wire.host.flows.sent_bytes())[21] == len(frame)
