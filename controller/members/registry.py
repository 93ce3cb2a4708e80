"""The registered hosts: hosts with an agent, their node ids and addresses, and when each was last heard. Pure.

Node ids are small. A host's id stays its own after it left, since a directive names nodes: it goes to no other host before all
ids were given out and the host has been gone for `REST_NS`. Nothing else is kept of a host that left.

An address belongs to the first present host that claimed it, until that host claims it no more, or leaves: then to the next.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from protocol.bodies.versions import NEWEST
from protocol.wire import Cause

FIRST_NODE, LAST_NODE = 16, 0x3FFF
"""What the hosts' queues can be numbered by (agents/queues/queues.py)."""
REST_NS = 600_000_000_000
"""No directive, directory or queue of a host that left names its id after so long."""
SEARCH_NS = 1_000_000_000
"""How often to look for a free id while there is none."""
DIRECTORY_ADDRESSES = 65_536
"""What the hosts' classifiers hold (agents/bpf/classify.h)."""
CHANGES_KEPT = 1024
Address = IPv4Address | IPv6Address


class NoRoom(Exception):
    """All node ids are taken; the text says what to do."""


@dataclass(slots=True)
class Figures:
    """What a member's frames change. The library has the same fields where it takes them (controller/frames)."""

    last_heard_ns: int = 0
    slots: int = 0
    acknowledged: int = 0
    late: int = 0
    yields: int = 0
    lateness_ns: int = 0
    """Smoothed: gate opened minus slot's start."""
    delay_ns: int = 0
    """Smoothed: how long a directive takes to it."""
    excess: int = 0
    """Frames that nobody read, since it said more than is read of one host."""
    told_ns: int = -1
    """What the policy knows of that; -1: nothing."""


@dataclass(slots=True)
class Member:
    """A host with an agent."""

    node: int
    name: str
    mac: bytes
    rate_bps: int
    addresses: tuple[Address, ...]
    gate: str
    version: str
    figures: Figures
    wire: int = NEWEST
    """The version of the wire that it and the leader speak with each other."""
    claimed: tuple[Address, ...] = ()
    """What it says lives there; `addresses` are those of them that it holds."""
    sent_bps: dict[int, int] = field(default_factory=dict)
    backlog: dict[int, int] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    thresholds_version: int | None = None
    """The version of the thresholds that its tagger uses; None for a host without priorities."""
    _written: tuple[tuple[Address, ...], list[str]] = ((), [])
    """Its addresses, and how they are written: to write one takes a microsecond."""

    def record(self, now_ns: int) -> dict[str, Any]:
        """Its document for the store, as JSON values, without what the parts add."""
        figures = self.figures
        if self._written[0] is not self.addresses:
            self._written = self.addresses, [str(address) for address in self.addresses]
        return {
            "name": self.name,
            "mac": self.mac.hex(":"),
            "addresses": self._written[1],
            "rate_bps": self.rate_bps,
            "gate": self.gate,
            "version": self.version,
            "wire": self.wire,
            "heard_ms_ago": (now_ns - figures.last_heard_ns) // 1_000_000,
            "slots": figures.slots,
            "acknowledged": figures.acknowledged,
            "late_slots": figures.late,
            "yields": figures.yields,
            "excess": figures.excess,
            "lateness_us": figures.lateness_ns // 1000,
            "backlog_bytes": self.backlog,
            "sent_bps": self.sent_bps,
            "refused": self._refused(),
            "thresholds_version": self.thresholds_version,
        }

    def _refused(self) -> dict[int, int]:
        """Without the copies of what goes to all, in newer versions of the wire than its own: they are for other members."""
        if self.wire == NEWEST:
            return self.refused
        return {cause: count for cause, count in self.refused.items() if cause != Cause.VERSION}


