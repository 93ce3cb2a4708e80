"""Descriptors that others can make readable as often as they like, looked at so often and no more. An edge: epoll."""

from __future__ import annotations

import select
from collections.abc import Sequence


class Bell:
    """Wakes the loop once when something has come, and again only after the next look.

    Args:
        descriptors: what to look at.
        every_ns: the least time between two looks (ns).
    """

    def __init__(self, descriptors: Sequence[int], every_ns: int) -> None:
        self._descriptors = descriptors
        self._every_ns = every_ns
        self._epoll = select.epoll()
        for descriptor in descriptors:
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)
        self._looked_ns = 0
        self.due_ns: int | None = None
        """When to look; None: nothing has come since the last look."""

    def fileno(self) -> int:
        """Readable when something has come."""
        return self._epoll.fileno()

    def ring(self, now_ns: int) -> None:
        """Something has come."""
        self._epoll.poll(0)
        if self.due_ns is None:
            self.due_ns = max(now_ns, self._looked_ns + self._every_ns)

    def due(self, now_ns: int) -> bool:
        """Whether it is time to look."""
        return self.due_ns is not None and now_ns >= self.due_ns

    def looked(self, now_ns: int, again_ns: int | None = None) -> None:
        """A look is over. `again_ns`: when to look again whatever comes; until then the loop does not wake for what comes."""
        self._looked_ns, self.due_ns = now_ns, again_ns
        if again_ns is None:
            for descriptor in self._descriptors:
                self._epoll.modify(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

    def close(self) -> None:
        """Closes what this made; the descriptors are their owners'."""
        self._epoll.close()
