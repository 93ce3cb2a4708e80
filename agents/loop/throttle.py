"""Slow work in short turns, and none right before an instant at which something must happen. Pure: the clock is given.

An agent has one thread. Comparing the queues of 64 destinations with what they should be takes 5 to 12 ms of it, once a second.
Done at once, that is up to six days of 2 ms on which the agent opens no gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

TURN_NS, REST_NS = 100_000, 1_000_000
"""How long a turn may be (it ends after the piece of work in which that time passed), and how long the rest until the next."""
ROOM_NS = 400_000
"""A turn begins only if nothing must happen for so long after it."""
PATIENCE_NS = 5_000_000_000
"""Work that has waited for so long is done even if something must happen soon."""


class Throttle:
    """Says when background tasks must give way to urgent work on this host."""

    def __init__(
        self,
        clock: Callable[[], int],
        busy: Callable[[], bool] = lambda: False,
        next_instant_ns: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Takes a monotonic clock (ns); for the others see `watch`."""
        self.clock = clock
        self.busy = busy
        self.next_instant_ns = next_instant_ns

    def watch(self, *, busy: Callable[[], bool], next_instant_ns: Callable[[], int | None]) -> None:
        """Sets what background tasks give way to; the tasks may have been made before.

        Args:
            busy: whether anything is urgent on this host; while nothing is, slow work is done at once.
            next_instant_ns: when something must happen next, as far as that is known.
        """
        self.busy, self.next_instant_ns = busy, next_instant_ns


class BackgroundTask:
    """One kind of slow work: an iterator, each step of which takes some dozens of microseconds."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._work: Iterator[None] | None = None
        self._begun_ns = 0
        self.due_ns: int | None = None
        """When to call `advance`; None: there is nothing to do."""

    def begin(self, work: Iterator[None], now_ns: int) -> None:
        """Takes on new work, unless earlier work is not finished."""
        if self._work is None:
            self._work, self._begun_ns, self.due_ns = work, now_ns, now_ns

    def advance(self, now_ns: int) -> None:
        """Does as much as there is time for. An exception in the work ends the work, and is raised."""
        if self._work is None or self.due_ns is None or now_ns < self.due_ns:
            return
        busy, instant_ns = self._throttle.busy(), self._throttle.next_instant_ns()
        soon = instant_ns is not None and 0 < instant_ns - now_ns < TURN_NS + ROOM_NS
        if busy and soon and now_ns - self._begun_ns < PATIENCE_NS:
            self.due_ns = instant_ns  # once that has happened there is time
            return
        clock, until_ns = self._throttle.clock, now_ns + TURN_NS
        work, self._work, self.due_ns = self._work, None, None
        for _ in work:
            if busy and clock() >= until_ns:
                self._work, self.due_ns = work, clock() + REST_NS
                return
