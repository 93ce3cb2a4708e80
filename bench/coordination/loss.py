"""A part of the directives lost at random: does a flow stall, does the bottleneck drop, and how much goodput is lost?

Method: the emulated star, five UDP senders under timeslices. An eBPF program at the coordinator's interface drops 20 % of the
DIRECTIVE frames after the coordinator has sent them. The same run without the program is the comparison.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.bpf.build import object_path
from bench.coordination.under_load import run_under_load
from ebpf.libbpf import BpfMap, BpfObject
from emulation.fabric.fabric import COORDINATOR_NODE, EmulatedFabric
from emulation.measuring.confidence import goodput, together
from emulation.measuring.fidelity import environment
from emulation.netns import network_of
from emulation.stack.star import RATE_BPS, star

PERCENT = 20
BUCKET_NS = 50_000_000


def run(duration_s: float = 6.0, slice_text: str = "10ms") -> dict[str, Any]:
    """Goodput, drops and the longest silence of a flow, without and with losses."""
    with star(coordinator={"slice": slice_text}) as (emulated, baton), losing_directives(emulated) as counts:
        result: dict[str, Any] = {}
        for name, percent in (("without", 0), ("with", PERCENT)):
            counts[_index(0)] = percent.to_bytes(8, "little")
            seen, lost = _read(counts, 1), _read(counts, 2)
            outcome = run_under_load(emulated, 5, duration_s, bucket_ns=BUCKET_NS)
            directives = _read(counts, 1) - seen
            result[name] = {
                "directives": directives,
                "lost": _read(counts, 2) - lost,
                "goodput_mbps": round(outcome.goodput_mbps, 2),
                "drop_fraction": outcome.to_dict()["drop_fraction"],
                "longest_silence_ms": max(_silence(flow.buckets) for flow in outcome.flows) * BUCKET_NS // 1_000_000,
                "confidence": outcome.confidence().to_dict(),
            }
        result["slots"] = baton.status()["slots"]
    result["goodput_fell_by"] = round(1 - result["with"]["goodput_mbps"] / result["without"]["goodput_mbps"], 4)
    result["directives_lost"] = round(result["with"]["lost"] / max(1, result["with"]["directives"]), 4)
    result["confidence"] = _confidence(result)
    result["environment"] = environment()
    return result


def _confidence(result: Mapping[str, Any]) -> dict[str, Any]:
    """How sure it is that goodput falls by no more than the part of the slots that is lost."""
    runs = {f"{name} losses": result[name] for name in ("without", "with")}
    offs = sum(goodput(run, run["goodput_mbps"], RATE_BPS / 1e6).off for run in runs.values())
    holds = (
        f"with {result['directives_lost']:.1%} of the directives lost, goodput fell by {result['goodput_fell_by']:.1%}; "
        f"the machine can have changed that difference by at most {offs:.1f} Mb/s"
    )
    return together(runs, holds)


@contextmanager
def losing_directives(emulated: EmulatedFabric) -> Iterator[BpfMap]:
    """Attaches the program to the coordinator's interface; entry 0 of its map is the percentage to drop."""
    loaded = BpfObject(object_path("drop_directives", Path(__file__).parent))
    counts = loaded.map("counts", 4, 8)
    with network_of(emulated.node(COORDINATOR_NODE).pid):
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
