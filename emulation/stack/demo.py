"""XCo's Figure 1(a) on an emulated star: five senders, K of them UDP, and one receiver, under each policy. An edge.

Reference: XCo (HPDC 2010), Figures 4 and 15: total goodput and mean goodput of a TCP flow over K.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emulation.fabric.fabric import EmulatedFabric
from emulation.files import write_whole
from emulation.measuring.confidence import together
from emulation.measuring.fidelity import environment
from emulation.measuring.figures import POLICIES, gain
from emulation.stack.running import run_under
from emulation.stack.star import BOTTLENECK, BUFFER_PACKETS, RATE_BPS, RECEIVER, SENDERS, Star, mixed_flows, star

OVERHEAD_S = 1.6
"""What a run takes beside its warm-up and its measurement: to start programs and to collect results."""
BRING_UP_S = 8.0
BITS_ENOUGH, SHORTEST_S = 2e9, 0.2
"""What a link carries in a measurement that is long enough, and the shortest measurement: a hundred slots of 2 ms."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Which runs the demo makes, and how long they are."""

    ks: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    policies: tuple[str, ...] = POLICIES
    duration_s: float = 8.0
    warmup_s: float = 2.0
    rate_bps: int = RATE_BPS
    buffer_packets: int = BUFFER_PACKETS
    slice_ns: int = 10_000_000
    framework: str = "ryu"

    def at_rate(self, rate_bps: int) -> DemoOptions:
        """The same with links of this rate; faster links need less time to show as much."""
        shorter = min(self.duration_s, max(SHORTEST_S, BITS_ENOUGH / rate_bps))
        return replace(self, rate_bps=rate_bps, duration_s=shorter, warmup_s=min(self.warmup_s, shorter / 2))

    @property
    def seconds(self) -> float:
        """About how long the demo takes in all."""
        return BRING_UP_S + len(self.ks) * len(self.policies) * (self.warmup_s + self.duration_s + OVERHEAD_S)


QUICK = DemoOptions(ks=(0, 3, 5), duration_s=4.0, warmup_s=1.5)

Tell = Callable[[str, float], None]
"""A progress callback: gets the name of the current step, and the seconds done so far of `DemoOptions.seconds`."""
Finished = Callable[[dict[str, Any], EmulatedFabric], None]
"""Gets the record while the fabric, and Baton over it, are still up."""


def run_demo(options: DemoOptions, tell: Tell, finished: Finished = lambda record, emulated: None) -> dict[str, Any]:
    """Runs the demo; the record that `baton demo --json` writes.

    Raises:
        EmulationError, StackError: the fabric, or Baton over it, did not come up, or a program failed.
    """
    records: list[dict[str, Any]] = []
    tell("building the fabric, starting the controller", 0)
    with star(
        agents=False,
        coordinator={"slice": f"{options.slice_ns}ns"},
        framework=options.framework,
        rate_bps=options.rate_bps,
        buffer_packets=options.buffer_packets,
    ) as running:
        for policy in options.policies:
            for k in options.ks:
                what = f"{policy.replace('_', ' ')}, {k} of {len(SENDERS)} senders UDP"
                done_s = BRING_UP_S + len(records) * (options.warmup_s + options.duration_s + OVERHEAD_S)
                records.append(_run(running, policy, k, options, _shifted(tell, what, done_s)))
        holds = gain(records, options.rate_bps / 1e6)
        by_run = {f"{run['policy']}, K = {run['k']}": run for run in records}
        measured = {"runs": records, "confidence": together(by_run, holds)}
        record = {**measured, "environment": _environment(running.emulated, options)}
        finished(record, running.emulated)
    return record


def _shifted(tell: Tell, what: str, done_s: float) -> Callable[[float], None]:
    return lambda seconds: tell(what, done_s + seconds)


def _run(running: Star, policy: str, k: int, options: DemoOptions, progress: Callable[[float], None]) -> dict[str, Any]:
    found = run_under(
        running,
        policy,
        mixed_flows(k),
        duration_s=options.duration_s,
        warmup_s=options.warmup_s,
        bottlenecks=[BOTTLENECK],
        ping=(SENDERS[0], RECEIVER),
        progress=progress,
    )
    slice_ms = options.slice_ns / 1e6 if policy == "timeslice" else None
    return {"policy": policy, "k": k, "slice_ms": slice_ms, **found.to_dict()}


def _environment(emulated: EmulatedFabric, options: DemoOptions) -> dict[str, Any]:
    return environment(
        rate_mbps=options.rate_bps / 1e6,
        buffer_packets=options.buffer_packets,
        datapath=emulated.ovs.datapath_type,
        congestion_control=emulated.congestion_control,
        qdiscs={"host": "htb, tbf (gate), pfifo", "host without agent": "tbf", "switch port": "htb, pfifo"},
        framework=options.framework,
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def write_json(record: dict[str, Any], path: Path) -> None:
    """Writes a record, so that no reader sees half of it."""
    write_whole(path, json.dumps(record, indent=1) + "\n")
