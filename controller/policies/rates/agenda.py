"""Times at which something is due for pairs, the earliest first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

Key = tuple[int, int]
"""(node, destination)."""


class Agenda:
    """Entries are not taken out when they count no more: they are passed over when their time comes.

    Args:
        counts: whether an entry still counts: its time (ns), its number, and its pair.
    """

    def __init__(self, counts: Callable[[int, int, Key], bool]) -> None:
        self._counts = counts
        self._entries: list[tuple[int, int, Key]] = []

    def add(self, when_ns: int, number: int, key: Key) -> None:
        """Entries of the same time are due in the order of their numbers."""
        heapq.heappush(self._entries, (when_ns, number, key))

    def take(self, now_ns: int, most: int) -> Iterator[Key]:
        """The pairs that are due by now, taken out one by one; looks at no more than `most` entries."""
        for _ in range(most):
            if not self._entries or self._entries[0][0] > now_ns:
                return
            entry = heapq.heappop(self._entries)
            if self._counts(*entry):
                yield entry[2]

    def next_ns(self, most: int) -> int | None:
        """The time of the next entry, which may be one that counts no more if more than `most` of those come first; None:
        there is none."""
        for _ in range(most):
            if not self._entries or self._counts(*self._entries[0]):
                break
            heapq.heappop(self._entries)
        return self._entries[0][0] if self._entries else None
