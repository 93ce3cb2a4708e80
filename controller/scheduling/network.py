"""The fabric as the policies see it: node ids and the links between them. Pure.

It joins the fabric and its active tree, which name hosts, with the members, which are matched to hosts by MAC address, IP
address or name. The capacity of a member's own link is at most the member's rate, in both directions.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Self

from controller.members.registry import Member
from topology import capacity
from topology.capacity import Capacity
from topology.fabric import DirectedLink, Fabric
from topology.paths import NoPathError, Routes


class FabricNetwork:
    """Paths and capacities between members. Implements the policies' `Network`.

    Args:
        sources: where the fabric's capacities come from (topology/capacity.py); a link that is missing is of the fabric file.
    """

    def __init__(
        self, fabric: Fabric, routes: Routes, members: Iterable[Member], sources: Mapping[DirectedLink, str] | None = None
    ) -> None:
        self._fabric = fabric
        self._routes = routes
        self._sources = sources or {}
        self._taken: Mapping[DirectedLink, int] = {}
        by_mac = {fabric.mac(host): host for host in fabric.hosts if fabric.mac(host) is not None}
        by_address = {address: host for host in fabric.hosts for address in fabric.addresses(host)}
        self.hosts: dict[int, str] = {}
        self.unplaced: list[str] = []
        self._rates: dict[int, int] = {}
        at_host: dict[str, int] = defaultdict(int)
        for member in members:
            host = by_mac.get(member.mac.hex(":"))
            if host is None:
                host = next((by_address[a] for a in member.addresses if a in by_address), None)
            if host is None and member.name in fabric.hosts:
                host = member.name
            if host is None:
                self.unplaced.append(member.name)
                continue
            self.hosts[member.node] = host
            self._rates[member.node] = member.rate_bps
            at_host[host] += member.rate_bps
        self._members = frozenset(self.hosts.values())
        self._own_links: dict[DirectedLink, Capacity] = {}
        for host, rate_bps in at_host.items():
            switch = fabric.attachment(host)
            if switch is not None and rate_bps > 0:
                for link in (DirectedLink(host, switch), DirectedLink(switch, host)):
                    self._own_links[link] = capacity.least(self._told(link), Capacity(rate_bps, capacity.MEMBER_RATE))

    def less(self, taken_bps: Mapping[DirectedLink, int]) -> Self:
        """The same network with so much taken off the capacities of these links."""
        found = copy.copy(self)
        found._taken = taken_bps
        return found

    def path(self, source: int, destination: int) -> tuple[DirectedLink, ...]:
        """The links from one member to another along the active tree; empty when either has no known place."""
        try:
            return self._routes.path(self.hosts[source], self.hosts[destination])
        except KeyError:
            return ()

    def capacity_bps(self, link: DirectedLink) -> int:
        """What members may put on a directed link."""
        return max(1, self.capacity(link).bps - self._taken.get(link, 0))

    def node_rate_bps(self, node: int) -> int:
        """What a member can send at."""
        return self._rates[node]

    def capacity(self, link: DirectedLink) -> Capacity:
        """What a directed link carries, and how that is known. Raises KeyError for an unknown link."""
        return self._own_links.get(link) or self._told(link)

    def capacities(self) -> dict[DirectedLink, Capacity]:
        """The same of every directed link of the fabric."""
        return {link: self.capacity(link) for both in sorted(self._fabric.links) for link in both.directions}

    def port(self, link: DirectedLink) -> str | None:
        """The name of the port that sends into a directed link, if it is known."""
        return self._fabric.port(link)

    def has(self, link: DirectedLink) -> bool:
        """Whether the fabric has a directed link."""
        return self._fabric.graph.has_edge(*link)

    def members(self) -> frozenset[str]:
        """The hosts of the fabric at which a member is."""
        return self._members

    def strangers(self) -> frozenset[str]:
        """The hosts of the fabric at which no member is."""
        return frozenset(self._fabric.hosts) - self._members

    def is_before(self, host: str, link: DirectedLink) -> bool:
        """Whether what a host sends beyond a directed link crosses that link."""
        try:
            return self._routes.path(host, link.target)[-1:] == (link,)
        except NoPathError:
            return False

    def _told(self, link: DirectedLink) -> Capacity:
        return Capacity(self._fabric.capacity_bps(link), self._sources.get(link, capacity.FABRIC_FILE))
