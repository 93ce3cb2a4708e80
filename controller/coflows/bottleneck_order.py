"""The order of coflows whose demands are known, and whether one more can keep its deadline. Pure.

The fabric is one big switch: a coflow demands so many bytes of each port (a host's egress or ingress), and ports are what it
waits for. `order` is Sincronia's (Agarwal et al., SIGCOMM 2018: bottleneck, select, scale, iterate), a primal and dual method:
from the last place to the first, the port with the most left is the bottleneck; of the coflows there, the one whose weight is
least for its bytes there goes last, and the others' weights fall by the share that this decides. With any sharing of rates
that keeps the order, strict priorities for instance, the weighted sum of completion times is within 4 times the least. Links
between switches may be ports as well (controller/coflows/links.py); the bound is proved without them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Port = TypeVar("Port", bound=Hashable)
"""A demand is the bytes that a coflow has to send through each port."""


def order(
    demands: Mapping[int, Mapping[Port, float]], rates: Mapping[Port, float], weights: Mapping[int, float] | None = None
) -> list[int]:
    """The coflows, first to last.

    Args:
        demands: by coflow.
        rates: of the ports, bytes per unit of time.
        weights: what a unit of time of each coflow counts; 1 if left out.
    """
    times: dict[int, dict[Port, float]] = {}
    for coflow, demand in demands.items():
        times[coflow] = {port: size / rates[port] for port, size in demand.items() if size > 0}
    weight = {coflow: 1.0 if weights is None else weights[coflow] for coflow in times}
    left: dict[Port, float] = {}
    for needed in times.values():
        for port, time in needed.items():
            left[port] = left.get(port, 0.0) + time
    last_first = []
    while any(times.values()):
        bottleneck = max(left, key=left.__getitem__)
        there = [coflow for coflow, needed in times.items() if bottleneck in needed]
        if not there:  # what rounding leaves of a port that is through
            del left[bottleneck]
            continue
        last = min(there, key=lambda coflow: (weight[coflow] / times[coflow][bottleneck], -coflow))
        share = weight[last] / times[last][bottleneck]
        for coflow in there:
            weight[coflow] -= share * times[coflow][bottleneck]
        for port, time in times.pop(last).items():
            left[port] -= time
        last_first.append(last)
    return [*sorted(times), *reversed(last_first)]


def keeps_deadline(
    new: Mapping[Port, float],
    time_left: float,
    taken: Callable[[Port], float],
    rates: Mapping[Port, float],
) -> bool:
    """Whether a coflow can be through in `time_left` while those that were admitted, and need what is `taken` of a port's rate,
    still keep theirs.

    Each sends at the rate that ends it just in time, as MCP paces it; no port may need more than its rate. So what is admitted
    is kept, also when much else waits (Varys, Chowdhury et al., SIGCOMM 2014). A coflow without time left is refused.
    """
    if time_left <= 0:
        return False
    return all(size / time_left + taken(port) <= rates[port] for port, size in new.items())