class Members:
    """The registry; `version` grows whenever the directory (nodes and their addresses) changes."""

    def __init__(self) -> None:
        self.version = 1
        self._changes: deque[tuple[int, int]] = deque(maxlen=CHANGES_KEPT)
        """(version, node) of the last changes."""
        self._cut = False
        """Whether the present version of the directory leaves addresses out."""
        self._by_node: dict[int, Member] = {}
        self._by_mac: dict[bytes, Member] = {}
        self.wires: Counter[int] = Counter()
        """How many present members speak each version of the wire."""
        self._claims: dict[Address, list[int]] = {}
        """The present nodes that claim an address, the one that holds it first."""
        self._reserved: dict[bytes, tuple[int, int]] = {}
        """The id of each host that is not here, and when it was heard last; the one that is gone for longest first."""
        self._given: set[int] = set()
        """The ids of present hosts, and the reserved ones."""
        self._next = FIRST_NODE
        self._none_until_ns = 0
        """There is no free id before."""
        self._preferred: Callable[[bytes, str, tuple[Address, ...]], int | None] = lambda *_: None

    def reserve(self, nodes: Mapping[bytes, int]) -> None:
        """Reserves the ids that hosts (by MAC address) had under the leader before: no other host gets one of them."""
        known = {mac: (node, 0) for mac, node in nodes.items() if FIRST_NODE <= node <= LAST_NODE}
        self._reserved.update(known)
        self._given.update(node for node, _ in known.values())
        self._next = max([self._next, *(node + 1 for node, _ in known.values())])

    def prefer(self, preferred: Callable[[bytes, str, tuple[Address, ...]], int | None], beyond: int) -> None:
        """Has each host that joins given the id of its place (found by MAC address, name and addresses) if that is free; others
        get ids from `beyond` on, while there are any."""
        self._preferred = preferred
        self._next = max(self._next, min(beyond, LAST_NODE + 1))

    def register(
        self,
        mac: bytes,
        name: str,
        rate_bps: int,
        addresses: tuple[Address, ...],
        gate: str,
        version: str,
        now_ns: int,
        wire: int = NEWEST,
    ) -> Member:
        """Takes a host that joins, comes back, or has other addresses. It does not get an address that another one holds.

        Raises NoRoom: there is no node id for it.
        """
        member = self._by_mac.get(mac)
        if member is None:
            node = self._node_of(mac, name, addresses, now_ns)
            member = Member(node, name, mac, rate_bps, (), gate, version, Figures(), wire)
            self._by_mac[mac] = self._by_node[member.node] = member
            self.wires[wire] += 1
            self._changed(node)
        if member.claimed != addresses:
            self._claim(member, addresses)
        if member.rate_bps != rate_bps:  # its link's capacity has changed
            self._changed(member.node)
        member.name, member.rate_bps, member.gate, member.version = name, rate_bps, gate, version
        member.figures.last_heard_ns = now_ns
        if member.wire != wire:
            self.wires.subtract((member.wire,))
            self.wires[wire] += 1
            member.wire = wire
        return member

    def _node_of(self, mac: bytes, name: str, addresses: tuple[Address, ...], now_ns: int) -> int:
        """The id that a host had before, that of its place, or a free one."""
        if (reserved := self._reserved.pop(mac, None)) is not None:
            return reserved[0]
        own = self._preferred(mac, name, addresses)
        if own is not None and own not in self._given:
            self._given.add(own)
            return own
        while self._next <= LAST_NODE:
            self._next += 1
            if self._next - 1 not in self._given:
                self._given.add(self._next - 1)
                return self._next - 1
        if now_ns >= self._none_until_ns:
            if (free := next((node for node in range(FIRST_NODE, LAST_NODE + 1) if node not in self._given), None)) is not None:
                self._given.add(free)
                return free
            for other, (node, left_ns) in self._reserved.items():
                if now_ns - left_ns >= REST_NS:
                    del self._reserved[other]
                    return node
            self._none_until_ns = now_ns + SEARCH_NS
        raise NoRoom(f"all {LAST_NODE - FIRST_NODE + 1} node ids are taken; stop agents that the fabric does not need")

    def _claim(self, member: Member, addresses: tuple[Address, ...]) -> None:
        """Replaces what a member claims; what it gives up goes to whoever claims it next."""
        changed = {member.node}
        for address in set(member.claimed) - set(addresses):
            claims = self._claims[address]
            claims.remove(member.node)
            changed.update(claims[:1])
            if not claims:
                del self._claims[address]
        for address in addresses:
            claims = self._claims.setdefault(address, [])
            if member.node not in claims:
                claims.append(member.node)
        member.claimed = addresses
        for node in changed:
            other = self._by_node[node]
            held = tuple(address for address in other.claimed if self._claims[address][0] == node)
            if held != other.addresses:
                other.addresses = held
                self._changed(node)

    def refused(self, member: Member) -> dict[Address, Member]:
        """The addresses that a member claims and does not hold, with the member that holds each."""
        held = set(member.addresses)
        return {a: self._by_node[self._claims[a][0]] for a in member.claimed if a not in held and a in self._claims}

    def get(self, node: int) -> Member | None:
        """The member with this id; None: it is not here."""
        return self._by_node.get(node)

    def at(self, mac: bytes) -> Member | None:
        """The member with this MAC address; None: it is not here."""
        return self._by_mac.get(mac)

    def leave(self, node: int) -> None:
        """Forgets a member at once; only its id is kept, for when it comes back."""
        member = self.get(node)
        if member is not None:
            self._claim(member, ())
            del self._by_node[node], self._by_mac[member.mac]
            self.wires[member.wire] -= 1
            self._reserved[member.mac] = node, member.figures.last_heard_ns
            self._changed(node)

    def silent(self, now_ns: int, silence_ns: int) -> tuple[list[Member], int]:
        """Present members not heard for `silence_ns`; and when that one of the others was heard which is silent for longest
        (`now_ns` if there is none): before `silence_ns` from then none of them will be silent."""
        silent, earliest_ns = [], now_ns
        for member in self._by_node.values():
            heard_ns = member.figures.last_heard_ns
            if now_ns - heard_ns > silence_ns:
                silent.append(member)
            elif heard_ns < earliest_ns:
                earliest_ns = heard_ns
        return sorted(silent, key=_number), earliest_ns

    def __len__(self) -> int:
        """How many are present."""
        return len(self._by_node)

    def present(self) -> list[Member]:
        """Members present, by node id."""
        return sorted(self._by_node.values(), key=_number)

    def by_name(self) -> dict[str, list[int]]:
        """The node ids of each host's members, by name: a host with two interfaces has two."""
        found: dict[str, list[int]] = {}
        for member in self.present():
            found.setdefault(member.name, []).append(member.node)
        return found

    def directory(self) -> tuple[tuple[int, tuple[Address, ...]], ...]:
        """Every present node with its addresses, `DIRECTORY_ADDRESSES` of them at most: those of the lowest nodes."""
        room, rows = DIRECTORY_ADDRESSES, list[tuple[int, tuple[Address, ...]]]()
        for member in self.present():
            rows.append((member.node, member.addresses[:room]))
            room -= len(rows[-1][1])
        return tuple(rows)

    def _changed(self, node: int) -> None:
        self.version += 1
        if self._cut or self.left_out():  # one node's change makes or takes room for others
            self._changes.clear()
        else:
            self._changes.append((self.version, node))
        self._cut = self.left_out() > 0

    def changed_since(self, version: int) -> dict[int, int] | None:
        """By node that differs from an earlier version of the directory: the version that changed it last, in their order; None
        if that is not known any more, or if one of the versions since then has no room for all addresses."""
        if version < self.version - len(self._changes):
            return None
        found: dict[int, int] = {}
        for back in range(1, min(len(self._changes), self.version - version) + 1):
            at, node = self._changes[-back]
            found.setdefault(node, at)
        return dict(reversed(found.items()))

    def change(self, node: int) -> tuple[int, bool, tuple[Address, ...]]:
        """(node, whether it is present, its addresses)."""
        member = self.get(node)
        return node, member is not None, member.addresses if member is not None else ()

    def left_out(self) -> int:
        """How many addresses of present members the directory has no room for."""
        return max(0, len(self._claims) - DIRECTORY_ADDRESSES)


def _number(member: Member) -> int:
    return member.node
