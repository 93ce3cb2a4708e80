"""The queues of one host interface: a class and a gate for each destination node, a queue for each V2V flow. An edge: netlink.

    1: htb (link rate; a filter ends frames that only wake the queues)
     |- 1:2   control EtherType, ARP, small flows: served first, never gated
     |- 1:3   what is not between members
     `- 1:N   one for each destination node N -> gate N: -> the queues of its V2V flows (agents/queues/flow_queues.py)

1:2 has the whole link as its own rate, so HTB serves it before all that borrows; the others own next to nothing and borrow the
link from 1:1. A gated class that has packets but may not send is passed over (the kernel logs once that its qdisc is not
work-conserving: that is what a gate is).

With priorities what waits at a gate leaves in their order, but for the one packet that the gate had taken from its queues when
it was shut. A plug holds its packets itself, first in first out: it has neither flow queues nor priorities.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar, cast

from agents.kernel import qdiscs
from agents.kernel.netlink import (
    RTM_DELQDISC,
    RTM_DELTCLASS,
    RTM_GETQDISC,
    RTM_GETTCLASS,
    RTM_GETTFILTER,
    TC_H_ROOT,
    Entry,
    Netlink,
    NetlinkError,
    attributes,
    message,
    query,
)
from agents.queues.flow_queues import FREE_BPS, Flow, FlowQueues
from agents.queues.gates import GATES, Gate
from protocol.units import FRAME_BYTES

ROOT = 1 << 16
LINK, CONTROL, OTHER, KICK = ROOT | 1, ROOT | 2, ROOT | 3, ROOT | 4
"""KICK is no class but a priority (agents/bpf/classify.h)."""
KICK_PREFERENCE = 1
FIRST_NODE, LAST_NODE = 0x10, 0x3FFF
SMALL_RATE_BPS = 8_000
BURST_NS = 1_000_000
"""HTB's bucket holds what the link passes in this time (at least two frames): the lateness of a kernel timer."""
QUANTUM_NS = 100_000
"""A class sends for so long (at least a frame) before the next one's turn."""
IDLE_NS = 60_000_000_000
"""How long the queues of a destination are kept when nothing is sent to it."""
CONTROL_PACKETS, OTHER_PACKETS = 1000, 1000

Address = qdiscs.Address


@dataclass(slots=True)
class _Destination:
    """What stands for one destination node."""

    gate: Gate
    queues: FlowQueues
    urgent: list[bytes] = field(default_factory=list)
    """Questions for the state of each class of the highest of several priorities."""
    passed: int = 0
    idle_since_ns: int = 0


