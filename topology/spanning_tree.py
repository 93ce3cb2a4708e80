"""The active spanning tree of a fabric: the links that forward, and those that are blocked.

`compute` gives the tree to which IEEE 802.1D-2004 (clause 17) converges, if both directions of a link have
the same cost: the bridge with the lowest id is the root; each bridge forwards towards it along the cheapest
path, where a link costs 20 Tb/s divided by its capacity (table 17-3); ties go to the neighbour with the
lower id. A bridge's id is its priority, then its datapath id, then its name. The result depends on the
fabric's content alone, not on the order in which it was built.

`Tree.from_blocked` makes the tree that switches which Baton does not control have converged to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from topology.fabric import Fabric, Link, natural
from topology.pieces import PIECE, Pieces, finished
from topology.problems import FabricError, Problem

COST_NUMERATOR_BPS = 20 * 10**12  # IEEE 802.1D-2004 table 17-3: a 20 Tb/s link costs 1
MAX_COST = 200_000_000


@dataclass(frozen=True, slots=True)
class Tree:
    """A forest over a fabric: one tree for each connected component, with hosts as leaves.

    `blocked` holds every other link of the fabric, redundant or down. `parent` maps each node to the next
    one towards its root; a root has none.
    """

    forwarding: frozenset[Link]
    blocked: frozenset[Link]
    parent: Mapping[str, str] = field(compare=False, repr=False)

    @classmethod
    def from_blocked(cls, fabric: Fabric, blocked: Iterable[Sequence[str]]) -> Tree:
        """The tree that remains when these links (pairs of names, in either order) don't forward.

        Links that are not in the fabric are ignored.

        Raises:
            FabricError: the remaining links have a loop (while switches converge, it may seem so for an
                instant); names the links that would have to be blocked, too.
        """
        return finished(cls.reading(fabric, blocked))

    @classmethod
    def reading(cls, fabric: Fabric, blocked: Iterable[Sequence[str]]) -> Pieces[Tree]:
        """The same a piece at a time."""
        blocked = list(blocked)
        tree = yield from computing(fabric, blocked)
        if extra := tree.blocked - _links(blocked):
            shown = ", ".join(f"{a} - {b}" for a, b in sorted(extra))
            text = f"the links that forward make a loop; block {shown} too, or read again"
            raise FabricError(Problem("blocked", text))
        return tree


def compute(fabric: Fabric, down_links: Iterable[Sequence[str]] = ()) -> Tree:
    """The spanning tree of a fabric without `down_links` (pairs of names in either order)."""
    return finished(computing(fabric, down_links))


def computing(fabric: Fabric, down_links: Iterable[Sequence[str]] = ()) -> Pieces[Tree]:
    """The same a piece at a time."""
    down = _links(down_links)
    bridges: nx.Graph[str] = nx.Graph()
    bridges.add_nodes_from(fabric.switches)
    parent: dict[str, str] = {}
    for at, link in enumerate(fabric.links, 1):
        if not at % (2 * PIECE):
            yield
        if link in down:
            continue
        if fabric.is_host(link.a):
            parent[link.a] = link.b
        elif fabric.is_host(link.b):
            parent[link.b] = link.a
        else:
            bridges.add_edge(*link, weight=_cost(fabric, link))
    bridge_id = {name: _bridge_id(fabric, name) for name in fabric.switches}
    for part in nx.connected_components(bridges):
        root = min(part, key=bridge_id.__getitem__)
        distance = nx.single_source_dijkstra_path_length(bridges, root)
        yield
        for at, bridge in enumerate(part - {root}, 1):
            if not at % PIECE:
                yield
            near = bridges[bridge]
            parent[bridge] = min(near, key=lambda one: (distance[one] + near[one]["weight"], bridge_id[one]))
    forwarding: set[Link] = set()
    for at, (child, above) in enumerate(parent.items(), 1):
        forwarding.add(Link.between(child, above))
        if not at % (4 * PIECE):
            yield
    blocked: set[Link] = set()
    for at, link in enumerate(fabric.links, 1):
        if link not in forwarding:
            blocked.add(link)
        if not at % (16 * PIECE):
            yield
    return Tree(frozenset(forwarding), frozenset(blocked), parent)


def _links(pairs: Iterable[Sequence[str]]) -> frozenset[Link]:
    return frozenset(Link.between(one, other) for one, other in pairs)


def _cost(fabric: Fabric, link: Link) -> int:
    slower_bps = min(fabric.capacity_bps(direction) for direction in link.directions)
    return min(MAX_COST, max(1, COST_NUMERATOR_BPS // slower_bps))


def _bridge_id(fabric: Fabric, name: str) -> tuple[int, int, tuple[list[tuple[int, str]], str]]:
    switch = fabric.switch(name)
    return switch.priority, 2**64 if switch.dpid is None else switch.dpid, natural(name)
