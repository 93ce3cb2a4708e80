"""Coflows on one big switch, as fluids: ports with rates, strict priorities, max-min fair shares inside a priority. Pure.

A flow goes from one host's egress to another's ingress. The fabric itself never is a bottleneck, unless it is given links of
its own. Rates change when a flow is through, a coflow comes, or the rule gives other queues; the rule is asked at each of
these, and every `SWEEP_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SWEEP_S = 0.02
"""How often the coordinator computes the order again."""
TINY = 1e-6


@dataclass(frozen=True, slots=True)
class FluidCoflow:
    """A coflow: its flows as (source, destination, bytes), hosts numbered from 0."""

    start_s: float
    flows: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class View:
    """What a rule may see of a coflow that is under way; `left` and `sent` are bytes, by flow and of all flows."""

    coflow: FluidCoflow
    left: tuple[float, ...]
    sent: float


Inner = Callable[[int, int], tuple[int, ...]]
"""The links of the fabric on the way from one host to another, numbered from 0."""
Rule = Callable[[float, Mapping[int, View]], Mapping[int, int]]
"""From the time (s) and the open coflows to the queue of each; the lowest number goes first."""


def completion_times(
    coflows: Sequence[FluidCoflow],
    hosts: int,
    rate_bps: float,
    rule: Rule,
    inner: Inner = lambda source, target: (),
    inner_bps: Sequence[float] = (),
) -> list[float]:
    """The seconds that each coflow takes from its start until its last flow is through. `inner_bps`: of the fabric's links."""
    carried = np.array([*[rate_bps] * (2 * hosts), *inner_bps, np.inf]) / 8
    owner = np.array([at for at, coflow in enumerate(coflows) for _ in coflow.flows], dtype=np.intp)
    flows = [flow for coflow in coflows for flow in coflow.flows]
    ways = [(source, hosts + target, *(2 * hosts + link for link in inner(source, target))) for source, target, _ in flows]
    ports = np.full((len(flows), max(map(len, ways), default=2)), len(carried) - 1, dtype=np.intp)
    for at, way in enumerate(ways):
        ports[at, : len(way)] = way
    size = np.array([flow[2] for flow in flows], dtype=np.float64)
    left = size.copy()
    first = np.cumsum([0, *(len(coflow.flows) for coflow in coflows)])
    coming = sorted(range(len(coflows)), key=lambda at: -coflows[at].start_s)
    under_way: set[int] = set()
    found = [0.0] * len(coflows)
    now = 0.0
    while coming or under_way:
        if not under_way:
            now = coflows[coming[-1]].start_s
        while coming and coflows[coming[-1]].start_s <= now + 1e-12:
            under_way.add(coming.pop())
        views = {}
        for at in sorted(under_way):
            mine = slice(first[at], first[at + 1])
            views[at] = View(coflows[at], tuple(left[mine].tolist()), float((size[mine] - left[mine]).sum()))
        queues = rule(now, views)
        active = np.flatnonzero((left > 0) & np.isin(owner, list(under_way)))
        priority = np.array([queues[int(at)] for at in owner[active]])
        rates = _rates(ports[active], priority, carried.copy())
        with np.errstate(divide="ignore"):
            step = min(SWEEP_S, float((left[active] / rates).min()))
        if coming:
            step = min(step, coflows[coming[-1]].start_s - now)
        now += step
        left[active] -= rates * step
        left[left < TINY] = 0.0
        for at in list(under_way):
            if not left[first[at] : first[at + 1]].any():
                under_way.remove(at)
                found[at] = now - coflows[at].start_s
    return found


def _rates(ports: NDArray[np.intp], priority: NDArray[np.intp], free: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bytes per second of each flow: queue after queue, max-min fair over what the queues before leave of the ports."""
    rates = np.zeros(len(ports))
    for queue in np.unique(priority):
        waiting = np.flatnonzero(priority == queue)
        while len(waiting):
            count = np.bincount(ports[waiting].ravel(), minlength=len(free))
            share = np.where(count > 0, free / np.maximum(count, 1), np.inf)
            bottleneck = int(share.argmin())
            through = waiting[(ports[waiting] == bottleneck).any(axis=1)]
            rates[through] = share[bottleneck]
            np.subtract.at(free, ports[through].ravel(), share[bottleneck])
            np.maximum(free, 0.0, out=free)
            waiting = np.setdiff1d(waiting, through)
    return rates
