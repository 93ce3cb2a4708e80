"""How often an agent does what nobody waits for: looks at its set-up, and tells its leader of its state. Pure.

An operator who wants reports less often than usual has a calm fabric, or a large one; the other looks then are as seldom, and
come together, so that an agent that has nothing to do sleeps between them. What informs operators alone is more seldom still
(`NEWS_REPORTS`): thousands of hosts tell their leader as much of themselves as of their traffic otherwise.
"""

from __future__ import annotations

from protocol.messages import Welcome
from protocol.units import SECOND_NS

MOST_NS = 10 * SECOND_NS
NEWS_REPORTS = 8
"""The leader's reports in the period of what informs operators alone."""


class Pace:
    """The period of one kind of look: its own, or so many times that of the leader's reports if that is longer, up to
    `MOST_NS`."""

    def __init__(self, own_ns: int, reports: int = 1) -> None:
        self._own_ns = self.period_ns = own_ns
        self._reports = reports
        self._together = False

    def welcomed(self, message: Welcome, _: int) -> None:
        """A handler: the leader says how often it wants reports."""
        self.period_ns = max(self._own_ns, min(MOST_NS, self._reports * message.report_ns))
        self._together = message.report_ns > self._own_ns or message.report_ns >= SECOND_NS

    def after(self, now_ns: int) -> int:
        """When to look next: a period later, or, where the leader wants reports seldom, at the next multiple of it."""
        passed_ns = now_ns % self.period_ns if self._together else 0
        return now_ns + self.period_ns - passed_ns
