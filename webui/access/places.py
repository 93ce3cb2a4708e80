"""Who may have an event stream open: many places for users, and a bounded few for visitors. Pure but for a lock."""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple


class Place(NamedTuple):
    """A place that was taken: a user's name, or a visitor's origin."""

    of_user: bool
    name: str


class Places:
    """The places that are taken. Those of users are apart, so visitors take none of them. Any thread may call any method."""

    def __init__(self, *, users: int = 64, each_user: int = 16, visitors: int = 16, each_origin: int = 8) -> None:
        self._most = {True: users, False: visitors}
        self._each = {True: each_user, False: each_origin}
        self._taken: Counter[Place] = Counter()
        self._lock = threading.Lock()

    def take(self, user: str | None, origin: str) -> Place | None:
        """Takes a place for a user, or for a visitor (None) from this origin; None if there is none left."""
        place = Place(user is not None, origin if user is None else user)
        with self._lock:
            taken = sum(count for (of_user, _), count in self._taken.items() if of_user == place.of_user)
            if taken >= self._most[place.of_user] or self._taken[place] >= self._each[place.of_user]:
                return None
            self._taken[place] += 1
        return place

    def leave(self, place: Place) -> None:
        """Gives the place back."""
        with self._lock:
            self._taken[place] -= 1
            if self._taken[place] <= 0:
                del self._taken[place]

    def __len__(self) -> int:
        return sum(self._taken.values())
