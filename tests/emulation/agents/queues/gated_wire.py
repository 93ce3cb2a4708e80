"""A veth pair with an agent's queues and gates at one end, and a socket that counts what arrives at the other."""

from __future__ import annotations

import functools
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from agents.queues.classifier import NewFlow
from agents.queues.host import Host
from tests.emulation.namespaces import Pair, inside, pair

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
PAYLOAD = 1472
RATE = 100_000_000
LEFT, RIGHT, OTHER = IPv4Address("10.9.0.1"), IPv4Address("10.9.0.2"), IPv4Address("10.9.0.3")


@dataclass
class Wire:
    """A host under test at the left, sockets at both ends."""

    pair: Pair
    host: Host
    sender: socket.socket
    receiver: socket.socket

    def send(self, count: int, to: IPv4Address = RIGHT, size: int = PAYLOAD) -> None:
        for _ in range(count):
            self.sender.sendto(bytes(size), (str(to), 7))

    def received(self, wait_s: float = 0.15) -> int:
        """The number of datagrams that arrive until none has for `wait_s`."""
        self.receiver.settimeout(wait_s)
        count = 0
        try:
            while True:
                self.receiver.recv(65536)
                count += 1
        except TimeoutError:
            return count

    def settle(self) -> None:
        """Makes the queues of the flows seen so far, as the agent's loop does."""
        time.sleep(0.02)
        for event in self.host.flows.events():
            if isinstance(event, NewFlow):
                self.host.queues.ensure_flow(event.source, event.target, event.destination)


QDISCS = {
    "pfifo": ("limit", "77"),
    "tbf": ("rate", "100mbit", "burst", "3000", "limit", "90000"),
    "fq_codel": ("limit", "777", "target", "3ms", "noecn"),
    "fq": ("flow_limit", "77"),
    "sfq": ("perturb", "9"),
    "netem": ("delay", "3ms", "loss", "1%"),
    "prio": ("bands", "5"),
    "htb": (),
    "plug": ("limit", "9000"),
}
"""Qdiscs that an agent may find at an interface, with options that are not the kernel's defaults."""


@functools.cache
def _kernel_has(kind: str) -> bool:
    command = ("unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", kind, *QDISCS[kind])
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def needs(kind: str) -> None:
    """Skips the test where the kernel lacks the qdisc."""
    if not _kernel_has(kind):
        pytest.skip(f"kernel has no sch_{kind} (`make test-stock-kernel` has)")


def gated_wire(gate: str, tmp_path: Path) -> Iterator[Wire]:
    needs(gate)
    with pair() as ends:
        with inside(ends.right):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
            receiver.bind(("", 7))
        with inside(ends.left):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
            host = Host("eth0", RATE, gate_kind=gate, run_dir=tmp_path)
        try:
            host.flows.set_directory({16: [RIGHT], 17: [OTHER]})
            made = Wire(ends, host, sender, receiver)
            made.send(2)
            made.send(2, OTHER)
            made.settle()
            made.received()
            yield made
        finally:
            with inside(ends.left):  # close() looks for the interface here
                host.close()
            sender.close()
            receiver.close()
