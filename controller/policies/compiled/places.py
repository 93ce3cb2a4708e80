"""Places of pairs in a core's network: the numbers of its links, and the links that each pair crosses."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import NamedTuple

import numpy as np

from controller.policies.base import Network
from controller.policies.compiled.library import ANY, FoundPlaces, at
from controller.policies.groups import Varied

MOST_BPS = 1 << 45
"""A rate that is larger counts as this much."""
PUT_AT_ONCE, FILLED_AT_ONCE = 256, 4
"""Places that a core gets while the lock is held once: those that were found before, and those that are found meanwhile."""
SHARED_MOST = 512
"""Places that are found by one call of `fill` where another thread calls the core: 5 ms."""


class Found(NamedTuple):
    """Places that were found in a network which is not in force yet. Links have numbers from 0 on."""

    links: dict[Hashable, int]
    """By name: a link's number."""
    nodes: array[int]
    destinations: array[int]
    rates: array[int]
    """Of the nodes, in bit/s."""
    capacities: array[int]
    """Of the links, in bit/s."""
    offsets: array[int]
    crossed: array[int]
    """Pair i crosses crossed[offsets[i] : offsets[i + 1]]."""


class Places:
    """The links of a core's network, by the names that the network has for them.

    A new network's places are found while the old one is in force (`find`), so that the lock is held only while they are `put`.

    Args:
        library: has PREFIX_link, PREFIX_take_unplaced, PREFIX_place, PREFIX_pairs and PREFIX_put.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, core: int) -> None:
        self.lock: AbstractContextManager[None] = nullcontext()
        """Held for each call of the core, or for several that belong together."""
        names = (f"{prefix}_{what}" for what in ("link", "take_unplaced", "place", "pairs", "put"))
        self._link, self._take, self._place, self._pairs, self._put = (getattr(library, name) for name in names)
        self._core = core
        self._most: int | None = None
        self._network: Network | None = None
        self.links: dict[Hashable, int] = {}
        """By name: a link's number."""
        self._node, self._destination = ctypes.c_uint32(), ctypes.c_uint32()

    # -- a new network ------------------------------------------------------------------------------------------------

    def pairs(self) -> tuple[list[int], list[int]]:
        """The nodes and destinations of the pairs that the core knows."""
        nodes = destinations = np.zeros(0, np.uint32)
        with self.lock:
            count = self._pairs(self._core, 0, None, None)
        while count > len(nodes):  # more may have come meanwhile
            nodes, destinations = np.zeros(2 * count, np.uint32), np.zeros(2 * count, np.uint32)
            with self.lock:
                count = self._pairs(self._core, len(nodes), at(nodes), at(destinations))
        return nodes[:count].tolist(), destinations[:count].tolist()

    def find(self, network: Network, links: dict[Hashable, int] | None = None) -> Found:
        """The places of all pairs in a network that is to begin.

        Args:
            links: the numbers that links keep; None: they are numbered anew.
        """
        numbers: dict[Hashable, int] = {} if links is None else links
        found = Found(numbers, array("I"), array("I"), array("q"), array("q"), array("I", [0]), array("I"))
        rates: dict[int, int] = {}
        for node, destination in zip(*self.pairs(), strict=True):
            if node not in rates:
                try:
                    rates[node] = min(MOST_BPS, network.node_rate_bps(node))
                except KeyError:
                    continue
            path = network.path(node, destination)
            if links is None:
                found.crossed.extend([numbers.setdefault(name, len(numbers)) for name in path])
            else:
                found.crossed.extend([self.number(name) for name in path])
            found.nodes.append(node)
            found.destinations.append(destination)
            found.rates.append(rates[node])
            found.offsets.append(len(found.crossed))
        if links is None:
            found.capacities.extend(min(MOST_BPS, network.capacity_bps(name)) for name in numbers)
        return found

    def recharged(self, network: Network) -> tuple[array[int], array[int]] | None:
        """The numbers and capacities of the links that carry more or less than before, where a network that is to begin differs
        in nothing else; None: rates or paths may be others as well."""
        before = self._network
        others = None if before is None or not isinstance(network, Varied) else network.differs(before)
        if others is None:
            return None
        links = [link for link in others if link in self.links]
        capacities = array("q", (min(MOST_BPS, network.capacity_bps(link)) for link in links))
        return array("I", (self.links[link] for link in links)), capacities

    def put_in_pieces(self, found: Found) -> int:
        """Gives the core, which has a new network, its links and the places of pairs; returns the number of the first link. The
        lock is held for one piece after the other. The caller calls `begin` without it when the core has settled."""
        first = 0
        for begin in range(0, max(1, len(found.nodes)), PUT_AT_ONCE):
            with self.lock:
                end = min(len(found.nodes), begin + PUT_AT_ONCE)
                first = self._put_some(found, begin, end, array("q") if begin else found.capacities, first)
        return first

    def _put_some(self, found: Found, begin: int, end: int, capacities: array[int], first: int) -> int:
        nodes, destinations, rates = (column[begin:end] for column in (found.nodes, found.destinations, found.rates))
        offsets = found.offsets[begin : end + 1]
        columns = nodes, destinations, offsets, found.crossed, rates, capacities
        told = FoundPlaces(*map(at, columns), len(nodes), len(capacities), first)
        return int(self._put(self._core, ctypes.byref(told)))

    def begin(self, network: Network, found: Found | None = None, first: int = 0) -> None:
        """Takes a new network, and gives places to the pairs that came since its places were found.

        Args:
            found: what the core was given; None: as before, for the links and paths are the same.
            first: the number of the first link.
        """
        self._network = network
        if found is not None and found.links is not self.links:
            self.links = {name: first + number for name, number in found.links.items()}
        self.fill()

    # -- pairs, one by one --------------------------------------------------------------------------------------------

    def number(self, name: Hashable) -> int:
        """The number of a link of which the capacity does not matter."""
        if (link := self.links.get(name)) is None:
            with self.lock:
                link = self.links[name] = self._link(self._core, 1)
        return link

    def share(self, lock: AbstractContextManager[None]) -> None:
        """Another thread calls the core from now on, and holds this lock meanwhile. It has `fill` called again while pairs are
        without place, so one call need not find the places of thousands."""
        self.lock, self._most = lock, SHARED_MOST

    def fill(self) -> None:
        """Gives the pairs that have none a place in the network, one by one; only some of them, where the core is shared."""
        for done in count(0, FILLED_AT_ONCE):
            with self.lock:
                if not all(self._fill_one() for _ in range(FILLED_AT_ONCE)):
                    return
            if self._most is not None and done >= self._most:
                return

    def _fill_one(self) -> bool:
        network, core = self._network, self._core
        pair = self._take(core, ctypes.byref(self._node), ctypes.byref(self._destination))
        if pair == ANY:
            return False
        assert network is not None, "only in a network a pair can be without place"
        try:
            rate_bps = min(MOST_BPS, network.node_rate_bps(self._node.value))
        except KeyError:
            return True
        path = array("I", map(self.link, network.path(self._node.value, self._destination.value)))
        self._place(core, pair, rate_bps, len(path), at(path))
        if path:
            self.learned(self._node.value, self._destination.value, path)
        return True

    def link(self, name: Hashable) -> int:
        """The number of a link of the network."""
        if (link := self.links.get(name)) is None:
            assert self._network is not None, "a link is one of a network"
            capacity_bps = min(MOST_BPS, self._network.capacity_bps(name))
            with self.lock:
                link = self.links[name] = self._link(self._core, capacity_bps)
        return link

    def learned(self, node: int, destination: int, links: array[int]) -> None:
        """Takes the path of a pair that has its place now."""
        return
