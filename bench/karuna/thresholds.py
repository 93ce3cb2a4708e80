"""One demotion threshold, right and wrong, with and without ECN.

Reference: Karuna (SIGCOMM 2016), figure 9: flows of 30 KB and of 10 MB, two queues for them, thresholds of 20 KB, 30 KB and 2
MB. With a threshold too low small flows end among the large ones, with one too high large flows start among the small ones;
marking keeps the queues short, so that a wrong threshold costs little. Method: as published, 80 % of the flows are of 30 KB,
all are of type 3, and the load is 80 %.
"""

from __future__ import annotations

from pathlib import Path

from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, measure
from bench.style import SPARE, Series, bars, panels, save
from controller.priorities.completion_model import Thresholds
from controller.priorities.flow_sizes import FlowSizes
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_schedule import Mixture

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, figure 9",
    "result": "at 30 KB both are ideal, and without ECN completion times are 9 % lower; at 20 KB and 2 MB ECN helps",
    "set_up": "80 % of flows 30 KB, 20 % 10 MB, load 80 %, all type 3, two queues",
    "without_ecn_over_with_at_30_kb": 0.91,
}
SMALL, LARGE = 30_000, 10_000_000
SIZES = FlowSizes((SMALL - 1.0, float(SMALL), LARGE - 1.0, float(LARGE)), (0.0, 0.8, 0.8, 1.0))
THRESHOLDS = (20_000, 30_000, 2_000_000)
LOAD = 0.8
SLOW_BPS = 100_000_000
"""Faster links need fewer seconds to carry as many flows."""
SHOWN = (
    ("0 to 30 KB", "mean_ms", "30 KB flows: mean"),
    ("0 to 30 KB", "p99_ms", "30 KB flows: p99"),
    ("above 30 KB", "mean_ms", "10 MB flows: mean"),
)


def run(options: Options, tell: Tell) -> Experiment:
    """Each threshold, with and without marking."""
    seconds = (15 if options.quick else 60) * SLOW_BPS // max(SLOW_BPS, options.rate_bps // 2)
    flows = arrivals(SIZES, LOAD, seconds, Mixture((0.0, 0.0, 1.0)), options)
    cases = [
        Case(
            {"threshold_bytes": cut, "ecn": marking is not None},
            schemes.karuna(Thresholds((cut,), (cut,)), marking_packets=marking),
            flows,
        )
        for marking in (schemes.MARKING_PACKETS, None)
        for cut in THRESHOLDS
    ]
    title = f"30 KB and 10 MB flows under three thresholds, with and without ECN, load {LOAD:g}"
    scale = f"{options.rate}; sizes as published, so times are {1 / options.scale:g} times the published"
    return measure(title, PUBLISHED, cases, options, tell, scale=scale, edges=(SMALL,))


def draw(found: Experiment, path: Path) -> None:
    """Draws mean and p99 of the small flows and the mean of the large ones, a group for each threshold."""
    runs = found.record["runs"]
    names = {True: "with ECN", False: "without ECN"}
    figure, axes = panels(1, len(SHOWN))
    for axis, (group, value, title) in zip(axes.flat, SHOWN, strict=True):
        series = []
        for (ecn, name), colour in zip(names.items(), SPARE, strict=False):
            mine = [entry for entry in runs if entry["ecn"] is ecn]
            heights = [entry["completion"][group][value] for entry in mine]
            series.append(Series(name, colour, heights, [sure(entry["trust"]) for entry in mine]))
        bars(axis, ["20 KB", "30 KB", "2 MB"], series)
        axis.set(title=title, xlabel="threshold", ylabel="completion time, ms")
    axes[0][0].legend(frameon=False, fontsize=8)
    save(figure, found.record, path)
