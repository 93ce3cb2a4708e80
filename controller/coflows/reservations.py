"""What admitted coflows need of each port until their deadlines. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Port = TypeVar("Port", bound=Hashable)
FRACTION = 1 << 40
"""Rates are kept in this part of a byte a nanosecond: whole numbers, so that nothing is left of what is taken back."""


class Reservations(Generic[Port]):
    """Rates by port, each until its coflow's deadline. Times are ns and only grow."""

    def __init__(self) -> None:
        self._taken: Counter[Port] = Counter()
        self._ends: list[tuple[int, int, dict[Port, int]]] = []
        self._added = 0

    def __len__(self) -> int:
        """How many coflows need something."""
        return len(self._ends)

    def add(self, demand: Mapping[Port, float], opened_ns: int, deadline_ns: int) -> None:
        """Reserves the rate that ends a demand (bytes by port) just in time."""
        if deadline_ns <= opened_ns:
            return
        rates = {port: round(size) * FRACTION // (deadline_ns - opened_ns) for port, size in demand.items()}
        self._taken.update(rates)
        self._added += 1
        heapq.heappush(self._ends, (deadline_ns, self._added, rates))

    def end(self, now_ns: int) -> None:
        """Takes back what was reserved until now or before."""
        while self._ends and self._ends[0][0] <= now_ns:
            self._taken.subtract(heapq.heappop(self._ends)[2])

    def taken(self, port: Port) -> float:
        """What is reserved of a port, in bytes a nanosecond."""
        return self._taken[port] / FRACTION
