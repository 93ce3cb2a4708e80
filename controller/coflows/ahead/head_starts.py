"""Which flows with admitted deadlines may send faster than they need, where their links have room. Pure.

MCP ends a flow just in time, so a flow that is held up once has nothing to spare: where deadlines fill a link it is late. Who
sends ahead while there is room meets the next crowd with less left. All that flows send ahead others wait for, so it is little:
`TIMES` what a flow needs, and only while deadlines, with that, need less than `BELOW` of each link on its way; the earliest
deadline before others (docs/simulation-design.md, "What helps: a head start").

What is left of a flow is worked out from what it should have sent; hosts report no bytes of such flows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from controller.coflows.coflow import Coflow
from controller.coflows.links import Links, Port

TIMES = 1.1
"""How many times what it needs a flow may send."""
BELOW = 0.9
"""The part of a link's rate that deadlines may need beside a flow that goes ahead."""
MOST_FLOWS = 1024
"""Where more flows than this have admitted deadlines, none goes ahead: it would take longer than it is worth."""
SHORTEST_NS = 10_000
"""A flow's end counts as at least so far ahead."""


@dataclass(eq=False, slots=True)
class _Sending:
    """One flow: what it has still to send (bytes), until when, and at which rate it does (bytes/ns)."""

    pair: tuple[str, str]
    ports: tuple[Port, ...]
    left: float
    end_ns: int
    rate: float = 0.0
    ahead: bool = False

    @property
    def takes_ns(self) -> float:
        return self.left / self.rate if self.rate else 0.0

    def needs(self, now_ns: int) -> float:
        return self.left / max(self.end_ns - now_ns, SHORTEST_NS)


class HeadStartPlan:
    """The flows of the admitted coflows. Instants are ns of one clock."""

    def __init__(self, links: Links, times: float = TIMES, below: float = BELOW) -> None:
        """`times` and `below`: see `TIMES` and `BELOW`; with `times` 1 nobody goes ahead."""
        self._links = links
        self._times, self._below = times, below
        self._flows: dict[int, list[_Sending]] = {}
        self._now_ns = 0

    def __bool__(self) -> bool:
        """Whether any coflow is open."""
        return bool(self._flows)

    def begin(self, one: Coflow, end_ns: int) -> None:
        """Takes a coflow that was admitted, with the flows that it has; they aim at this end. It counts from the next
        `work_out` on."""
        self._flows[one.coflow] = [
            _Sending((source, target), self._links.ports(source, target), float(size), end_ns)
            for source, target, size in one.flows
        ]

    def follow(self, one: Coflow) -> None:
        """Takes the ways, and the names of hosts, as they are now, of a coflow that is there."""
        some = self._flows.get(one.coflow, [])
        for flow, named in zip(some, one.flows, strict=False):
            if len(some) == len(one.flows):
                flow.pair = named[:2]
        for flow in some:
            flow.ports = self._links.ports(*flow.pair)

    def end(self, coflow: int) -> None:
        """Forgets a coflow; nothing if it is not there."""
        self._flows.pop(coflow, None)

    def work_out(self, now_ns: int) -> dict[int, bool]:
        """Lets time pass, and decides anew; returns which coflows have a flow that goes ahead."""
        for some in self._flows.values() if now_ns > self._now_ns else ():
            for flow in some:
                flow.left = max(0.0, flow.left - flow.rate * (now_ns - self._now_ns))
        self._now_ns = max(self._now_ns, now_ns)
        flows = sorted((flow for some in self._flows.values() for flow in some), key=lambda flow: flow.end_ns)
        taken: Counter[Port] = Counter()
        for flow in flows:
            flow.rate, flow.ahead = flow.needs(self._now_ns), False
            for port in flow.ports:
                taken[port] += flow.rate  # type: ignore[assignment]  # a Counter of rates
        for flow in flows if len(flows) <= MOST_FLOWS and self._times > 1 else ():
            more = (self._times - 1) * flow.rate
            if more and all(taken[port] + more <= self._most(port) for port in flow.ports):
                flow.rate, flow.ahead = self._times * flow.rate, True
                for port in flow.ports:
                    taken[port] += more  # type: ignore[assignment]
        return {number: any(flow.ahead for flow in some) for number, some in self._flows.items()}

    def expire(self, now_ns: int) -> None:
        """Forgets the coflows whose end has passed: their flows are through, or late."""
        for number in [number for number, some in self._flows.items() if all(flow.end_ns <= now_ns for flow in some)]:
            del self._flows[number]

    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of hosts of which every flow goes ahead."""
        flows = [flow for some in self._flows.values() for flow in some if flow.left > 0]
        return frozenset(flow.pair for flow in flows) - {flow.pair for flow in flows if not flow.ahead}

    def next_end(self) -> tuple[float, int] | None:
        """When the first coflow is through (ns), and which, if none comes or ends before."""
        if not self._flows:
            return None
        takes_ns, number = min((max(flow.takes_ns for flow in some), number) for number, some in self._flows.items())
        return self._now_ns + takes_ns, number

    def _most(self, port: Port) -> float:
        return self._below * self._links.rate_bps(port) / 8e9
