"""XCo's Figure 1(a) on an emulated star: five senders, K of them UDP, and one receiver, under each policy. An edge.

Reference: XCo (HPDC 2010), Figures 4 and 15: total goodput and mean goodput of a TCP flow over K.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulation.fabric.fabric import EmulatedFabric
from emulation.measuring.fidelity import environment
from emulation.measuring.figures import POLICIES
from emulation.stack.stack import Stack
from emulation.stack.star import BOTTLENECK, BUFFER_PACKETS, RATE_BPS, RECEIVER, SENDERS, mixed_flows, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Outcome

OVERHEAD_S = 1.6
"""What a run takes beside its warm-up and its measurement: to start programs and to collect results."""
BRING_UP_S = 8.0
MAX_LATE_FRACTION = 0.05
"""With more late slots than this, a run is invalid: it shows this machine rather than the schedule."""


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
    ) as (emulated, baton):
        for policy in options.policies:
            coordinated = policy != "uncoordinated"
            if coordinated and not baton.agents:
                tell("starting an agent on every host", BRING_UP_S - 1)
                baton.start_agents()
            if coordinated:
                baton.set_policy(policy)
            for k in options.ks:
                what = f"{policy.replace('_', ' ')}, {k} of {len(SENDERS)} senders UDP"
                done_s = BRING_UP_S + len(records) * (options.warmup_s + options.duration_s + OVERHEAD_S)
                records.append(_run(emulated, baton, policy, k, options, _shifted(tell, what, done_s)))
        record = {"runs": records, "environment": _environment(emulated, options)}
        finished(record, emulated)
    return record


def _shifted(tell: Tell, what: str, done_s: float) -> Callable[[float], None]:
    return lambda seconds: tell(what, done_s + seconds)


def _run(
    emulated: EmulatedFabric,
    baton: Stack,
    policy: str,
    k: int,
    options: DemoOptions,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    coordinated = policy != "uncoordinated"
    counts: list[dict[str, Any]] = []
    events = [(0.0, lambda: counts.append(baton.status()))] if coordinated else []
    outcome = experiment.run(
        emulated,
        mixed_flows(k),
        duration_s=options.duration_s,
        warmup_s=options.warmup_s,
        bottlenecks=[BOTTLENECK],
        ping=(SENDERS[0], RECEIVER),
        host_queues=not coordinated,
        events=events,
        progress=progress,
    )
    counts.append(baton.status())
    return _record(policy, k, options, outcome, counts if coordinated else None)


def _record(
    policy: str, k: int, options: DemoOptions, outcome: Outcome, counts: Sequence[dict[str, Any]] | None
) -> dict[str, Any]:
    slots = late = 0
    if counts is not None:
        slots, late = (counts[-1][name] - counts[0][name] for name in ("slots", "late_slots"))
    timely = late <= MAX_LATE_FRACTION * slots
    return {
        "policy": policy,
        "k": k,
        "slice_ms": options.slice_ns / 1e6 if policy == "timeslice" else None,
        **outcome.to_dict(),
        "jain": round(outcome.jain, 4) if outcome.goodput_mbps > 0.05 else None,  # flows that get nothing share nothing
        "slots": slots,
        "late_slots": late,
        "valid": outcome.valid and timely,
    }


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
    """Writes a record by renaming a complete file, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(json.dumps(record, indent=1) + "\n")
    fresh.replace(path)
