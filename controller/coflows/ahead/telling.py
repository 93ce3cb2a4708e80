"""Tells hosts to which destinations their flows with deadlines may send ahead of time. Sends only through what it is given.

Each host is told its own, and only while it has any, or had. A message that is lost is made up for within a second; hosts go
without again when the leader falls silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from controller.coflows.ahead.head_starts import TIMES
from controller.members.registry import Members
from protocol.messages import HeadStarts, Message
from protocol.paging import paginate
from protocol.timers import Timers

Entries = tuple[tuple[int, int], ...]
ONE = 1 << 10


class HeadStartTelling:
    """Which host was told what."""

    def __init__(self, timers: Timers, members: Members, send: Callable[[Message, bytes], None]) -> None:
        self._timers, self._members, self._send = timers, members, send
        self._pairs: Set[tuple[str, str]] = frozenset()
        self._told: dict[int, Entries] = {}
        self._version = 0

    def take(self, pairs: Set[tuple[str, str]], now_ns: int) -> None:
        """Tells the hosts whose pairs, by the members' names, are others than before."""
        if pairs == self._pairs:
            return
        self._pairs = pairs
        before, self._told = self._told, self._entries()
        changed = [node for node in sorted(before.keys() | self._told.keys()) if before.get(node) != self._told.get(node)]
        if changed:
            self._version += 1
            self._timers.repeat(now_ns, lambda _: self._tell(changed))

    def refresh(self, _: int) -> None:
        """Tells all again that have any; members may be others by now."""
        if self._pairs:
            found = self._entries()
            self._version += found != self._told
            self._told = found
            self._tell(self._told)

    def _entries(self) -> dict[int, Entries]:
        nodes = self._members.by_name() if self._pairs else {}
        found: dict[int, list[tuple[int, int]]] = {}
        for source, destination in sorted(self._pairs):
            for node in nodes.get(source, ()):
                found.setdefault(node, []).extend((to, round(ONE * TIMES)) for to in nodes.get(destination, ()))
        return {node: tuple(entries) for node, entries in found.items()}

    def _tell(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if (member := self._members.get(node)) is not None:
                for page in paginate(HeadStarts(self._version, 0, 1, self._told.get(node, ()))):
                    self._send(page, member.mac)
