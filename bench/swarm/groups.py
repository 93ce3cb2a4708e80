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

    def new_leader(self) -> None:
        """Another leader counts anew."""
        self.version = -1
        self._pages.clear()
        self._rows.clear()

    def take(self, message: GroupsChange) -> bool:
        """Takes a page; whether the groups are of another version now."""
        pages = self._pages.add(message)
        self.whole = pages is not None
        if pages is None or message.version <= self.version:
            return False
        if message.base == 0:
            self._rows.clear()
        elif message.base > self.version:
            return False
        self.version = message.version
        fresh: dict[tuple[int, int], list[GroupRow]] = {}
        for row in (row for page in pages for row in page.rows):
            fresh.setdefault((row.link, 0 if row.link else row.part), []).append(row)
        for key, rows in fresh.items():
            if rows[0].way is Way.NONE:
                self._rows.pop(key, None)
            else:
                self._rows[key] = rows
        return True

    def regulated(self, nodes: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which pairs need permission; a node of 0 is none."""
        size = 1 + int(max(nodes.max(initial=0), destinations.max(initial=0)))
        parts = {row.part: _side(rows, size) for (link, _), rows in self._rows.items() if not link for row in rows}
        found = np.zeros(len(nodes), dtype=bool)
        known = (nodes > 0) & (destinations > 0)
        for (link, _), rows in self._rows.items():
            if not link or (part := parts.get(rows[0].part)) is None:
                continue
            if rows[0].way is Way.ALL:
                found |= part[nodes] & part[destinations]
                continue
            side = _side(rows, size)
            before, behind = (side, part & ~side) if rows[0].way is Way.BEFORE else (part & ~side, side)
            found |= before[nodes] & behind[destinations]
        return found & known


def _side(rows: list[GroupRow], size: int) -> NDArray[np.bool_]:
    side = np.zeros(size, dtype=bool)
    for row in rows:
        side[row.first : row.last + 1] = True
    return side
