"""The queues of one host interface: a class and a gate for each destination node, a queue for each V2V flow. An edge: netlink.

    1: htb (link rate; a filter drops frames that only wake the queues)
     |- 1:2   control EtherType, ARP, LLDP: served first, never gated
     |- 1:5   small flows and bare acknowledgements between members: served next, never gated
     |- 1:3   traffic that is not between members
     `- 1:N   one for each destination node N -> gate N: -> the queues of its V2V flows (agents/queues/flow_queues.py)

1:2 and 1:5 have the whole link as their own rate, so HTB serves them, in this order, before all classes that borrow; the others
own next to nothing and borrow the link from 1:1. Small flows are data: however many there are, no control frame waits behind
them. HTB passes over a class whose gate holds its packets (the kernel logs once that the qdisc is not work-conserving: that is
what a gate is).

With priorities, packets that wait at a gate leave in that order, but for the one packet that the gate had taken from its queues
before it closed. A plug holds its packets itself, first in first out: it has neither flow queues nor priorities.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

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
from agents.kernel.offload import longest_frame, set_segments, wanted_segments
from agents.kernel.snapshot import WAKEUP_FILTER
from agents.queues.flow_queues import FREE_BPS, Flow, FlowQueues
from agents.queues.gates import GATE_KINDS, MOST_PACKET, ONE_PACKET, Gate
from protocol import virtual_time
from protocol.units import FRAME_BYTES
from topology.pieces import Pieces, finished

ROOT = 1 << 16
LINK, CONTROL, OTHER, WAKEUP, SMALL = ROOT | 1, ROOT | 2, ROOT | 3, ROOT | 4, ROOT | 5
"""Class ids; WAKEUP is only a packet's priority, without a class (agents/bpf/classify.h)."""
WAKEUP_PREFERENCE = 1
FIRST_NODE, LAST_NODE = 0x10, 0x3FFF
SMALL_RATE_BPS = 8_000
BURST_NS = 1_000_000
"""HTB's bucket holds what the link passes in this time, and at least two frames: so late may a kernel timer be. In virtual time
no timer is late, and an emulated interface has no wire behind its queues that would spread a bucket's packets again."""
QUANTUM_NS = 100_000
"""A class sends for so long (at least a frame) before the next class has its turn."""
IDLE_NS = 60_000_000_000
"""How long the queues of a destination stay when nothing is sent to it."""
CONTROL_PACKETS, SMALL_PACKETS, OTHER_PACKETS = 1000, 1000, 1000

Address = qdiscs.Address


@dataclass(slots=True)
class _Destination:
    """The gate and queues of one destination node."""

    gate: Gate
    queues: FlowQueues
    urgent: list[bytes] = field(default_factory=list)
    """A query for the state of each class of the highest priority; none without priorities."""
    passed: int = 0
    idle_since_ns: int = 0


