"""What becomes of deadlines if receivers admit them: a flow is refused whose receiver's link has too little left. Pure.

A flow with a deadline needs its size over its deadline until that has passed, as `simulation.flows.Reservations` counts it at
senders. It is refused when it starts, in no time and without a message, if its receiver's admitted flows and it need more than
a share of the link; it then goes by its size, as type 2. Results still count its deadline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from simulation.flows import Flow


def refused(flows: Sequence[Flow], rate_bps: int, share: float) -> frozenset[int]:
    """The positions of the flows with deadlines that would need more than this share of their receiver's link.

    `flows`: in the order of their starts. `rate_bps`: of every host's link.
    """
    found = set[int]()
    admitted = defaultdict[int, list[tuple[int, float]]](list)  # by receiver: until when (ns), and how much (bit/s)
    for position, flow in enumerate(flows):
        if flow.flow_type != 1:
            continue
        here = admitted[flow.target] = [one for one in admitted[flow.target] if one[0] > flow.start_ns]
        needed = flow.size_bytes * 8e9 / flow.deadline_ns
        if sum(rate for _, rate in here) + needed > share * rate_bps:
            found.add(position)
        else:
            here.append((flow.start_ns + flow.deadline_ns, needed))
    return frozenset(found)


def without(flows: Sequence[Flow], positions: frozenset[int]) -> tuple[Flow, ...]:
    """The flows as hosts send them: those at these positions have no deadline, and are of type 2."""
    return tuple(
        replace(flow, flow_type=2, deadline_ns=0) if position in positions else flow for position, flow in enumerate(flows)
    )
