"""Lists of flows: open loop, Poisson arrivals, sizes of a published workload, an exact load. Pure.

*Load.* Sizes are drawn until they fill `duration_ns` at the wanted load; the list is then made longer by the last flow's
excess, so that bytes * 8 = load * rate * length holds exactly for every seed. The instants are drawn independently and
uniformly, as those of a Poisson process are once the number of arrivals is given (Ross, Introduction to Probability Models,
theorem 5.2). The load counts payload; a full frame's headers add 4.6 %.

*Deadlines* are exponential around a mean, and at least `slack` times what the link takes for the flow alone, as in pFabric's
experiments (SIGCOMM 2013); and at least `deadline_least_ms`, since no scheme can beat the delay of a queue.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from controller.priorities.flow_sizes import FlowSizes
from protocol.flowmark import DEADLINE_MAX_MS, SIZE_MAX_BYTES, FlowMark

HEADER_BYTES = 12
"""A flow begins with its number and size (emulation.traffic.flow_load), so it has at least so many bytes."""


@dataclass(frozen=True, slots=True)
class ScheduledFlow:
    """One flow, starting `start_ns` after the beginning; type 1 has a deadline, type 2 a known size, type 3 neither."""

    number: int
    start_ns: int
    source: str
    destination: str
    size_bytes: int
    flow_type: int
    deadline_ms: int | None = None

    def mark(self) -> FlowMark:
        """The mark by which its application states deadline and size."""
        return FlowMark(None if self.flow_type == 3 else self.size_bytes, self.deadline_ms)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Flows in the order of their starts, and the time in which they arrive. Flows of the first `warm_up_ns` are not measured:
    from them the controller learns its first thresholds."""

    flows: tuple[ScheduledFlow, ...]
    length_ns: int
    warm_up_ns: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(flow.size_bytes for flow in self.flows)


@dataclass(frozen=True, slots=True)
class Mixture:
    """The types of flows: shares of types 1, 2 and 3 (by number of flows), and the deadlines of type 1.

    Raises:
        ValueError: the shares do not sum to 1, or a mean or the slack is not above 0; names the field.
    """

    shares: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    deadline_mean_ms: float = 40.0
    deadline_least_ms: float = 5.0
    slack: float = 6.0

    def __post_init__(self) -> None:
        if min(self.shares) < 0 or not math.isclose(sum(self.shares), 1):
            raise ValueError(f"shares are {self.shares}; the shares of types 1, 2 and 3 sum to 1")
        for name in ("deadline_mean_ms", "deadline_least_ms", "slack"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it is above 0")


def merged(*schedules: Schedule) -> Schedule:
    """All flows together, numbered anew in the order of their starts; as long as the longest, with its warm-up."""
    longest = max(schedules, key=lambda schedule: schedule.length_ns)
    flows = sorted((flow for schedule in schedules for flow in schedule.flows), key=lambda flow: flow.start_ns)
    numbered = tuple(dataclasses.replace(flow, number=number) for number, flow in enumerate(flows))
    return dataclasses.replace(longest, flows=numbered)


def scaled(sizes: FlowSizes, factor: float, cap_bytes: float = math.inf) -> FlowSizes:
    """The distribution of factor * S, of those flows whose scaled size is at most `cap_bytes`.

    Raises:
        ValueError: no flow is that small.
    """
    small = sizes.scaled(factor)
    if cap_bytes >= small.sizes[-1]:
        return small
    kept = float(small.partial(cap_bytes).finished)
    if kept <= 0:
        raise ValueError(f"cap_bytes is {cap_bytes}, below the smallest flow of {small.sizes[0]} bytes; raise it")
    below = [(size, share / kept) for size, share in zip(small.sizes, small.cdf, strict=True) if size < cap_bytes]
    return FlowSizes((*(size for size, _ in below), cap_bytes), (*(share for _, share in below), 1.0))


def kept_bytes(sizes: FlowSizes, factor: float, cap_bytes: float) -> float:
    """Of a distribution's bytes, the part that `scaled` keeps."""
    small = sizes.scaled(factor)
    return 1.0 if cap_bytes >= small.sizes[-1] else float(small.partial(cap_bytes).below) / small.mean()


def poisson(
    sizes: FlowSizes,
    *,
    load: float,
    rate_bps: int,
    duration_ns: int,
    pairs: Sequence[tuple[str, str]],
    mixture: Mixture,
    seed: int,
) -> Schedule:
    """Flows of `sizes` between (source, destination) pairs that share one link of `rate_bps`, for about `duration_ns`.

    Raises:
        ValueError: there is no pair, or load, rate or duration is not above 0; names the field.
    """
    for name, value in (("load", load), ("rate_bps", rate_bps), ("duration_ns", duration_ns)):
        if value <= 0:
            raise ValueError(f"{name} is {value}; it is above 0")
    if not pairs:
        raise ValueError("pairs is empty; name a source and a destination")
    dice = random.Random(seed)
    wanted = load * rate_bps * duration_ns / 8e9
    drawn: list[int] = []
    total = 0
    while total < wanted:
        size = max(HEADER_BYTES, round(float(sizes.quantile(dice.random()))))
        drawn.append(size)
        total += size
    length_ns = round(total * 8e9 / (load * rate_bps))
    starts = sorted(dice.randrange(length_ns) for _ in drawn)
    flows = []
    for number, (start_ns, size) in enumerate(zip(starts, drawn, strict=True)):
        source, destination = dice.choice(pairs)
        flow_type = dice.choices((1, 2, 3), mixture.shares)[0]
        if flow_type == 2 and size > SIZE_MAX_BYTES:
            flow_type = 3
        deadline_ms = _deadline_ms(dice, size, rate_bps, mixture) if flow_type == 1 else None
        flows.append(ScheduledFlow(number, start_ns, source, destination, size, flow_type, deadline_ms))
    return Schedule(tuple(flows), length_ns)


def _deadline_ms(dice: random.Random, size: int, rate_bps: int, mixture: Mixture) -> int:
    alone_ms = size * 8e3 / rate_bps
    wanted = max(dice.expovariate(1 / mixture.deadline_mean_ms), mixture.slack * alone_ms, mixture.deadline_least_ms)
    return min(DEADLINE_MAX_MS, math.ceil(wanted))
