"""A large fabric as groups that open: each switch with what is below it, by the fabric's real tiers. Pure.

A group is a switch below the highest tier: it holds the hosts at the switch and the groups of the switches below it (a row its
racks, a rack its hosts). The switch above a switch is the neighbour in a higher tier to which the active tree leads, or, where
it leads to none, the first one by name. What a closed group shows is the sum over all that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from topology.fabric import Fabric, natural
from topology.spanning_tree import Tree
from webui.state.layout import levels_of


class Group(NamedTuple):
    """A switch: the one above it ("" for the highest), its tier (1: racks), and what is below it."""

    above: str
    tier: int
    below: tuple[str, ...]
    """The switches whose group this one holds."""
    own: tuple[str, ...]
    """The hosts at this switch."""


class Groups:
    """The groups of one fabric on one tree."""

    def __init__(self, fabric: Fabric, tree: Tree) -> None:
        self._parent = tree.parent
        self.fabric = fabric
        self.home = {host: at for host in fabric.hosts if (at := fabric.attachment(host)) is not None}
        tier = {switch: number for number, level in enumerate(levels_of(fabric)) for switch in level}
        forwarding = tree.forwarding
        above: dict[str, str] = {}
        for switch in fabric.switches:
            higher = [one for one in fabric.neighbours(switch) if one in tier and tier[one] > tier[switch]]
            above[switch] = min(
                higher, key=lambda one: ((min(switch, one), max(switch, one)) not in forwarding, natural(one)), default=""
            )
        below: dict[str, list[str]] = {switch: [] for switch in fabric.switches}
        own: dict[str, list[str]] = {switch: [] for switch in fabric.switches}
        for switch, other in above.items():
            if other:
                below[other].append(switch)
        for host, switch in self.home.items():
            own[switch].append(host)
        self.of: dict[str, Group] = {
            switch: Group(above[switch], tier[switch], tuple(sorted(below[switch], key=natural)), tuple(own[switch]))
            for switch in fabric.switches
        }
        self.upwards: tuple[str, ...] = tuple(sorted(fabric.switches, key=lambda switch: (tier[switch], natural(switch))))
        """All switches, each before the one above it."""
        self._meets: dict[tuple[str, str], str | None] = {}
        self._ways: dict[str, list[str]] = {}

    def shape(self) -> list[dict[str, Any]]:
        """The groups as the dashboard draws them: from the highest tier down, with how much each holds."""
        hosts = self.summed({switch: len(group.own) for switch, group in self.of.items()})
        switches = self.summed(dict.fromkeys(self.of, 1))
        return [
            {
                "id": switch,
                "above": self.of[switch].above,
                "tier": self.of[switch].tier,
                "hosts": hosts[switch],
                "own": len(self.of[switch].own),
                "switches": switches[switch],
                "rate_bps": self.uplink_bps(switch),
            }
            for switch in sorted(self.of, key=lambda switch: (-self.of[switch].tier, natural(switch)))
        ]

    def uplink_bps(self, switch: str) -> int:
        """The capacity of a group's link to the switch above, bit/s; 0 for one of the highest tier."""
        above = self.of[switch].above
        return self.fabric.capacity_bps((switch, above)) if above else 0

    def summed(self, own: Mapping[str, int]) -> dict[str, int]:
        """For each switch the sum of `own` over it and all below it."""
        total = dict(own)
        for switch in self.upwards:
            if above := self.of[switch].above:
                total[above] = total.get(above, 0) + total.get(switch, 0)
        return total

    def way(self, node: str) -> list[str]:
        """The groups to open so that a node is seen, from the highest down; empty for one that is not in the fabric."""
        at = self.home.get(node, node if node in self.of else "")
        found = []
        while at:
            found.append(at)
            at = self.of[at].above
        return found[::-1]

    # -- paths on the tree ------------------------------------------------------------------------------------------------

    def meeting(self, one: str, other: str) -> str | None:
        """The highest node on the tree's path between two switches; None if the tree does not join them."""
        found = self._meets.get((one, other), "")
        if found == "":
            mine = set(self._way(one))
            found = next((node for node in self._way(other) if node in mine), None)
            self._meets[one, other] = found
        return found

    def _way(self, switch: str) -> list[str]:
        """The switch, and all above it on the tree."""
        found = self._ways.get(switch)
        if found is None:
            found = [switch]
            while (above := self._parent.get(found[-1])) is not None:
                found.append(above)
            self._ways[switch] = found
        return found

    def side(self, a: str, b: str) -> frozenset[str]:
        """Of a link of the tree, the switches and hosts that are cut off from the tree's root without it."""
        low = a if self._parent.get(a) == b else b
        if low in self.home:
            return frozenset((low,))
        held = {switch for switch in self.of if low in self._way(switch)}
        return frozenset(chain(held, (host for host, at in self.home.items() if at in held)))


class Crossed:
    """Tells which pairs of hosts have a path across one of some directed links: counts from the tree's root to every node."""

    def __init__(self, groups: Groups, parent: Mapping[str, str], links: Iterable[Sequence[str]]) -> None:
        self._groups, self._parent = groups, parent
        marked = {tuple(link) for link in links}
        self._any = bool(marked)
        self._up: dict[str, int] = {}
        self._down: dict[str, int] = {}
        self._marked = marked

    def crosses(self, source: str, destination: str) -> bool:
        """Whether the path from one host to another crosses one of the links; False if there is no path."""
        home = self._groups.home
        if not self._any or source not in home or destination not in home:
            return False
        top = self._groups.meeting(home[source], home[destination])
        if top is None:
            return False
        return self._count(source)[0] > self._count(top)[0] or self._count(destination)[1] > self._count(top)[1]

    def _count(self, node: str) -> tuple[int, int]:
        if node not in self._up:
            above = self._parent.get(node)
            up, down = self._count(above) if above is not None else (0, 0)
            self._up[node] = up + ((node, above) in self._marked)
            self._down[node] = down + ((above, node) in self._marked)
        return self._up[node], self._down[node]
