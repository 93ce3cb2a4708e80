"""What is to be done when: a heap of calls, for the loops at both ends of the wire. Pure: the time is an argument."""

from __future__ import annotations

import heapq
from collections.abc import Callable

REPEATS_NS = (20_000_000, 100_000_000)
REFRESH_NS = 1_000_000_000
"""How often what was told so is told again, by whoever told it."""


class Timers:
    """Calls with the time at which each is due; those of one time are made in the order in which they were asked for."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._number = 0

    def at(self, when_ns: int, call: Callable[[int], None]) -> None:
        """`call(now_ns)` once, at `when_ns` or soon after."""
        self._number += 1
        heapq.heappush(self._heap, (when_ns, self._number, call))

    def every(self, now_ns: int, period_ns: int, call: Callable[[int], None]) -> None:
        """`call(now_ns)` now, and each time `period_ns` after it was made."""

        def again(then_ns: int) -> None:
            call(then_ns)
            self.at(then_ns + period_ns, again)

        self.at(now_ns, again)

    def repeat(self, now_ns: int, call: Callable[[int], None]) -> None:
        """`call(now_ns)` now and twice more soon: for what is told by frames that may be lost."""
        call(now_ns)
        for delay_ns in REPEATS_NS:
            self.at(now_ns + delay_ns, call)

    def next_ns(self) -> int:
        """When the next call is due; there must be one."""
        return self._heap[0][0]

    def run(self, now_ns: int) -> None:
        """Makes the calls that are due."""
        while self._heap and self._heap[0][0] <= now_ns:
            heapq.heappop(self._heap)[2](now_ns)
