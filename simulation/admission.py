"""Which deadlines the coordinator admits, which it refuses, and who may send ahead of time. Pure.

A large flow with a deadline asks when it starts: its application opens a coflow of this one flow, and `controller.coflows`
decides as it does for any (Varys' rule). The flow does not wait for the answer. A refused flow goes by its size from then on,
as type 2; results still count its deadline. An application closes its coflow when the flow has ended, which MCP aims at for a
part of the deadline, or before if it sends ahead: what it reserved is free from then on (also that of a flow that is late
after all, which is not known before the run). Refused flows have another chance then; the coordinator takes it that nothing of
them is sent yet, since what is sent is not known before the run either. Smaller flows do not ask, and reserve nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from controller.coflows.ahead.head_starts import TIMES, HeadStartPlan
from controller.coflows.coflow import Coflow
from controller.coflows.coflow import Flow as Demand
from controller.coflows.deadlines import REFUSED, Deadlines
from controller.coflows.links import BigSwitch, Links
from simulation.flows import Flow, HeadStart


@dataclass(frozen=True, slots=True)
class Decided:
    """What the coordinator decided about flows. `refused`: those that are refused at first, by position, and when after their
    start (ns) they are admitted after all; 0: never. `starts`: as it decides them, the first before others."""

    refused: dict[int, int] = field(default_factory=dict)
    starts: tuple[HeadStart, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """How deadlines are admitted.

    `share`: of each host's link, in each direction, what admitted deadlines may need. `from_bytes`: flows of this size and more
    ask. `delay_ns`: from a flow's start to the answer, and from any other decision until a host hears of it. `aim`: the part of
    its deadline after which an admitted flow has ended. `ahead`: whether flows may send ahead of time where there is room.
    """

    share: float
    from_bytes: int
    delay_ns: int
    aim: float = 1.0
    ahead: bool = False

    def decided(self, flows: Sequence[Flow], rate_bps: int) -> Decided:
        """`flows` in the order of their starts, on links of this rate."""
        run = _Decisions(self, flows, Links(BigSwitch(lambda host: rate_bps)))
        for position, flow in enumerate(flows):
            if flow.flow_type == 1 and flow.size_bytes >= self.from_bytes:
                run.ask(position)
        run.until(max((flow.start_ns + flow.deadline_ns for flow in flows), default=0))
        return Decided(run.refused, tuple(run.starts))

    def sent(self, flows: Sequence[Flow], decided: Decided) -> tuple[Flow, ...]:
        """The flows as hosts send them, when those that are refused hear of that, and that they are admitted later."""
        found = list(flows)
        for position, later_ns in decided.refused.items():
            flow = flows[position]
            heard_ns = later_ns + self.delay_ns if later_ns else 0
            found[position] = replace(
                flow, refused_ns=max(1, self.delay_ns), admitted_ns=heard_ns if heard_ns < flow.deadline_ns else 0
            )
        return tuple(found)

    def heard(self, flows: Sequence[Flow], decided: Decided) -> list[HeadStart]:
        """The head starts as hosts hear of them, those that they hear of before the deadline."""
        every = (one._replace(at_ns=one.at_ns + self.delay_ns) for one in decided.starts)
        return [one for one in every if one.at_ns < flows[one.flow].start_ns + flows[one.flow].deadline_ns]


class _Decisions:
    """The coordinator from the first flow to the last."""

    def __init__(self, admission: Admission, flows: Sequence[Flow], links: Links) -> None:
        self.refused: dict[int, int] = {}
        self.starts: list[HeadStart] = []
        self._admission, self._flows = admission, flows
        self._deadlines = Deadlines(links, admission.share)
        self._sending = HeadStartPlan(links, times=TIMES if admission.ahead else 1.0)
        self._open: dict[int, Coflow] = {}
        self._ahead: dict[int, bool] = {}
        self._due: list[tuple[int, int]] = []
        """When the deadline of which refused flow has passed."""

    def ask(self, position: int) -> None:
        """A flow starts, and asks."""
        flow = self._flows[position]
        self.until(flow.start_ns)
        due_ns, demand = flow.start_ns + flow.deadline_ns, Demand(str(flow.source), str(flow.target), flow.size_bytes)
        self._open[position] = Coflow(position, flow.start_ns, due_ns, due_ns, flows=(demand,))
        if self._deadlines.update(self._open.values())[position].deadline == REFUSED:
            self.refused[position] = 0
            heapq.heappush(self._due, (due_ns, position))
        else:
            self._begin(position, flow.start_ns)
            self._work_out(flow.start_ns)

    def until(self, now_ns: int) -> None:
        """Ends what is through, or too late, by now; others have their chance then."""
        while True:
            end = self._sending.next_end()
            if self._due and self._due[0][0] <= now_ns and (end is None or self._due[0][0] <= end[0]):
                _, position = heapq.heappop(self._due)
                if position not in self._ahead:  # it was not admitted later
                    self._open.pop(position)
                continue
            if end is None or end[0] > now_ns:
                return
            self._end(end[1], int(end[0]))

    def _end(self, position: int, at_ns: int) -> None:
        del self._open[position]
        self._sending.end(position)
        self._deadlines.update(self._open.values())
        for later in self._deadlines.admit_later(self._open, lambda one: one.flows, at_ns):
            self.refused[later] = at_ns - self._flows[later].start_ns
            self._begin(later, at_ns)
        self._work_out(at_ns)

    def _begin(self, position: int, now_ns: int) -> None:
        one = replace(self._open[position], opened_ns=now_ns)
        assert one.deadline_ns is not None
        self._ahead[position] = False
        self._sending.begin(one, now_ns + round(self._admission.aim * (one.deadline_ns - now_ns)))

    def _work_out(self, now_ns: int) -> None:
        for position, ahead in self._sending.work_out(now_ns).items():
            if ahead != self._ahead[position]:
                self._ahead[position] = ahead
                self.starts.append(HeadStart(position, now_ns, TIMES if ahead else 1.0))
