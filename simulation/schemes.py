"""What each scheme sets on hosts and switches, thresholds by Baton's own solver included. Pure.

dctcp: one queue, ECN by port. pias: eight queues by bytes sent, whatever a flow's type. karuna: queue 0 for flows with a
deadline, under MCP; seven for the others, by size where it is known and by bytes sent where not. pfabric: the packet whose flow
has least left goes first. pfabric_edf: the same, but flows with a deadline go before all others, the earliest deadline first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from controller.priorities.completion_model import Thresholds, Traffic
from controller.priorities.flow_sizes import FlowSizes
from controller.priorities.thresholds import optimise
from controller.switch_queues.model import SwitchQueues
from simulation.fabric import FRAME, SpineLeaf
from simulation.flows import Flow

SCHEMES = ("dctcp", "pias", "pfabric", "pfabric_edf", "karuna")
BINS = 100
BUFFER_BYTES, BUFFER_BPS = 360_000, 10_000_000_000
"""Of a port of this rate; a faster one has as much more."""
_MARKING = ((2_000_000_000, 20), (20_000_000_000, 65))
"""Karuna's marking thresholds in packets, by the link's rate; 250 above."""
_MOST_LOAD = 0.97
LINUX_RTO_NS = 200_000_000
"""The least timeout (TCP_RTO_MIN) beside acknowledgements that are held back for 40 ms."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run may set beside its scheme. 0 means: by the fabric.

    `spray`: each packet takes the next path, as in pFabric's paper; else a flow keeps its path. `termination`: MCP's scheme (3:
    never gives a flow up), `aim` the part of the deadline by which all is to be acknowledged, `crowd` the packets in queue 0
    from which flows yield (0: they never do). `admit`: the share of a host's link that admitted deadlines may need
    (0: nobody asks); flows of `admit_from_bytes` and more ask, and are answered `admit_delay_ns` later (simulation.admission).
    `initial_window`, `pfabric_window` in packets; `buffer_bytes` of each port. `ack_segments`: a TCP receiver acknowledges so
    many segments together, or 40 ms after the first; Linux 2. Above 1 the least timeout is that of Linux, 200 ms.
    """

    spray: bool = False
    termination: int = 3
    initial_window: int = 70
    buffer_bytes: int = 0
    pfabric_window: int = 0
    pfabric_rto_ns: int = 0
    min_rto_ns: int = 2_000_000
    crowd: int = 32
    aim: float = 0.9375
    admit: float = 0.0
    admit_from_bytes: int = 1_000_000
    admit_delay_ns: int = 1_000_000
    ack_segments: int = 1


def switch_queues(scheme: str, buffer_bytes: int) -> SwitchQueues:
    """How ports divide their buffer, as Baton's switches do; under DCTCP one queue may have most of it."""
    found = SwitchQueues(buffer_packets=buffer_bytes // FRAME)
    return found.alike() if scheme == "dctcp" else found


def marking_packets(rate_bps: int) -> int:
    """The length, in full packets, from which a port of this rate marks."""
    return next((packets for most, packets in _MARKING if rate_bps <= most), 250)


def buffer_bytes(rate_bps: int) -> int:
    """The buffer of a port of this rate, which is longer than the queue from which the port marks."""
    return BUFFER_BYTES * max(rate_bps, BUFFER_BPS) // BUFFER_BPS


def reported(flows: Iterable[Flow]) -> FlowSizes | None:
    """The distribution of flow sizes as hosts report it, by bins; None without flows."""
    sizes = np.array([flow.size_bytes for flow in flows], dtype=float)
    if not sizes.size:
        return None
    edges = np.concatenate([[0.0], np.geomspace(min(sizes.min(), 1000), sizes.max() * 1.001, BINS)])
    counts, _ = np.histogram(sizes, edges)
    return FlowSizes.from_histogram(tuple(edges), tuple(counts))


def thresholds(scheme: str, flows: tuple[Flow, ...], load: float) -> Thresholds:
    """The thresholds for these flows; none for the schemes that have no bands."""
    if scheme not in ("pias", "karuna"):
        return Thresholds((), ())
    total = sum(flow.size_bytes for flow in flows)

    def share(chosen: list[Flow]) -> float:
        return min(load, _MOST_LOAD) * sum(flow.size_bytes for flow in chosen) / total

    if scheme == "pias":
        traffic = Traffic(0, 0, share(list(flows)), None, reported(flows))
        return optimise(traffic, 8).thresholds
    by_type = [[flow for flow in flows if flow.goes_by == kind] for kind in (1, 2, 3)]
    if not by_type[1] + by_type[2]:
        return Thresholds((), ())
    loads = [share(chosen) for chosen in by_type]
    return optimise(Traffic(loads[0], loads[1], loads[2], reported(by_type[1]), reported(by_type[2])), 7).thresholds


def program_settings(
    scheme: str, fabric: SpineLeaf, cuts: Thresholds, settings: Settings, seed: int
) -> dict[str, int | str | tuple[int, ...]]:
    """The case's settings by the program's keys (simulation/program/case.h).

    Raises:
        ValueError: the scheme is unknown; or a buffer is too short for its port ever to mark.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme {scheme!r} is unknown; choose one of {', '.join(SCHEMES)}")
    window = settings.pfabric_window or fabric.pipe_packets
    buffer, above = (
        settings.buffer_bytes or (2 * fabric.pipe_packets * FRAME if scheme.startswith("pfabric") else buffer_bytes(rate_bps))
        for rate_bps in (fabric.host_bps, fabric.uplink_bps)
    )
    mark, mark_above = (marking_packets(rate_bps) * 1500 for rate_bps in (fabric.host_bps, fabric.uplink_bps))
    for room, queue in ((buffer, mark), (above, mark_above)) if not scheme.startswith("pfabric") else ():
        if room <= queue:
            raise ValueError(f"buffer_bytes is {room}; a port here marks from {queue} bytes on: give more")
    # pFabric's ports go by urgency, and divide nothing; at low rates they are too small to be divided.
    queues = None if scheme.startswith("pfabric") else switch_queues(scheme, buffer)
    return {
        "scheme": scheme.removesuffix("_edf"),
        "leaves": fabric.leaves,
        "spines": fabric.spines,
        "hosts_per_leaf": fabric.hosts_per_leaf,
        "host_bps": fabric.host_bps,
        "uplink_bps": fabric.uplink_bps,
        "host_delay_ns": fabric.host_delay_ns,
        "uplink_delay_ns": fabric.uplink_delay_ns,
        "spray": int(settings.spray),
        "buffer": buffer,
        "buffer_uplink": above,
        "share_256": tuple(round(256 * share) for share in (queues and queues.share) or ()),
        "reserved": tuple(packets * FRAME for packets in queues.reserved) if queues else (),
        "mark_host": mark,
        "mark_uplink": mark_above,
        "beta": cuts.beta,
        "alpha": cuts.alpha,
        "min_rto_ns": settings.min_rto_ns if settings.ack_segments == 1 else max(settings.min_rto_ns, LINUX_RTO_NS),
        "ahead_ns": max(1_000_000, 3 * fabric.rtt_ns),
        "initial_window": settings.initial_window,
        "ack_segments": settings.ack_segments,
        "termination": settings.termination,
        "crowd": settings.crowd,
        "aim": round(settings.aim * 1024),
        "pfabric_window": window,
        "pfabric_most": window,
        "pfabric_rto_ns": settings.pfabric_rto_ns or 3 * fabric.rtt_ns,
        "pfabric_due": int(scheme == "pfabric_edf"),
        "seed": seed,
    }


def case_text(settings: dict[str, int | str | tuple[int, ...]], flows: Iterable[Flow]) -> str:
    """The case as the program reads it."""
    lines = [
        f"{key} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in settings.items()
        if value != ()
    ]
    lines += [
        f"flow {one.start_ns} {one.source} {one.target} {one.size_bytes} {one.flow_type} {one.deadline_ns} {one.refused_ns} "
        f"{one.admitted_ns}"
        for one in flows
    ]
    return "\n".join(lines) + "\n"
