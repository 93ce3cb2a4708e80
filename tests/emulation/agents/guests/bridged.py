"""A host with guests: its uplink and its guests' interfaces are ports of one bridge; another host is at the uplink's end."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.utils import rdpcap

from tests.emulation.namespaces import Pair, inside, pair, run

HOST, SERVER = "10.9.0.100", "10.9.0.2"
GUESTS = ("10.9.0.50", "10.9.0.51")


@dataclass(frozen=True)
class Bridged:
    """`pair.left` is the host (br0: 10.9.0.100, fd09::100), `guests` are two namespaces behind it (10.9.0.50 and .51, fd09::50
    and ::51), and `pair.right` is a server in the fabric (10.9.0.2, fd09::2)."""

    pair: Pair
    guests: tuple[str, str]

    def ping(self, namespace: str, address: str) -> None:
        run("ip", "netns", "exec", namespace, "ping", "-q", "-c", "1", "-W", "2", address)


@contextmanager
def bridged() -> Iterator[Bridged]:
    """Makes it for the block. IPv6 has addresses, but no router is looked for."""
    with pair() as made:
        left, names = made.left, (f"{made.left}g0", f"{made.left}g1")
        try:
            run("ip", "-n", left, "addr", "flush", "dev", "eth0")
            run("ip", "-n", left, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
            run("ip", "-n", left, "link", "set", "eth0", "master", "br0")
            for number, name in enumerate(names):
                run("ip", "netns", "add", name)
                tap = f"tap{number}"
                run("ip", "-n", left, "link", "add", tap, "type", "veth", "peer", "name", "eth0", "netns", name)
                run("ip", "-n", left, "link", "set", tap, "master", "br0")
                run("ip", "-n", left, "link", "set", tap, "up")
                run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
                run("ip", "-n", name, "link", "set", "eth0", "up")
                run("ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tx", "off")
            run("ip", "-n", left, "link", "set", "br0", "up")
            hosts = ((left, "br0", 100), (names[0], "eth0", 50), (names[1], "eth0", 51), (made.right, "eth0", 2))
            for name, device, last in hosts:
                of_six = f"net.ipv6.conf.{device}"
                for setting in ("disable_ipv6=0", "router_solicitations=0"):
                    run("ip", "netns", "exec", name, "sysctl", "-qw", f"{of_six}.{setting}")
                run("ip", "-n", name, "addr", "replace", f"10.9.0.{last}/24", "dev", device)
                run("ip", "-n", name, "addr", "add", f"fd09::{last}/64", "dev", device, "nodad")
            yield Bridged(made, names)
        finally:
            for name in names:
                subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)


@contextmanager
def captured(namespace: str, trace: Path, expression: str) -> Iterator[list[tuple[str, int, int, int]]]:
    """What tcpdump in a namespace has seen in the block, afterwards: (source, its port, the target's port, DSCP) by packet."""
    seen: list[tuple[str, int, int, int]] = []
    watch = ("tcpdump", "-ni", "eth0", "-Q", "in", "--immediate-mode", "-Uw", str(trace), expression)
    command = ("ip", "netns", "exec", namespace, *watch)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as capture:
        assert capture.stderr is not None
        try:
            while "listening" not in capture.stderr.readline():
                assert capture.poll() is None, "tcpdump ended"
            yield seen
            time.sleep(0.2)
        finally:
            capture.terminate()
    for packet in rdpcap(str(trace)):
        network = packet[IP] if IP in packet else packet[IPv6]
        tos = network.tos if IP in packet else network.tc
        seen.append((network.src, network.payload.sport, network.payload.dport, tos >> 2))


def send(namespace: str, to: Sequence[object], *, source_port: int = 0, count: int = 1, size: int = 10) -> None:
    """Sends datagrams from a guest, by a socket like any other."""
    family = socket.AF_INET6 if ":" in str(to[0]) else socket.AF_INET
    with inside(namespace), socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.bind(("", source_port))
        for _ in range(count):
            sender.sendto(bytes(size), (str(to[0]), int(str(to[1]))))
