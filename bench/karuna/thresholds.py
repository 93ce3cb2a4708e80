"""One demotion threshold, right, wrong and the tuner's, with and without ECN.

Reference: Karuna (SIGCOMM 2016), figure 9: flows of 30 KB and of 10 MB, two queues for them, thresholds of 20 KB, 30 KB and 2
MB. With a threshold too low small flows end among the large ones, with one too high large flows start among the small ones;
marking keeps the queues short, so that a wrong threshold costs little. Method: as published, 80 % of the flows are of 30 KB,
all are of type 3, and the load is 80 %. Beside the published thresholds stands the one that the controller's tuner finds from
the reports of the run's hosts; at 100 Mb/s too few flows end for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.karuna.record import PUBLISHED_BPS, Case, Experiment, Options, Tell, arrivals, measure
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
SIZES = FlowSizes((SMALL - 0.25, SMALL + 0.25, LARGE - 0.25, LARGE + 0.25), (0.0, 0.8, 0.8, 1.0))
"""Rounded to whole bytes, exactly these two."""
THRESHOLDS = (20_000, 30_000, 2_000_000)
LOAD = 0.8
TUNED = "tuned"
BANDS = 2
WARM_UP_S = 4.0
"""A tuner wants 100 flows, and 49 a second arrive at 1 Gb/s."""
SHOWN = (
    ("0 to 30 KB", "mean_ms", "30 KB flows: mean"),
    ("0 to 30 KB", "p99_ms", "30 KB flows: p99"),
    ("above 30 KB", "mean_ms", "10 MB flows: mean"),
)


def cases(options: Options) -> list[Case]:
    """Each threshold and, where enough flows end for it, the tuner's own; with marking and without."""
    fast = options.rate_bps >= PUBLISHED_BPS
    seconds = (4 if options.quick else 25) if fast else (15 if options.quick else 60)
    flows = arrivals(SIZES, LOAD, seconds, Mixture((0.0, 0.0, 1.0)), options, WARM_UP_S)
    given: list[tuple[int | str, Thresholds | None]] = [(cut, Thresholds((cut,), (cut,))) for cut in THRESHOLDS]
    wanted = [*given, (TUNED, None)] if fast else given
    tagger = dataclasses.replace(schemes.TAGGER, short_bytes=0)  # two queues, as published: short flows have no third one
    return [
        Case(
            {"threshold_bytes": name, "ecn": marking is not None},
            schemes.karuna(thresholds, bands=BANDS, tagger=tagger, marking_packets=marking),
            flows,
        )
        for marking in (schemes.MARKING_PACKETS, None)
        for name, thresholds in wanted
    ]


def run(options: Options, tell: Tell) -> Experiment:
    """Each threshold, with and without marking."""
    title = f"30 KB and 10 MB flows by threshold, with and without ECN, load {LOAD:g}"
    times = "as published" if options.scale == 1 else f"{1 / options.scale:g} times the published"
    scale = f"{options.rate}; sizes as published, so times are {times}"
    return measure(title, PUBLISHED, cases(options), options, tell, scale=scale, edges=(SMALL,))


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
        bars(axis, [label(entry) for entry in runs if entry["ecn"]], series)
        axis.set(title=title, xlabel="threshold", ylabel="completion time, ms")
    axes[0][0].legend(frameon=False, fontsize=8)
    save(figure, found.record, path)


def label(entry: Mapping[str, Any]) -> str:
    """A run's threshold in words; of the tuner's, the last in force."""
    cut = entry["threshold_bytes"]
    if cut == TUNED:
        found = [period["thresholds"]["alpha"][0] for period in entry["tuned"] if "thresholds" in period]
        return f"tuner's, {found[-1] / 1e3:.3g} KB" if found else "tuner's, none"
    return f"{cut / 1e3:g} KB" if cut < 10**6 else f"{cut / 1e6:g} MB"
