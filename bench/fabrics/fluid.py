"""How long flows take as fluids that share every link max-min fairly, without packets, control or queues. Pure.

What a rate for each flow can give at best: a flow that comes or goes changes all rates at once, and every link that somebody
waits for is full.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from bench.fabrics import ideal
from emulation.traffic.experiment import Flow
from emulation.traffic.flow_schedule import ScheduledFlow
from topology import max_min
from topology.fabric import DirectedLink, Fabric

Pair = tuple[str, str]


def completion_ns(fabric: Fabric, flows: Sequence[ScheduledFlow]) -> dict[int, int]:
    """The completion time of each flow, ns, by its number; a full TCP segment's headers count on every link."""
    pairs = list(dict.fromkeys((flow.source, flow.destination) for flow in flows))
    found = ideal.paths(fabric, [Flow("tcp", *pair) for pair in pairs])
    paths = dict(zip(pairs, found, strict=True))
    useful, wire = ideal.wire_bytes(Flow("tcp", "", ""))
    capacities = {link: float(fabric.capacity_bps(link)) * useful / wire for path in found for link in path}
    return _share(paths, capacities, sorted(flows, key=lambda flow: flow.start_ns))


def _share(
    paths: Mapping[Pair, tuple[DirectedLink, ...]], capacities: Mapping[DirectedLink, float], coming: Sequence[ScheduledFlow]
) -> dict[int, int]:
    """All flows of a pair get the same rate, so each pair has one level that all of them have received, and a flow is over when
    the level is its size above what it was at its start."""
    took: dict[int, int] = {}
    level: dict[Pair, float] = dict.fromkeys(paths, 0.0)
    under_way: dict[Pair, list[tuple[float, int]]] = {pair: [] for pair in paths}
    """By pair: the level at which each flow is over, and its place."""
    now_ns, at = 0.0, 0
    while at < len(coming) or any(under_way.values()):
        busy = [pair for pair, flows in under_way.items() if flows]
        wanted = [max_min.Flow(paths[pair], weight=len(under_way[pair])) for pair in busy]
        rates = max_min.shares(capacities, wanted)
        each = {pair: rate / len(under_way[pair]) / 8e9 for pair, rate in zip(busy, rates, strict=True)}  # bytes a ns
        ends = {pair: now_ns + (under_way[pair][0][0] - level[pair]) / each[pair] for pair in busy}
        first = min(ends, key=ends.__getitem__, default=None)
        comes = at < len(coming) and (first is None or coming[at].start_ns <= ends[first])
        then_ns = float(coming[at].start_ns) if comes or first is None else ends[first]
        for pair in busy:
            level[pair] += each[pair] * (then_ns - now_ns)
        now_ns = then_ns
        if comes:
            flow = coming[at]
            pair = flow.source, flow.destination
            heapq.heappush(under_way[pair], (level[pair] + flow.size_bytes, at))
            at += 1
        elif first is not None:
            _, place = heapq.heappop(under_way[first])
            took[coming[place].number] = round(now_ns - coming[place].start_ns)
    return took
