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
from emulation.measuring.confidence import sure
from emulation.measuring.measure import mean, percentile
from emulation.stack import schemes
from emulation.stack.star import BOTTLENECK, RATE_BPS, RECEIVER, SENDERS
from emulation.traffic.experiment import Flow
from emulation.traffic.experiment import run as run_flows
from topology.fabric import DirectedLink

PUBLISHED: dict[str, Any] = {
    "source": "Mininet-HiFi, CoNEXT 2012",
    "result": "DCTCP keeps the queue near the threshold of 20 packets, within 2 packets of hardware; TCP fills the buffer",
    "rate_mbps": 100,
    "threshold_packets": 20,
    "distance_from_hardware_packets": 2,
}
WARMUP_S = 3.0
LEAST_S = 0.5
MOST_P99 = 1.5
"""Of the queue's length, over the marking threshold."""
LEAST_GOODPUT = 0.93
"""Over the link's rate."""
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
OVERHEAD_S = 3.0


def run(options: Options, tell: Tell) -> Experiment:
    """Both schemes, one after the other."""
    faster = options.rate_bps / RATE_BPS
    duration_s = max(LEAST_S, (5.0 if options.quick else 20.0) / faster)
    warmup_s = max(LEAST_S, WARMUP_S / faster)
    compared = [scheme.at_rate(options.rate_bps) for scheme in (schemes.dctcp(), schemes.cubic())]
    each_s = warmup_s + duration_s + OVERHEAD_S
    threshold = compared[0].marking_packets or 0
    most_p99, least_mbps = MOST_P99 * threshold, LEAST_GOODPUT * options.rate_bps / 1e6
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
                warmup_s=warmup_s,
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
                "buffer_packets": scheme.buffer_packets,
                "goodput_mbps": round(goodput, 2),
                "queue_packets": {
                    "mean": round(mean(packets) or 0.0, 2),
                    **{f"p{percent}": percentile(packets, percent) for percent in PERCENTILES},
                    "max": max(packets, default=None),
                },
                "jain": round(outcome.jain, 4),
                "drops": outcome.drops,
                "meets": {
                    f"queue p99 <= {most_p99:g} packets": p99 is not None and p99 <= most_p99,
                    f"goodput >= {least_mbps:g} Mb/s": goodput >= least_mbps,
                },
                "trust": {
                    "confidence": outcome.confidence().to_dict(),
                    "cpu": outcome.fidelity.to_dict(),
                    "switch_waited_ms": round(outcome.switch_wait_ns / 1e6, 1),
                    "overruns": outcome.overruns,
                },
            }
        )
        samples = zip(outcome.occupancy[link].times_ns, packets, strict=True)
        raw += [{"run": number, "time_ns": at - outcome.started_ns, "packets": depth} for at, depth in samples]
    buffer = compared[0].buffer_packets
    title = f"Queue of a {options.rate} port, two long flows, marking from {threshold} packets, buffer {buffer}"
    scale = "as published: 100 Mb/s" if options.rate_bps == RATE_BPS else f"published at 100 Mb/s, here {options.rate}"
    return Experiment(experiment(title, PUBLISHED, options, runs, environment, scale), raw)


def draw(found: Experiment, path: Path) -> None:
    """Draws the queue over time, and its distribution."""
    figure, axes = panels(1, 2)
    over_time, shares = axes.flat
    for number, entry in enumerate(found.record["runs"]):
        name = entry["scheme"]["name"]
        rows = [row for row in found.raw if row["run"] == number]
        label = f"{LABELS[name]}, {entry['goodput_mbps']:.1f} Mb/s, p99 {entry['queue_packets']['p99']:.0f} packets"
        style = {"color": COLOURS[name], "linestyle": "-" if sure(entry["trust"]) else ":"}
        over_time.plot([row["time_ns"] / 1e9 for row in rows], [row["packets"] for row in rows], linewidth=0.5, **style)
        shares.plot(*distribution([row["packets"] for row in rows]), label=label, **style)
    threshold = found.record["runs"][0]["scheme"]["marking_packets"]
    most = max(row["packets"] for row in found.raw) * 1.05 + 1
    over_time.set(xlabel="seconds", ylabel="packets in the queue", ylim=(0, most))
    shares.set(xlabel="packets in the queue", ylabel="share of samples", xlim=(0, most), ylim=(0, 1))
    distance = PUBLISHED["distance_from_hardware_packets"]
    band = {"color": "grey", "alpha": 0.25, "label": f"published: threshold +- {distance} packets"}
    shares.axvspan(threshold - distance, threshold + distance, **band)
    shares.legend(frameon=False, fontsize=7, loc="upper center")
    for line in (over_time.axhline, shares.axvline):
        line(threshold, color="grey", linewidth=0.8, linestyle="--")
    save(figure, found.record, path)
