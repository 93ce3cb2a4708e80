"""The gates of a week's flows, made before the week begins. An edge: the host's kernel state.

A flow by ToS is queued by its DSCP, whatever the destination: a destination node of its own stands for it, above all that a
coordinator gives out.
"""

from __future__ import annotations

from agents.agent import Agent
from agents.queues.classifier import DSCPS
from agents.queues.queues import LAST_NODE
from protocol.bodies.host_control import FlowKey, Week

FIRST_DSCP_NODE = LAST_NODE + 1 - DSCPS


class WeekQueues:
    """Makes what a week needs; call it with every week that is taken."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._dscps: frozenset[int] = frozenset()

    def __call__(self, week: Week, now_ns: int) -> tuple[int, ...]:
        """The destinations of the week's flows, by bit, each with a gate."""
        by_tos = week.key is FlowKey.TOS
        destinations = tuple(FIRST_DSCP_NODE + flow for flow in week.flows) if by_tos else week.flows
        for destination in destinations:
            if self._agent.queues.ensure_destination(destination):
                self._agent.keeper.created(destination, now_ns)
                self._agent.rules.enforce(destination)
        dscps = frozenset(week.flows if by_tos else ())
        if dscps != self._dscps:
            self._dscps = dscps
            self._agent.flows.set_scheduled_dscps({dscp: FIRST_DSCP_NODE + dscp for dscp in dscps})
        return destinations
