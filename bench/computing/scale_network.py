"""The fabrics of `baton bench scale` as policies see them, and the pairs that send there. Pure.

A fabric is one of topology/shapes.py with racks of 20 hosts; nodes are its first hosts, numbered from 0 in their order. So the
hosts of a rack, and the racks of a row, have numbers that follow one another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topology import shapes
from topology.fabric import DirectedLink, Fabric
from topology.paths import Routes
from topology.spanning_tree import compute

RACK, RACKS_PER_ROW, SPINES = 20, 10, 2


def _up(count: int, size: int) -> int:
    return -(-count // size)


SHAPES: dict[str, Callable[[int], Fabric]] = {
    "racks": lambda hosts: shapes.xco_racks(_up(hosts, RACK), RACK),
    "rows": lambda hosts: shapes.xco_rows(_up(hosts, RACK * RACKS_PER_ROW), RACKS_PER_ROW, RACK),
    "leaf-spine": lambda hosts: shapes.leaf_spine(_up(hosts, RACK), SPINES, RACK),
    "star": lambda hosts: shapes.star(hosts, 10 * shapes.GIGABIT),
}
"""The fabrics by name, each with at least so many hosts. The star is that of `--matching`."""


class ScaleNetwork:
    """The first `hosts` hosts of a fabric. Implements the policies' `Network`."""

    def __init__(self, fabric: Fabric, hosts: int) -> None:
        self._fabric = fabric
        self._routes = Routes(fabric, compute(fabric))
        self._names = tuple(fabric.hosts[:hosts])
        if len(self._names) < hosts:
            raise ValueError(f"the fabric has {len(self._names)} hosts, not {hosts}")

    def path(self, source: int, destination: int) -> tuple[DirectedLink, ...]:
        """The links from one node to another."""
        return self._routes.path(self._names[source], self._names[destination])

    def capacity_bps(self, link: DirectedLink) -> int:
        """A link's capacity."""
        return self._fabric.capacity_bps(link)

    def node_rate_bps(self, node: int) -> int:
        """A node sends at its own link's rate."""
        name = self._names[node]
        return self._fabric.capacity_bps((name, str(self._fabric.attachment(name))))


class Pairs(NamedTuple):
    """Pairs that send, sorted by node and destination; two arrays of the same length."""

    nodes: NDArray[np.int64]
    destinations: NDArray[np.int64]

    def __len__(self) -> int:  # the number of pairs, not of fields
        return len(self.nodes)


def half_to_half(hosts: int, destinations: int, seed: int) -> Pairs:
    """Every host of the first half sends to `destinations` hosts of the other half; each of those has as many senders.

    Raises ValueError: the other half has fewer hosts.
    """
    senders = hosts // 2
    if not 0 < destinations <= senders:
        raise ValueError(f"{destinations} destinations are too many for {hosts} hosts: write 1 to {senders} as --destinations")
    dice = np.random.default_rng(seed)
    places = np.arange(senders)[:, None]
    shifts = dice.choice(senders, size=destinations, replace=False)[None, :]
    others = senders + dice.permutation(senders)[(places + shifts) % senders]
    return Pairs(np.repeat(np.arange(senders), destinations), np.sort(others, axis=1).ravel())


def all_to_all(hosts: int) -> Pairs:
    """Every host and every other."""
    nodes, destinations = np.nonzero(~np.eye(hosts, dtype=bool))
    return Pairs(nodes, destinations)


def shared_links(network: ScaleNetwork, pairs: Pairs) -> frozenset[DirectedLink]:
    """The links that pairs of several hosts cross: where hosts are saturated, these are contended."""
    first: dict[DirectedLink, int] = {}
    shared: set[DirectedLink] = set()
    for node, destination in zip(pairs.nodes.tolist(), pairs.destinations.tolist(), strict=True):
        shared.update(link for link in network.path(node, destination) if first.setdefault(link, node) != node)
    return frozenset(shared)
