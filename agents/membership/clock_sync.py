"""Synchronises the agent's clock with the leader's: asks for the leader's time, and reports how well it is known. Pure.

The kernel's monotonic clocks of two hosts differ by when they were started, so an offset is of any size; what bounds how
exactly a day or a slot can begin is its uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.loop.pace import Pace
from agents.loop.part import Part, Surroundings
from protocol.bodies.host_control import ClockReport
from protocol.messages import Ping, Pong, Welcome

PING_NS = 200_000_000
"""How often the agent asks: where the leader wants reports less often, as often as it reports."""
FIRST_PING_NS = 5_000_000
FIRST_PINGS = 16
PINGS_A_REPORT = 5


class ClockSync(Part):
    """Pings while the agent is a member: quickly at first, then up to five times a second."""

    def __init__(self, agent: Surroundings, arrived_ns: Callable[[], int]) -> None:
        """`arrived_ns`: when, by this host's clock, the frame arrived that is being handled."""
        self._agent = agent
        self._arrived_ns = arrived_ns
        self._pings = 0
        self._due_ns = 0
        self._pace = Pace(PING_NS)
        self.handlers = {Pong: self._on_pong, Welcome: self._pace.welcomed}

    def next_due_ns(self) -> int | None:
        return self._due_ns if self._agent.member else None

    def advance(self, now_ns: int) -> None:
        """Sends a PING when it is due, and now and then how well the clock is known."""
        if now_ns < self._due_ns or not self._agent.member:
            return
        self._pings += 1
        self._due_ns = self._pace.after(now_ns) if self._pings > FIRST_PINGS else now_ns + FIRST_PING_NS
        clock = self._agent.clock
        if clock.synchronised and (self._pings == FIRST_PINGS or not self._pings % PINGS_A_REPORT):
            self._agent.send(ClockReport(clock.offset_ns, clock.uncertainty_ns(now_ns)))
        self._agent.send_stamped(Ping)

    def new_leader(self, now_ns: int) -> None:
        """Begins anew: another leader has another clock."""
        self._agent.clock.reset()
        self._pings = self._due_ns = 0

    def _on_pong(self, message: Pong, now_ns: int) -> None:
        if message.sent_ns:  # else it answers the membership's question, which is not about the time
            self._agent.clock.sample(message.sent_ns, message.received_ns, message.replied_ns, self._arrived_ns())
