"""The operator's dequeue conditions at one host: takes CONDITIONS, and shuts, limits and frees queues when they say so. Pure.

A part of the agent. The message is a full state, so a lost one costs a second; a state with anything wrong in it is refused as
a whole, and every queue stays as it was.
"""

from __future__ import annotations

from agents.loop.part import Part, Surroundings
from agents.permission.conditions import SHUT, Condition, ConditionSet
from agents.permission.rules import Rule
from protocol.bodies.host_control import Conditions
from protocol.messages import Cause
from protocol.paging import Reassembler
from protocol.pfc import CLASSES


class QueueConditions(Part):
    """Obeys CONDITIONS."""

    def __init__(self, agent: Surroundings, link_bps: int) -> None:
        self._agent = agent
        self._link_bps = link_bps
        self._set = ConditionSet()
        self._due_ns: int | None = None
        self._ruled: frozenset[int] = frozenset()
        self._pages: Reassembler[Conditions] = Reassembler()
        self._refused_version = -1
        self._ruled_ever = False
        self.handlers = {Conditions: self._on_conditions}

    def ruled(self) -> bool:
        """Whether this leader has said conditions."""
        return self._ruled_ever

    def _on_conditions(self, message: Conditions, now_ns: int) -> None:
        pages = self._pages.add(message)
        if pages is None or not self._agent.obeying:
            return
        entries = [entry for page in pages for entry in page.entries]
        nodes, local = self._agent.nodes, self._agent.clock.local
        if any(entry.rate_bps > self._link_bps or (entry.queue >= CLASSES and entry.queue not in nodes) for entry in entries):
            if message.version != self._refused_version:  # it comes every second
                self._refused_version = message.version
                self._agent.refuse(Cause.CONDITION)
            return
        self._set.replace(
            Condition(e.queue, e.number, local(e.open_from_ns), local(e.open_until_ns), rate_bps=e.rate_bps, received_ns=now_ns)
            for e in entries
        )
        self._apply(now_ns)
        self._ruled_ever = True

    def next_due_ns(self) -> int | None:
        """When a condition begins or ends to be met."""
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        """Does what is due."""
        if self._due_ns is not None and now_ns >= self._due_ns:
            self._apply(now_ns)

    def _apply(self, now_ns: int) -> None:
        limits = self._set.limits(now_ns)
        rules = self._agent.rules
        rules.shut(Rule.QUEUE, [queue for queue, rate in limits.items() if rate == SHUT])
        for queue, rate in limits.items():
            if rate:
                rules.limit(Rule.QUEUE, queue, rate)
        ruled = frozenset(queue for queue, rate in limits.items() if rate is not None)
        rules.free(Rule.QUEUE, self._ruled - ruled)
        self._ruled = ruled
        self._due_ns = self._set.next_change_ns(now_ns)  # after what is urgent

    def new_leader(self, now_ns: int) -> None:
        """Its versions are its own."""
        self._pages.clear()
        self._refused_version = -1
        self._ruled_ever = False

    def released(self, now_ns: int) -> None:
        """All queues are free; the leader says again what is to be, when it is heard."""
        self._set.replace(())
        self._due_ns, self._ruled = None, frozenset()
