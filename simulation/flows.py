"""Flows between all hosts of a fabric: Poisson arrivals, sizes of a published workload, types and deadlines. Pure.

The load is the share that the flows' frames have of the hosts' links, on average, each sent once: their bytes * 8 = load * host
rate * hosts * length. pFabric's own scripts count so, with frames of 1,500 bytes for 1,460 (arrivals each second: rate * load /
(mean size * 8 / 1460 * 1500)). As in emulation/traffic/flow_schedule.py the length is chosen so that this holds exactly, and
the starts are uniform within it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controller.priorities.flow_sizes import FlowSizes
from simulation.fabric import SpineLeaf, frames_bytes

_CRUMB = 1e-6
"""The part of a share that rounding may leave when all is reserved."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow: type 1 has a deadline (ns after its start), type 2 a known size, type 3 neither. `refused_ns` after its start
    a flow hears that its deadline is refused, and goes by its size; `admitted_ns` after it, that it counts; 0: never."""

    start_ns: int
    source: int
    target: int
    size_bytes: int
    flow_type: int
    deadline_ns: int = 0
    refused_ns: int = 0
    admitted_ns: int = 0

    @property
    def goes_by(self) -> int:
        """Its type as thresholds count it: that of a refused flow is 2."""
        return 2 if self.refused_ns and not self.admitted_ns else self.flow_type


@dataclass(frozen=True, slots=True)
class Mixture:
    """The shares of types 1, 2 and 3 (by number of flows), and the deadlines of type 1: exponential around a mean, at least
    `least_ns`, and at least `slack` times what the flow takes alone, as in pFabric's experiments (SIGCOMM 2013).
    `most_deadline_bytes`: larger flows have no deadline; they are of type 2.

    `reserved` above 0: deadlines are not drawn, but such that what a sender's flows with deadlines need to be just in time
    never exceeds this share of its link. A flow gets what is left of it, and by that its deadline, `least_ns` at least; while
    nothing is left, flows are of types 2 and 3, half each. So an ns-2 simulation made in contact with Karuna's authors sets
    them (wtao0221/aemon-ns2).

    Raises:
        ValueError: the shares do not sum to 1, or another number is out of its range; names the field.
    """

    shares: tuple[float, float, float] = (0.2, 0.4, 0.4)
    mean_ns: int = 5_000_000
    least_ns: int = 500_000
    slack: float = 1.25
    most_deadline_bytes: int = 1_000_000
    reserved: float = 0.0

    def __post_init__(self) -> None:
        if min(self.shares) < 0 or not math.isclose(sum(self.shares), 1):
            raise ValueError(f"shares are {self.shares}; the shares of types 1, 2 and 3 sum to 1")
        for name in ("mean_ns", "least_ns", "slack", "most_deadline_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it is above 0")
        if not 0 <= self.reserved <= 1:
            raise ValueError(f"reserved is {self.reserved}; it is a share of a sender's link, or 0")


class Reservations:
    """What flows with deadlines reserve of a sender's link, in bytes/s: its size over its deadline, until that has passed."""

    def __init__(self, share: float, rate_bps: int) -> None:
        self._most = share * rate_bps / 8
        self._taken: list[tuple[float, float]] = []  # until when (ns), and how much

    def deadline_ns(self, start_ns: float, size_bytes: int, least_ns: float) -> int:
        """The deadline of a flow that starts now, and reserves what it needs; 0 when nothing is left."""
        self._taken = [(until, rate) for until, rate in self._taken if until > start_ns]
        left = self._most - sum(rate for _, rate in self._taken)
        if left < self._most * _CRUMB:
            return 0
        due = math.ceil(max(size_bytes / left * 1e9, least_ns))
        self._taken.append((start_ns + due, size_bytes / due * 1e9))
        return due


PLAIN = Mixture(shares=(0.0, 0.0, 1.0))


def poisson(sizes: FlowSizes, fabric: SpineLeaf, *, load: float, count: int, mixture: Mixture, seed: int) -> tuple[Flow, ...]:
    """`count` flows between pairs of hosts chosen at random, in the order of their starts.

    Raises:
        ValueError: the load is not in (0, 1), or there is no flow; names the field.
    """
    if not 0 < load < 1:
        raise ValueError(f"load is {load}; give a share of the hosts' links, above 0 and below 1")
    if count < 1:
        raise ValueError(f"count is {count}; give 1 flow at least")
    dice = np.random.default_rng(seed)
    drawn = np.maximum(1, np.round(sizes.quantile(dice.random(count)))).astype(np.int64)
    length_ns = sum(frames_bytes(int(size)) for size in drawn) * 8e9 / (load * fabric.host_bps * fabric.hosts)
    starts = np.sort(dice.random(count)) * length_ns
    sources = dice.integers(fabric.hosts, size=count)
    targets = (sources + dice.integers(1, fabric.hosts, size=count)) % fabric.hosts
    types = dice.choice((1, 2, 3), size=count, p=mixture.shares)
    deadlines = dice.exponential(mixture.mean_ns, size=count)
    coins = dice.integers(2, size=count)
    reserved = [Reservations(mixture.reserved, fabric.host_bps) for _ in range(fabric.hosts)]
    flows = []
    drawn_each = zip(starts, sources, targets, drawn, types, deadlines, coins, strict=True)
    for start, source, target, size, kind, deadline, coin in drawn_each:
        pair = int(source), int(target)
        if kind == 1 and size > mixture.most_deadline_bytes:
            kind = 2
        due = 0
        if kind == 1:
            least_ns = max(mixture.least_ns, mixture.slack * fabric.alone_ns(*pair, int(size)))
            if mixture.reserved:
                due = reserved[source].deadline_ns(start, int(size), least_ns)
                kind = 1 if due else 2 + coin
            else:
                due = math.ceil(max(deadline, least_ns))
        flows.append(Flow(round(start), *pair, int(size), int(kind), due))
    return tuple(flows)
