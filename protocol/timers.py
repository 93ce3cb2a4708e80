"""Timers for the event loops of coordinator and agents: a heap of calls with their times. Pure: the time is an argument."""

from __future__ import annotations

import heapq
from collections.abc import Callable

REPEATS_NS = (20_000_000, 100_000_000)
REFRESH_NS = 1_000_000_000
"""The period after which senders repeat their full state."""


class Timers:
    """Calls to make, each with its time; calls for the same time are made in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._number = 0

    def at(self, when_ns: int, call: Callable[[int], None]) -> None:
        """Schedules `call(now_ns)` once, at `when_ns` or soon after."""
        self._number += 1
        heapq.heappush(self._heap, (when_ns, self._number, call))

    def every(self, now_ns: int, period_ns: int, call: Callable[[int], None]) -> None:
        """Schedules `call(now_ns)` at `now_ns`, and again `period_ns` after each call."""

        def again(then_ns: int) -> None:
            call(then_ns)
            self.at(then_ns + period_ns, again)

        self.at(now_ns, again)

    def repeat(self, now_ns: int, call: Callable[[int], None]) -> None:
        """Makes `call(now_ns)` now, and schedules two repeats soon after: for messages in frames that may be lost."""
        call(now_ns)
        for delay_ns in REPEATS_NS:
            self.at(now_ns + delay_ns, call)

    def next_ns(self) -> int:
        """The time of the next call; there must be one."""
        return self._heap[0][0]

    def run(self, now_ns: int) -> None:
        """Makes the calls whose time has come."""
        while self._heap and self._heap[0][0] <= now_ns:
            heapq.heappop(self._heap)[2](now_ns)
