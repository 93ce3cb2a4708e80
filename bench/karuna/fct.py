"""Completion times by size under Karuna and under DCTCP.

Reference: Karuna (SIGCOMM 2016), figure 7: mean and 99th percentile of the completion times of flows to 100 KB, to 10 MB and
above, in a testbed of 1 Gb/s. Method: web search and data mining sizes, equal shares of the three types, Poisson arrivals at
one receiver; the same flows at the same instants under both; the figure is of types 2 and 3 together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, measure, remark, sizes_of
from bench.style import COLOURS, LABELS, Series, bars, panels, save
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_schedule import Mixture

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, abstract (figure 7 has the bins)",
    "result": "against pFabric: 95th percentile of the others up to 47.78 % lower at high load, fewer than 5.8 % of deadlines "
    "missed; the bins are in a picture only",
    "tail_reduction": 0.4778,
    "deadlines_missed": 0.058,
}
ROWS = (("web_search", 0.8), ("web_search", 0.5), ("data_mining", 0.6))


def run(options: Options, tell: Tell) -> Experiment:
    """Both schemes under each workload and load."""
    mixture = Mixture()
    cases = []
    for workload, load in ROWS[:1] if options.quick else ROWS:
        sizes = sizes_of(workload, options)
        flows = arrivals(sizes, load, 12 if options.quick else 40, mixture, options)
        for scheme in (schemes.dctcp(), schemes.karuna()):
            cases.append(Case({"workload": workload, "load": load}, scheme, flows))
    scale = remark(options, (case.at["workload"] for case in cases))
    return measure("Completion times of types 2 and 3, Karuna and DCTCP", PUBLISHED, cases, options, tell, scale=scale)


def draw(found: Experiment, path: Path) -> None:
    """Draws a row for each workload and load: mean and p99 of each bin, and the deadlines missed."""
    runs = found.record["runs"]
    shown = [row for row in ROWS if any((entry["workload"], entry["load"]) == row for entry in runs)]
    figure, axes = panels(len(shown), 3)
    for row, (workload, load) in zip(axes, shown, strict=True):
        mine = [entry for entry in runs if (entry["workload"], entry["load"]) == (workload, load)]
        name = f"{workload.replace('_', ' ')}, load {load:g}"
        groups = list(mine[0]["completion"])
        for axis, value, title in ((row[0], "mean_ms", "mean"), (row[1], "p99_ms", "99th percentile")):
            bars(axis, groups, [_series(entry, [entry["completion"][group][value] for group in groups]) for entry in mine])
            axis.set(title=f"{name}: {title}", ylabel="completion time, ms", yscale="log")
        row[0].legend(frameon=False, fontsize=8)
        bars(row[2], [""], [_series(entry, [entry["deadlines"]["missed"]]) for entry in mine])
        row[2].set(title=f"{name}: type 1", ylabel="share of deadlines missed", ylim=(0, None))
    save(figure, found.record, path)


def _series(entry: dict[str, Any], heights: list[float | None]) -> Series:
    name = entry["scheme"]["name"]
    return Series(LABELS[name], COLOURS[name], heights, [sure(entry["trust"])] * len(heights))