class HostQueues:
    """Builds, reads, verifies and repairs the tree.

    Args:
        drop_wakeup_fd: the program that drops frames of the priority `WAKEUP`.
        gate_kind: "tbf" or "plug".
        dscp: the codepoint of each priority within a destination, highest first; empty for no priorities.
        segments: the most frames that a super-packet may have, as it was found at the interface.
    """

    def __init__(
        self,
        netlink: Netlink,
        interface: str,
        rate_bps: int,
        drop_wakeup_fd: int,
        gate_kind: str = "tbf",
        dscp: tuple[int, ...] = (),
        segments: int = 1,
    ) -> None:
        self._netlink = netlink
        self._dumps = Netlink()
        """For checks in many steps: the other socket is used between them."""
        self._drop_wakeup_fd = drop_wakeup_fd
        self.interface = interface
        self.rate_bps = rate_bps
        self.gate_kind = gate_kind
        self.dscp = dscp if gate_kind == "tbf" else ()
        self._index = socket.if_nametoindex(interface)
        self._destinations: dict[int, _Destination] = {}
        self._missing: dict[int, list[tuple[Address, Address, int]]] = {}
        """The destinations that the kernel refused to make, with the V2V flows (and DSCPs) that have no queue therefore."""
        self._crowded = set[int]()
        """Destinations with flows that nobody remembers. Their gates stay: without one, these flows would go past all gates."""
        self._segments = segments
        self._packet_bytes = 0
        """The longest packet that a closed gate holds."""
        self.version = 0
        """Changes whenever gates are made or removed."""
        self._changes = 0
        late_ns = 0 if virtual_time.inside() else BURST_NS
        self._burst = max(2 * FRAME_BYTES, rate_bps // 8 * late_ns // 10**9)
        self._quantum = min(60_000, max(FRAME_BYTES, rate_bps // 8 * QUANTUM_NS // 10**9))

    def close(self) -> None:
        """Closes its own socket; the queues stay."""
        self._dumps.close()

    # -- building -------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Makes the tree anew, with all known destinations and every gate open. Replaces any root qdisc.

        Raises:
            NetlinkError: the kernel refused a message. Those destinations that are not made are what `drift` tells then.
        """
        self._changes += 1
        self.version += 1
        self._netlink.forget_posted()
        longest = longest_frame(self._netlink, self._index)
        self._packet_bytes = min(MOST_PACKET, max(ONE_PACKET, longest))
        set_segments(self._netlink, self._index, wanted_segments(self.rate_bps, self._segments, longest))
        with suppress(NetlinkError):  # there may be only the kernel's default
            self._netlink.request(message(RTM_DELQDISC, 0, self._index, parent=TC_H_ROOT))
        rate, index = self.rate_bps, self._index
        batch = [qdiscs.htb(index, ROOT, TC_H_ROOT, OTHER & 0xFFFF), self._class(LINK, ROOT, rate, 0)]
        for classid, own_bps, prio, packets in (
            (CONTROL, rate, 0, CONTROL_PACKETS),
            (SMALL, rate, 1, SMALL_PACKETS),
            (OTHER, SMALL_RATE_BPS, 2, OTHER_PACKETS),
        ):
            batch += [self._class(classid, LINK, own_bps, prio), qdiscs.pfifo(index, 0, classid, packets)]
        batch.append(qdiscs.bpf_filter(index, ROOT, WAKEUP_PREFERENCE, self._drop_wakeup_fd, WAKEUP_FILTER, direct=True))
        for node, made in self._destinations.items():
            codepoints = self.dscp or (0,)
            flows = [(source, target, codepoints[priority]) for source, target, priority in made.queues.flows]
            flows += [(source, target, codepoints[-1]) for source, target in made.queues.welcome_back()]
            self._missing[node] = flows + self._missing.get(node, [])
        self._destinations.clear()
        self._netlink.batch(batch)
        for node, flows in list(self._missing.items()):
            self.ensure_destination(node)
            for source, target, dscp in flows:
                self.ensure_flow(source, target, node, dscp)
            self._missing.pop(node, None)

    def ensure_flow(self, source: Address, target: Address, node: int, dscp: int = 0) -> bool:
        """Makes a queue for a V2V flow to `node`, if there is none; with priorities, for the flow's packets with this DSCP.

        Returns whether the node's gate was made just now.

        Raises:
            NetlinkError: the kernel refused it. The next `repair` makes what is missing.
        """
        try:
            made = self.ensure_destination(node)
        except NetlinkError:
            self._missing.setdefault(node, []).append((source, target, dscp))
            raise
        destination = self._destinations[node]
        batch = destination.queues.add(source, target, dscp)
        if destination.queues.crowded:
            self._crowded.add(node)
        if batch and self.gate_kind == "tbf":
            self._changes += 1
            self._netlink.batch(batch)
            self._set_queries(destination)
        return made

    def ensure_destination(self, node: int) -> bool:
        """Makes an open gate for the packets to `node`, if there is none; returns whether it was made just now.

        Raises NetlinkError, as `ensure_flow`.
        """
        if node in self._destinations:
            return False
        if not FIRST_NODE <= node <= LAST_NODE:
            raise ValueError(f"node {node}: must be from {FIRST_NODE} to {LAST_NODE}")
        classid = ROOT | node
        gate = GATE_KINDS[self.gate_kind](self._netlink, self._index, node << 16, classid, self._packet_bytes)
        queues = FlowQueues(self._index, node, self._quantum, self.dscp)
        batch = [self._class(classid, LINK, SMALL_RATE_BPS, 2), gate.creation()]
        if self.gate_kind == "tbf":
            batch += queues.creation()
        flows = self._missing.setdefault(node, [])
        self._netlink.batch(batch)
        destination = self._destinations[node] = _Destination(gate, queues)
        if not flows:
            del self._missing[node]
        self.version += 1
        self._changes += 1
        self._set_queries(destination)
        gate.open()
        return True

    def _set_queries(self, destination: _Destination) -> None:
        highest = [classid for classid, priority in destination.queues.classes().items() if not priority]
        destination.urgent = [query(RTM_GETTCLASS, self._index, handle=classid) for classid in highest if self.dscp]

    def _class(self, classid: int, parent: int, rate_bps: int, prio: int) -> bytes:
        return qdiscs.htb_class(
            self._index, classid, parent,
            rate_bps=rate_bps, ceil_bps=self.rate_bps, prio=prio, quantum=self._quantum, burst=self._burst,
        )  # fmt: skip

    def remove_destination(self, node: int) -> None:
        """Removes a destination's gate and queues; packets that still wait there are lost."""
        if self._destinations.pop(node, None) is not None:
            self.version += 1
            self._changes += 1
            self._netlink.request(message(RTM_DELTCLASS, 0, self._index, handle=ROOT | node, parent=LINK))

    def collect(self, now_ns: int) -> list[tuple[Address, Address]]:
        """Removes destinations to which nothing was sent for `IDLE_NS`, if all of their flows are remembered, and such queues
        of flows where there are many; returns the V2V flows that have none any more, or could have one now."""
        return finished(self.collect_steps(now_ns))

    def collect_steps(self, now_ns: int) -> Pieces[list[tuple[Address, Address]]]:
        """As `collect`, in steps, one for each destination."""
        gone: list[tuple[Address, Address]] = []
        for node, destination in list(self._destinations.items()):
            if self._destinations.get(node) is not destination:  # removed or made anew meanwhile
                continue
            passed, waiting = destination.gate.state()
            if waiting or passed != destination.passed or not destination.idle_since_ns:
                destination.passed, destination.idle_since_ns = passed, now_ns
            elif now_ns - destination.idle_since_ns >= IDLE_NS and node not in self._crowded:
                gone += {(source, target): None for source, target, _ in destination.queues.flows}
                gone += destination.queues.welcome_back()
                self.remove_destination(node)
                yield
                continue
            yield
            if self.gate_kind == "tbf":
                gone += self._collect_flows(destination, now_ns)
        return gone

    def _collect_flows(self, destination: _Destination, now_ns: int) -> list[tuple[Address, Address]]:
        queues, batch, gone = destination.queues, list[bytes](), dict[tuple[Address, Address], None]()
        for flow, classid in list(queues.to_look_at()):
            passed, waiting = self._netlink.state(query(RTM_GETTCLASS, self._index, handle=classid))
            if queues.idle(flow, passed, waiting, now_ns, IDLE_NS):
                batch += queues.remove(flow)
                gone[flow[0], flow[1]] = None
        if batch:
            self._changes += 1
            self._netlink.batch(batch)
            self._set_queries(destination)
            gone |= dict.fromkeys(queues.welcome_back())
        return list(gone)

    # -- gates ----------------------------------------------------------------------------------------------------------

    def gate_of(self, node: int) -> Gate | None:
        """The gate of a destination; None if it has none, since no flow to it was seen."""
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
        """What differs from what was set, as lines to log; empty if nothing does."""
        return finished(self.drift_steps())

    def drift_steps(self) -> Pieces[list[str]]:
        """As `drift`, in steps of some dozens of microseconds; empty, too, if queues were made or removed meanwhile."""
        changes = self._changes
        found, classes, filters = dict[int, Entry](), dict[int, Entry](), list[Entry]()
        try:
            for some in self._dumps.dump_steps(RTM_GETQDISC, self._index):
                found.update((entry.handle, entry) for entry in some if entry.handle)
                yield
            for some in self._dumps.dump_steps(RTM_GETTCLASS, self._index):
                classes.update((entry.handle, entry) for entry in some)
                yield
            filters = self._dumps.dump(RTM_GETTFILTER, self._index, parent=ROOT) if self._qdisc(found, ROOT, TC_H_ROOT) else []
            yield
            longest = longest_frame(self._dumps, self._index)
        except NetlinkError as error:
            return [f"{self.interface}: unreadable ({error.strerror})"]
        lines = [f"{self.interface}: the gate of destination {node:x} is missing" for node in self._missing]
        if min(MOST_PACKET, longest) > self._packet_bytes:
            lines.append(f"{self.interface}: packets have up to {longest} bytes now, gates were made for {self._packet_bytes}")
        if not any(entry.info >> 16 == WAKEUP_PREFERENCE for entry in filters):
            lines.append(f"{self.interface}: the filter of frames that wake the queues is missing")
        lines += self._qdisc_lines(found, {ROOT: ("htb", TC_H_ROOT)})
        lines += self._class_lines(classes, self._fixed_limits())
        for node, destination in list(self._destinations.items()):
            yield
            if changes != self._changes:
                return []
            wanted = {node << 16: (self.gate_kind, ROOT | node)}
            limits = {ROOT | node: (self.rate_bps, 2)}
            if self.gate_kind == "tbf":
                queues = destination.queues
                wanted[queues.major] = ("htb", node << 16 | 1)
                limits.update({classid: (FREE_BPS, priority) for classid, priority in queues.classes().items()})
                if self.dscp:
                    lines += self._lost_filters(queues)
            lines += self._qdisc_lines(found, wanted) + self._class_lines(classes, limits)
        return lines

    def _fixed_limits(self) -> dict[int, tuple[int, int]]:
        return {classid: (self.rate_bps, priority) for classid, priority in ((LINK, 0), (CONTROL, 0), (SMALL, 1), (OTHER, 2))}

    def _qdisc(self, found: Mapping[int, Entry], handle: int, parent: int) -> Entry | None:
        """A qdisc of a dump, or the one under `parent` if the dump left it out.

        The kernel goes on with a dump of qdiscs by the interface's place among all interfaces: when another one vanishes
        meanwhile, it leaves some out, and does not mark the dump as interrupted (tc_dump_qdisc, net/sched/sch_api.c).
        """
        if (entry := found.get(handle)) is not None:
            return entry
        return self._dumps.find(query(RTM_GETQDISC, self._index, handle=handle, parent=parent), self._index)

    def _qdisc_lines(self, found: Mapping[int, Entry], wanted: Mapping[int, tuple[str, int]]) -> list[str]:
        lines = []
        for handle, (kind, parent) in wanted.items():
            entry = self._qdisc(found, handle, parent)
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
        except NetlinkError:  # its qdisc is gone, which another line says
            return []
        lost = Counter(queues.filter_targets()) - Counter(qdiscs.filtered_to(entry.options) for entry in there)
        return [
            f"{self.interface}: {count} filters to class {classid >> 16:x}:{classid & 0xFFFF:x} are missing"
            for classid, count in lost.items()
        ]

    def repair(self) -> list[str]:
        """Makes the tree anew if anything differs; returns what did."""
        lines = self.drift()
        if lines:
            self.install()
        return lines


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
