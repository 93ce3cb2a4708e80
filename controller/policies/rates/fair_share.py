"""Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 2nd edition, 6.5.2). Pure."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

Flow = TypeVar("Flow", bound=Hashable)
WEIGHT_UNIT = 1_000_000
MOST_PARTS = 1 << 40
"""A larger weight counts as this many millionths."""


def filling(
    paths: Mapping[Flow, Sequence[Hashable]],
    capacities_bps: Mapping[Hashable, int],
    weights: Mapping[Flow, float],
    rates: dict[Flow, int],
) -> Iterator[None]:
    """Writes the rate (bit/s, at least 1) of every flow into `rates`, in steps, each of which takes about as long: a link is
    put into the order of all, or taken out of it, or a flow of a full link is looked at.

    All rates grow together, in proportion to their weights, until a link is full; the flows that cross it are fixed there,
    and the others grow on. Rounded down, so that no link is given more than its capacity. Rates are complete at the end; until
    then nothing that is given may change.

    Args:
        paths: the links of every flow, at least one.
        capacities_bps: of every link of these paths.
        weights: of every flow, in millionths at the finest.
    """
    parts = {flow: max(1, round(min(MOST_PARTS, weights[flow] * WEIGHT_UNIT))) for flow in paths}
    crossing: defaultdict[Hashable, list[Flow]] = defaultdict(list)
    weight: defaultdict[Hashable, int] = defaultdict(int)
    for flow, path in paths.items():
        for link in path:
            crossing[link].append(flow)
            weight[link] += parts[flow]
    left = {link: capacities_bps[link] for link in crossing}
    levels: list[tuple[Fraction, int, Hashable]] = []
    for order, link in enumerate(crossing):
        heapq.heappush(levels, (Fraction(left[link], weight[link]), order, link))
        yield
    while levels and len(rates) < len(paths):
        level, order, link = heapq.heappop(levels)
        yield
        if not weight[link]:
            continue
        # Flows that were fixed at a lower level left more for the others: a level only rises.
        risen = Fraction(left[link], weight[link])
        if risen > level:
            heapq.heappush(levels, (risen, order, link))
            continue
        room, parts_here = left[link], weight[link]
        for flow in crossing[link]:
            if flow not in rates:
                rates[flow] = max(1, room * parts[flow] // parts_here)
                for other in paths[flow]:
                    left[other] -= rates[flow]
                    weight[other] -= parts[flow]
            yield
