"""Repairs what another program changed of the agent's set-up, and reports the host's state. An edge: the clock.

Once a second (where the leader wants reports less often, as often as it reports) the queues and every part are compared with
what they should be. What another program has changed is made anew; it is a line in the log, and with the last few in
HOST_STATE: so `baton status`, the dashboard and `baton doctor --hosts` show it. What it cannot put back is a warning there, as
long as it stands.
A gate that is gone is noticed sooner: the kernel refuses to change it, and the agent then checks and repairs everything.
"""

from __future__ import annotations

import errno
import logging
import platform
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from agents.kernel.netlink import NetlinkError
from agents.kernel.snapshot import InterfaceGone
from agents.loop.pace import NEWS_REPORTS, Pace
from agents.loop.part import Part, Surroundings
from agents.loop.parts import Parts
from agents.loop.throttle import BackgroundTask, Throttle
from agents.permission.gatekeeper import Gatekeeper
from agents.queues.host import Host
from protocol.auth import Guard
from protocol.bodies.host_state import LINES_MAX, NEVER_MS, WARNING, HostState, shortened
from protocol.messages import Welcome
from protocol.units import MILLISECOND_NS

log = logging.getLogger("baton.agent")

CHECK_NS = 1_000_000_000
REPORT_NS = 2_000_000_000
MOST_FAILURES = 20
"""Refusals between two checks. After more, the interface itself is gone: the agent ends as with any other lasting failure."""


class Upkeep(Part):
    """Checks and repairs the queues and all `parts` of an agent."""

    def __init__(
        self, agent: Surroundings, host: Host, keeper: Gatekeeper, parts: Parts, guard: Guard, throttle: Throttle
    ) -> None:
        self._agent = agent
        self._host = host
        self._keeper = keeper
        self._parts = parts
        self._guard = guard
        self._checks, self._reports = Pace(CHECK_NS), Pace(REPORT_NS, NEWS_REPORTS)
        self.handlers = {Welcome: self._on_welcome}
        self._check_ns = time.monotonic_ns() + CHECK_NS
        self._report_ns = 0
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._warnings: list[str] = []
        self._put_back = 0
        self._last_ns: int | None = None
        self._failures = 0
        self._check = BackgroundTask(throttle)

    def _on_welcome(self, message: Welcome, now_ns: int) -> None:
        self._checks.welcomed(message, now_ns)
        self._reports.welcomed(message, now_ns)

    def next_due_ns(self) -> int:
        due_ns = self._check_ns if self._check.due_ns is None else min(self._check_ns, self._check.due_ns)
        return min(due_ns, self._report_ns) if self._agent.member else due_ns

    def advance(self, now_ns: int) -> None:
        if now_ns >= self._check_ns:
            self._check_ns = self._checks.after(now_ns)
            self._check.begin(self._check_steps(now_ns), now_ns)
        self._check.advance(now_ns)
        if self._agent.member and now_ns >= self._report_ns:
            self._report_ns = self._reports.after(now_ns)
            self._agent.send(self._state(now_ns))

    def new_leader(self, now_ns: int) -> None:
        """Reports soon, once our clock has been compared with the new leader's."""
        self._report_ns = now_ns + self._reports.period_ns // 4

    def on_kernel_refusal(self, error: NetlinkError, now_ns: int) -> None:
        """Repairs everything after the kernel refused to change a queue: another program has removed something.

        Raises:
            NetlinkError: `error`, if the refusals do not end.
            InterfaceGone: there is no interface any more.
        """
        if error.errno == errno.ENODEV and self._host.gone():
            name = self._host.link.interface
            raise InterfaceGone(f"interface {name} is gone; start the agent again once it is there") from None
        self._failures += 1
        if self._failures > MOST_FAILURES:
            raise error
        with suppress(NetlinkError):  # the next refusal tries again: this one is counted
            self._repair_now(now_ns)

    def _check_steps(self, now_ns: int) -> Iterator[None]:
        """Checks everything, in steps; if anything differs, checks again and repairs, at once."""
        queues = self._host.queues
        if (yield from queues.drift_steps()):
            self._repair_now(now_ns)
        else:
            self._note(self._others(), now_ns)
        self._warn(now_ns)
        yield
        for source, target in (yield from queues.collect_steps(now_ns)):
            self._host.flows.forget(source, target)
        self._failures = 0

    def _repair_now(self, now_ns: int) -> None:
        queues = self._host.queues
        before = queues.version
        try:
            drifted = queues.repair()
        finally:
            if queues.version != before:  # the gates were made anew, and open, as far as the kernel let us
                self._agent.rules.reapply()
                self._keeper.rebuilt(now_ns)
        self._note(drifted + self._others(), now_ns)

    def _others(self) -> list[str]:
        """Repairs all but the queues; the lines to log."""
        return self._host.flows.repair() + self._parts.repair()

    def _note(self, drifted: list[str], now_ns: int) -> None:
        for line in drifted:
            log.warning("put back: %s", line)
        if drifted:
            self._lines.append(shortened(headline(drifted)))
            self._put_back += 1
            self._last_ns = self._report_ns = now_ns

    def _warn(self, now_ns: int) -> None:
        """Tells of what began or ceased to stand in the way."""
        before, self._warnings = self._warnings, self._host.flows.warnings() + self._parts.warnings()
        for line in self._warnings:
            if line not in before:
                log.warning("%s", line)
        for line in before:
            if line not in self._warnings:
                log.info("no longer: %s", line)
        if self._warnings != before:
            self._report_ns = now_ns

    def _state(self, now_ns: int) -> HostState:
        clock = self._agent.clock
        known = clock.synchronised
        ago_ms = NEVER_MS if self._last_ns is None else min(NEVER_MS - 1, (now_ns - self._last_ns) // MILLISECOND_NS)
        warnings = [shortened(WARNING + line) for line in self._warnings[:LINES_MAX]]
        newest = list(self._lines)[max(0, len(warnings) + len(self._lines) - LINES_MAX) :]
        return HostState(
            self._guard.ring.sending.fingerprint,
            time.time_ns() if known else 0,
            clock.coordinator(time.monotonic_ns()) if known else 0,
            clock.uncertainty_ns(now_ns),
            min(self._put_back, NEVER_MS),
            ago_ms,
            shortened(platform.release()),
            (*warnings, *newest),
        )


def headline(lines: list[str]) -> str:
    """One line for what one check put back: a qdisc rather than what was in it, and how many more lines there were."""
    first = next((line for line in lines if ": qdisc " in line), lines[0])
    return first if len(lines) == 1 else f"{first}, and {len(lines) - 1} more"
