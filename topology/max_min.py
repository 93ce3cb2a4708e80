"""The max-min fair shares of flows with demands and weights over shared links, by progressive filling. Pure.

All flows grow together, each in proportion to its weight. A flow stops when it has what it wants, or when a link on its path is
full; the others grow on. So nobody can get more unless somebody with no more than that, by weight, gets less.

Reference: D. Bertsekas, R. Gallager: Data Networks, 2nd edition, section 6.5.2.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple


class Flow(NamedTuple):
    """A flow: the links that it crosses, how much it wants, and its weight; demands and capacities are of one unit."""

    path: tuple[Hashable, ...]
    demand: float = math.inf
    weight: float = 1.0


def shares(capacities: Mapping[Any, float], flows: Sequence[Flow]) -> list[float]:
    """What each flow gets, in the order of the flows. A flow that crosses no link gets its demand.

    Args:
        capacities: of every link that a flow crosses.

    Raises:
        ValueError: a flow's weight is not positive, or its demand or a capacity is negative; says which.
        KeyError: a flow crosses a link without a capacity.
    """
    for number, flow in enumerate(flows):
        if not flow.weight > 0 or math.isinf(flow.weight):
            raise ValueError(f"flows[{number}].weight: {flow.weight} is not positive; leave the flow out, or write 1")
        if not flow.demand >= 0:
            raise ValueError(f"flows[{number}].demand: {flow.demand} is negative; write what the flow wants, or inf")
    for link, capacity in capacities.items():
        if not capacity >= 0:
            raise ValueError(f"capacities[{link}]: {capacity} is negative; write what the link carries")
    found = [flow.demand for flow in flows]
    crossing: defaultdict[Hashable, set[int]] = defaultdict(set)  # by link, the flows that still grow
    for number, flow in enumerate(flows):
        for link in flow.path:
            crossing[link].add(number)
    left = {link: capacities[link] for link in crossing}
    weights = {link: math.fsum(flows[number].weight for number in active) for link, active in crossing.items()}
    growing = {number for number, flow in enumerate(flows) if flow.path}
    by_demand = sorted(growing, key=lambda number: flows[number].demand / flows[number].weight, reverse=True)
    while growing:
        while by_demand[-1] not in growing:
            by_demand.pop()
        wish = flows[by_demand[-1]]
        level = min((left[link] / weights[link] for link, active in crossing.items() if active), default=math.inf)
        if wish.demand <= level * wish.weight:
            stopped = {by_demand[-1]}
        else:
            full = [link for link, active in crossing.items() if active and left[link] / weights[link] <= level]
            stopped = set().union(*(crossing[link] for link in full))
        for number in stopped:
            flow = flows[number]
            found[number] = min(flow.demand, max(0.0, level * flow.weight))
            for link in set(flow.path):
                left[link] -= found[number]
                crossing[link].discard(number)
                weights[link] = math.fsum(flows[other].weight for other in crossing[link])
        growing -= stopped
    return found
