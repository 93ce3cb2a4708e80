"""The gates of a week's flows, made before the week begins. An edge: the host's kernel state.

A flow by ToS is queued by its DSCP, whatever its destination: a destination node of its own stands for it, with a number above
all that a coordinator assigns.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rules
from agents.queues.classifier import DSCPS
from agents.queues.host import Host
from agents.queues.queues import LAST_NODE
from protocol.bodies.host_control import Week, WeekKey

FIRST_DSCP_NODE = LAST_NODE + 1 - DSCPS


class WeekQueues:
    """Makes the queues that a week needs: `week_schedule.Queues`."""

    def __init__(self, host: Host, keeper: Gatekeeper, rules: Rules) -> None:
        self._host = host
        self._keeper = keeper
        self._rules = rules
        self._dscps: frozenset[int] = frozenset()

    def __call__(self, week: Week, now_ns: int) -> tuple[int, ...]:
        """The destinations of the week's flows, by bit, each with a gate."""
        by_tos = week.key is WeekKey.TOS
        destinations = tuple(FIRST_DSCP_NODE + flow for flow in week.flows) if by_tos else week.flows
        for destination in destinations:
            if self._host.queues.ensure_destination(destination):
                self._keeper.created(destination, now_ns)
                self._rules.reapply(destination)
        return destinations

    def keep(self, weeks: Iterable[Week]) -> None:
        """Packets with a DSCP of these weeks wait at its gate, all others at the gates of their destinations."""
        dscps = frozenset(flow for week in weeks if week.key is WeekKey.TOS for flow in week.flows)
        if dscps != self._dscps:
            self._dscps = dscps
            self._host.flows.set_scheduled_dscps({dscp: FIRST_DSCP_NODE + dscp for dscp in dscps})
