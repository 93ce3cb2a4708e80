"""The fabric as the policies see it: node ids and the links between them. Pure.

It joins the fabric and its active tree, which name hosts, with the members, which are matched to hosts by MAC address, IP
address or name.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.members.registry import Member
from topology.fabric import DirectedLink, Fabric
from topology.paths import Routes


class FabricNetwork:
    """Paths and capacities between members. Implements the policies' `Network`."""

    def __init__(self, fabric: Fabric, routes: Routes, members: Iterable[Member]) -> None:
        self._fabric = fabric
        self._routes = routes
        by_mac = {fabric.mac(host): host for host in fabric.hosts if fabric.mac(host) is not None}
        by_address = {address: host for host in fabric.hosts for address in fabric.addresses(host)}
        self.hosts: dict[int, str] = {}
        self.unplaced: list[str] = []
        self._rates: dict[int, int] = {}
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

    def path(self, source: int, destination: int) -> tuple[DirectedLink, ...]:
        """The links from one member to another along the active tree; empty when either has no known place."""
        try:
            return self._routes.path(self.hosts[source], self.hosts[destination])
        except KeyError:
            return ()

    def capacity_bps(self, link: DirectedLink) -> int:
        """A directed link's capacity."""
        return self._fabric.capacity_bps(link)

    def node_rate_bps(self, node: int) -> int:
        """What a member can send at."""
        return self._rates[node]
