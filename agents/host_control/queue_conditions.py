"""The operator's dequeue conditions at one host: blocks, limits and unblocks queues as CONDITIONS says. Pure.

A part of the agent. The message has all conditions, so a lost one costs only the second until the next. The agent refuses a
message with any invalid condition as a whole, and every queue stays as it was. One that names times waits until the leader's
clock is known: by another clock it would block a queue that it is to open.
"""

from __future__ import annotations

from agents.loop.part import Part, Surroundings
from agents.permission.conditions import BLOCKED, Condition, ConditionSet
from agents.permission.rules import Rule
from protocol.bodies.host_control import FOREVER_NS, Conditions, QueueCondition
from protocol.messages import Cause
from protocol.paging import Reassembler
from protocol.pfc import CLASSES


class QueueConditions(Part):
    """Enforces CONDITIONS."""

    def __init__(self, agent: Surroundings, link_bps: int) -> None:
        self._agent = agent
        self._link_bps = link_bps
        self._set = ConditionSet()
        self._due_ns: int | None = None
        self._restricted: frozenset[int] = frozenset()
        self._pages: Reassembler[Conditions] = Reassembler()
        self._version = self._refused_version = -1
        self._has_conditions = False
        self._waiting: list[QueueCondition] = []
        self.handlers = {Conditions: self._on_conditions}

    def has_conditions(self) -> bool:
        """Whether this leader has sent conditions, and its clock is known."""
        return self._has_conditions and self._agent.clock.synchronised

    def _on_conditions(self, message: Conditions, now_ns: int) -> None:
        pages = self._pages.add(message)
        if pages is None or not self._agent.enforcing or message.version < self._version:
            return  # an older one came late
        self._version = message.version
        entries = [entry for page in pages for entry in page.entries]
        nodes = self._agent.nodes
        if any(entry.rate_bps > self._link_bps or (entry.queue >= CLASSES and entry.queue not in nodes) for entry in entries):
            if message.version != self._refused_version:  # the same message comes every second
                self._refused_version = message.version
                self._agent.refuse(Cause.CONDITION)
            return
        if not self._agent.clock.synchronised and any(_names_times(entry) for entry in entries):
            self._waiting = entries
            return
        self._take(entries, now_ns)

    def _take(self, entries: list[QueueCondition], now_ns: int) -> None:
        local, self._waiting = self._agent.clock.local, []
        self._set.replace(
            Condition(e.queue, e.number, local(e.open_from_ns), local(e.open_until_ns), rate_bps=e.rate_bps, received_ns=now_ns)
            for e in entries
        )
        self._apply(now_ns)
        self._has_conditions = True

    def next_due_ns(self) -> int | None:
        """When a condition starts or stops being met."""
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        """Applies conditions that start or stop being met now, or that have waited for the leader's clock."""
        if self._waiting and self._agent.clock.synchronised:
            self._take(self._waiting, now_ns)
        elif self._due_ns is not None and now_ns >= self._due_ns:
            self._apply(now_ns)

    def _apply(self, now_ns: int) -> None:
        limits = self._set.limits(now_ns)
        rules = self._agent.rules
        restricted = frozenset(queue for queue, rate in limits.items() if rate is not None)
        before, self._restricted = self._restricted, self._restricted | restricted  # also if the kernel refuses one of them
        rules.block(Rule.QUEUE, [queue for queue, rate in limits.items() if rate == BLOCKED])
        for queue, rate in limits.items():
            if rate:
                rules.limit(Rule.QUEUE, queue, rate)
        rules.unblock(Rule.QUEUE, before - restricted)
        self._restricted = restricted
        self._due_ns = self._set.next_change_ns(now_ns)  # computed after the urgent changes

    def new_leader(self, now_ns: int) -> None:
        """Forgets the versions of the previous leader."""
        self._pages.clear()
        self._version = self._refused_version = -1
        self._has_conditions = False
        self._waiting = []

    def released(self, now_ns: int) -> None:
        """Removes all conditions; the leader sends them again when it returns."""
        self._set.replace(())
        self._due_ns, self._restricted, self._waiting = None, frozenset(), []


def _names_times(entry: QueueCondition) -> bool:
    return (entry.open_from_ns, entry.open_until_ns) not in ((0, 0), (0, FOREVER_NS))
