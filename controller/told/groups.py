"""The contended links as members are told them: rows, versions, and what differs between two versions. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from controller.policies.groups import GroupedNetwork, Groups
from protocol.bodies.groups import GroupRow, GroupsChange, Way
from protocol.paging import paginate

CHANGES_KEPT = 4096
EVERYBODY = "everybody"
"""The name of the link that stands for all pairs."""
EVERY_NODE = (1, 0xFFFF)
"""More ids than members can have: who joins later is among them."""
Name = tuple[str, Hashable]
"""("part", its root), or ("link", the link)."""


class ToldGroups:
    """Rows by contended link and by part of the fabric; `version` grows with every change of them."""

    def __init__(self) -> None:
        self.version = 0
        self._links: dict[Hashable, int] = {}
        """The number of every link that was contended; they begin with 1."""
        self._parts: dict[Hashable, int] = {}
        self._rows: dict[Name, tuple[GroupRow, ...]] = {}
        self._changes: deque[tuple[int, Name]] = deque(maxlen=CHANGES_KEPT)
        """(version, what changed)."""
        self._since: dict[int, list[GroupsChange]] = {}
        """By earlier version: what makes the present one of it, as far as it was asked for."""
        self._groups = Groups()
        self._generation = 0

    def update(self, groups: Groups) -> bool:
        """Takes the groups in force, or what members that joined and left changed of them; returns whether anything did.

        Looks at links that became contended or were released, and at all of them only if the members on their sides changed.
        """
        network = groups.network
        generation = network.generation if network is not None else 0
        before, self._groups = self._groups, groups
        same = groups.network is before.network and groups.everyone == before.everyone and generation == self._generation
        self._generation = generation
        wanted: dict[Name, tuple[GroupRow, ...]] = {}
        links = groups.links ^ before.links if same else groups.links | before.links
        if same and not links:
            return False
        for link in links:
            wanted["link", link] = self._link_rows(link, network) if network is not None and link in groups.links else ()
        if groups.everyone and network is not None and not same:
            wanted["part", EVERYBODY] = self._part_rows(EVERYBODY, [EVERY_NODE])
            wanted["link", EVERYBODY] = (GroupRow(self._number(EVERYBODY), self._part(EVERYBODY), Way.ALL, 0, 0),)
        elif before.everyone and not groups.everyone:
            wanted["link", EVERYBODY] = ()
        if network is not None:
            for root in {network.cut(link).root for link in links if link in groups.links}:
                wanted["part", root] = self._part_rows(root, network.part(root).intervals())
        changed = [name for name, rows in wanted.items() if self._rows.get(name, ()) != rows]
        if not changed:
            return False
        self.version += 1
        self._since.clear()
        for name in changed:
            if wanted[name]:
                self._rows[name] = wanted[name]
            else:
                del self._rows[name]
            self._changes.append((self.version, name))
        return True

    def since(self, base: int) -> list[GroupsChange]:
        """What makes the present version of an earlier one; the full state if that one is too old. Thousands that join ask for
        the same."""
        dropped = len(self._changes) == CHANGES_KEPT and self._changes[0][0] > base
        base = base if 0 < base <= self.version and not dropped else 0
        if (found := self._since.get(base)) is None:
            found = self._since[base] = self._found_since(base)
        return found

    def _found_since(self, base: int) -> list[GroupsChange]:
        if not base:
            return self.whole()
        names = dict.fromkeys(name for version, name in self._changes if version > base)
        return paginate(GroupsChange(base, self.version, 0, 1, tuple(row for name in names for row in self._told(name))))

    def whole(self) -> list[GroupsChange]:
        """The full state."""
        return paginate(GroupsChange(0, self.version, 0, 1, tuple(row for rows in self._rows.values() for row in rows)))

    def _told(self, name: Name) -> tuple[GroupRow, ...]:
        rows = self._rows.get(name, ())
        if rows or name[0] == "part":  # a part without nodes has no links that members are told
            return rows
        return (GroupRow(self._number(name[1]), 0, Way.NONE, 0, 0),)

    def _link_rows(self, link: Hashable, network: GroupedNetwork) -> tuple[GroupRow, ...]:
        if not network.forwards(link):
            return ()
        root, up, nodes = network.cut(link)
        way = Way.BEFORE if up else Way.BEHIND
        return tuple(GroupRow(self._number(link), self._part(root), way, *interval) for interval in nodes.intervals())

    def _part_rows(self, root: Hashable, intervals: list[tuple[int, int]]) -> tuple[GroupRow, ...]:
        return tuple(GroupRow(0, self._part(root), Way.PART, *interval) for interval in intervals)

    def _number(self, link: Hashable) -> int:
        return self._links.setdefault(link, len(self._links) + 1)

    def _part(self, root: Hashable) -> int:
        return self._parts.setdefault(root, len(self._parts))

