"""The leader's groups as all hosts of a swarm share them, and the pairs that are regulated by them. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.bodies.groups import GroupRow, GroupsChange, Way
from protocol.paging import Reassembler


class SharedGroups:
    """One copy for all hosts; which host has which version, the library keeps."""

    def __init__(self) -> None:
        self.version = -1
        """-1: none have come."""
        self.whole = False
        """Whether the last page was the last one missing of its message."""
        self._pages: Reassembler[GroupsChange] = Reassembler()
        self._rows: dict[tuple[int, int], list[GroupRow]] = {}
        """By link, and by part where the link is 0."""
        self._changed: set[tuple[int, int]] = set()
        """Keys of rows that are other than when the pairs were found last."""
        self._pairs: _Pairs | None = None
        self._links: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """Of each pair: how many contended links it crosses."""
        self._crossing: dict[tuple[int, int], NDArray[np.int64]] = {}
        """The pairs that cross each contended link."""

    def new_leader(self) -> None:
        """Another leader counts anew."""
        self.version = -1
        self._pages.clear()
        self._rows.clear()
        self._pairs = None

    def take(self, message: GroupsChange) -> bool:
        """Takes a page; whether the groups are of another version now."""
        pages = self._pages.add(message)
        self.whole = pages is not None
        if pages is None or message.version <= self.version:
            return False
        if message.base == 0:
            self._rows.clear()
            self._pairs = None
        elif message.base > self.version:
            return False
        self.version = message.version
        fresh: dict[tuple[int, int], list[GroupRow]] = {}
        for row in (row for page in pages for row in page.rows):
            fresh.setdefault((row.link, 0 if row.link else row.part), []).append(row)
        self._changed |= fresh.keys()
        for key, rows in fresh.items():
            if not key[0]:
                self._pairs = None
            if rows[0].way is Way.NONE:
                self._rows.pop(key, None)
            else:
                self._rows[key] = rows
        return True

    def regulated(self, nodes: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which pairs need permission; a node of 0 is none. While the nodes and the parts of the fabric are the same, only
        links that changed since the last call are looked at: all 5,000 that were contended took 0.2 s."""
        if self._pairs is None or not self._pairs.are(nodes, destinations):
            self._pairs, self._crossing = _Pairs(nodes, destinations), {}
            self._links = np.zeros(len(nodes), dtype=np.int32)
            self._changed = set(self._rows)
        parts: dict[int, NDArray[np.bool_]] = {}
        for key in self._changed:
            if (before := self._crossing.pop(key, None)) is not None:
                self._links[before] -= 1
            if key[0] and (rows := self._rows.get(key)):
                part = rows[0].part
                if part not in parts:
                    parts[part] = _side(self._rows.get((0, part), []), self._pairs.size)
                found = self._crossing[key] = self._pairs.across(rows, parts[part])
                self._links[found] += 1
        self._changed.clear()
        return self._links > 0


class _Pairs:
    """Pairs of nodes, found by the intervals in which their nodes or destinations are."""

    def __init__(self, nodes: NDArray[np.int64], destinations: NDArray[np.int64]) -> None:
        self._nodes, self._destinations = nodes, destinations
        self._by_node, self._by_destination = np.argsort(nodes, kind="stable"), np.argsort(destinations, kind="stable")
        self._known = (nodes > 0) & (destinations > 0)
        self.size = 1 + int(max(nodes.max(initial=0), destinations.max(initial=0)))
        """More than each node."""

    def are(self, nodes: NDArray[np.int64], destinations: NDArray[np.int64]) -> bool:
        """Whether they are of these nodes."""
        return np.array_equal(self._nodes, nodes) and np.array_equal(self._destinations, destinations)

    def across(self, rows: list[GroupRow], part: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The numbers of the pairs that cross a link of this part, each once."""
        if rows[0].way is Way.ALL:
            return np.flatnonzero(part[self._nodes] & part[self._destinations] & self._known)
        near, order, far = self._nodes, self._by_node, self._destinations
        if rows[0].way is Way.BEHIND:
            near, order, far = far, self._by_destination, near
        there = part & ~_side(rows, self.size)
        intervals: list[NDArray[np.int64]] = [np.searchsorted(near, (row.first, row.last + 1), sorter=order) for row in rows]
        beside: NDArray[np.int64] = np.unique(np.concatenate([order[first:last] for first, last in intervals]))
        crosses: NDArray[np.bool_] = there[far[beside]] & self._known[beside]
        return beside[crosses]


def _side(rows: list[GroupRow], size: int) -> NDArray[np.bool_]:
    side = np.zeros(size, dtype=bool)
    for row in rows:
        side[row.first : row.last + 1] = True
    return side
