"""The fabric as the policies see it: node ids and the links between them. Pure.

It joins the fabric and its active tree, which name hosts, with the members, which are matched to hosts by MAC address, IP
address or name. The capacity of a member's own link is at most the member's rate, in both directions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, KeysView, Mapping, Set
from typing import Any, Self

from controller.members.places import Numbering, Places
from controller.members.registry import Member
from controller.policies.base import Network
from protocol.bodies.nodes import Cut, NodeSet, Sides
from topology import capacity
from topology.capacity import Capacity
from topology.fabric import DirectedLink, Fabric
from topology.paths import NoPathError, Routes
from topology.pieces import PIECE, Pieces, finished


class FabricNetwork:
    """Paths and capacities between members. Implements the policies' `Network`, and knows the groups that links divide.

    Members join and leave it (`add`, `remove`) as long as fabric and tree stay as they are.

    Args:
        sources: where the fabric's capacities come from (topology/capacity.py); a link that is missing is of the fabric file.
        numbering: the ids that belong to the fabric's hosts.
    """

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        members: Iterable[Member],
        sources: Mapping[DirectedLink, str] | None = None,
        numbering: Numbering | None = None,
    ) -> None:
        finished(self._build(fabric, routes, members, sources, numbering))

    @classmethod
    def building(
        cls,
        fabric: Fabric,
        routes: Routes,
        members: Iterable[Member],
        sources: Mapping[DirectedLink, str],
        numbering: Numbering,
    ) -> Pieces[FabricNetwork]:
        """The same a piece at a time. Who joins or leaves meanwhile is to be added or removed after it."""
        network = cls.__new__(cls)
        yield from network._build(fabric, routes, members, sources, numbering)
        return network

    def _build(
        self,
        fabric: Fabric,
        routes: Routes,
        members: Iterable[Member],
        sources: Mapping[DirectedLink, str] | None,
        numbering: Numbering | None,
    ) -> Pieces[None]:
        self._fabric = fabric
        self._routes = routes
        self._sources = sources or {}
        self._taken: Mapping[DirectedLink, int] = {}
        numbering = numbering or Numbering()
        yield from numbering.taking(fabric, routes.tree)
        self.places = Places(fabric, routes.tree, numbering)
        yield from self.places.fill()
        self.hosts = self.places.hosts
        """The fabric's name of each member's host."""
        self._rates: dict[int, int] = {}
        self._moves = 0
        """How often paths or capacities that were told before became others."""
        self._own_links: dict[DirectedLink, Capacity] = {}
        self._last_bps: dict[DirectedLink, int] = {}
        """What the links of members carried, those who left included."""
        self.measured: set[DirectedLink] = set()
        """The links of members that joined, left or have another rate; whoever reads it may clear it."""
        self.rows: list[dict[str, Any]] = []
        """Every directed link as the status shows it, as it was when all this was made; `measured` are others since."""
        self.row_of: dict[DirectedLink, int] = {}
        """Where the row of each link is."""
        for at, member in enumerate(members, 1):
            self.add(member)
            if not at % PIECE:
                yield
        yield from self.places.look()
        for both in sorted(fabric.links):
            for link in both.directions:
                self.row_of[link] = len(self.rows)
                self.rows.append(self.row(link))
            if not len(self.rows) % (2 * PIECE):
                yield
        self.measured.clear()

    def add(self, member: Member) -> bool:
        """Takes a member in, or what is new of it; returns whether that changes paths or capacities that were told before."""
        moved = self._add(member)
        self._moves += moved
        return moved

    def _add(self, member: Member) -> bool:
        before, unplaced = self.hosts.get(member.node), member.node in self.places.unplaced
        host = self.places.add(member)
        if before is not None and before != host:
            self._measure(before)
        if host is None:
            self._rates.pop(member.node, None)
            return before is not None
        self._rates[member.node] = member.rate_bps
        return self._measure(host) or unplaced or (before is not None and before != host)

    def remove(self, node: int) -> bool:
        """Takes a member out; returns whether that changes what others are told: members at its host share its link."""
        host = self.hosts.get(node)
        self.places.remove(node)
        self._rates.pop(node, None)
        moved = host is not None and self._measure(host)
        self._moves += moved
        return moved

    def _measure(self, host: str) -> bool:
        """Finds the capacities of a host's own link; returns whether they were others when a member was there last."""
        switch = self._fabric.attachment(host)
        if switch is None:
            return False
        rate_bps = sum(self._rates[member.node] for member in self.places.members_at.get(host, ()))
        changed = False
        for link in (DirectedLink(host, switch), DirectedLink(switch, host)):
            self._own_links.pop(link, None)
            self.measured.add(link)
            if rate_bps > 0:
                found = self._own_links[link] = capacity.least(self._told(link), Capacity(rate_bps, capacity.MEMBER_RATE))
                changed |= self._last_bps.setdefault(link, found.bps) != found.bps
                self._last_bps[link] = found.bps
        return changed

    @property
    def nodes(self) -> KeysView[int]:
        """The members with a known place."""
        return self.hosts.keys()

    @property
    def unplaced(self) -> list[str]:
        """The names of the members that have none."""
        return list(self.places.unplaced.values())

    def forwards(self, link: DirectedLink) -> bool:
        """Whether it is a directed link of the active tree."""
        return self.places.forwards(link)

    def sides(self, link: DirectedLink) -> Sides:
        """The node ids before and behind a directed link of the active tree."""
        return self.places.sides(link)

    @property
    def generation(self) -> int:
        """Grows whenever the ids on the sides of links may have changed."""
        return self.places.generation

    def cut(self, link: DirectedLink) -> Cut:
        """How a directed link of the active tree divides its part of the fabric."""
        return self.places.cut(link)

    def part(self, root: str) -> NodeSet:
        """The node ids of a part, by the name that `cut` gave it."""
        return self.places.behind(root)

    def access(self, node: int) -> DirectedLink | None:
        """The first link of all that a member sends; None: it has no known place, or its host no link."""
        host = self.hosts.get(node)
        switch = None if host is None else self._fabric.attachment(host)
        return None if host is None or switch is None else DirectedLink(host, switch)

    def less(self, taken_bps: Mapping[DirectedLink, int]) -> Self:
        """The same network with so much taken off the capacities of these links."""
        found = copy.copy(self)
        found._taken = taken_bps
        return found

    def differs(self, before: Network) -> Set[DirectedLink] | None:
        """The links whose capacities are others than in the network before; None: rates or paths may be others as well."""
        if not isinstance(before, FabricNetwork) or before.places is not self.places or before._moves != self._moves:
            return None
        return {link for link, _ in before._taken.items() ^ self._taken.items()}

    def path(self, source: int, destination: int) -> tuple[DirectedLink, ...]:
        """The links from one member to another along the active tree; empty when either has no known place."""
        try:
            return self._routes.path(self.hosts[source], self.hosts[destination])
        except KeyError:
            return ()

    def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        """The links between switches on the way from one host of the fabric to another; none where one is unknown, or nothing
        joins them."""
        try:
            return self._routes.path(source, destination)[1:-1]
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

    def row(self, link: DirectedLink) -> dict[str, Any]:
        """A directed link as the status shows it where hosts without an agent take nothing of it."""
        return capacity.row(link, self.capacity(link)) | {"unmanaged_bps": 0}

    def port(self, link: DirectedLink) -> str | None:
        """The name of the port that sends into a directed link, if it is known."""
        return self._fabric.port(link)

    def has(self, link: DirectedLink) -> bool:
        """Whether the fabric has a directed link."""
        return self._fabric.graph.has_edge(*link)

    def members(self) -> frozenset[str]:
        """The hosts of the fabric at which a member is."""
        return frozenset(self.places.members_at)

    def strangers(self) -> frozenset[str]:
        """The hosts of the fabric at which no member is."""
        return frozenset(self._fabric.hosts) - self.places.members_at.keys()

    def is_before(self, host: str, link: DirectedLink) -> bool:
        """Whether what a host sends beyond a directed link crosses that link."""
        try:
            return self._routes.path(host, link.target)[-1:] == (link,)
        except NoPathError:
            return False

    def _told(self, link: DirectedLink) -> Capacity:
        return Capacity(self._fabric.capacity_bps(link), self._sources.get(link, capacity.FABRIC_FILE))
