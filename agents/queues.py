"""The queues of one host interface: a class and a gate for each destination node, a queue for each V2V flow. An edge: netlink.

    1: htb (link rate)
     |- 1:2   control EtherType, ARP, small flows: served first, never gated
     |- 1:3   what is not between members
     `- 1:N   one for each destination node N -> gate N: -> 4000+N: htb -> a pfifo for each V2V flow, served in turn

1:2 has the whole link as its own rate, so HTB serves it before all that borrows; the others own next to nothing and borrow the
link from 1:1. A gated class that has packets but may not send is passed over (the kernel logs once that its qdisc is not
work-conserving: that is what a gate is).
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field

from agents import qdiscs
from agents.gates import GATES, Gate
from agents.netlink import (
    RTM_DELQDISC,
    RTM_DELTCLASS,
    RTM_GETQDISC,
    RTM_GETTCLASS,
    TC_H_ROOT,
    Entry,
    Netlink,
    NetlinkError,
    attributes,
    message,
)

ROOT = 1 << 16
LINK, CONTROL, OTHER = ROOT | 1, ROOT | 2, ROOT | 3
FIRST_NODE, LAST_NODE = 0x10, 0x3FFF
INNER = 0x4000
SMALL_RATE_BPS = 8_000
FRAME = 1514
BURST_NS = 1_000_000
"""HTB's bucket holds what the link passes in this time (at least two frames): the lateness of a kernel timer."""
QUANTUM_NS = 100_000
"""A class sends for so long (at least a frame) before the next one's turn."""
IDLE_NS = 60_000_000_000
"""How long the queues of a destination are kept when nothing is sent to it."""
CONTROL_PACKETS, OTHER_PACKETS, FLOW_PACKETS = 1000, 1000, 1000
FREE_BPS = 100_000_000_000

Address = qdiscs.Address


@dataclass(slots=True)
class _Destination:
    """What stands for one destination node."""

    gate: Gate
    flows: dict[tuple[Address, Address], int] = field(default_factory=dict)
    next_minor: int = 2
    passed: int = 0
    idle_since_ns: int = 0


