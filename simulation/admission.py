"""Which deadlines the coordinator admits, and which it refuses. Pure.

A large flow with a deadline asks when it starts: its application opens a coflow of this one flow, and `controller.coflows`
decides as it does for any (Varys' rule). The flow does not wait for the answer. A refused flow goes by its size from then on,
as type 2; results still count its deadline. An application closes its coflow when the flow has ended, which MCP aims at for a
part of the deadline: what it reserved is free from then on (also that of a flow that is late after all, which is not known
before the run). Smaller flows do not ask, and reserve nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    ask. `delay_ns`: from a flow's start to the answer. `aim`: the part of its deadline after which an admitted flow has ended.
    """

    share: float
    from_bytes: int
    delay_ns: int
    aim: float = 1.0

    def refused(self, flows: Sequence[Flow], rate_bps: int) -> frozenset[int]:
        """The positions of the flows that are refused; `flows` in the order of their starts, on links of this rate."""
        deadlines = Deadlines(Links(BigSwitch(lambda host: rate_bps)), self.share)
        found = set[int]()
        admitted: list[Coflow] = []
        for position, flow in enumerate(flows):
            if flow.flow_type != 1 or flow.size_bytes < self.from_bytes:
                continue
            due_ns, demand = flow.start_ns + flow.deadline_ns, Demand(str(flow.source), str(flow.target), flow.size_bytes)
            closed_ns = flow.start_ns + round(self.aim * flow.deadline_ns)
            new = Coflow(position, flow.start_ns, closed_ns, due_ns, flows=(demand,))
            admitted = [one for one in admitted if one.expires_ns > flow.start_ns]
            if deadlines.update([*admitted, new])[position].deadline == REFUSED:
                found.add(position)
            else:
                admitted.append(new)
        return frozenset(found)

    def sent(self, flows: Sequence[Flow], refused: frozenset[int]) -> tuple[Flow, ...]:
        """The flows as hosts send them, when those at these positions hear that they are refused."""
        return tuple(
            replace(flow, refused_ns=max(1, self.delay_ns)) if position in refused else flow
            for position, flow in enumerate(flows)
        )
