"""Places in the network by groups of nodes: the paths of one switch's nodes differ in the first and the last link alone."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Hashable

from controller.policies.base import Network
from controller.policies.compiled.library import at
from controller.policies.compiled.places import MOST_BPS, Found, Places


class Spots(Places):
    """Tells a core, beside the place of each pair that it asks for, where both nodes are, and the links between their switches.
    The core places the other pairs of these switches by itself. This holds because paths are those of a tree.

    Args:
        library: has PREFIX_spot, PREFIX_route and PREFIX_forget_spots, beside what `Places` needs.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, core: int) -> None:
        super().__init__(library, prefix, core)
        self._spot, self._route = getattr(library, f"{prefix}_spot"), getattr(library, f"{prefix}_route")
        self._forget_spots = getattr(library, f"{prefix}_forget_spots")
        self._forget()

    def _forget(self) -> None:
        self._root: int | None = None
        """A node: the way to it tells at which switch another one is."""
        self._switches: dict[tuple[Hashable, ...], int] = {}
        self._switch_of: dict[int, int] = {}
        self._routes: set[tuple[int, int]] = set()

    def begin(self, network: Network, found: Found | None = None, first: int = 0) -> None:
        """Takes a new network; without `found` the places that were told are as before."""
        if found is not None:
            self._forget()
        super().begin(network, found, first)

    def learned(self, node: int, destination: int, links: array[int]) -> None:
        """Takes the path of a pair, which is not empty."""
        if self._root is None:
            self._root = node
        if self._known(node, destination) and self._known(destination, node):
            route = self._switch_of[node], self._switch_of[destination]
            if route not in self._routes:
                self._routes.add(route)
                middle = links[1:-1]
                self._route(self._core, *route, len(middle), at(middle))

    def left(self, node: int) -> None:
        """Forgets where a node is that left, as the core does: it may come back elsewhere."""
        self._switch_of.pop(node, None)
        if node == self._root:
            with self.lock:
                self._forget_spots(self._core)
            self._forget()

    def _known(self, node: int, other: int) -> bool:
        """Whether the core knows where a node is; it is told if need be."""
        if node in self._switch_of:
            return True
        network, root = self._network, self._root
        assert network is not None and root is not None, "a path is learned in a network"
        towards = other if node == root else root
        out, back = network.path(node, towards), network.path(towards, node)
        if len(out) < 2 or len(back) < 2:
            return False
        try:
            rate_bps = min(MOST_BPS, network.node_rate_bps(node))
        except KeyError:
            return False
        switch = self._switches.setdefault(() if node == root else out[1:-1], len(self._switches))
        self._switch_of[node] = switch
        self._spot(self._core, node, switch, self.link(out[0]), self.link(back[-1]), rate_bps)
        return True
