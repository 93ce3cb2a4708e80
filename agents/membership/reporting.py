"""Reports to the coordinator, each period, the bytes sent to each host, the bytes that wait, and the frames refused. Pure.

From these reports the coordinator decides which links are contended and which host sends without permission. A link's buffer
fills within milliseconds, sooner than a period ends. So where nothing was sent to a host lately, the first packet of a large
flow to it brings two reports: one at once, which ends the period, and one soon after, which tells how fast the flow is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice

from agents.loop.pace import Pace
from agents.loop.part import Part, Surroundings
from agents.loop.throttle import BackgroundTask, Throttle
from agents.permission.gatekeeper import Gatekeeper
from agents.queues.host import Host
from protocol.auth import Guard
from protocol.bodies.flows.losses import LOSSES_MAX, Losses
from protocol.messages import FlowReport, Report, Welcome
from protocol.paging import paginate

FIRST_PERIOD_NS = 50_000_000
"""Until a leader's WELCOME has said how often it wants reports."""
SOON_NS = 5_000_000
"""From the first packet of a large flow to the report of its rate."""
SPARING = 4
"""Such reports begin once in so many periods at most."""
LOOKED_AT_AGAIN = 64
TOGETHER_NS = 1_000_000_000
"""Reports that are as seldom as this come together with the agent's other looks."""


class Reporting(Part):
    """Reports while the agent is a member; what was sent before is not reported."""

    def __init__(self, agent: Surroundings, host: Host, keeper: Gatekeeper, guard: Guard, throttle: Throttle) -> None:
        self._agent = agent
        self._host = host
        self._keeper = keeper
        self._guard = guard
        self._clock = throttle.clock
        self._period_ns = FIRST_PERIOD_NS
        self._pace = Pace(FIRST_PERIOD_NS)
        self._begun_ns = self._clock()
        """When the last report was begun. The throttle may delay one: each covers all the time since the one before."""
        self._due_ns = self._begun_ns + FIRST_PERIOD_NS
        self._number = 0
        self._watched = set[int]()
        """Nodes to which nothing was sent: we hear of the first packet."""
        self._passed_over: dict[int, None] = {}
        """Nodes to which nothing was sent, and which need permission: they are looked at again, some in each report."""
        self._sparing_until_ns = self._begun_ns
        self._again_soon = False
        self._work = BackgroundTask(throttle)
        self.handlers = {Welcome: self._on_welcome}

    def _on_welcome(self, message: Welcome, now_ns: int) -> None:
        self._period_ns = message.report_ns
        self._pace.welcomed(message, now_ns)

    def next_due_ns(self) -> int:
        return self._due_ns if self._work.due_ns is None else min(self._due_ns, self._work.due_ns)

    def advance(self, now_ns: int) -> None:
        if now_ns >= self._due_ns:
            if self._again_soon:
                self._due_ns, self._again_soon = now_ns + SOON_NS, False
            else:
                self._due_ns = self._pace.after(now_ns) if self._period_ns >= TOGETHER_NS else now_ns + self._period_ns
            self._work.begin(self._report(), now_ns)  # if the last one is done
        self._work.advance(now_ns)

    def woken(self, node: int, now_ns: int) -> None:
        """A large flow begins to send to a node that needs no permission; the caller asks `next_due_ns` again."""
        self._watched.discard(node)
        if now_ns >= self._sparing_until_ns:
            self._sparing_until_ns = now_ns + SPARING * min(self._period_ns, FIRST_PERIOD_NS)
            self._due_ns, self._again_soon = now_ns, True

    def _report(self) -> Iterator[None]:
        agent, host, entries = self._agent, self._host, list[FlowReport]()
        lost = list[tuple[int, int, int]]()
        begun_ns = self._clock()
        since_ns, self._begun_ns = max(1, begun_ns - self._begun_ns), begun_ns
        for node, count in host.flows.sent_bytes():
            if count and agent.member:
                entries.append(FlowReport(node, count, host.queues.backlog(node)[1]))
                if segments := host.flows.lost_segments(node):
                    lost.append((node, segments, count))
            self._watch(node, idle=not count)
            yield
        for node in list(islice(self._passed_over, LOOKED_AT_AGAIN)):
            del self._passed_over[node]
            self._watch(node, idle=True)
        if not agent.member:
            return
        counters = tuple((int(cause), count) for cause, count in self._guard.refused.items())
        self._number += 1
        for page in paginate(Report(since_ns, 0, 1, tuple(entries), counters, self._number)):
            agent.send(page)
            yield
        if lost:
            agent.send(Losses(tuple(heapq.nlargest(LOSSES_MAX, lost, key=lambda entry: entry[1]))))
        self._keeper.refresh(self._clock())

    def _watch(self, node: int, *, idle: bool) -> None:
        """Asks for the first packet to a node to which nothing was sent; of regulated ones the gatekeeper asks."""
        self._passed_over.pop(node, None)
        if self._keeper.regulates(node):
            self._watched.discard(node)
            if idle:
                self._passed_over[node] = None
        elif idle and node not in self._watched:
            self._watched.add(node)
            self._host.flows.arm(node)
