"""The registered hosts: hosts with an agent, their node ids and addresses, and when each was last heard. Pure.

Node ids are small, and a host's id goes to no other host while the coordinator lives, since a directive names nodes. An address
belongs to the first present host that claimed it, until that host claims it no more, or leaves: then to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any

FIRST_NODE = 16
DIRECTORY_ADDRESSES = 65_536
"""What the hosts' classifiers hold (agents/bpf/classify.h)."""
Address = IPv4Address | IPv6Address


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
    last_heard_ns: int
    joined_ns: int
    claimed: tuple[Address, ...] = ()
    """What it says lives there; `addresses` are those of them that it holds."""
    present: bool = True
    slots: int = 0
    acknowledged: int = 0
    late: int = 0
    yields: int = 0
    lateness_ns: int = 0
    """Smoothed: gate opened minus slot's start."""
    delay_ns: int = 0
    """Smoothed: how long a directive takes to it."""
    sent_bps: dict[int, int] = field(default_factory=dict)
    backlog: dict[int, int] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    thresholds_version: int | None = None
    """The version of the thresholds that its tagger uses; None for a host without priorities."""

    def record(self, now_ns: int) -> dict[str, Any]:
        """Its document for the store, as JSON values, without what the parts add."""
        return {
            "name": self.name,
            "mac": self.mac.hex(":"),
            "addresses": [str(a) for a in self.addresses],
            "rate_bps": self.rate_bps,
            "gate": self.gate,
            "version": self.version,
            "heard_ms_ago": (now_ns - self.last_heard_ns) // 1_000_000,
            "slots": self.slots,
            "acknowledged": self.acknowledged,
            "late_slots": self.late,
            "yields": self.yields,
            "lateness_us": self.lateness_ns // 1000,
            "backlog_bytes": self.backlog,
            "sent_bps": self.sent_bps,
            "refused": self.refused,
            "thresholds_version": self.thresholds_version,
        }


class Members:
    """The registry; `version` grows whenever the directory (nodes and their addresses) changes."""

    def __init__(self) -> None:
        self.version = 1
        self._by_node: dict[int, Member] = {}
        self._by_mac: dict[bytes, Member] = {}
        self._claims: dict[Address, list[int]] = {}
        """The present nodes that claim an address, the one that holds it first."""
        self._reserved: dict[bytes, int] = {}
        self._next = FIRST_NODE

    def reserve(self, nodes: Mapping[bytes, int]) -> None:
        """Reserves the ids that hosts (by MAC address) had under the leader before: no other host gets one of them."""
        self._reserved.update(nodes)
        self._next = max(self._next, *(node + 1 for node in nodes.values())) if nodes else self._next

    def register(
        self,
        mac: bytes,
        name: str,
        rate_bps: int,
        addresses: tuple[Address, ...],
        gate: str,
        version: str,
        now_ns: int,
    ) -> Member:
        """Takes a host that joins, comes back, or has other addresses. It does not get an address that another one holds."""
        member = self._by_mac.get(mac)
        if member is None:
            node = self._reserved.get(mac)
            if node is None:
                node, self._next = self._next, self._next + 1
            member = Member(node, name, mac, rate_bps, (), gate, version, now_ns, now_ns)
            self._by_mac[mac] = self._by_node[member.node] = member
            self.version += 1
        elif not member.present:
            member.present, member.joined_ns = True, now_ns
            self.version += 1
        if member.claimed != addresses:
            self._claim(member, addresses)
        self.version += member.rate_bps != rate_bps  # its link's capacity has changed
        member.name, member.rate_bps, member.gate, member.version = name, rate_bps, gate, version
        member.last_heard_ns = now_ns
        return member

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
                self.version += 1

    def refused(self, member: Member) -> dict[Address, Member]:
        """The addresses that a member claims and does not hold, with the member that holds each."""
        held = set(member.addresses)
        return {a: self._by_node[self._claims[a][0]] for a in member.claimed if a not in held and a in self._claims}

    def get(self, node: int) -> Member | None:
        """The member with this id, if it is present."""
        member = self._by_node.get(node)
        return member if member is not None and member.present else None

    def leave(self, node: int) -> None:
        """Forgets a member at once; its id stays reserved for it."""
        member = self.get(node)
        if member is not None:
            member.present = False
            self._claim(member, ())
            member.backlog.clear()
            member.sent_bps.clear()
            self.version += 1

    def silent(self, now_ns: int, silence_ns: int) -> list[Member]:
        """Present members not heard for `silence_ns`."""
        return [m for m in self.present() if now_ns - m.last_heard_ns > silence_ns]

    def present(self) -> list[Member]:
        """Members present, by node id."""
        return [m for m in self._by_node.values() if m.present]

    def directory(self) -> tuple[tuple[int, tuple[Address, ...]], ...]:
        """Every present node with its addresses, `DIRECTORY_ADDRESSES` of them at most: those of the lowest nodes."""
        room, rows = DIRECTORY_ADDRESSES, list[tuple[int, tuple[Address, ...]]]()
        for member in self.present():
            rows.append((member.node, member.addresses[:room]))
            room -= len(rows[-1][1])
        return tuple(rows)

    def left_out(self) -> int:
        """How many addresses of present members the directory has no room for."""
        return max(0, len(self._claims) - DIRECTORY_ADDRESSES)
