"""The two ends of a wire, each in a network namespace of its own: a veth pair, or two given interfaces. An edge: namespaces.

A process that sleeps in it keeps a namespace alive, and that process dies with this one: however this process ends, the kernel
removes the pair, or moves a real interface back to the namespace from which it came.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from emulation.netns import network_of, new_namespace

SENDER, RECEIVER = IPv4Address("10.9.0.1"), IPv4Address("10.9.0.2")
FIRST_FLOW = IPv4Address("10.9.0.16")
MAX_FLOWS = 64
OFFLOADS = {
    "tx": "tx-checksumming", "tso": "tcp-segmentation-offload", "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
}  # fmt: skip
"""As ethtool sets them, and as it shows them; without the checksums of `tx` there is no segmentation."""


class EndsError(Exception):
    """The wire cannot be set up, or a program at it failed; says what to do."""


@dataclass(frozen=True, slots=True)
class End:
    """One end: the process that holds its namespace, and its interface there."""

    pid: int
    interface: str

    def command(self, *argv: str) -> list[str]:
        """A command line that runs `argv` at this end."""
        return ["nsenter", "--target", str(self.pid), "--net", "--", *argv]

    def run(self, *argv: str, stdin: str = "") -> str:
        """Runs a command at this end; its output. Raises EndsError with what the command printed."""
        return _run(*self.command(*argv), stdin=stdin)

    def entered(self) -> AbstractContextManager[None]:
        """Sockets that this thread makes inside the block belong to this end."""
        return network_of(self.pid)

    @property
    def address(self) -> bytes:
        """The interface's MAC address."""
        found: list[dict[str, Any]] = json.loads(self.run("ip", "-j", "link", "show", "dev", self.interface))
        return bytes.fromhex(found[0]["address"].replace(":", ""))


@dataclass(frozen=True, slots=True)
class Ends:
    """A sender's and a receiver's end. Flow n goes to the nth of `targets`; the receiver's kernel silently drops its
    packets."""

    sender: End
    receiver: End
    name: str

    @staticmethod
    def targets(flows: int) -> list[IPv4Address]:
        """The destination address of each of so many flows."""
        return [FIRST_FLOW + number for number in range(flows)]


ONE_QUEUE = ("numtxqueues", "1", "numrxqueues", "1")
"""Of an interface with several transmit queues the kernel takes up to nine packets off a qdisc before it transmits the first
(net/sched/sch_generic.c, try_bulk_dequeue_skb_slow)."""


@contextmanager
def veth_pair() -> Iterator[Ends]:
    """Makes a veth pair in two new namespaces."""
    with ExitStack() as exits:
        sender, receiver = (End(exits.enter_context(new_namespace()), "eth0") for _ in range(2))
        peer = ("peer", "name", "eth0", *ONE_QUEUE, "netns", str(receiver.pid))
        sender.run("ip", "link", "add", "eth0", *ONE_QUEUE, "type", "veth", *peer)
        yield _ready(Ends(sender, receiver, "veth pair"))


@contextmanager
def given(first: str, second: str) -> Iterator[Ends]:
    """Takes two interfaces of this machine that a wire joins, and gives them back as they were.

    Raises:
        EndsError: one is missing, or in use; then nothing is changed.
    """
    if first == second:
        raise EndsError(f"interfaces {first},{second}: two different ones are needed")
    found = {name: _unused(name) for name in (first, second)}
    with ExitStack() as exits:
        ends = list[End]()
        for name, link in found.items():
            end = End(exits.enter_context(new_namespace()), name)
            exits.callback(_give_back, end, up="UP" in link["flags"], offloads=_offloads(name))
            _run("ip", "link", "set", name, "netns", str(end.pid))
            ends.append(end)
        yield _ready(Ends(ends[0], ends[1], f"{first} to {second}"))


def _unused(name: str) -> dict[str, Any]:
    try:
        link: dict[str, Any] = json.loads(_run("ip", "-j", "addr", "show", "dev", name))[0]
    except EndsError:
        raise EndsError(f"interface {name}: not found; see `ip link`") from None
    if "master" in link or any(address["scope"] == "global" for address in link.get("addr_info", ())):
        raise EndsError(f"interface {name}: it is in use (an address, or a bridge); free it first: ip addr flush dev {name}")
    return link


def _offloads(name: str) -> dict[str, str]:
    """Which of `OFFLOADS` are on and which off at an interface of this namespace."""
    shown = _run("ethtool", "--show-features", name).splitlines()
    words = [line.replace(":", " ").split() for line in shown]
    states = {found[0]: found[1] for found in words if len(found) > 1}
    return {short: states[full] for short, full in OFFLOADS.items() if full in states}


def _give_back(end: End, *, up: bool, offloads: Mapping[str, str]) -> None:
    # Its addresses were added here: `_unused` refuses an interface with a global address.
    for offload, state in offloads.items():
        subprocess.run(end.command("ethtool", "-K", end.interface, offload, state), check=False, capture_output=True)
    end.run("ip", "addr", "flush", "dev", end.interface)
    end.run("ip", "link", "set", end.interface, "netns", str(os.getpid()))
    if up:
        _run("ip", "link", "set", end.interface, "up")


def _ready(ends: Ends) -> Ends:
    for end, address in ((ends.sender, SENDER), (ends.receiver, RECEIVER)):
        # The kernel's own frames (router solicitations) would be measured as traffic.
        end.run("sysctl", "-qw", f"net.ipv6.conf.{end.interface}.disable_ipv6=1")
        for offload in OFFLOADS:  # or packets of the given size would cross the kernel as one of 64 KB
            subprocess.run(end.command("ethtool", "-K", end.interface, offload, "off"), check=False, capture_output=True)
        end.run("ip", "addr", "add", f"{address}/24", "dev", end.interface)
        end.run("ip", "link", "set", end.interface, "up")
    there = ends.receiver.address.hex(":")
    lines = [f"neigh replace {target} lladdr {there} dev {ends.sender.interface} nud permanent" for target in
             ends.targets(MAX_FLOWS)]  # fmt: skip
    ends.sender.run("ip", "-batch", "-", stdin="\n".join(lines))
    return ends


def _run(*argv: str, stdin: str = "") -> str:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EndsError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def affinity(cpu: int | None) -> Sequence[str]:
    """The command prefix that binds a program to one processor; empty for None."""
    return () if cpu is None else ("taskset", "--cpu-list", str(cpu))
