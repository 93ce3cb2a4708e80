"""Warns of hosts whose traffic is not coordinated as it should be: no agent, a rate above the link's, unknown addresses. Pure.

A member's own link comes from its HOST_LINK, hosts without an agent from the fabric and the switches' port counters. That a
member has addresses which its agent does not know is concluded from bytes: it receives more than members report to have sent to
it, and members send at least half of that difference to addresses of no member. Small flows are not reported, but they are
classified; and what hosts without an agent send never left a member.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.members.part import SUMMARY_NS, Part
from controller.members.registry import Member
from protocol.bodies.host_link import HostLink
from protocol.units import SECOND_NS
from topology.fabric import DirectedLink
from topology.units import format_rate

SHARE = 0.1
"""The share of a member's rate from which on unclassified traffic to it is worth a warning."""
AFTER = 2
"""So many reports in a row, each of two seconds, make a warning or end it."""
REMEMBERED_NS = 10 * SECOND_NS
"""How long a host without an agent is shown after its traffic was seen last."""
MOST_HOSTS = 8
AGENT = "start its agent (`baton install-units --role agent`)"


class Network(Protocol):
    """The fabric as the policies see it (controller/scheduling/network.py)."""

    hosts: dict[int, str]
    """The fabric's name of each member."""

    def access(self, node: int) -> DirectedLink | None:
        """The first link of all that a member sends; None: it has no known place, or its host no link."""

    def capacity_bps(self, link: DirectedLink) -> int:
        """A directed link's capacity."""


@dataclass(slots=True)
class _Known:
    """The last HOST_LINK of a member."""

    link: HostLink
    arrived: int = 0
    """Large flows' bytes that members reported to have sent to it, since that message."""
    unclassified_bps: int = 0
    hidden_bps: int = 0
    """What it received for addresses that its agent does not know; 0 if that is not shown."""
    run: int = 0
    """How many reports in a row contradict what is shown."""
    lines: list[str] = field(default_factory=list)


