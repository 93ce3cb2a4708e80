"""Who may be connected: limits by origin and in total, and which connection is given up for a new one. Pure.

A connection *waits* while the server has no whole request of it: it is idle, or in the middle of a request. When an origin has
as many connections as it may have, the one that waits longest makes room for the new one; if none waits, the one that is
answered longest. So a client that takes all connections of its address, and reads slowly, does not keep out a browser at the
same address, whose request comes at once. When the server is full, the origin with the most connections makes room. The
connections of a user who has logged in are not counted to their origin, up to a limit for each user, and are never given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Verdict(NamedTuple, Generic[K]):
    """Whether a new connection is admitted, and which one is to be closed for it (None: none)."""

    admitted: bool
    given_up: K | None


@dataclass(slots=True)
class _Connection:
    origin: str
    user: str | None = None


class Connections(Generic[K]):
    """The open connections by key, with their origins."""

    def __init__(self, *, each: int, user: int, total: int) -> None:
        """`each`: of one origin; `user`: of one user, beside them; `total`: of all. Raises ValueError: one is not positive."""
        for name, value in (("each", each), ("user", user), ("total", total)):
            if value <= 0:
                raise ValueError(f"{name} must be positive")
        self._each, self._user, self._total = each, user, total
        self._open: dict[K, _Connection] = {}
        self._waiting: dict[str, dict[K, None]] = {}
        """By origin: those that wait, the longest first."""
        self._answered: dict[str, dict[K, None]] = {}
        """By origin: those whose request is being answered, the longest first."""
        self._of_origin: Counter[str] = Counter()
        self._of_user: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, key: K, origin: str) -> Verdict[K]:
        """A new connection, which waits. The one that is given up has left already."""
        given_up = None
        own = self._of_origin[origin] >= self._each
        if own or len(self._open) >= self._total:
            crowded = origin if own else max(self._of_origin, key=self._of_origin.__getitem__, default=origin)
            first = (next(iter(table.get(crowded, ())), None) for table in (self._waiting, self._answered))
            given_up = next((one for one in first if one is not None), None)
            if given_up is None:
                return Verdict(False, None)
            self.leave(given_up)
        self._open[key] = _Connection(origin)
        self._of_origin[origin] += 1
        self._waiting.setdefault(origin, {})[key] = None
        return Verdict(True, given_up)

    def begin(self, key: K) -> None:
        """The connection has sent a whole request: it does not wait."""
        if (found := self._open.get(key)) is not None:
            self._remove(key, found.origin)
            if found.user is None:
                self._answered.setdefault(found.origin, {})[key] = None

    def end(self, key: K) -> None:
        """The request was answered: the connection waits again, unless it is a user's."""
        if (found := self._open.get(key)) is not None and found.user is None:
            self._remove(key, found.origin)
            self._waiting.setdefault(found.origin, {})[key] = None

    def recognise(self, key: K, user: str) -> bool:
        """The connection is one of this user's; returns whether it is now kept apart from its origin's."""
        found = self._open.get(key)
        if found is None or found.user == user:
            return found is not None
        if found.user is not None or self._of_user[user] >= self._user:
            return False
        found.user = user
        self._of_user[user] += 1
        self._remove(key, found.origin)
        self._of_origin[found.origin] -= 1
        self._forget(found.origin)
        return True

    def leave(self, key: K) -> None:
        """The connection is closed. One that is not known is none."""
        found = self._open.pop(key, None)
        if found is None:
            return
        self._remove(key, found.origin)
        if found.user is None:
            self._of_origin[found.origin] -= 1
            self._forget(found.origin)
            return
        self._of_user[found.user] -= 1
        if not self._of_user[found.user]:
            del self._of_user[found.user]

    def _remove(self, key: K, origin: str) -> None:
        for table in (self._waiting, self._answered):
            if (keys := table.get(origin)) is not None:
                keys.pop(key, None)
                if not keys:
                    del table[origin]

    def _forget(self, origin: str) -> None:
        if not self._of_origin[origin]:
            del self._of_origin[origin]
