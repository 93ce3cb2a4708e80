"""Checks of the simulator against what is known: queueing formulas, DCTCP's queue, another simulator's pFabric. An edge: runs.

* *The priority queue*: packets of one size that arrive as Poisson processes wait, in priority p, W0 / ((1 - s_{p-1})(1 - s_p)),
  where W0 is the sum of lambda E[S^2] / 2 over all priorities and s_p the load of priorities up to p (Cobham, 1954).
* *DCTCP*: the queue of one bottleneck stays about the marking threshold (SIGCOMM 2010), and the link stays busy.
* *pFabric alone*: load 0.6, web search, 144 hosts, the short links and buffers of pFabric's paper: another simulator gave a
  mean slowdown of 1.30 and a 99th percentile of 4.30, and 1.68 and 4.51 for Fastpass.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.priorities.completion_model import Thresholds
from simulation.cases import Case
from simulation.fabric import FRAME, SpineLeaf
from simulation.flows import PLAIN, Flow
from simulation.run import Progress, lines_of, simulate
from simulation.schemes import Settings, case_text, marking_packets, program_settings

PFABRIC = Settings(spray=True, buffer_bytes=36_864, pfabric_window=12, pfabric_rto_ns=45_000)
PFABRIC_FABRIC = SpineLeaf(host_delay_ns=200, uplink_delay_ns=200)
PUBLISHED_SLOWDOWN = {"mean": 1.30, "p99": 4.30}


@dataclass(frozen=True, slots=True)
class PacketClass:
    """Packets of one priority queue (0 is served first) that arrive as a Poisson process."""

    queue: int
    packets_per_s: float
    size_bytes: int


def cobham_ns(classes: Sequence[PacketClass], rate_bps: int) -> list[float]:
    """The mean waiting time in ns of each class, highest priority first; nobody interrupts a packet under way.

    Raises:
        ValueError: the classes together load the link with 1 or more.
    """
    ordered = sorted(classes, key=lambda one: one.queue)
    service_s = [one.size_bytes * 8 / rate_bps for one in ordered]
    loads = list(itertools.accumulate(one.packets_per_s * s for one, s in zip(ordered, service_s, strict=True)))
    if loads[-1] >= 1:
        raise ValueError(f"the load is {loads[-1]:.3g}; below 1 no queue grows without end")
    residual_s = sum(one.packets_per_s * s * s / 2 for one, s in zip(ordered, service_s, strict=True))
    return [residual_s * 1e9 / (1 - before) / (1 - load) for before, load in zip([0.0, *loads], loads, strict=False)]


def priority_queue(classes: Sequence[PacketClass], rate_bps: int, packets: int, seed: int) -> list[float]:
    """The mean waiting time in ns of each class, highest priority first, as simulated. Raises RunError, ToolchainError."""
    lines = [f"rate {rate_bps}", f"seed {seed}", f"packets {packets}"]
    lines += [f"class {one.queue} {one.packets_per_s} {one.size_bytes}" for one in classes]
    found = lines_of("port_run", "\n".join(lines) + "\n")
    return [line["mean_wait_ns"] for line in sorted(found, key=lambda line: line["queue"])]


def dctcp_queue(senders: int = 2, rate_bps: int = 10_000_000_000, length_ns: int = 40_000_000) -> dict[str, float]:
    """The bottleneck's queue in packets under long DCTCP flows to one host, and how busy the link is. Raises as above."""
    fabric = SpineLeaf(leaves=1, spines=0, hosts_per_leaf=senders + 1, host_bps=rate_bps)
    begin_ns, settle_ns = 2_000_000, length_ns // 4
    size = rate_bps // 8 * length_ns // 1_000_000_000
    flows = [Flow(begin_ns, sender, senders, size, 3) for sender in range(senders)]
    settings = program_settings("dctcp", fabric, Thresholds((), ()), Settings(), 1)
    settings |= {"limit_ns": length_ns, "watch": senders, "watch_from_ns": settle_ns}
    close = lines_of("fabric_run", case_text(settings, flows))[-1]
    times = {bytes_ / FRAME: ns for bytes_, ns in close["watched"]}
    return {
        "threshold_packets": float(marking_packets(rate_bps)),
        **{f"p{percent}_packets": round(time_percentile(times, percent), 1) for percent in (1, 50, 99)},
        "busy": round(1 - times.get(0.0, 0) / sum(times.values()), 4),
        "drops": close["drops"],
    }


def time_percentile(times: Mapping[float, float], percent: float) -> float:
    """The least value that was not exceeded for `percent` % of the time; {value: time}."""
    wanted, passed = sum(times.values()) * percent / 100, 0.0
    for value, time in sorted(times.items()):
        passed += time
        if passed >= wanted:
            return value
    return max(times)


def pfabric_alone(flows: int = 5_000, seed: int = 1, progress: Progress | None = None) -> dict[str, Any]:
    """pFabric's slowdowns at load 0.6 on the paper's 144 hosts, beside the other simulator's. Raises as above."""
    case = Case("pfabric", "web_search_ns2", 0.6, flows, seed, PFABRIC_FABRIC, PLAIN, PFABRIC)
    result = simulate(case, progress)
    found = result["without_deadline"]["all"]
    return {
        "flows": flows,
        "mean": found["slowdown_mean"],
        "p99": found["slowdown_p99"],
        "published_mean": PUBLISHED_SLOWDOWN["mean"],
        "published_p99": PUBLISHED_SLOWDOWN["p99"],
        "wall_s": result["wall_s"],
    }
