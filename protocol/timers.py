"""Timers for the event loops of coordinator and agents, and what such a loop does about its own errors. Pure: the time is an
argument."""

from __future__ import annotations

import heapq
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from protocol.bodies.text import printable

REPEATS_NS = (20_000_000, 100_000_000)
REFRESH_NS = 1_000_000_000
"""The period after which senders repeat their full state."""


class Timers:
    """Calls to make, each with its time; calls for the same time are made in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._number = 0

    def __bool__(self) -> bool:
        """Whether any call is scheduled."""
        return bool(self._heap)

    def at(self, when_ns: int, call: Callable[[int], None]) -> None:
        """Schedules `call(now_ns)` once, at `when_ns` or soon after."""
        self._number += 1
        heapq.heappush(self._heap, (when_ns, self._number, call))

    def every(self, now_ns: int, period_ns: int, call: Callable[[int], None]) -> None:
        """Schedules `call(now_ns)` at `now_ns`, and at whole periods after it; what was missed is not made up for.

        So calls of periods that divide one another come together, however late each turn is, and wake the process once.
        """

        def again(then_ns: int) -> None:
            try:
                call(then_ns)
            finally:
                self.at(then_ns + period_ns - (then_ns - now_ns) % period_ns, again)

        self.at(now_ns, again)

    def repeat(self, now_ns: int, call: Callable[[int], None]) -> None:
        """Makes `call(now_ns)` now, and schedules two repeats soon after: for messages in frames that may be lost."""
        call(now_ns)
        for delay_ns in REPEATS_NS:
            self.at(now_ns + delay_ns, call)

    def next_ns(self) -> int:
        """The time of the next call; there must be one."""
        return self._heap[0][0]

    def run(self, now_ns: int, enough: Callable[[], bool] = lambda: False) -> None:
        """Makes the calls whose time has come. After each, `enough` says whether the others shall wait for the next `run`."""
        while self._heap and self._heap[0][0] <= now_ns:
            heapq.heappop(self._heap)[2](now_ns)
            if enough():
                return


TOLD_NS = 60_000_000_000
"""How often an error of one kind is told again."""
MOST_FAILURES = 20
"""Turns in a row: when all of these failed, nothing goes right any more, and the process shall end and be started anew."""


class Mishaps:
    """Errors in a loop that serves others: it counts and tells them, and goes on. What one message can make go wrong must not
    stop what all others need.

    Args:
        tell: takes a line for the log.
        count: called for each error.
        expected: errors that the loop itself handles: they pass.
    """

    def __init__(
        self, tell: Callable[[str], None], count: Callable[[], None], expected: tuple[type[Exception], ...] = ()
    ) -> None:
        self._tell = tell
        self._count = count
        self._expected = expected
        self._told_ns: dict[tuple[str, str], int] = {}
        self._failed = 0

    def note(self, what: str, error: Exception, now_ns: int) -> None:
        """Counts an error, and tells it unless one like it was told lately; of a group, each error. Raises it if it is an
        expected one."""
        if isinstance(error, ExceptionGroup):
            for each in error.exceptions:
                self.note(what, each, now_ns)
            return
        if isinstance(error, self._expected):
            raise error
        self._count()
        kind = what, type(error).__name__
        if now_ns - self._told_ns.get(kind, -TOLD_NS) >= TOLD_NS:
            self._told_ns[kind] = now_ns
            at = traceback.extract_tb(error.__traceback__)[-1:]
            where = f" ({at[0].filename}:{at[0].lineno})" if at else ""
            self._tell(f"{what} failed: {kind[1]}: {printable(str(error))}{where}; going on")

    @contextmanager
    def surviving(self, what: str, now_ns: int) -> Iterator[None]:
        """A block whose errors are noted and end nothing but the block."""
        try:
            yield
        except Exception as error:
            self.note(what, error, now_ns)

    def turn_failed(self, what: str, error: Exception, now_ns: int) -> None:
        """Notes an error that ended a whole turn of the loop. Raises it when too many turns in a row failed."""
        self._failed += 1
        if self._failed > MOST_FAILURES:
            raise error
        self.note(what, error, now_ns)

    def turn_done(self) -> None:
        """A turn went well."""
        self._failed = 0
