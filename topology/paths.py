"""Paths on the active spanning tree.

A path is computed on demand, by walking from both ends towards the root until the walks meet. Its cost is
the depth of the tree, not the size of the fabric, so most of the 25 million pairs of 5,000 hosts cost
nothing. Computed paths are cached, up to a bound.
"""

from __future__ import annotations

from itertools import pairwise

from topology.fabric import DirectedLink, Fabric
from topology.spanning_tree import Tree

MAX_CACHED_PATHS = 100_000


class NoPathError(KeyError):
    """The tree does not connect these two nodes, or one of them is unknown."""


class Routes:
    """The paths of one fabric on one tree. Between two nodes of a tree there is exactly one."""

    def __init__(self, fabric: Fabric, tree: Tree) -> None:
        self.fabric = fabric
        self.tree = tree
        self._paths: dict[tuple[str, str], tuple[DirectedLink, ...]] = {}
        self._ways_up: dict[str, tuple[str, ...]] = {}  # switch -> itself and all above, up to its root

    def path(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        """The directed links from one node (host or switch) to another, in order; empty from a node to itself.

        Raises:
            NoPathError: the nodes are not connected.
        """
        pair = source, destination
        links = self._paths.get(pair)
        if links is None:
            links = tuple(DirectedLink(*hop) for hop in pairwise(self._nodes(source, destination)))
            if len(self._paths) >= MAX_CACHED_PATHS:
                self._paths.clear()
            self._paths[pair] = links
        return links

    def links(self) -> frozenset[DirectedLink]:
        """Both directions of every link that forwards."""
        return frozenset(direction for link in self.tree.forwarding for direction in link.directions)

    def capacity_bps(self, link: DirectedLink) -> int:
        """A directed link's capacity."""
        return self.fabric.capacity_bps(link)

    def _nodes(self, source: str, destination: str) -> list[str]:
        up, down = self._way_up(source), self._way_up(destination)
        if up[-1] != down[-1]:
            raise NoPathError(f"no links that forward join {source} and {destination}")
        shared = 1
        while shared < min(len(up), len(down)) and up[-shared - 1] == down[-shared - 1]:
            shared += 1
        return [*up[: len(up) - shared + 1], *reversed(down[: len(down) - shared])]

    def _way_up(self, node: str) -> tuple[str, ...]:
        if node not in self.fabric:
            raise NoPathError(f"the fabric has no node named {node}")
        if node in self._ways_up:
            return self._ways_up[node]
        way = [node]
        while (above := self.tree.parent.get(way[-1])) is not None:
            way.append(above)
        if not self.fabric.is_host(node):
            self._ways_up[node] = tuple(way)
        return tuple(way)
