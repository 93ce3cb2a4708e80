"""The ways between hosts in the tree in force, by the names that applications give them. Pure.

A host is named as its member, or as in the fabric: a fabric file, and LLDP, may know it only by the port behind which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from controller.members.registry import Member, Members
from topology.fabric import DirectedLink

USUAL_BPS = 1_000_000_000
"""A host's rate while there is no member."""
MOST_NAMES = 50_000
"""That are remembered: applications may name hosts that there are not."""


class Network(Protocol):
    """Links and capacities of the fabric, as controller/scheduling/network.py has them."""

    hosts: dict[int, str]
    """The fabric's names of members' hosts; of another tree another object."""

    def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        """The links between switches on the way between two hosts."""

    def capacity_bps(self, link: DirectedLink) -> int:
        """What a link carries."""


class TreeWays:
    """Implements `controller.coflows.links.Ways`; `network` returns the network in force, or None."""

    def __init__(self, members: Members, network: Callable[[], Network | None]) -> None:
        self._members = members
        self._in_force = network
        self._network: Network | None = None
        self._seen: tuple[int, dict[int, str] | None] = (0, None)
        """The version of the members, and the network's `hosts`, when `look` found them."""
        self._named: dict[str, Member] = {}
        self._fastest_bps = USUAL_BPS
        self._members_at: dict[str, str] = {}
        """By the fabric's name of a host: its member's name."""
        self._places: dict[str, str] = {}
        """The fabric's name of each host that was asked for."""
        self.changes = 0
        """How often members or the tree were others at a look."""

    def look(self) -> bool:
        """Takes the members and the network as they are now; returns whether a way that was asked for may be another."""
        self._network = network = self._in_force()
        before, self._seen = self._seen, (self._members.version, None if network is None else network.hosts)
        if before[0] != self._seen[0]:
            self._named = {member.name: member for member in self._members.present()}
            self._fastest_bps = max((member.rate_bps for member in self._named.values()), default=USUAL_BPS)
        elif before[1] is self._seen[1]:
            return False
        self.changes += 1
        self._members_at = {self._place(name): name for name in self._named}
        if before[1] is self._seen[1] and all(self._place(name) == place for name, place in self._places.items()):
            return False
        self._places.clear()
        return True

    def called(self, host: str) -> str:
        """A host by the name of its member, as reports have it, whichever of its names is given; itself if it has none."""
        return host if host in self._named else self._members_at.get(host, host)

    def host_bps(self, host: str) -> int:
        """The rate of a member; of another host the fastest one's."""
        return self._named[host].rate_bps if host in self._named else self._fastest_bps

    def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        """The links between switches from one host to another; none where that is not known."""
        if self._network is None:
            return ()
        if len(self._places) >= MOST_NAMES:
            self._places.clear()  # so a host among them that gets a place is not seen before the next change of the tree
        places = [self._places.setdefault(name, self._place(name)) for name in (source, destination)]
        return self._network.inner_links(*places)

    def link_bps(self, link: DirectedLink) -> int:
        """What a link between switches carries."""
        assert self._network is not None
        return self._network.capacity_bps(link)

    def _place(self, name: str) -> str:
        """A host by the fabric's name, whichever of its names is given; itself if the fabric does not know it."""
        member = self._named.get(name)
        return name if member is None or self._network is None else self._network.hosts.get(member.node, name)