class HostQueues:
    """Builds, reads, verifies and repairs the tree.

    Args:
        swallow_fd: the program that ends frames of the priority `KICK`.
        gate: the kind of gate, "tbf" or "plug".
        dscp: the codepoint of each priority within a destination, highest first; empty for no priorities.
    """

    def __init__(
        self,
        netlink: Netlink,
        interface: str,
        rate_bps: int,
        swallow_fd: int,
        gate: str = "tbf",
        dscp: tuple[int, ...] = (),
    ) -> None:
        self._netlink = netlink
        self._looking = Netlink()
        """For what takes many steps: the other one is used between them."""
        self._swallow_fd = swallow_fd
        self.interface = interface
        self.rate_bps = rate_bps
        self.gate = gate
        self.dscp = dscp if gate == "tbf" else ()
        self._index = socket.if_nametoindex(interface)
        self._destinations: dict[int, _Destination] = {}
        self.version = 0
        """Another one whenever there are other gates."""
        self._changes = 0
        self._burst = max(2 * FRAME_BYTES, rate_bps // 8 * BURST_NS // 10**9)
        self._quantum = min(60_000, max(FRAME_BYTES, rate_bps // 8 * QUANTUM_NS // 10**9))

    def close(self) -> None:
        """Closes what it opened; the queues stay."""
        self._looking.close()

    # -- building -------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Makes the tree anew, with all destinations known, every gate open. Whatever root qdisc there is goes."""
        self._changes += 1
        with suppress(NetlinkError):  # there may be only the kernel's default
            self._netlink.request(message(RTM_DELQDISC, 0, self._index, parent=TC_H_ROOT))
        rate, index = self.rate_bps, self._index
        batch = [qdiscs.htb(index, ROOT, TC_H_ROOT, OTHER & 0xFFFF), self._class(LINK, ROOT, rate, 0)]
        for classid, own_bps, prio, packets in (
            (CONTROL, rate, 0, CONTROL_PACKETS),
            (OTHER, SMALL_RATE_BPS, 1, OTHER_PACKETS),
        ):
            batch += [self._class(classid, LINK, own_bps, prio), qdiscs.pfifo(index, 0, classid, packets)]
        batch.append(qdiscs.bpf_filter(index, ROOT, KICK_PREFERENCE, self._swallow_fd, "swallow", direct=True))
        known = {node: made.queues.flows for node, made in self._destinations.items()}
        self._destinations.clear()
        self._netlink.batch(batch)
        for node, flows in known.items():
            self.ensure_destination(node)
            for source, target, priority in flows:
                self.ensure_flow(source, target, node, self.dscp[priority] if self.dscp else 0)

    def ensure_flow(self, source: Address, target: Address, node: int, dscp: int = 0) -> bool:
        """A queue for a V2V flow to `node`, with priorities for its packets of this DSCP; returns whether the node's gate was
        made for it just now."""
        made = self.ensure_destination(node)
        destination = self._destinations[node]
        batch = destination.queues.add(source, target, dscp)
        if batch and self.gate == "tbf":
            self._changes += 1
            self._netlink.batch(batch)
            self._watch(destination)
        return made

    def ensure_destination(self, node: int) -> bool:
        """A gate for what is sent to `node`, open; returns whether it was made just now."""
        if node in self._destinations:
            return False
        if not FIRST_NODE <= node <= LAST_NODE:
            raise ValueError(f"node {node}: must be from {FIRST_NODE} to {LAST_NODE}")
        classid = ROOT | node
        gate = GATES[self.gate](self._netlink, self._index, node << 16, classid)
        queues = FlowQueues(self._index, node, self._quantum, self.dscp)
        batch = [self._class(classid, LINK, SMALL_RATE_BPS, 1), gate.creation()]
        if self.gate == "tbf":
            batch += queues.creation()
        self._netlink.batch(batch)
        destination = self._destinations[node] = _Destination(gate, queues)
        self.version += 1
        self._changes += 1
        self._watch(destination)
        gate.open()
        return True

    def _watch(self, destination: _Destination) -> None:
        highest = [classid for classid, priority in destination.queues.classes().items() if not priority]
        destination.urgent = [query(RTM_GETTCLASS, self._index, handle=classid) for classid in highest if self.dscp]

    def _class(self, classid: int, parent: int, rate_bps: int, prio: int) -> bytes:
        return qdiscs.htb_class(
            self._index, classid, parent,
            rate_bps=rate_bps, ceil_bps=self.rate_bps, prio=prio, quantum=self._quantum, burst=self._burst,
        )  # fmt: skip

    def remove_destination(self, node: int) -> None:
        """Forgets a destination; packets that still wait at it are lost."""
        if self._destinations.pop(node, None) is not None:
            self.version += 1
            self._changes += 1
            self._netlink.request(message(RTM_DELTCLASS, 0, self._index, handle=ROOT | node, parent=LINK))

    def collect(self, now_ns: int) -> list[tuple[Address, Address]]:
        """Removes destinations that nothing was sent to for `IDLE_NS`; the V2V flows that lost their queues by it."""
        return finished(self.collecting(now_ns))

    def collecting(self, now_ns: int) -> Generator[None, None, list[tuple[Address, Address]]]:
        """The same in steps, one for each destination."""
        gone: list[tuple[Address, Address]] = []
        for node, destination in list(self._destinations.items()):
            if self._destinations.get(node) is not destination:  # made anew meanwhile
                continue
            passed, waiting = destination.gate.state()
            if waiting or passed != destination.passed or not destination.idle_since_ns:
                destination.passed, destination.idle_since_ns = passed, now_ns
            elif now_ns - destination.idle_since_ns >= IDLE_NS:
                gone += {(source, target): None for source, target, _ in destination.queues.flows}
                self.remove_destination(node)
            yield
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

    def urgent_bytes(self, node: int) -> int:
        """How many of the bytes that wait at a destination's gate are of the highest priority; 0 without priorities."""
        destination = self._destinations.get(node)
        return sum(self._netlink.state(question)[1] for question in destination.urgent) if destination is not None else 0

    def destinations(self) -> dict[int, list[Flow]]:
        """The V2V flows that have a queue, by destination node."""
        return {node: made.queues.flows for node, made in self._destinations.items()}

    # -- keeping --------------------------------------------------------------------------------------------------------

    def drift(self) -> list[str]:
        """What differs from what was set, as lines to log; empty when all is as it should be."""
        return finished(self.looking())

    def looking(self) -> Generator[None, None, list[str]]:
        """The same in steps of some dozens of microseconds. Nothing, if other queues were made meanwhile."""
        changes = self._changes
        found, classes, filters = dict[int, Entry](), dict[int, Entry](), list[Entry]()
        try:
            for some in self._looking.dumped(RTM_GETQDISC, self._index):
                found.update((entry.handle, entry) for entry in some if entry.handle)
                yield
            for some in self._looking.dumped(RTM_GETTCLASS, self._index):
                classes.update((entry.handle, entry) for entry in some)
                yield
            filters = self._looking.dump(RTM_GETTFILTER, self._index, parent=ROOT) if ROOT in found else []
            yield
        except NetlinkError as error:
            return [f"{self.interface}: unreadable ({error.strerror})"]
        lines = []
        if not any(entry.info >> 16 == KICK_PREFERENCE for entry in filters):
            lines.append(f"{self.interface}: the filter of frames that wake the queues is missing")
        lines += self._qdisc_lines(found, {ROOT: ("htb", TC_H_ROOT)})
        lines += self._class_lines(classes, {LINK: (self.rate_bps, 0), CONTROL: (self.rate_bps, 0), OTHER: (self.rate_bps, 1)})
        for node, destination in list(self._destinations.items()):
            yield
            if changes != self._changes:
                return []
            wanted = {node << 16: (self.gate, ROOT | node)}
            limits = {ROOT | node: (self.rate_bps, 1)}
            if self.gate == "tbf":
                queues = destination.queues
                wanted[queues.major] = ("htb", node << 16 | 1)
                limits.update({classid: (FREE_BPS, priority) for classid, priority in queues.classes().items()})
                if self.dscp:
                    lines += self._lost_filters(queues)
            lines += self._qdisc_lines(found, wanted) + self._class_lines(classes, limits)
        return lines

    def _qdisc_lines(self, found: Mapping[int, Entry], wanted: Mapping[int, tuple[str, int]]) -> list[str]:
        lines = []
        for handle, (kind, parent) in wanted.items():
            entry = found.get(handle)
            if entry is None or (entry.kind, entry.parent) != (kind, parent):
                there = "missing" if entry is None else f"{entry.kind} under {entry.parent:x}"
                lines.append(f"{self.interface}: qdisc {kind} {handle >> 16:x}: is {there}")
        return lines

    def _class_lines(self, found: Mapping[int, Entry], wanted: Mapping[int, tuple[int, int]]) -> list[str]:
        lines = []
        for classid, limit in wanted.items():
            is_limit = _limit(found.get(classid))
            if is_limit != limit:
                named = f"{self.interface}: class {classid >> 16:x}:{classid & 0xFFFF:x}"
                if is_limit is None:
                    lines.append(f"{named} is missing")
                elif is_limit[0] != limit[0]:
                    lines.append(f"{named} is limited to {is_limit[0]} bit/s, not {limit[0]}")
                else:
                    lines.append(f"{named} has priority {is_limit[1]}, not {limit[1]}")
        return lines

    def _lost_filters(self, queues: FlowQueues) -> list[str]:
        try:
            there = self._netlink.dump(RTM_GETTFILTER, self._index, parent=queues.major)
        except NetlinkError:  # its qdisc is gone, which is told elsewhere
            return []
        lost = Counter(queues.filtered()) - Counter(qdiscs.filtered_to(entry.options) for entry in there)
        return [
            f"{self.interface}: {count} filters to class {classid >> 16:x}:{classid & 0xFFFF:x} are missing"
            for classid, count in lost.items()
        ]

    def repair(self) -> list[str]:
        """Puts everything back if anything differs; returns what did."""
        lines = self.drift()
        if lines:
            self.install()
        return lines


Result = TypeVar("Result")


def finished(work: Generator[None, None, Result]) -> Result:
    """What it gives at its end, done at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast(Result, end.value)


def _limit(entry: Entry | None) -> tuple[int, int] | None:
    """(ceil in bit/s, priority) of an HTB class: struct tc_htb_opt of linux/pkt_sched.h."""
    if entry is None:
        return None
    fields = dict(attributes(entry.options))
    parms = fields.get(qdiscs.TCA_HTB_PARMS)
    if parms is None:
        return None
    wide = fields.get(qdiscs.TCA_HTB_CEIL64)
    ceil = struct.unpack("Q", wide)[0] if wide is not None else struct.unpack_from("I", parms, 12 + 8)[0]
    return int(ceil) * 8, int(struct.unpack_from("I", parms, 24 + 16)[0])
