"""Whose request is worked on next: origins take turns, so that many requests of one do not delay those of another. Pure.

At most `running` requests are worked on at a time, and `each` of one origin. Memory is bounded by the number of connections,
since a connection has one request at a time.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """The requests that wait for their turn, by origin. `ask`, `done` and `give_up` return those whose turn it is now."""

    def __init__(self, *, running: int, each: int) -> None:
        self._free = running
        self._each = each
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[T]] = {}
        """In the order of the turns: the origin that was served goes to the end."""

    def ask(self, origin: str, request: T) -> list[T]:
        """A request of this origin wants a turn."""
        self._waiting.setdefault(origin, deque()).append(request)
        return self._next()

    def done(self, origin: str) -> list[T]:
        """A request of this origin, whose turn it was, is done."""
        self._free += 1
        self._running[origin] -= 1
        if not self._running[origin]:
            del self._running[origin]
        return self._next()

    def give_up(self, origin: str, request: T) -> bool:
        """The client does not wait any more; returns whether the request was still waiting."""
        waiting = self._waiting.get(origin)
        if waiting is None or request not in waiting:
            return False
        waiting.remove(request)
        if not waiting:
            del self._waiting[origin]
        return True

    def _next(self) -> list[T]:
        found = []
        for origin in list(self._waiting):
            if not self._free:
                break
            if self._running[origin] >= self._each:
                continue
            waiting = self._waiting.pop(origin)
            found.append(waiting.popleft())
            if waiting:
                self._waiting[origin] = waiting
            self._running[origin] += 1
            self._free -= 1
        return found