class HostQueues:
    """Builds, reads, verifies and repairs the tree. `gate` is the kind of gate, "tbf" or "plug"."""

    def __init__(self, netlink: Netlink, interface: str, rate_bps: int, gate: str = "tbf") -> None:
        self._netlink = netlink
        self.interface = interface
        self.rate_bps = rate_bps
        self.gate = gate
        self._index = socket.if_nametoindex(interface)
        self._destinations: dict[int, _Destination] = {}
        self._burst = max(2 * FRAME, rate_bps // 8 * BURST_NS // 10**9)
        self._quantum = min(60_000, max(FRAME, rate_bps // 8 * QUANTUM_NS // 10**9))

    # -- building -------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Makes the tree anew, with all destinations known, every gate open. Whatever root qdisc there is goes."""
        with suppress(NetlinkError):  # there may be only the kernel's default
            self._netlink.request(message(RTM_DELQDISC, 0, self._index, parent=TC_H_ROOT))
        rate, index = self.rate_bps, self._index
        batch = [qdiscs.htb(index, ROOT, TC_H_ROOT, OTHER & 0xFFFF), self._class(LINK, ROOT, rate, 0)]
        for classid, own_bps, prio, packets in (
            (CONTROL, rate, 0, CONTROL_PACKETS),
            (OTHER, SMALL_RATE_BPS, 1, OTHER_PACKETS),
        ):
            batch += [self._class(classid, LINK, own_bps, prio), qdiscs.pfifo(index, 0, classid, packets)]
        known = {node: list(made.flows) for node, made in self._destinations.items()}
        self._destinations.clear()
        self._netlink.batch(batch)
        for node, flows in known.items():
            self._ensure_destination(node)
            for source, target in flows:
                self.ensure_flow(source, target, node)

    def ensure_flow(self, source: Address, target: Address, node: int) -> bool:
        """A queue for a V2V flow to `node`; returns whether the node's gate was made for it just now."""
        made = self._ensure_destination(node)
        destination = self._destinations[node]
        if (source, target) not in destination.flows:
            major = (INNER | node) << 16
            classid = major | destination.next_minor
            if self.gate == "tbf":
                self._netlink.batch(
                    [
                        *self._inner_class(classid, major),
                        qdiscs.flow_filter(self._index, major, destination.next_minor, source, target, classid),
                    ]
                )
            destination.flows[source, target] = destination.next_minor
            destination.next_minor += 1
        return made

    def _ensure_destination(self, node: int) -> bool:
        if node in self._destinations:
            return False
        if not FIRST_NODE <= node <= LAST_NODE:
            raise ValueError(f"node {node}: must be from {FIRST_NODE} to {LAST_NODE}")
        classid, major = ROOT | node, (INNER | node) << 16
        gate = GATES[self.gate](self._netlink, self._index, node << 16, classid)
        batch = [self._class(classid, LINK, SMALL_RATE_BPS, 1), gate.creation()]
        if self.gate == "tbf":  # a plug holds its packets itself and has no inner queues
            batch += [qdiscs.htb(self._index, major, node << 16 | 1, 1), *self._inner_class(major | 1, major)]
        self._netlink.batch(batch)
        self._destinations[node] = _Destination(gate)
        gate.open()
        return True

    def _class(self, classid: int, parent: int, rate_bps: int, prio: int) -> bytes:
        return qdiscs.htb_class(
            self._index, classid, parent,
            rate_bps=rate_bps, ceil_bps=self.rate_bps, prio=prio, quantum=self._quantum, burst=self._burst,
        )  # fmt: skip

    def _inner_class(self, classid: int, parent: int) -> list[bytes]:
        """A V2V flow's class: never short of tokens, so that equal quanta are all that orders it."""
        free = qdiscs.htb_class(
            self._index, classid, parent,
            rate_bps=FREE_BPS, ceil_bps=FREE_BPS, prio=0, quantum=self._quantum, burst=1 << 20,
        )  # fmt: skip
        return [free, qdiscs.pfifo(self._index, 0, classid, FLOW_PACKETS)]

    def remove_destination(self, node: int) -> None:
        """Forgets a destination; packets that still wait at it are lost."""
        if self._destinations.pop(node, None) is not None:
            self._netlink.request(message(RTM_DELTCLASS, 0, self._index, handle=ROOT | node, parent=LINK))

    def collect(self, now_ns: int) -> list[tuple[Address, Address]]:
        """Removes destinations that nothing was sent to for `IDLE_NS`; the V2V flows that lost their queues by it."""
        gone: list[tuple[Address, Address]] = []
        for node, destination in list(self._destinations.items()):
            passed, waiting = destination.gate.state()
            if waiting or passed != destination.passed or not destination.idle_since_ns:
                destination.passed, destination.idle_since_ns = passed, now_ns
            elif now_ns - destination.idle_since_ns >= IDLE_NS:
                gone += destination.flows
                self.remove_destination(node)
        return gone

    # -- gates ----------------------------------------------------------------------------------------------------------

    def gate_of(self, node: int) -> Gate | None:
        """The gate to a destination, if a flow to it was seen."""
        destination = self._destinations.get(node)
        return destination.gate if destination is not None else None

    def backlog(self, node: int) -> tuple[int, int]:
        """(bytes that passed the gate, bytes that wait at it); zeros for a destination without a gate."""
        gate = self.gate_of(node)
        return gate.state() if gate is not None else (0, 0)

    def destinations(self) -> dict[int, list[tuple[Address, Address]]]:
        """The V2V flows that have a queue, by destination node."""
        return {node: list(made.flows) for node, made in self._destinations.items()}

    # -- keeping --------------------------------------------------------------------------------------------------------

    def drift(self) -> list[str]:
        """What differs from what was set, as lines to log; empty when all is as it should be."""
        try:
            found = {entry.handle: entry for entry in self._netlink.dump(RTM_GETQDISC, self._index) if entry.handle}
            classes = {entry.handle: entry for entry in self._netlink.dump(RTM_GETTCLASS, self._index)}
        except NetlinkError as error:
            return [f"{self.interface}: unreadable ({error.strerror})"]
        wanted = {ROOT: ("htb", TC_H_ROOT)}
        rates = {LINK: self.rate_bps, CONTROL: self.rate_bps, OTHER: self.rate_bps}
        for node, destination in self._destinations.items():
            wanted[node << 16] = (self.gate, ROOT | node)
            rates[ROOT | node] = self.rate_bps
            if self.gate == "tbf":
                major = (INNER | node) << 16
                wanted[major] = ("htb", node << 16 | 1)
                rates.update({major | minor: FREE_BPS for minor in (1, *destination.flows.values())})
        lines = []
        for handle, (kind, parent) in wanted.items():
            entry = found.get(handle)
            if entry is None or (entry.kind, entry.parent) != (kind, parent):
                there = "missing" if entry is None else f"{entry.kind} under {entry.parent:x}"
                lines.append(f"{self.interface}: qdisc {kind} {handle >> 16:x}: is {there}")
        for classid, rate_bps in rates.items():
            ceil_bps = _ceil_bps(classes.get(classid))
            if ceil_bps != rate_bps:
                there = "missing" if ceil_bps is None else f"limited to {ceil_bps} bit/s, not {rate_bps}"
                lines.append(f"{self.interface}: class {classid >> 16:x}:{classid & 0xFFFF:x} is {there}")
        return lines

    def repair(self) -> list[str]:
        """Puts everything back if anything differs; returns what did."""
        lines = self.drift()
        if lines:
            self.install()
        return lines


def _ceil_bps(entry: Entry | None) -> int | None:
    if entry is None:
        return None
    fields = dict(attributes(entry.options))
    if (wide := fields.get(qdiscs.TCA_HTB_CEIL64)) is not None:
        return int(struct.unpack("Q", wide)[0]) * 8
    parms = fields.get(qdiscs.TCA_HTB_PARMS)
    return None if parms is None else int(struct.unpack_from("I", parms, 12 + 8)[0]) * 8
