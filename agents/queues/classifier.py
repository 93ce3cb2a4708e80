"""The classifier's tables as the agent sees them: members' addresses, flows, and destinations that became backlogged. An edge.

The layouts are those of agents/bpf/classify.h.
"""

from __future__ import annotations

import ctypes
import logging
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from agents.bpf.build import object_path
from agents.kernel.filters import Before, before_ours
from agents.kernel.netlink import RTM_GETQDISC, RTM_GETTFILTER, Entry, Netlink
from agents.kernel.snapshot import CLASSIFIER_PREFERENCE, EGRESS, without_egress
from ebpf.libbpf import BpfObject

log = logging.getLogger("baton.host")

Address = IPv4Address | IPv6Address
_SETTINGS = struct.Struct("=QQQII")
_NODE = struct.Struct("=QII")
_WORD, _ARMED_AT = struct.Struct("=I"), 8
_PIECE = 64 * _NODE.size
"""Of the nodes' memory: what is compared at once, as hardly any node's counter grows between two looks."""
MAX_NODES = 16_384
"""The destinations that there are counters for (agents/bpf/classify.h)."""
_EVENT = struct.Struct("=III16s16s")
_KEY = struct.Struct("=16s16sI")
_FLOW = struct.Struct("=QQQQQQII")
NEW_FLOW, BACKLOGGED, URGENT = 1, 2, 3
FOR_ANY, FOR_URGENT = 1, 2
DSCPS = 64
EVENTS_AT_ONCE, EVENTS_BYTES = 256, 1 << 18
LOST_MAX = (1 << 32) - 1
OUTSTANDING_MAX = (1 << 31) - 1
"""Beyond it, sequence numbers do not say how many bytes a connection has on their way (RFC 9293, section 3.4)."""
LAST_PREFERENCE = 47811
"""Filters of others after it never come before one of Baton's."""
WHOLE_NS = 60_000_000_000
"""After so long a silence a flow's allowance is whole, however slowly it comes back."""
_MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class NewFlow:
    """The first packet of a V2V flow towards a member; where DSCPs are priorities, its first packet with this DSCP."""

    source: Address
    target: Address
    destination: int
    dscp: int = 0


@dataclass(frozen=True, slots=True)
class Backlogged:
    """The first packet of a large flow for an armed destination; `urgent`: its flow has a deadline."""

    destination: int
    urgent: bool = False


def packed(address: Address) -> bytes:
    """The address in 16 bytes; IPv4 is mapped as RFC 4291 section 2.5.5.2 says."""
    return address.packed if address.version == 6 else _MAPPED + address.packed


def unpacked(data: bytes) -> Address:
    """The inverse of `packed`."""
    return IPv4Address(data[12:]) if data[:12] == _MAPPED else IPv6Address(data)


