"""Completion times of coflows in the controller's order, against none: through the controller, and without its processes.

References: Sincronia (Agarwal et al., SIGCOMM 2018) for known sizes, Aalo (Chowdhury and Stoica, SIGCOMM 2015) for unknown.

Method: coflows of four senders to one receiver on the emulated star, Poisson arrivals; DCTCP, eight strict priorities. The same
coflows again and again: without an order (one queue, fair sharing), with the bytes of each pair of hosts told when a coflow is
opened ("known"), and with nothing told ("unknown"). "controller": the whole of Baton runs; an application opens and closes its
coflows at the store, agents report bytes and get the order. Otherwise the order is computed in this process (emulation.traffic.
coflow_control), which costs less of the machine.

Two workloads: sizes alike (0.5 to 1.5 MB), and mixed (80 % of 0.2 to 1 MB, 20 % of 2 to 8 MB).

The port marks each queue by its own length (20 packets) and holds 400 packets: many coflows wait at once, with several senders
each, and a port that marks by the sum of its queues would hold back the first coflow for the packets of those behind it.
With an order the queues divide the buffer as `switch_queues` has them by default; without one all of it is the one queue's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from agents.priorities.congestion_control import DCTCP
from agents.priorities.mcp_settings import McpSettings
from bench.karuna.combined import empty_cgroup
from controller.coflows.client import CoflowClient
from controller.coflows.coflow import Flow
from controller.coflows.links import BigSwitch
from controller.coflows.order import CoflowOrder
from controller.switch_queues.model import SwitchQueues
from emulation.fabric.fabric import EmulatedFabric
from emulation.measuring.confidence import judge, together
from emulation.measuring.fidelity import CpuTimes, Fidelity
from emulation.measuring.measure import mean, percentile
from emulation.stack import schemes
from emulation.stack.running import Running, with_baton
from emulation.stack.star import RATE_BPS, RECEIVER, SENDERS
from emulation.traffic import coflow_load
from emulation.traffic.coflow_control import Control, InProcess, ThroughStore, Told
from emulation.traffic.coflow_load import CoflowResult, ScheduledCoflow
from protocol.units import FRAME_BYTES
from topology import shapes

WIDTH = 4
LOAD = 0.8
BUFFER_PACKETS = 400
MS = 1e6
TOLD: dict[str, Told | None] = {"none": None, "known": Told.FLOWS, "unknown": Told.NOTHING}
Measured = tuple[tuple[CoflowResult, ...], Fidelity]


class Workload(NamedTuple):
    """Uniform sizes: a share of the coflows is light, the others are heavy."""

    light: tuple[int, int]
    heavy: tuple[int, int]
    light_share: float


WORKLOADS = {
    "alike": Workload((500_000, 1_500_000), (0, 0), 1.0),
    "mixed": Workload((200_000, 1_000_000), (2_000_000, 8_000_000), 0.8),
}


def deep_port(*, ordered: bool) -> SwitchQueues:
    """A port with a deep buffer that marks each queue by its own length; not `ordered`: all packets are in one queue."""
    threshold = schemes.MARKING_PACKETS * FRAME_BYTES
    found = SwitchQueues(buffer_packets=BUFFER_PACKETS, marking_threshold_bytes=threshold, per_queue=True)
    return found if ordered else found.alike()


@dataclass(frozen=True)
class DeepPort(schemes.Scheme):
    """DCTCP on such a port."""

    ordered: bool = True

    def queues(self) -> SwitchQueues:
        return deep_port(ordered=self.ordered)


def run(duration_s: float = 15.0, seed: int = 1, names: Sequence[str] = tuple(WORKLOADS)) -> dict[str, Any]:
    """By workload, way and what is told: mean and percentiles of completion times; the mean's ratio to that without order,
    of the coflows that both completed."""
    result: dict[str, Any] = {"load": LOAD, "duration_s": duration_s, "seed": seed}
    runs = {}
    for name in names:
        coflows = schedule(WORKLOADS[name], duration_s, seed)
        result[name] = {}
        for way, measure in (("process", _in_process), ("controller", _through_controller)):
            measured = dict(measure(coflows))
            found = {told: _record(name, *one) for told, one in measured.items()}
            for told, one in found.items():
                one["mean_over_none"] = _over(measured[told][0], measured["none"][0])
                runs[f"{name}, {way}, {told}"] = one
            result[name][way] = found
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
        flows = [Flow(source, RECEIVER, size // WIDTH) for source in dice.sample(SENDERS, WIDTH)]
        found.append(ScheduledCoflow(len(found) + 1, round(at_s * 1e9), tuple(flows)))
    return found


def _in_process(coflows: Sequence[ScheduledCoflow]) -> Iterator[tuple[str, Measured]]:
    for name, told in TOLD.items():
        with schemes.on_star(DeepPort("dctcp", DCTCP, ordered=told is not None)) as laid:
            if told is None:
                yield name, _measured(laid.emulated, coflows, None)
                continue
            hosts = {address: host for host, address in laid.emulated.endpoints().items()}
            with coflow_load.taggers_at(laid.emulated) as taggers:
                control = InProcess(CoflowOrder(BigSwitch(lambda _: RATE_BPS)), taggers, hosts, told)
                yield name, _measured(laid.emulated, coflows, control)


def _through_controller(coflows: Sequence[ScheduledCoflow]) -> Iterator[tuple[str, Measured]]:
    for name, told in TOLD.items():
        with coflow_star(ordered=told is not None) as (emulated, baton):
            control = None if told is None else ThroughStore(CoflowClient(baton.store), told)
            yield name, _measured(emulated, coflows, control, agents=True)


@contextmanager
def coflow_star(*, ordered: bool = True) -> Iterator[Running]:
    """The star with the whole of Baton over it, its agents with priorities and every gate open; hosts use DCTCP.

    Not `ordered`: agents write no DSCP, so all packets share one queue. A tagger would put flows without a mark in two, their
    first 100 KB before the rest, and of like sizes the rest would wait for whoever begins.
    """
    with empty_cgroup() as cgroup, schemes.registered(McpSettings(link_bps=RATE_BPS), mcp=False) as control:
        dctcp = schemes.real_name(DCTCP, control)
        port = {"queues": deep_port(ordered=ordered), "congestion_control": dctcp}
        fabric = shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=RATE_BPS)
        with with_baton(
            fabric, buffer_packets=BUFFER_PACKETS, start_agents=False, emulation=port,
            priorities={"enabled": True, "period": "1h"}, coordinator={"policy": "free"},
        ) as running:  # fmt: skip
            for host in fabric.hosts:
                schemes.set_tcp(running.emulated, host, ecn=True)
            running.baton.start_agents(options=("--priorities", "--cgroup", str(cgroup)) if ordered else ())
            yield running


def _measured(
    emulated: EmulatedFabric, coflows: Sequence[ScheduledCoflow], control: Control | None, *, agents: bool = False
) -> Measured:
    before = CpuTimes.now()
    found = coflow_load.run(emulated, coflows, control=control, host_queues=not agents)
    return found, Fidelity.between(before, CpuTimes.now())


def _record(name: str, found: Sequence[CoflowResult], fidelity: Fidelity) -> dict[str, Any]:
    most = WORKLOADS[name].light[1]
    late_ns = round(percentile([one.late_ns for one in found], 99) or 0)
    light = [one for one in found if one.coflow.size_bytes <= most]
    heavy = [one for one in found if one.coflow.size_bytes > most]
    return {
        **{name: _times(some) for name, some in (("all", found), ("light", light), ("heavy", heavy)) if some},
        "start_late_p99_ms": round(late_ns / MS, 2),
        "cpu": fidelity.to_dict(),
        "confidence": judge(fidelity, late_start_ns=late_ns).to_dict(),
    }


def _over(some: Sequence[CoflowResult], others: Sequence[CoflowResult]) -> float | None:
    """The mean completion time over that of others, of the coflows that both completed; None: there is none."""
    theirs = {one.coflow.number: one.cct_ns for one in others if one.cct_ns is not None}
    both = [(one.cct_ns, theirs[one.coflow.number]) for one in some if one.cct_ns is not None and one.coflow.number in theirs]
    return round(sum(mine for mine, _ in both) / sum(other for _, other in both), 3) if both else None


def _times(found: Sequence[CoflowResult]) -> dict[str, Any]:
    times = [one.cct_ns / MS for one in found if one.cct_ns is not None]
    values = {"mean_ms": mean(times), **{f"p{percent}_ms": percentile(times, percent) for percent in (50, 95, 99)}}
    rounded = {name: None if value is None else round(value, 1) for name, value in values.items()}
    return {"coflows": len(found), "incomplete": len(found) - len(times), **rounded}
