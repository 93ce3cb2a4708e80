"""Completion times of coflows in the controller's order, first in first out with limited multiplexing, against none.

Reference: Baraat (Dogar et al., SIGCOMM 2014): FIFO-LM improves the average and the tail of task completion over fair sharing.

Method: coflows of four senders to one receiver on the emulated star, Poisson arrivals; DCTCP, eight strict priorities. The same
coflows three times over: without an order (one queue, fair sharing), first in first out, and that with limited multiplexing.
The controller knows no sizes: a coflow is heavy if it has been first for longer than the largest light one takes the link.

Two workloads. Sizes alike (0.5 to 1.5 MB), where an order gains; and mixed (80 % of 0.2 to 1 MB, 20 % of 2 to 8 MB), where
light coflows wait behind heavy ones: limited multiplexing takes most of that back, but does not beat fair sharing.

The port marks each queue by its own length (20 packets) and holds 400 packets: many coflows wait at once, with several senders
each, and a port that marks by the sum of its queues would hold back the first coflow for the packets of those behind it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from agents.priorities.congestion_control import DCTCP
from controller.priorities.coflows import CoflowOrder
from controller.switch_queues.model import SwitchQueues
from emulation.measuring.confidence import judge, together
from emulation.measuring.fidelity import CpuTimes, Fidelity
from emulation.measuring.measure import mean, percentile
from emulation.stack import schemes
from emulation.stack.star import RATE_BPS, RECEIVER, SENDERS
from emulation.traffic import coflow_load
from emulation.traffic.coflow_load import CoflowResult, ScheduledCoflow
from protocol.units import FRAME_BYTES

WIDTH = 4
LOAD = 0.8
BUFFER_PACKETS = 400
NEVER = 1 << 62
MS = 1e6


class Workload(NamedTuple):
    """Uniform sizes: a share of the coflows is light, the others are heavy; a light one has at most `heavy_bytes`."""

    light: tuple[int, int]
    heavy: tuple[int, int]
    light_share: float
    heavy_bytes: int

    @property
    def heavy_ns(self) -> int:
        """How long a coflow of `heavy_bytes` takes alone."""
        return self.heavy_bytes * 8 * 10**9 // RATE_BPS


WORKLOADS = {
    "alike": Workload((500_000, 1_500_000), (0, 0), 1.0, 1_500_000),
    "mixed": Workload((200_000, 1_000_000), (2_000_000, 8_000_000), 0.8, 1_000_000),
}


class DeepPort(schemes.Scheme):
    """DCTCP on a port with a deep buffer that marks each queue by its own length."""

    def queues(self) -> SwitchQueues:
        threshold = schemes.MARKING_PACKETS * FRAME_BYTES
        return SwitchQueues(buffer_packets=BUFFER_PACKETS, marking_threshold_bytes=threshold, per_queue=True)


def run(duration_s: float = 15.0, seed: int = 1) -> dict[str, Any]:
    """By workload and order: mean and percentiles of the completion times, and the mean's ratio to that without an order."""
    result: dict[str, Any] = {"load": LOAD, "control_delay_ms": coflow_load.CONTROL_NS / MS}
    for name, workload in WORKLOADS.items():
        coflows = schedule(workload, duration_s, seed)
        orders = {"none": None, "fifo": CoflowOrder(NEVER, NEVER), "fifo_lm": CoflowOrder(NEVER, workload.heavy_ns)}
        found = {order: _measure(coflows, how, workload) for order, how in orders.items()}
        for one in found.values():
            one["mean_over_none"] = round(one["all"]["mean_ms"] / found["none"]["all"]["mean_ms"], 3)
        result[name] = {"heavy_ms": workload.heavy_ns / MS, **found}
    runs = {f"{name}, {order}": result[name][order] for name in WORKLOADS for order in ("none", "fifo", "fifo_lm")}
    result["confidence"] = together(runs)
    return result


def schedule(workload: Workload, duration_s: float, seed: int) -> list[ScheduledCoflow]:
    """Poisson arrivals that load the receiver's link by `LOAD` on average."""
    dice = random.Random(seed)
    share = workload.light_share
    mean_bytes = share * sum(workload.light) / 2 + (1 - share) * sum(workload.heavy) / 2
    rate = LOAD * RATE_BPS / (8 * mean_bytes)
    found: list[ScheduledCoflow] = []
    at_s = 0.0
    while (at_s := at_s + dice.expovariate(rate)) < duration_s:
        size = dice.randint(*(workload.light if dice.random() < share else workload.heavy))
        flows = [(source, RECEIVER, size // WIDTH) for source in dice.sample(SENDERS, WIDTH)]
        found.append(ScheduledCoflow(len(found) + 1, round(at_s * 1e9), tuple(flows)))
    return found


def _measure(coflows: Sequence[ScheduledCoflow], order: CoflowOrder | None, workload: Workload) -> dict[str, Any]:
    with schemes.on_star(DeepPort("dctcp", DCTCP)) as laid:
        before = CpuTimes.now()
        if order is None:
            found = coflow_load.run(laid.emulated, coflows)
        else:
            with coflow_load.taggers_at(laid.emulated) as taggers:
                found = coflow_load.run(laid.emulated, coflows, order=order, taggers=taggers)
        fidelity = Fidelity.between(before, CpuTimes.now())
    late_ns = round(percentile([one.late_ns for one in found], 99) or 0)
    light = [one for one in found if one.coflow.size_bytes <= workload.light[1]]
    heavy = [one for one in found if one.coflow.size_bytes > workload.light[1]]
    return {
        **{name: _times(some) for name, some in (("all", found), ("light", light), ("heavy", heavy)) if some},
        "start_late_p99_ms": round(late_ns / MS, 2),
        "cpu": fidelity.to_dict(),
        "confidence": judge(fidelity, late_start_ns=late_ns).to_dict(),
    }


def _times(found: Sequence[CoflowResult]) -> dict[str, Any]:
    times = [one.cct_ns / MS for one in found if one.cct_ns is not None]
    values = {"mean_ms": mean(times), **{f"p{percent}_ms": percentile(times, percent) for percent in (50, 95, 99)}}
    rounded = {name: None if value is None else round(value, 1) for name, value in values.items()}
    return {"coflows": len(found), "incomplete": len(found) - len(times), **rounded}