class FlowTable:
    """The classifier at one interface's egress."""

    def __init__(self, interface: str, urgent_dscp: int | None = None) -> None:
        """Loads and attaches it, in the place of one that a killed agent left. Raises BuildError, BpfError.

        Args:
            urgent_dscp: the DSCP of flows with a deadline, where a filter before this one writes DSCPs as priorities.
        """
        self._urgent_dscp = urgent_dscp
        self._interface, self._ifindex = interface, socket.if_nametoindex(interface)
        self._netlink = Netlink()
        self._object = BpfObject(object_path("classify"))
        self._settings = self._object.map("settings", 4, _SETTINGS.size)
        self._members = self._object.map("members", 16, 4)
        self._nodes = self._object.memory("nodes", MAX_NODES * _NODE.size)
        self._flows = self._object.map("flows", _KEY.size, _FLOW.size)
        self._dscp_nodes = self._object.map("dscp_nodes", 4, 4)
        self._outstanding = self._object.map("outstanding", 4, 4)
        self._events: list[NewFlow | Backlogged] = []
        self._fd, self._consume = self._object.ring("events", self._take, EVENTS_AT_ONCE)
        self.ring = self._object.ring_memory("events", EVENTS_BYTES)
        """Where the events' ring buffer is in memory until `close`, for agents/reflex/slot_events.h."""
        self._addresses: dict[bytes, int] = {}
        self._entries: dict[int, Sequence[Address]] = {}
        self._end = 0
        """How much of the nodes' memory is theirs."""
        self._looked_at = b""
        """The nodes' memory at the last look."""
        self._busy: set[int] = set()
        """The nodes that were not told yet, or to which something was sent before the last look."""
        self._lost: dict[int, int] = {}
        self._obstacle = ""
        """Why the classifier cannot be attached again."""
        self._before = Before()
        self._freed: dict[int, int] = {}
        """What `free_senders` was told, by node."""
        self.set_mice(0, 0)
        self._attach()
        self._look_before(self._filters())

    def _attach(self) -> None:
        self._object.attach_egress("classify", self._ifindex, CLASSIFIER_PREFERENCE, replace=True)

    def drop_wakeup_fd(self) -> int:
        """The root HTB's filter program that drops wake-up frames (priority `WAKEUP`); valid until `close`."""
        return self._object.program_fd("drop_wakeup")

    def fileno(self) -> int:
        """For select: readable when there are events."""
        return self._fd

    def events(self) -> list[NewFlow | Backlogged]:
        """The events since the last call, at most `EVENTS_AT_ONCE`; the descriptor stays readable while some are left."""
        self._consume()
        found, self._events = self._events, []
        return found

    def _take(self, record: bytes) -> None:
        kind, node, dscp, source, target = _EVENT.unpack_from(record)
        if kind == NEW_FLOW:
            self._events.append(NewFlow(unpacked(source), unpacked(target), node, dscp))
        else:
            self._events.append(Backlogged(node, kind == URGENT))

    def set_mice(self, size: int, rate_bps: int) -> None:
        """What a V2V flow may send without being large: `size` bytes at once, `rate_bps` in the long run."""
        rate = rate_bps // 8
        whole_ns = min(WHOLE_NS, size * 10**9 // max(1, rate))
        priorities = self._urgent_dscp is not None
        self._settings[bytes(4)] = _SETTINGS.pack(size, rate, whole_ns, priorities, self._urgent_dscp or 0)

    def set_directory(self, entries: Mapping[int, Sequence[Address]]) -> None:
        """Replaces the whole table of addresses by node."""
        before, self._entries = self._entries, dict(entries)
        changed = [node for node, its in entries.items() if before.get(node) is not its]
        gone = [(node, address) for node in before.keys() - entries.keys() for address in before[node]]
        gone += [(node, address) for node in changed for address in before.get(node, ())]
        wanted = {packed(address): node for node in changed for address in entries[node]}
        for node, address in gone:
            key = packed(address)
            if key not in wanted and self._addresses.get(key) == node:
                self._members.remove(key)
                del self._addresses[key]
        for key, node in wanted.items():
            if self._addresses.get(key) != node:
                self._members[key] = node.to_bytes(4, "little")
                self._addresses[key] = node
        self._busy = (self._busy & entries.keys()) | (entries.keys() - before.keys())
        self._end = _NODE.size * (max(entries, default=-1) + 1)

    def set_scheduled_dscps(self, nodes: Mapping[int, int]) -> None:
        """Replaces the whole table of DSCPs that have a queue of their own, each as if sent to the node that stands for it."""
        for dscp in range(DSCPS):
            self._dscp_nodes[dscp.to_bytes(4, "little")] = nodes.get(dscp, 0).to_bytes(4, "little")

    def arm(self, node: int, *, urgent: bool = False) -> None:
        """Asks for a `Backlogged` at the next packet of a large flow to `node`; with `urgent`, at the next with a deadline."""
        if node < MAX_NODES:
            _WORD.pack_into(self._nodes, node * _NODE.size + _ARMED_AT, FOR_URGENT if urgent else FOR_ANY)

    def armed_word(self, node: int) -> ctypes.c_uint32:
        """Where to write FOR_ANY to arm a node's gate. Whoever has it must let go of it before `close`."""
        return ctypes.c_uint32.from_buffer(self._nodes, node * _NODE.size + _ARMED_AT)

    def free_senders(self, node: int, outstanding_bytes: int) -> None:
        """What `GateControl.free_senders` says, of packets to `node` from now on; not as long as a filter of others stands
        before this one, which would see each such packet twice."""
        self._freed[node] = outstanding_bytes
        self._set_outstanding(node)

    def _set_outstanding(self, node: int) -> None:
        most = 0 if self._before.standing else min(self._freed[node], OUTSTANDING_MAX)
        self._outstanding[node.to_bytes(4, "little")] = most.to_bytes(4, "little")

    def sent_bytes(self) -> Iterator[tuple[int, int]]:
        """Bytes that large flows sent to each member node since the last call, whether or not they have passed the gate yet.

        A node to which nothing was sent is told once, with 0, when that begins: nobody looks at thousands of idle ones.
        """
        now = self._nodes[: self._end]
        before = self._looked_at.ljust(self._end, b"\0")
        self._looked_at = now + before[self._end :]
        sent = {node: size for node, size in _grown(before, now) if node in self._entries}
        idle = self._busy - sent.keys()
        self._busy = set(sent)
        yield from sent.items()
        yield from ((node, 0) for node in sorted(idle))

    def lost_segments(self, node: int) -> int:
        """By how many segments to a member node TCP showed a loss or a mark since the last call (agents/bpf/resent.h)."""
        count = _NODE.unpack_from(self._nodes, node * _NODE.size)[2] if node < MAX_NODES else 0
        before, self._lost[node] = self._lost.get(node, 0), count
        return (count - before) & LOST_MAX

    def forget(self, source: Address, target: Address) -> None:
        """Forgets a V2V flow: its next packet counts as its first again."""
        for icmp in (0, 1):
            self._flows.remove(_KEY.pack(packed(source), packed(target), icmp))

    def repair(self) -> list[str]:
        """Attaches the classifier again if its filter is missing, since without it no packet finds its gate; returns a line to
        log if it was. While another's qdisc is in the way it says so once, and every flow is free.

        Raises NetlinkError, BpfError: the interface is gone.
        """
        found = self._filters()
        self._look_before(found)
        if any(entry.info >> 16 == CLASSIFIER_PREFERENCE for entry in found):
            return []
        known = self._obstacle
        self._obstacle = without_egress(self._netlink.dump(RTM_GETQDISC, self._ifindex), self._interface)
        if self._obstacle:
            if not known:
                log.error("no packet finds its gate: %s", self._obstacle)
            return []
        self._attach()
        return [f"{self._interface}: the classifier is missing"]

    def warnings(self) -> list[str]:
        """What keeps packets from the classifier, as the last `repair` found it, and what to do."""
        return [
            f"{self._interface}: egress filter pref {preference} may let packets past Baton's; end it with `continue` "
            f"(TC_ACT_UNSPEC), or give it a preference above {LAST_PREFERENCE}"
            for preference in self._before.ending[:1]
        ]

    def _filters(self) -> list[Entry]:
        return self._netlink.dump(RTM_GETTFILTER, self._ifindex, parent=EGRESS)

    def _look_before(self, found: list[Entry]) -> None:
        stood = self._before.standing
        self._before = before_ours(found)
        if bool(stood) != bool(self._before.standing):
            for node in self._freed:
                self._set_outstanding(node)

    def close(self) -> None:
        """Frees the tables; restoring the snapshot removes the filter from the interface."""
        self._netlink.close()
        self._nodes.close()
        self._object.close()


def _grown(before: bytes, now: bytes) -> Iterator[tuple[int, int]]:
    """The nodes whose counters have grown from one look at their memory to the next, each with by how many bytes."""
    for piece in range(0, len(now), _PIECE):
        if now[piece : piece + _PIECE] != before[piece : piece + _PIECE]:
            for at in range(piece, min(piece + _PIECE, len(now)), _NODE.size):
                if size := _NODE.unpack_from(now, at)[0] - _NODE.unpack_from(before, at)[0]:
                    yield at // _NODE.size, size
