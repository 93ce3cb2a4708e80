"""Which refused logins are told one by one, and the sum of the others. Pure.

In each period the first `SINGLE` are told. The others are counted, and told as one sentence when the period is over. So a flood
of refused logins leaves a few lines a minute, and says how large it was.
"""

from __future__ import annotations

from collections import Counter

from protocol.units import SECOND_NS

PERIOD_NS = 60 * SECOND_NS
SINGLE = 10
KEPT = 256
"""How many addresses and users a sum tells apart."""


class Refusals:
    """The refused logins of the present period."""

    def __init__(self) -> None:
        self._begun_ns: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._told = self._more = 0
        self._origins: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    def note(self, user: str, origin: str, *, now_ns: int) -> int:
        """Counts a refused login; returns its number in this period if it is to be told now, else 0."""
        if self._begun_ns is None or now_ns < self._begun_ns:  # the clock may have been set back
            self._begun_ns = now_ns
        if self._told < SINGLE:
            self._told += 1
            return self._told
        self._more += 1
        for counter, name in ((self._origins, origin), (self._users, user)):
            if name in counter or len(counter) < KEPT:
                counter[name] += 1
        return 0

    def end_ns(self) -> int | None:
        """When the present period ends; None if there is none."""
        return None if self._begun_ns is None else self._begun_ns + PERIOD_NS

    def sum(self, *, now_ns: int) -> str:
        """Ends the period if it is over; what was not told in it, in a sentence. Empty if there is nothing to say."""
        end_ns = self.end_ns()
        if end_ns is None or now_ns < end_ns:
            return ""
        text = ""
        if self._more:
            origins, users = (f"{'at least ' if len(some) == KEPT else ''}{len(some)}" for some in (self._origins, self._users))
            most = self._origins.most_common(1)[0]
            text = (
                f"{self._more} more logins were refused within {PERIOD_NS // SECOND_NS} s, "
                f"from {origins} addresses for {users} users; {most[1]} from {most[0]}"
            )
        self._begun_ns = None
        self._clear()
        return text
