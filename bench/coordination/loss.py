"""A part of the directives lost at random: no stall, no drops at the bottleneck, and no more goodput lost than slices.

Method: the emulated star, five UDP senders under timeslices. An eBPF program at the coordinator's interface throws away 20 % of
the DIRECTIVE frames after they were sent. The same run without it stands beside it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.bpf.build import object_path
from ebpf.libbpf import BpfMap, BpfObject
from emulation.fabric.fabric import COORDINATOR, EmulatedFabric
from emulation.fabric.inside import network_of
from emulation.measuring.fidelity import environment
from emulation.stack.star import BOTTLENECK, mixed_flows, star
from emulation.traffic import experiment

PERCENT = 20
BUCKET_NS = 50_000_000


def run(duration_s: float = 6.0, slice_text: str = "10ms") -> dict[str, Any]:
    """Goodput, drops and the longest silence of a flow, without and with losses."""
    with star(coordinator={"slice": slice_text}) as (emulated, baton), losing_directives(emulated) as counts:
        result: dict[str, Any] = {}
        for name, percent in (("without", 0), ("with", PERCENT)):
            counts[_index(0)] = percent.to_bytes(8, "little")
            seen, lost = _read(counts, 1), _read(counts, 2)
            outcome = experiment.run(
                emulated,
                mixed_flows(5),
                duration_s=duration_s,
                warmup_s=2,
                bottlenecks=[BOTTLENECK],
                host_queues=False,
                bucket_ns=BUCKET_NS,
            )
            directives = _read(counts, 1) - seen
            result[name] = {
                "directives": directives,
                "lost": _read(counts, 2) - lost,
                "goodput_mbps": round(outcome.goodput_mbps, 2),
                "drop_fraction": outcome.to_dict()["drop_fraction"],
                "longest_silence_ms": max(_silence(flow.buckets) for flow in outcome.flows) * BUCKET_NS // 1_000_000,
                "valid": outcome.valid,
            }
        result["slots"] = baton.status()["slots"]
    result["goodput_fell_by"] = round(1 - result["with"]["goodput_mbps"] / result["without"]["goodput_mbps"], 4)
    result["directives_lost"] = round(result["with"]["lost"] / max(1, result["with"]["directives"]), 4)
    result["environment"] = environment()
    return result


@contextmanager
def losing_directives(emulated: EmulatedFabric) -> Iterator[BpfMap]:
    """Puts the program at the coordinator's interface; its map's first value is the percentage."""
    loaded = BpfObject(object_path("drop_directives", Path(__file__).parent))
    counts = loaded.map("counts", 4, 8)
    with network_of(emulated.node(COORDINATOR).pid):
        loaded.attach_egress("lose", socket.if_nametoindex(emulated.coordinator_interface), 1)
    try:
        yield counts
    finally:
        counts[_index(0)] = bytes(8)
        loaded.close()


def _index(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _read(counts: BpfMap, number: int) -> int:
    return int.from_bytes(counts.get(_index(number)) or b"", "little")


def _silence(buckets: tuple[int, ...]) -> int:
    """The longest run of buckets in which nothing was received."""
    longest = run = 0
    for size in buckets:
        run = 0 if size else run + 1
        longest = max(longest, run)
    return longest
