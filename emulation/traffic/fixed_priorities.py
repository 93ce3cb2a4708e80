"""pFabric (SIGCOMM 2013) approximated on eight strict priorities: a flow's priority is fixed when it starts. Pure.

pFabric's switches serve the packet of the flow with the least left to send (SJF) or with the earliest deadline (EDF). Commodity
switches have eight queues, so Karuna's authors compare with fixed priorities, and so does this: `sjf` by a flow's size, `edf`
by its deadline and, for flows without a deadline, below all others by size. It uses every flow's true size, which an
application may not know.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from emulation.traffic.flow_schedule import ScheduledFlow

DSCP = (7, 6, 5, 4, 3, 2, 1, 0)
"""The DSCPs of queues 0 (highest priority) to 7."""
DEADLINE_QUEUES = 4
"""Those of `edf` for flows with deadlines."""


def sjf(flows: Sequence[ScheduledFlow], cuts: Sequence[int]) -> Mapping[int, int]:
    """The DSCP of each flow, by its number: the smallest first, without regard to deadlines.

    Args:
        cuts: up to seven sizes at which a band ends, rising; the flows of exactly a cut's size are above it.
    """
    return {flow.number: DSCP[bisect_left(cuts, flow.size_bytes)] for flow in flows}


def edf(flows: Sequence[ScheduledFlow], cuts: Sequence[int]) -> Mapping[int, int]:
    """The DSCP of each flow, by its number: flows with deadlines in the first four queues, equally many in each, earliest
    first.

    Args:
        cuts: up to three sizes at which a band of the flows without deadlines ends, in the four queues below.
    """
    due = sorted((flow.deadline_ms, flow.number) for flow in flows if flow.deadline_ms is not None)
    first = {number: DSCP[at * DEADLINE_QUEUES // len(due)] for at, (_, number) in enumerate(due)}
    below = DSCP[DEADLINE_QUEUES:]
    return {flow.number: first.get(flow.number, below[bisect_left(cuts, flow.size_bytes)]) for flow in flows}
