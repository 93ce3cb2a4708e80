"""Which deadlines the coordinator admits, and which it refuses. Pure.

A large flow with a deadline asks when it starts: its application opens a coflow of this one flow, and `controller.coflows`
decides as it does for any (Varys' rule). The flow does not wait for the answer. A refused flow goes by its size from then on,
as type 2; results still count its deadline. An application closes its coflow when the flow has ended, which MCP aims at for a
part of the deadline: what it reserved is free from then on (also that of a flow that is late after all, which is not known
before the run). Refused flows have another chance then; the coordinator takes it that nothing of them is sent yet, since what
is sent is not known before the run either. Smaller flows do not ask, and reserve nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controller.coflows.coflow import Coflow
from controller.coflows.coflow import Flow as Demand
from controller.coflows.deadlines import REFUSED, Deadlines
from controller.coflows.links import BigSwitch, Links
from simulation.flows import Flow


@dataclass(frozen=True, slots=True)
class Admission:
    """How deadlines are admitted.

    `share`: of each host's link, in each direction, what admitted deadlines may need. `from_bytes`: flows of this size and more
    ask. `delay_ns`: from a flow's start to the answer, and from when there is room for a refused one until it hears of that.
    `aim`: the part of its deadline after which an admitted flow has ended.
    """

    share: float
    from_bytes: int
    delay_ns: int
    aim: float = 1.0

    def refused(self, flows: Sequence[Flow], rate_bps: int) -> dict[int, int]:
        """The flows that are refused at first, by position, and when after their start (ns) they are admitted after all; 0:
        never. `flows` in the order of their starts, on links of this rate."""
        deadlines = Deadlines(Links(BigSwitch(lambda host: rate_bps)), self.share)
        found: dict[int, int] = {}
        coflows: dict[int, Coflow] = {}
        ends: list[tuple[int, int]] = []

        def end_until(now_ns: int) -> None:
            while ends and ends[0][0] <= now_ns:
                at_ns, position = heapq.heappop(ends)
                if coflows.pop(position, None) is None:
                    continue
                deadlines.update(coflows.values())
                for later in deadlines.admit_later(coflows, lambda one: one.flows, at_ns):
                    found[later] = at_ns - flows[later].start_ns
                    heapq.heappush(ends, (self._end_ns(flows[later], at_ns), later))

        for position, flow in enumerate(flows):
            if flow.flow_type != 1 or flow.size_bytes < self.from_bytes:
                continue
            end_until(flow.start_ns)
            due_ns, demand = flow.start_ns + flow.deadline_ns, Demand(str(flow.source), str(flow.target), flow.size_bytes)
            coflows[position] = Coflow(position, flow.start_ns, due_ns, due_ns, flows=(demand,))
            if deadlines.update(coflows.values())[position].deadline == REFUSED:
                found[position] = 0
                heapq.heappush(ends, (due_ns, position))
            else:
                heapq.heappush(ends, (self._end_ns(flow, flow.start_ns), position))
        end_until(max((end_ns for end_ns, _ in ends), default=0))
        return found

    def _end_ns(self, flow: Flow, admitted_ns: int) -> int:
        return admitted_ns + round(self.aim * (flow.start_ns + flow.deadline_ns - admitted_ns))

    def sent(self, flows: Sequence[Flow], refused: Mapping[int, int]) -> tuple[Flow, ...]:
        """The flows as hosts send them, when those at these positions hear that they are refused, and admitted later."""
        found = list(flows)
        for position, later_ns in refused.items():
            flow = flows[position]
            heard_ns = later_ns + self.delay_ns if later_ns else 0
            found[position] = replace(
                flow, refused_ns=max(1, self.delay_ns), admitted_ns=heard_ns if heard_ns < flow.deadline_ns else 0
            )
        return tuple(found)
