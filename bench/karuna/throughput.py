"""Four flows over time: two with deadlines, one of known size, one of unknown size.

Reference: Karuna (SIGCOMM 2016), figure 6: under Karuna deadline flows take what they need to finish just in time and leave the
rest; pFabric gives them the whole link first; under DCTCP all flows share alike and miss deadlines. The published sizes fit
1 Gb/s only if they are read as megabits, so this benchmark has its own. Method: bytes received in buckets of 20 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.karuna.record import Case, Experiment, Options, Tell, measure
from bench.style import LABELS, SPARE, panels, save
from controller.priorities.completion_model import Thresholds
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_run import FlowResult
from emulation.traffic.flow_schedule import Schedule, ScheduledFlow

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, figure 6",
    "result": "deadline flows just in time, the others share what is left; DCTCP misses deadlines; in a picture only",
}
BUCKET_NS = 20_000_000
FLOWS = (
    ScheduledFlow(0, 0, "h1", "h6", 1_500_000, 1, 330),
    ScheduledFlow(1, 100_000_000, "h2", "h6", 1_200_000, 1, 250),
    ScheduledFlow(2, 0, "h3", "h6", 1_500_000, 2),
    ScheduledFlow(3, 0, "h4", "h6", 3_000_000, 3),
)
THRESHOLDS = Thresholds((200_000, 1_000_000), (100_000, 1_000_000))
CUTS = (1_000_000, 1_400_000, 2_000_000)


def run(options: Options, tell: Tell) -> Experiment:
    """Three schemes with the same four flows."""
    thresholds = Thresholds(*(tuple(map(options.sized, cuts)) for cuts in (THRESHOLDS.beta, THRESHOLDS.alpha)))
    compared = (schemes.karuna(thresholds), schemes.dctcp(), schemes.edf([options.sized(cut) for cut in CUTS]))
    flows = tuple(replace(flow, size_bytes=options.sized(flow.size_bytes)) for flow in FLOWS)
    cases = [Case({}, scheme, Schedule(flows, 1_500_000_000)) for scheme in compared]
    title, scale = "Throughput of four flows over time", f"{options.rate}, sizes and deadlines of our own"
    return measure(title, PUBLISHED, cases, options, tell, scale=scale, bucket_ns=BUCKET_NS, more=_flows)


def _flows(found: Sequence[FlowResult]) -> dict[str, Any]:
    return {
        "each": [
            {
                "flow": one.flow.number,
                "type": one.flow.flow_type,
                "deadline_ms": one.flow.deadline_ms,
                "fct_ms": None if one.fct_ns is None else round(one.fct_ns / 1e6, 2),
                "congestion_control": one.congestion_control,
            }
            for one in found
        ]
    }


def draw(found: Experiment, path: Path) -> None:
    """Draws a panel for each scheme, with a line for each flow and a mark at each deadline."""
    runs = found.record["runs"]
    figure, axes = panels(1, len(runs))
    for number, (axis, entry) in enumerate(zip(axes.flat, runs, strict=True)):
        for row in (row for row in found.raw if row["run"] == number):
            buckets = {int(at): size for at, size in row.get("buckets", {}).items()}
            last = max(buckets, default=0) + 1
            colour = SPARE[row["flow"]]
            deadline = "" if row["deadline_ms"] is None else f", deadline {row['deadline_ms']} ms"
            fct = "not complete" if row["fct_ns"] is None else f"{row['fct_ns'] / 1e6:.0f} ms"
            label = f"{row['size_bytes'] / 1e6:g} MB, type {row['type']}{deadline}: {fct}"
            heights = [buckets.get(at, 0) * 8e3 / BUCKET_NS for at in range(last + 1)]
            axis.plot([at * BUCKET_NS / 1e6 for at in range(last + 1)], heights, color=colour, label=label, linewidth=1.2)
            if row["deadline_ms"] is not None:
                axis.axvline(row["start_ns"] / 1e6 + row["deadline_ms"], color=colour, linestyle="--", linewidth=0.8)
        name = entry["scheme"]["name"]
        doubt = "" if sure(entry["trust"]) else " (disturbed)"
        axis.set(title=LABELS[name] + doubt, xlabel="ms", ylabel="Mb/s", ylim=(0, 1.25 * entry["scheme"]["rate_mbps"]))
        axis.legend(edgecolor="none", framealpha=0.8, fontsize=7)
    save(figure, found.record, path)
