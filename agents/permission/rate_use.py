"""When a destination gives back a rate that it does not use. Pure.

A rate is a lease of a tenth of a second and more, and the others share what its owner gives back. So an owner whose queue is
empty, and has let nothing pass, for `idle_ns` gives it back. Most queues that empty have no more to send for a while; one that
sends little, but regularly, or waits for answers that take longer, asks again soon. Such a queue may stay idle for twice as
long the next time, up to a few milliseconds: where many short flows come at random, some ask soon by chance, and their idle
rates slow down all others. So the times are no longer on slow links: at 100 Mb/s with ten times as much random flows took 47 %
longer (virtual time, three tiers, web search, load 0.6).

While packets wait the queue cannot be idle before they have left. And a look costs a turn of the agent's loop, so the time
between two looks grows by a sixteenth of itself: what is lost at the end is a small part of the time in use.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.units import MILLISECOND_NS, SECOND_NS

IDLE_NS, LONGEST_IDLE_NS = MILLISECOND_NS, 4 * MILLISECOND_NS
SOON_TIMES = 2
"""A queue that asks again within so many times `idle_ns` gave its rate back too early."""
LONGEST_LOOK_NS = 16 * MILLISECOND_NS
"""Also the longest time that is waited because answers take long."""
EMPTY_PART = 8
"""An empty queue is looked at again after this part of the time between two looks, if that is longer than `idle_ns`."""


@dataclass(slots=True)
class RateUse:
    """How one destination uses its rates."""

    idle_ns: int = IDLE_NS
    _passed: int = 0
    """The bytes that had passed at the last look; at the beginning, those that waited, too."""
    _look_after_ns: int = IDLE_NS
    _given_back_ns: int | None = None

    def began(self, passed: int, backlog_bytes: int, rate_bps: int, now_ns: int, answer_ns: int = 0) -> int:
        """Takes a first rate after none; returns when to look at the queue.

        If all that waits now has left by then, and nothing came after it, the queue was idle since.

        Args:
            passed: all bytes that have passed the gate.
            answer_ns: how long answers of the coordinator take lately.
        """
        least_ns = min(max(IDLE_NS, answer_ns), LONGEST_LOOK_NS)
        soon = self._given_back_ns is not None and now_ns - self._given_back_ns < SOON_TIMES * self.idle_ns
        self.idle_ns = max(least_ns, min(2 * self.idle_ns, LONGEST_IDLE_NS)) if soon else least_ns
        self._passed, self._look_after_ns, self._given_back_ns = passed + backlog_bytes, IDLE_NS, None
        return now_ns + min(self.idle_ns + _drained_ns(backlog_bytes, rate_bps), LONGEST_LOOK_NS)

    def looked(self, passed: int, backlog_bytes: int, rate_bps: int, now_ns: int) -> int | None:
        """Takes what a look found: all bytes that passed, and those that wait.

        Returns when to look again; None: the rate is to be given back.
        """
        idle = not backlog_bytes and passed == self._passed
        self._passed = passed
        if idle:
            self._given_back_ns = now_ns
            return None
        self._look_after_ns = min(self._look_after_ns * 17 // 16, LONGEST_LOOK_NS)
        if not backlog_bytes:
            return now_ns + max(self.idle_ns, self._look_after_ns // EMPTY_PART)
        return now_ns + min(max(self._look_after_ns, _drained_ns(backlog_bytes, rate_bps)), LONGEST_LOOK_NS)


def _drained_ns(backlog_bytes: int, rate_bps: int) -> int:
    """How long what waits takes to leave."""
    return backlog_bytes * 8 * SECOND_NS // rate_bps
