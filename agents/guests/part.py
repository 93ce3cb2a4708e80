"""Serves the guests' and the operator's requests for marks in the agent's loop. An edge.

Guests can send as much as they like: the agent looks at requests `LOOKS` times a second at most, and takes `MOST` at once. So
a flood costs it a bounded share of a processor. Meanwhile it hardly hears other guests, but marks stay, and the operator is
heard.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from agents.addresses.found import Found
from agents.guests.desk import Desk
from agents.guests.guest_map import GuestMap
from agents.guests.requests import encode
from agents.guests.sockets import GuestSocket, OperatorSocket, operator_socket
from agents.loop.bell import Bell
from agents.loop.pace import NEWS_REPORTS, Pace
from agents.loop.part import Part, Surroundings
from agents.priorities.tagger import Tagger
from protocol.bodies.flows.guest_marks import GuestMarks
from protocol.messages import Welcome
from protocol.units import SECOND_NS

LOOKS, MOST = 50, 8
LOOK_NS = SECOND_NS // LOOKS
TIDY_NS = SECOND_NS // 4
"""How soon after its end a mark leaves the table; the tagger ignores it from its end on."""
REPORT_NS = 2 * SECOND_NS


class Guests(Part):
    """The agent's part for guests' marks. Create it before the agent's loop starts, and before it drops its capabilities.

    Args:
        found: returns what is known of the guests' addresses now.
        link_bps: the rate of the host's link.
        port: the UDP port for guests; 0: only the operator is heard.
        clock: the monotonic clock (ns).
    """

    def __init__(
        self,
        agent: Surroundings,
        tagger: Tagger,
        found: Callable[[], Found],
        link_bps: int,
        port: int,
        *,
        interface: str,
        run_dir: Path,
        clock: Callable[[], int],
    ) -> None:
        """Raises OSError: the port is taken, or the run directory cannot be written."""
        self._agent = agent
        self._clock = clock
        self._found = found
        self.desk = Desk(GuestMap(tagger), found, link_bps, os.urandom(32))
        self._operator = OperatorSocket(operator_socket(run_dir, interface))
        self._guests: GuestSocket | None = None
        try:
            if port:
                self._guests = GuestSocket(port)
        except OSError:
            self._operator.close()
            raise
        self._sockets = [one for one in (self._guests, self._operator) if one is not None]
        self._bell = Bell([one.fileno() for one in self._sockets], LOOK_NS)
        self.descriptors = {self._bell.fileno(): self._bell.ring}
        self._tidy_ns: int | None = None
        self._report_ns = 0
        self._reports = Pace(REPORT_NS, NEWS_REPORTS)
        self.handlers = {Welcome: self._reports.welcomed}

    def next_due_ns(self) -> int | None:
        """When to look at requests, to remove what has expired, or to report."""
        report_ns = self._report_ns if self._agent.member else None
        return min((when for when in (self._bell.due_ns, self._tidy_ns, report_ns) if when is not None), default=None)

    def advance(self, now_ns: int) -> None:
        """Answers requests, removes marks that have expired, and reports."""
        if self._bell.due(now_ns):
            self._look(now_ns)
        if self._tidy_ns is not None and now_ns >= self._tidy_ns:
            self.desk.marks.expire(now_ns)
        end_ns = self.desk.marks.next_end_ns()
        self._tidy_ns = None if end_ns is None else end_ns + TIDY_NS
        if self._agent.member and now_ns >= self._report_ns:
            self._report_ns = self._reports.after(now_ns)
            marks = self.desk.marks
            self._agent.send(
                GuestMarks(len(marks.held), marks.marked, marks.expired, marks.removed, self.desk.refused.total())
            )

    def _look(self, now_ns: int) -> None:
        if self._guests is not None:
            carriers = self._found().carriers
            for heard in self._guests.heard(MOST):
                if heard.interface not in carriers:
                    continue  # who speaks elsewhere is no guest
                if answer := self.desk.of_guest(heard.data, heard.sender, now_ns=self._clock()):
                    self._guests.answer(heard, encode(answer))
        for data, sender in self._operator.heard(MOST):
            self._operator.answer(sender, encode(self.desk.of_operator(data, now_ns=self._clock())))
        self._bell.looked(now_ns)

    def close(self) -> None:
        """Closes the sockets; the marks go with the tagger."""
        self._bell.close()
        for one in self._sockets:
            one.close()
