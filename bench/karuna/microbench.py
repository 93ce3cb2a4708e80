"""Two long flows into one receiver: the queue at the receiver's port under DCTCP and under CUBIC.

Reference: Mininet-HiFi (CoNEXT 2012): 100 Mb/s, RED marking at 20 packets, queue occupancy over time and its CDF, in
emulation within 2 packets of hardware. Method: the benchmark reads the port's queue every millisecond over netlink after
the warm-up; goodput is what the receiving application got.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.karuna.record import Experiment, Options, Tell, experiment
from bench.style import COLOURS, LABELS, distribution, panels, save
from emulation.measuring.measure import mean, percentile
from emulation.stack import schemes
from emulation.stack.star import BOTTLENECK, BUFFER_PACKETS, RECEIVER, SENDERS
from emulation.traffic.experiment import Flow
from emulation.traffic.experiment import run as run_flows
from topology.fabric import DirectedLink

PUBLISHED = {
    "source": "Mininet-HiFi, CoNEXT 2012",
    "result": "DCTCP keeps the queue near the threshold of 20 packets, within 2 packets of hardware; TCP fills the buffer",
}
WARMUP_S = 3.0
MAX_P99_PACKETS = 30
MIN_GOODPUT_MBPS = 93.0
OVERHEAD_S = 3.0


def run(options: Options, tell: Tell) -> Experiment:
    """Both schemes, one after the other."""
    duration_s = 5.0 if options.quick else 20.0
    compared = (schemes.dctcp(), schemes.cubic())
    each_s = WARMUP_S + duration_s + OVERHEAD_S
    runs, raw, environment = list[dict[str, Any]](), list[dict[str, Any]](), dict[str, Any]()
    link = DirectedLink(*BOTTLENECK)
    for number, scheme in enumerate(compared):

        def progress(seconds: float, label: str = scheme.name, done: float = number * each_s) -> None:
            tell(f"{label}, two long flows", (done + seconds) / (each_s * len(compared)))

        progress(0)
        with schemes.on_star(scheme) as (emulated, *_):
            outcome = run_flows(
                emulated,
                [Flow("tcp", sender, RECEIVER) for sender in SENDERS[:2]],
                duration_s=duration_s,
                warmup_s=WARMUP_S,
                bottlenecks=[BOTTLENECK],
                sample_occupancy=True,
                progress=progress,
            )
            environment = environment or emulated.environment()
        packets = outcome.occupancy[link].packets
        goodput, p99 = outcome.goodput_mbps, percentile(packets, 99)
        runs.append(
            {
                "scheme": scheme.to_dict(),
                "goodput_mbps": round(goodput, 2),
                "queue_packets": {
                    "mean": round(mean(packets) or 0.0, 2),
                    **{f"p{percent}": percentile(packets, percent) for percent in (1, 50, 95, 99)},
                    "max": max(packets, default=None),
                },
                "jain": round(outcome.jain, 4),
                "drops": outcome.drops,
                "meets": {
                    f"queue p99 <= {MAX_P99_PACKETS} packets": p99 is not None and p99 <= MAX_P99_PACKETS,
                    f"goodput >= {MIN_GOODPUT_MBPS} Mb/s": goodput >= MIN_GOODPUT_MBPS,
                },
                "trust": {
                    "valid": outcome.valid,
                    "cpu": outcome.fidelity.to_dict(),
                    "switch_waited_ms": round(outcome.switch_wait_ns / 1e6, 1),
                    "overruns": outcome.overruns,
                },
            }
        )
        samples = zip(outcome.occupancy[link].times_ns, packets, strict=True)
        raw += [{"run": number, "time_ns": at - outcome.started_ns, "packets": depth} for at, depth in samples]
    title = "Queue of a 100 Mb/s port, two long flows, marking from 20 packets, buffer 100"
    scale = "as published: 100 Mb/s, emulated by Open vSwitch in userspace"
    return Experiment(experiment(title, PUBLISHED, options, runs, environment, scale), raw)


def draw(found: Experiment, path: Path) -> None:
    """Draws the queue over time, and its distribution."""
    figure, axes = panels(1, 2)
    over_time, shares = axes.flat
    for number, entry in enumerate(found.record["runs"]):
        name = entry["scheme"]["name"]
        rows = [row for row in found.raw if row["run"] == number]
        label = f"{LABELS[name]}, {entry['goodput_mbps']:.1f} Mb/s, p99 {entry['queue_packets']['p99']:.0f} packets"
        style = {"color": COLOURS[name], "linestyle": "-" if entry["trust"]["valid"] else ":"}
        over_time.plot([row["time_ns"] / 1e9 for row in rows], [row["packets"] for row in rows], linewidth=0.5, **style)
        shares.plot(*distribution([row["packets"] for row in rows]), label=label, **style)
    over_time.set(xlabel="seconds", ylabel="packets in the queue", ylim=(0, BUFFER_PACKETS * 1.05))
    shares.set(xlabel="packets in the queue", ylabel="share of samples", xlim=(0, BUFFER_PACKETS * 1.05), ylim=(0, 1))
    shares.legend(frameon=False, fontsize=7, loc="upper center")
    for line in (over_time.axhline, shares.axvline):
        line(schemes.MARKING_PACKETS, color="grey", linewidth=0.8, linestyle="--")
    save(figure, found.record, path)
