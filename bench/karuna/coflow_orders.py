"""Mean completion times of coflows in the controller's order, by what it knows of them, on a big switch of fluids.

none        all share fairly
fifo        first in, first out: sizes unknown, and one class of attained service for all
known       bytes by pair of hosts: Sincronia's order (controller/coflows/bottleneck_order.py)
by hosts    the same, looking at hosts' links alone: on racks, whose links other rules see
sum         only the sum of a coflow's bytes known: the least left first
unknown     bytes sent so far, as hosts report them: Aalo's classes, whose first limit is found from the sizes that were seen

Method: `HOSTS` hosts, Poisson arrivals, each coflow's flows between random hosts, seven strict queues,
given by controller/coflows/order.py as in the controller. Workloads as in bench/karuna/coflow.py, on three patterns: four
senders to one receiver ("incast": the star of that benchmark), three to six flows between random hosts ("shuffle"), and the
same among racks of two hosts whose links to the others are as fast as one host's ("racks").
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from bench.karuna.coflow import LOAD, WIDTH, WORKLOADS, Workload
from controller.coflows.coflow import Coflow, Flow
from controller.coflows.links import BigSwitch, Ways
from controller.coflows.order import CoflowOrder
from controller.coflows.service_limits import NO_LIMIT
from emulation.traffic.big_switch import FluidCoflow, Rule, View, completion_times
from topology.fabric import DirectedLink

HOSTS = 8
RACK = 2
RATE_BPS = 100_000_000
COFLOWS = 100
SEEDS = (1, 2, 3)
NEVER = 1 << 62


def run() -> dict[str, Any]:
    """{"cases": [{"workload", "pattern", "mean_ms": by rule, "of_none": by rule}]}: means over all seeds."""
    return {"cases": [_case(name, pattern) for name in WORKLOADS for pattern in ("incast", "shuffle", "racks")]}


def _case(name: str, pattern: str) -> dict[str, Any]:
    workload, racks = WORKLOADS[name], pattern == "racks"
    inner, inner_bps = (_links, [RATE_BPS] * HOSTS) if racks else (lambda source, target: (), [])
    times: dict[str, list[float]] = {rule: [] for rule in rules(racks=racks)}
    for seed in SEEDS:
        coflows = schedule(workload, pattern, seed)
        for rule, made in rules(racks=racks).items():
            times[rule] += completion_times(coflows, HOSTS, RATE_BPS, made, inner, inner_bps)
    means = {rule: fmean(some) * 1e3 for rule, some in times.items()}
    return {
        "workload": name,
        "pattern": pattern,
        "mean_ms": {rule: round(mean, 1) for rule, mean in means.items()},
        "of_none": {rule: round(mean / means["none"], 3) for rule, mean in means.items()},
    }


def rules(*, racks: bool = False) -> dict[str, Rule]:
    """The rules by name, fresh."""
    ways = Racks(lambda _: RATE_BPS) if racks else BigSwitch(lambda _: RATE_BPS)
    found = {
        "none": lambda _, views: dict.fromkeys(views, 0),
        "fifo": _ordered(ways, knows_flows=False, knows_sum=False, first_bytes=NO_LIMIT),
        "known": _ordered(ways, knows_flows=True, knows_sum=False),
        "sum": _ordered(ways, knows_flows=False, knows_sum=True),
        "unknown": _ordered(ways, knows_flows=False, knows_sum=False),
    }
    if racks:
        found["by hosts"] = _ordered(BigSwitch(lambda _: RATE_BPS), knows_flows=True, knows_sum=False)
    return found


class Racks(BigSwitch):
    """h0 and h1, h2 and h3, ... each behind a link as fast as a host's."""

    def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        return tuple(DirectedLink(str(number), "rack") for number in _links(int(source[1:]), int(destination[1:])))

    def link_bps(self, link: DirectedLink) -> int:
        return RATE_BPS


def _links(source: int, target: int) -> tuple[int, ...]:
    """By number, racks' links up first, then those down."""
    first, last = source // RACK, target // RACK
    return () if first == last else (first, HOSTS // RACK + last)


def _ordered(ways: Ways, *, knows_flows: bool, knows_sum: bool, first_bytes: float | None = None) -> Rule:
    order = CoflowOrder(ways, first_bytes)

    def queues(now_s: float, views: Mapping[int, View]) -> dict[int, int]:
        now_ns = round(now_s * 1e9)
        order.update(_coflow(at, view, knows_flows=knows_flows, knows_sum=knows_sum) for at, view in views.items())
        for at, view in views.items():
            for pair, sent in _sent(view).items():
                order.report(at, *pair, sent, now_ns)
        return {place.coflow: place.queue for place in order.places(now_ns=now_ns)}

    return queues


def _coflow(at: int, view: View, *, knows_flows: bool, knows_sum: bool) -> Coflow:
    flows = tuple(Flow(f"h{source}", f"h{target}", round(size)) for source, target, size in view.coflow.flows)
    total = sum(flow.size_bytes for flow in flows)
    return Coflow(
        at, round(view.coflow.start_s * 1e9), NEVER,
        size_bytes=total if knows_sum else None, flows=flows if knows_flows else (),
    )  # fmt: skip


def _sent(view: View) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for (source, target, size), left in zip(view.coflow.flows, view.left, strict=True):
        pair = f"h{source}", f"h{target}"
        found[pair] = found.get(pair, 0) + round(size - left)
    return found


def schedule(workload: Workload, pattern: str, seed: int) -> list[FluidCoflow]:
    """Poisson arrivals that load the busiest kind of port by `LOAD` on average."""
    dice = random.Random(seed)
    share = workload.light_share
    mean_bytes = share * sum(workload.light) / 2 + (1 - share) * sum(workload.heavy) / 2
    receivers = {"incast": 1, "shuffle": HOSTS, "racks": HOSTS / RACK}[pattern]
    per_s = LOAD * RATE_BPS * receivers / (8 * mean_bytes)
    found, at_s = [], 0.0
    for _ in range(COFLOWS):
        at_s += dice.expovariate(per_s)
        size = dice.randint(*(workload.light if dice.random() < share else workload.heavy))
        if pattern == "incast":
            ends = [(source, HOSTS - 1) for source in dice.sample(range(HOSTS - 1), WIDTH)]
        else:
            width = dice.randint(3, 6)
            ends = list(zip(dice.sample(range(HOSTS), width), dice.choices(range(HOSTS), k=width), strict=True))
        parts = [1.0] * len(ends) if pattern == "incast" else [dice.uniform(0.2, 1.8) for _ in ends]
        flows = tuple((*pair, size * part / sum(parts)) for pair, part in zip(ends, parts, strict=True))
        found.append(FluidCoflow(at_s, flows))
    return found
