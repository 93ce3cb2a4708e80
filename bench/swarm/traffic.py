"""Who sends to whom in a swarm, and over which links: the tree as the link model takes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.computing.scale_network import RACK, RACKS_PER_ROW, SHAPES, Pairs, half_to_half
from topology.fabric import DirectedLink, Fabric
from topology.paths import Routes
from topology.spanning_tree import Tree, compute

ROW = RACK * RACKS_PER_ROW


@dataclass(frozen=True)
class World:
    """A fabric, its tree, and the paths of the pairs that send there."""

    fabric: Fabric
    routes: Routes
    names: tuple[str, ...]
    """Of the hosts, by number."""
    pairs: Pairs
    links: tuple[DirectedLink, ...]
    capacities_bps: NDArray[np.float64]
    """Of each link."""
    paths: NDArray[np.int32]
    """(pairs, levels): the number of a link, or -1."""

    # -- the policies' `Network`, with host numbers as nodes: what a linear programme could carry -------------------------

    def path(self, source: int, destination: int) -> tuple[DirectedLink, ...]:
        """The links from one host to another."""
        return self.routes.path(self.names[source], self.names[destination])

    def capacity_bps(self, link: DirectedLink) -> int:
        """A link's capacity."""
        return self.fabric.capacity_bps(link)

    def node_rate_bps(self, node: int) -> int:
        """A host sends at its link's rate."""
        return self.fabric.capacity_bps(DirectedLink(self.names[node], str(self.fabric.attachment(self.names[node]))))


def make(shape: str, hosts: int, destinations: int = 1, seed: int = 1) -> World:
    """A world of so many hosts.

    With one destination in rows, the machines of a row send to those of another row, half of the rows to the other half, as in
    XCo's Figure 27. Otherwise the first half of the hosts sends to the other half, chosen at random.

    Raises ValueError: there are no such pairs.
    """
    fabric = SHAPES[shape](hosts)
    if shape == "rows" and destinations == 1 and hosts % (2 * ROW) == 0:
        senders = np.arange(hosts // 2)
        pairs = Pairs(senders, senders + hosts // 2)
    else:
        pairs = half_to_half(hosts, destinations, seed)
    return world(fabric, hosts, pairs)


def world(fabric: Fabric, hosts: int, pairs: Pairs) -> World:
    """The first `hosts` hosts of a fabric, and these pairs of them."""
    tree = compute(fabric)
    routes, names = Routes(fabric, tree), tuple(fabric.hosts[:hosts])
    paths = [routes.path(names[a], names[b]) for a, b in zip(pairs.nodes.tolist(), pairs.destinations.tolist(), strict=True)]
    links = tuple(dict.fromkeys(link for path in paths for link in path))
    number = {link: at for at, link in enumerate(links)}
    depths = {link: _depth(tree, link) for link in links}
    deepest = max((abs(depth) for depth in depths.values()), default=0)
    table = np.full((len(paths), 2 * deepest), -1, dtype=np.int32)
    for flow, path in enumerate(paths):
        for link in path:
            depth = depths[link]  # the ways up from the bottom are negative, the ways down positive
            table[flow, depth + deepest if depth < 0 else depth + deepest - 1] = number[link]
    capacities = np.array([fabric.capacity_bps(link) for link in links], dtype=np.float64)
    return World(fabric, routes, names, pairs, links, capacities, table)


def _depth(tree: Tree, link: DirectedLink) -> int:
    """How far below the root a link's lower end is; negative for the way up."""
    up = tree.parent.get(link.source) == link.target
    node, depth = (link.source if up else link.target), 0
    while (above := tree.parent.get(node)) is not None:
        node, depth = above, depth + 1
    return -depth if up else depth
