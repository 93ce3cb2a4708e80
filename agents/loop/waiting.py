"""How an agent waits for its next event: asleep, or polling. An edge: select and epoll.

Sleeping costs no processor, but every event then costs a wake-up (tens of microseconds, and caches that others have used
meanwhile). Polling costs a processor.

An agent that polls rests in every millisecond, asleep, so that the kernel's own threads and other processes on that processor
get their share. Otherwise the kernel's fair server would take the processor away for 50 ms at once (sched_fair_server, since
Linux 6.8).
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Protocol

POLLED_NS, REST_NS = 1_000_000, 90_000
"""How long it polls between two rests, and how long it rests: surely more than the twentieth that the fair server gives, also
when the rest has to wait for urgent work."""


class ReflexWait(Protocol):
    """Waits in our place while it has something to do meanwhile: see reflex.Reflex."""

    def plan(self) -> bool:
        """Takes the steps for the next wait; returns whether that wait needs the reflex."""

    def wait(self, descriptors: Sequence[int], due_ns: int, *, poll: bool) -> list[int]:
        """As `Waiting.until`; but when it polls, it stays for a while."""


class Waiting:
    """Waits for a fixed set of descriptors, and on request for one more, that of deferred frames."""

    def __init__(self, descriptors: Sequence[int], deferred: int, reflex: ReflexWait | None = None) -> None:
        """Raises OSError: no more descriptors."""
        self._reflex = reflex
        self._descriptors = list(descriptors)
        self._everything = [*descriptors, deferred]
        self._polls = {}
        for wanted, those in ((False, self._descriptors), (True, self._everything)):
            self._polls[wanted] = poll = select.epoll()
            for descriptor in those:
                poll.register(descriptor, select.EPOLLIN)
        self._rest_ns = 0
        """When to rest, while polling."""

    def close(self) -> None:
        """Closes what polling needs; the caller closes the descriptors."""
        for poll in self._polls.values():
            poll.close()

    def until(self, due_ns: int, *, poll: bool, deferred: bool) -> list[int]:
        """The readable descriptors, as soon as there is one; none at `due_ns` of the monotonic clock, or if a look found none.

        Args:
            poll: only look, and return at once; now and then it sleeps all the same (see above).
            deferred: wait for the descriptor of deferred frames, too.
        """
        if self._reflex is not None and self._reflex.plan():
            return self._reflex.wait(self._everything if deferred else self._descriptors, due_ns, poll=poll)
        if poll:
            now_ns = time.monotonic_ns()
            if not self._rest_ns <= now_ns < due_ns - 2 * REST_NS:
                return [descriptor for descriptor, _ in self._polls[deferred].poll(0)]
            due_ns = now_ns + REST_NS
        # epoll would sleep in whole milliseconds
        left_ns = max(0, due_ns - time.monotonic_ns())
        ready, _, _ = select.select(self._everything if deferred else self._descriptors, (), (), left_ns / 1e9)
        self._rest_ns = time.monotonic_ns() + POLLED_NS
        return ready
