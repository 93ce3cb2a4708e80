"""Keeps what was set up as it was, and tells the coordinator what this host is and what had to be put back. An edge: one clock.

Once a second the queues and every part are compared with what they should be. What somebody else has changed is made anew; it
is a line in the log, and with the last few in HOST_STATE: so `baton status`, the dashboard and `baton doctor --hosts` show it.
A gate that is gone is noticed sooner: the kernel refuses to change it, and everything is looked at then.
"""

from __future__ import annotations

import logging
import platform
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from agents.kernel.netlink import NetlinkError
from agents.loop.pace import Unhurried
from agents.loop.part import Part
from protocol.bodies.host_state import LINES_MAX, NEVER_MS, HostState, shortened
from protocol.units import MILLISECOND_NS

if TYPE_CHECKING:
    from agents.agent import Agent

log = logging.getLogger("baton.agent")

VERIFY_NS = 1_000_000_000
TELL_NS = 2_000_000_000
MOST_FAILURES = 20
"""Between two looks: then the interface itself is gone, and the agent ends as it does when anything else fails for good."""


class Upkeep(Part):
    """Made last of an agent's parts: it looks after all of them."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._verify_ns = time.monotonic_ns() + VERIFY_NS
        self._tell_ns = 0
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._put_back = 0
        self._last_ns: int | None = None
        self._failures = 0
        self._look = Unhurried(agent.pace)

    def next_due_ns(self) -> int:
        """When to look again, or to tell."""
        due_ns = self._verify_ns if self._look.due_ns is None else min(self._verify_ns, self._look.due_ns)
        return min(due_ns, self._tell_ns) if self._agent.member else due_ns

    def advance(self, now_ns: int) -> None:
        """Does what is due."""
        if now_ns >= self._verify_ns:
            self._verify_ns = now_ns + VERIFY_NS
            self._look.begin(self._looking(now_ns), now_ns)
        self._look.advance(now_ns)
        if self._agent.member and now_ns >= self._tell_ns:
            self._tell_ns = now_ns + TELL_NS
            self._agent.send(self._state(now_ns))

    def new_leader(self, now_ns: int) -> None:
        """It knows nothing of us yet; our clock is compared with its own soon."""
        self._tell_ns = now_ns + TELL_NS // 4

    def failed(self, error: NetlinkError, now_ns: int) -> None:
        """The kernel refused a change of queues: somebody has taken something away. Raises it when that does not end."""
        self._failures += 1
        if self._failures > MOST_FAILURES:
            raise error
        with suppress(NetlinkError):  # another time: it is counted
            self._verify(now_ns)

    def _looking(self, now_ns: int) -> Iterator[None]:
        """Looks at everything, in steps; what differs is looked at again, and put back, at once."""
        agent = self._agent
        if (yield from agent.queues.looking()):
            self._verify(now_ns)
        else:
            self._note(agent.parts.repair(), now_ns)
        yield
        for source, target in (yield from agent.queues.collecting(now_ns)):
            agent.flows.forget(source, target)
        self._failures = 0

    def _verify(self, now_ns: int) -> None:
        agent = self._agent
        drifted = agent.queues.repair()
        if drifted:  # every gate was made anew, and open
            agent.rules.enforce()
            agent.keeper.rebuilt(now_ns)
        self._note(drifted + agent.parts.repair(), now_ns)

    def _note(self, drifted: list[str], now_ns: int) -> None:
        for line in drifted:
            log.warning("put back: %s", line)
        if drifted:
            self._lines.append(shortened(headline(drifted)))
            self._put_back += 1
            self._last_ns = self._tell_ns = now_ns

    def _state(self, now_ns: int) -> HostState:
        clock = self._agent.clock
        known = clock.synchronised
        ago_ms = NEVER_MS if self._last_ns is None else min(NEVER_MS - 1, (now_ns - self._last_ns) // MILLISECOND_NS)
        return HostState(
            self._agent.guard.ring.sending.fingerprint,
            time.time_ns() if known else 0,
            clock.coordinator(time.monotonic_ns()) if known else 0,
            clock.uncertainty_ns(now_ns),
            min(self._put_back, NEVER_MS),
            ago_ms,
            shortened(platform.release()),
            tuple(self._lines),
        )


def headline(lines: list[str]) -> str:
    """What was put back at one look, in a line: a qdisc rather than what was in it, and how much more there was."""
    first = next((line for line in lines if ": qdisc " in line), lines[0])
    return first if len(lines) == 1 else f"{first}, and {len(lines) - 1} more"
