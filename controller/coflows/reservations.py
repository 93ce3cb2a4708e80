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
    """Rates by port, each until its coflow's deadline. Times are ns."""

    def __init__(self) -> None:
        self._taken: Counter[Port] = Counter()
        self._held: dict[int, tuple[int, dict[Port, int]]] = {}
        """By coflow: until when it holds which rates."""
        self._ends: list[tuple[int, int]] = []
        """When which coflow's rates end, those that were taken back before included."""
        self.taken_back = 0
        """How often rates were taken back."""

    def __len__(self) -> int:
        """How many coflows need something."""
        return len(self._held)

    def add(self, coflow: int, demand: Mapping[Port, float], opened_ns: int, deadline_ns: int) -> None:
        """Reserves the rate that ends a demand (bytes by port) just in time. A coflow reserves once."""
        if deadline_ns <= opened_ns:
            return
        rates = {port: round(size) * FRACTION // (deadline_ns - opened_ns) for port, size in demand.items()}
        self._taken.update(rates)
        self._held[coflow] = deadline_ns, rates
        heapq.heappush(self._ends, (deadline_ns, coflow))

    def remove(self, coflow: int) -> None:
        """Takes back what a coflow has reserved; nothing if it has none."""
        _, rates = self._held.pop(coflow, (0, {}))
        self.taken_back += bool(rates)
        for port, rate in rates.items():
            self._taken[port] -= rate
            if not self._taken[port]:
                del self._taken[port]

    def end(self, now_ns: int) -> None:
        """Takes back what was reserved until now or before."""
        while self._ends and self._ends[0][0] <= now_ns:
            until_ns, coflow = heapq.heappop(self._ends)
            if coflow in self._held and self._held[coflow][0] == until_ns:
                self.remove(coflow)

    def taken(self, port: Port) -> float:
        """What is reserved of a port, in bytes a nanosecond."""
        return self._taken[port] / FRACTION
