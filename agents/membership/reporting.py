"""Tells the coordinator, each period, what was sent to whom, what waits, and what was refused. Pure.

Whatever the coordinator decides about links (which are contended, who sends without permission) it decides by these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.loop.pace import Unhurried
from agents.loop.part import Part
from protocol.messages import FlowReport, Report, Welcome
from protocol.paging import paginate

if TYPE_CHECKING:
    from agents.agent import Agent

FIRST_PERIOD_NS = 50_000_000
"""Until a leader has said how often it wants to be told."""


class Reporting(Part):
    """Reports, while the agent is a member. What was sent before it was is nobody's to know."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._period_ns = FIRST_PERIOD_NS
        self._begun_ns = agent.pace.clock()
        """When the last one was: slow work may be put off, and what was sent is told of all the time since."""
        self._due_ns = self._begun_ns + FIRST_PERIOD_NS
        self._number = 0
        self._work = Unhurried(agent.pace)
        self.handlers = {Welcome: self._on_welcome}

    def _on_welcome(self, message: Welcome, now_ns: int) -> None:
        self._period_ns = message.report_ns

    def next_due_ns(self) -> int:
        """See Part."""
        return self._due_ns if self._work.due_ns is None else min(self._due_ns, self._work.due_ns)

    def advance(self, now_ns: int) -> None:
        """See Part."""
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + self._period_ns
            self._work.begin(self._report(), now_ns)  # if the last one is done
        self._work.advance(now_ns)

    def _report(self) -> Iterator[None]:
        agent, entries = self._agent, list[FlowReport]()
        begun_ns = self._agent.pace.clock()
        since_ns, self._begun_ns = max(self._period_ns, begun_ns - self._begun_ns), begun_ns
        for node, count in agent.flows.sent_bytes():
            if count and agent.member:
                entries.append(FlowReport(node, count, agent.queues.backlog(node)[1]))
            yield
        if not agent.member:
            return
        counters = tuple((int(cause), count) for cause, count in agent.guard.refused.items())
        self._number += 1
        for page in paginate(Report(since_ns, 0, 1, tuple(entries), counters, self._number)):
            agent.send(page)
            yield
        agent.keeper.refresh(agent.pace.clock())