class HostLinks(Part):
    """The warnings about hosts' links and addresses.

    Args:
        network: the fabric as the policies see it, if it is known.
        least_bps: less traffic of a host without an agent is not worth a warning.
        own_mac: the coordinator's MAC address; its own traffic waits for no permission.
    """

    def __init__(self, network: Callable[[], Network | None], least_bps: int, own_mac: bytes) -> None:
        self.handlers = {HostLink: self._on_link}
        self.documents = {"fabric": self._on_fabric, "ports": self._on_ports}
        self.periodic = ((SUMMARY_NS, self._time_passes),)
        self._network = network
        self._least_bps = least_bps
        self._own_mac = own_mac.hex(":")
        self._known: dict[int, _Known] = {}
        self._unclassified_bps = 0
        """What all of them send unclassified."""
        self._hosts: frozenset[str] = frozenset()
        self._strangers: dict[str, tuple[int, int, int]] = {}
        """(seen at, sent bit/s, received bit/s) of hosts without an agent."""
        self._now_ns = 0

    # -- what is heard --------------------------------------------------------------------------------------------------

    def left(self, node: int, now_ns: int) -> None:
        if (known := self._known.pop(node, None)) is not None:
            self._unclassified_bps -= known.unclassified_bps

    def reported(self, node: int, sent: Mapping[int, int], regulated: Set[int]) -> None:
        for destination, size in sent.items():
            if (known := self._known.get(destination)) is not None:
                known.arrived += size

    def _on_link(self, member: Member, message: HostLink, _: int) -> None:
        known = self._known.get(member.node)
        if known is None:
            known = self._known[member.node] = _Known(message)
        else:
            self._judge(member, known, message)
        known.link, known.arrived = message, 0
        self._unclassified_bps -= known.unclassified_bps
        known.unclassified_bps = _bps(message.unclassified_bytes, message.period_ns)
        self._unclassified_bps += known.unclassified_bps
        known.lines = list(self._lines(member, known))

    def _judge(self, member: Member, known: _Known, message: HostLink) -> None:
        hidden_bps = _bps(message.received_bytes - known.arrived, message.period_ns)
        if hidden_bps <= SHARE * member.rate_bps or self._unclassified_bps < hidden_bps // 2:
            hidden_bps = 0
        known.run = known.run + 1 if bool(hidden_bps) != bool(known.hidden_bps) else 0
        if known.run == AFTER or (hidden_bps and known.hidden_bps):
            known.hidden_bps, known.run = hidden_bps, 0

    def _on_fabric(self, document: Mapping[str, Any], _: int) -> None:
        hosts = document.get("fabric", {}).get("hosts", ())
        self._hosts = frozenset(str(host["name"]) for host in hosts if host.get("mac") != self._own_mac)

    def _on_ports(self, document: Mapping[str, Any], now_ns: int) -> None:
        self._now_ns = now_ns
        network = self._network()
        strangers = self._hosts - set(network.hosts.values()) if network is not None else frozenset[str]()
        sent, received = defaultdict[str, int](int), defaultdict[str, int](int)
        for reading in document.get("links", ()):
            sent[reading["source"]] += int(reading["load_bps"])
            received[reading["target"]] += int(reading["load_bps"])
        self._strangers = {host: seen for host, seen in self._strangers.items() if host in strangers}
        for host in strangers:
            if max(sent[host], received[host]) > self._least_bps:
                self._strangers[host] = now_ns, sent[host], received[host]

    # -- warnings -------------------------------------------------------------------------------------------------------

    def warnings(self) -> list[str]:
        """The hosts without an agent that send or receive, the busiest first."""
        seen = [(sent + got, host, sent, got) for host, (at_ns, sent, got) in self._strangers.items() if self._fresh(at_ns)]
        seen.sort(key=lambda one: (-one[0], one[1]))
        lines = [
            f"{host} has no agent: it sends {_mbps(sent)} and receives {_mbps(got)} without permission; {AGENT}"
            for _, host, sent, got in seen[:MOST_HOSTS]
        ]
        if len(seen) > MOST_HOSTS:
            lines.append(f"{len(seen) - MOST_HOSTS} more hosts without an agent have traffic; see `baton doctor --hosts`")
        return lines

    def warnings_of(self, node: int) -> list[str]:
        known = self._known.get(node)
        return known.lines if known is not None else []

    def _time_passes(self, now_ns: int) -> None:
        self._now_ns = now_ns

    def _fresh(self, at_ns: int) -> bool:
        return self._now_ns - at_ns < REMEMBERED_NS

    def _lines(self, member: Member, known: _Known) -> Iterator[str]:
        own_bps = known.link.link_bps or member.rate_bps
        rate, told = format_rate(member.rate_bps), "its link's own"
        if (fabric_bps := self._access_bps(member.node)) is not None and fabric_bps < own_bps:
            own_bps, told = fabric_bps, "what the fabric has for its link,"
        if member.rate_bps > own_bps:
            link = format_rate(own_bps)
            yield f"its rate {rate} is above {told} {link}; start its agent with --rate {link}, or correct the fabric"
        if known.link.left_out:
            left_out = f"{known.link.left_out} of its addresses do not fit into a frame, so traffic to them is not coordinated"
            yield f"{left_out}; remove addresses that it does not need"
        if known.link.unknown_stations:
            stations = f"{known.link.unknown_stations} stations behind its bridge have no known IP address"
            yield f"{stations}, so traffic to them is not coordinated; name their addresses by --address"
        if known.hidden_bps:
            hidden = f"it receives {_mbps(known.hidden_bps)} for addresses that its agent does not know"
            yield f"{hidden}; name them by --address"

    def _access_bps(self, node: int) -> int | None:
        """The capacity of a member's first link; None while it is not known."""
        network = self._network()
        if network is None or (first := network.access(node)) is None:
            return None
        return network.capacity_bps(first)


def _bps(size: int, period_ns: int) -> int:
    return max(0, size) * 8 * SECOND_NS // max(1, period_ns)


def _mbps(rate_bps: int) -> str:
    return f"{rate_bps / 1e6:.1f} Mbit/s"
