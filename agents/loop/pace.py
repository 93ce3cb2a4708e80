"""Slow work that gives way to what is urgent: done in turns, and not right before an instant at which something must happen.

An agent has one thread. Comparing the queues of 64 destinations with what they should be takes 5 to 12 ms of it, once a second:
done at once that is up to six days of 2 ms on which nobody opens a gate. Pure but for the clock that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

TURN_NS, REST_NS = 100_000, 1_000_000
"""How long a turn may be (it ends after the piece of work in which that was over), and how long it is until the next."""
ROOM_NS = 400_000
"""A turn is begun only if nothing must happen for so long after it."""
PATIENCE_NS = 5_000_000_000
"""Then it is begun all the same."""


class Pace:
    """What is urgent on this host. Whoever knows of something says so here."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """`clock`: monotonic, ns."""
        self.clock = clock
        self.hurried: Callable[[], bool] = lambda: False
        """Whether anything is: else slow work is done at once."""
        self.next_instant_ns: Callable[[], int | None] = lambda: None
        """When something must happen next, as far as that is known."""


class Unhurried:
    """One kind of slow work: an iterator, each step of which is some dozens of microseconds."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._work: Iterator[None] | None = None
        self._begun_ns = 0
        self.due_ns: int | None = None
        """When to call `advance`; None: there is nothing to do."""

    def begin(self, work: Iterator[None], now_ns: int) -> None:
        """Takes it on, unless there is some left to do."""
        if self._work is None:
            self._work, self._begun_ns, self.due_ns = work, now_ns, now_ns

    def advance(self, now_ns: int) -> None:
        """Does as much as there is time for. What the work raises ends it, and is raised."""
        if self._work is None or self.due_ns is None or now_ns < self.due_ns:
            return
        hurried, instant_ns = self._pace.hurried(), self._pace.next_instant_ns()
        soon = instant_ns is not None and 0 < instant_ns - now_ns < TURN_NS + ROOM_NS
        if hurried and soon and now_ns - self._begun_ns < PATIENCE_NS:
            self.due_ns = instant_ns  # once that has happened there is time
            return
        clock, until_ns = self._pace.clock, now_ns + TURN_NS
        work, self._work, self.due_ns = self._work, None, None
        for _ in work:
            if hurried and clock() >= until_ns:
                self._work, self.due_ns = work, clock() + REST_NS
                return
