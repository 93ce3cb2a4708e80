"""The destinations for which this host needs permission, from the groups that the leader tells all. Pure.

A message names the links that became contended or were released, and taking it costs as much as it names. Nothing is worked out
for all destinations: whether one needs permission is found when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.bodies.groups import GroupRow, GroupsChange, Way
from protocol.bodies.nodes import NOBODY, NodeSet
from protocol.paging import Reassembler

SMALL = 64
"""The nodes of a group of so many are counted one by one; larger groups are few."""


class GroupsCopy:
    """A host's copy of the leader's groups. `in` says whether large flows to a node need permission."""

    def __init__(self) -> None:
        self.version = -1
        """Of the leader's groups; -1: none have come."""
        self._node = 0
        self._pages: Reassembler[GroupsChange] = Reassembler()
        self._parts: dict[int, NodeSet] = {}
        self._links: dict[int, tuple[int, Way, NodeSet]] = {}
        """By link: part, way and the nodes of that side."""
        self._out: set[int] = set()
        """The links that lead away from this host, to all nodes of the part that are not on its side."""
        self._counts: dict[int, int] = {}
        """By node: how many links lead to it as one of a small group."""
        self._counted: set[int] = set()
        """These links."""
        self._large: set[int] = set()
        """The links that lead to large groups of others."""

    def new_leader(self) -> None:
        """Another leader counts versions and links anew: nothing is regulated before it says so."""
        self.version = -1
        self._pages.clear()
        self._forget()

    def set_node(self, node: int) -> None:
        """Takes this host's own node id."""
        if node != self._node:
            links = list(self._links.items())
            for link, _ in links:
                self._set(link, None)
            self._node = node
            for link, side in links:
                self._set(link, side)

    def take(self, message: GroupsChange) -> bool:
        """Takes a page; returns whether the groups are of another version now. A change after our version is left out."""
        pages = self._pages.add(message)
        if pages is None or message.version <= self.version:
            return False
        if message.base == 0:
            self._forget()
        elif message.base > self.version:
            return False
        self.version = message.version
        self._apply(row for page in pages for row in page.rows)
        return True

    def __contains__(self, node: object) -> bool:
        if node == self._node or not isinstance(node, int):
            return False
        if node in self._counts or any(node in self._links[link][2] for link in self._large):
            return True
        return any(self._leads_out(self._links[link], node) for link in self._out)

    def __bool__(self) -> bool:
        return bool(self._links)

    def _leads_out(self, side: tuple[int, Way, NodeSet], node: int) -> bool:
        part, way, nodes = side
        return node in self._parts.get(part, NOBODY) and (way is Way.ALL or node not in nodes)

    def _apply(self, rows: Iterable[GroupRow]) -> None:
        parts: dict[int, list[tuple[int, int]]] = {}
        links: dict[int, tuple[int, Way, list[tuple[int, int]]]] = {}
        for row in rows:
            if row.way is Way.PART:
                parts.setdefault(row.part, []).append((row.first, row.last))
            else:
                links.setdefault(row.link, (row.part, row.way, []))[2].append((row.first, row.last))
        mine = {part for part, nodes in self._parts.items() if self._node in nodes}
        for part, intervals in parts.items():
            self._parts[part] = NodeSet.of(intervals)
        changed = {part for part in parts if (part in mine) != (self._node in self._parts[part])}
        for link, side in [(link, side) for link, side in self._links.items() if side[0] in changed and link not in links]:
            self._set(link, side)
        for link, (part, way, intervals) in links.items():
            self._set(link, None if way is Way.NONE else (part, way, NodeSet.of(intervals)))

    def _set(self, link: int, side: tuple[int, Way, NodeSet] | None) -> None:
        """Replaces what is known of a link."""
        before = self._links.pop(link, None)
        self._out.discard(link)
        if link in self._large:
            self._large.discard(link)
        elif before is not None and link in self._counted:
            self._counted.discard(link)
            for node in before[2]:
                self._counts[node] -= 1
                if not self._counts[node]:
                    del self._counts[node]
        if side is None:
            return
        part, way, nodes = self._links[link] = side
        if self._node not in self._parts.get(part, NOBODY):
            return
        here = self._node in nodes
        if way is Way.ALL or (way is Way.BEFORE and here):
            self._out.add(link)
        elif way is Way.BEHIND and not here:
            if len(nodes) > SMALL:
                self._large.add(link)
            else:
                self._counted.add(link)
                for node in nodes:
                    self._counts[node] = self._counts.get(node, 0) + 1

    def _forget(self) -> None:
        self._parts.clear()
        self._links.clear()
        self._out.clear()
        self._counts.clear()
        self._large.clear()
        self._counted.clear()
