"""What a tenant sends who is behind the host's bridge, or at a macvlan interface of the host's, with no rights on the host:
nothing of it comes before what others wait for."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest

from protocol.link import ControlSocket
from tests.emulation.agents.queues.gated_wire import RIGHT, Wire
from tests.emulation.namespaces import inside, run

TENANT = IPv4Address("10.9.0.50")
FRAMES, FRAME_BYTES, SHORTEST = 200, 1514, 60
ALLOWANCE = 24 * SHORTEST
OWN, OTHER, SMALL, GATED = "1:2", "1:3", "1:5", "1:10"  # classes; the last one is the receiver's, node 16
IPV4, ARP, BATON = 0x0800, 0x0806, 0x88B5
LEAF = re.compile(r"^class htb (1:\w+) parent .*\n Sent \d+ bytes (\d+) pkt.*\n backlog \w+ (\d+)p", re.MULTILINE)


class Tenant:
    """A network namespace with an interface."""

    def __init__(self, wire: Wire, namespace: str, raw: socket.socket) -> None:
        self._wire, self._namespace, self._raw = wire, namespace, raw

    def sends(self, ethertype: int, packet: bytes, count: int = FRAMES, size: int = FRAME_BYTES) -> dict[str, int]:
        """Sends frames that are as long as `size`; how many packets each class of the host's got."""
        before = self._by_class()
        frame = (b"\xff" * 6 + self._raw.getsockname()[4] + struct.pack("!H", ethertype) + packet).ljust(size, b"\0")
        for _ in range(count):
            self._raw.send(frame)
        self._wire.received()
        after = self._by_class()
        return {name: sent - before.get(name, 0) for name, sent in after.items() if sent > before.get(name, 0)}

    def _by_class(self) -> dict[str, int]:
        """Packets that came to each class: sent, or waiting."""
        shown = run("ip", "netns", "exec", self._wire.pair.left, "tc", "-s", "class", "show", "dev", "eth0")
        return {name: int(sent) + int(waiting) for name, sent, waiting in LEAF.findall(shown)}


def join_bridge(left: str, name: str) -> None:
    """The tenant's interface is, at its other end, a port of the bridge that the host's interface is a port of."""
    run("ip", "-n", left, "link", "add", "br0", "type", "bridge")
    for command in (["link", "set", "br0", "up"], ["link", "set", "eth0", "master", "br0"]):
        run("ip", "-n", left, *command)
    run("ip", "-n", left, "link", "add", "guest0", "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "-n", left, "link", "set", "guest0", "master", "br0", "up")


def join_macvlan(left: str, name: str) -> None:
    """The tenant's interface is a macvlan of the host's."""
    run("ip", "-n", left, "link", "add", "link", "eth0", "name", "guest0", "type", "macvlan", "mode", "bridge")
    run("ip", "-n", left, "link", "set", "guest0", "netns", name, "name", "eth0")


@pytest.fixture(params=[join_bridge, join_macvlan])
def tenant(request: pytest.FixtureRequest, wire: Wire) -> Iterator[Tenant]:
    left, name = wire.pair.left, f"tenant{os.getpid()}"
    wire.host.flows.set_mice(ALLOWANCE, 8)
    run("ip", "netns", "add", name)
    try:
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        request.param(left, name)
        run("ip", "-n", name, "link", "set", "eth0", "up")
        # Whether the kernel reads what crosses its bridges is up to the host; where it does, it cuts off what is too long.
        for what in ("iptables", "ip6tables"):
            command = ("sysctl", "-qw", f"net.bridge.bridge-nf-call-{what}=0")
            subprocess.run(("ip", "netns", "exec", left, *command), check=False, capture_output=True)
        with inside(name), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
            raw.bind(("eth0", 0))
            made = Tenant(wire, name, raw)
            made.sends(ARP, arp(), 3, SHORTEST)  # until the bridge forwards
            yield made
    finally:
        run("ip", "netns", "del", name)


def arp() -> bytes:
    return struct.pack("!HHBBH6s4s6s4s", 1, IPV4, 6, 4, 1, bytes(6), TENANT.packed, bytes(6), RIGHT.packed)


def tcp() -> bytes:
    """A segment without payload."""
    return struct.pack("!HHIIBBHHH", 5, 6, 1, 1, 5 << 4, 0x10, 1000, 0, 0)


def ipv4(length: int) -> bytes:
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 1, 0, 64, socket.IPPROTO_TCP, 0, TENANT.packed, RIGHT.packed)
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", total ^ 0xFFFF) + head[12:] + tcp()


def test_its_arp_goes_with_small_flows_as_far_as_its_allowance_and_never_with_control_frames(tenant: Tenant) -> None:
    few, flood = tenant.sends(ARP, arp(), 20, SHORTEST), tenant.sends(ARP, arp())
    assert few[SMALL] == 20 and OWN not in few
    assert flood[OTHER] >= FRAMES and not {OWN, SMALL} & flood.keys()


def test_its_frames_of_batons_ethertype_are_no_control_frames(tenant: Tenant) -> None:
    found = tenant.sends(BATON, bytes(64))
    assert found[OTHER] >= FRAMES and OWN not in found


def test_the_hosts_own_arp_and_control_frames_are(wire: Wire, tenant: Tenant) -> None:
    with inside(wire.pair.left):
        before, control = tenant._by_class(), ControlSocket("eth0")
        control.send(b"\xff" * 6 + control.address + struct.pack("!H", BATON) + bytes(46))
        control.close()
        assert tenant._by_class()[OWN] == before.get(OWN, 0) + 1
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.sendto(b"", (str(RIGHT + 77), 9))
        assert tenant._by_class()[OWN] == before.get(OWN, 0) + 2


@pytest.mark.parametrize("ethertype", [BATON, ARP, IPV4, 0x9000])
def test_a_class_that_a_tenant_asks_for_by_priority_is_not_that_of_control_frames(tenant: Tenant, ethertype: int) -> None:
    tenant._raw.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0x10002)
    found = tenant.sends(ethertype, bytes(64))
    assert found[OTHER] >= FRAMES and OWN not in found


@pytest.mark.parametrize("tenant", [join_bridge], indirect=True)  # frames that wait keep a macvlan's socket from sending
def test_a_long_frame_whose_header_says_bare_acknowledgement_waits_at_the_gate(wire: Wire, tenant: Tenant) -> None:
    wire.host.flows.set_mice(0, 1)
    wire.host.close_gate(16)
    bare = 40
    found = tenant.sends(IPV4, ipv4(bare))
    assert found.get(SMALL, 0) == 0 and found[GATED] >= FRAMES / 2  # the queue of a flow holds a hundred


def test_a_bare_acknowledgement_in_a_padded_frame_does_not_wait(wire: Wire, tenant: Tenant) -> None:
    wire.host.flows.set_mice(0, 1)
    wire.host.close_gate(16)
    found = tenant.sends(IPV4, ipv4(40), 20, SHORTEST)
    assert found[SMALL] == 20 and GATED not in found
