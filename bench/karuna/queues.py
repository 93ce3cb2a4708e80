"""How many queues are needed: 2, 4 and 8, the first of them for type 1.

Reference: Karuna (SIGCOMM 2016), figure 10. Method: web search sizes at load 0.8, the tuner's thresholds for each number; the
switch always has eight queues, of which the taggers use as many.
"""

from __future__ import annotations

from pathlib import Path

from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, measure, sizes_of
from bench.style import SPARE, Series, bars, panels, save
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_schedule import Mixture

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, figure 10",
    "result": "completion times with 2, 4 and 8 queues; in a picture only",
}
QUEUES = (2, 4, 8)
LOAD = 0.8


def run(options: Options, tell: Tell) -> Experiment:
    """The same flows with each number of queues."""
    sizes, mixture = sizes_of("web_search", options), Mixture()
    flows = arrivals(sizes, LOAD, 10 if options.quick else 40, mixture, options)
    cases = [Case({"queues": queues}, schemes.karuna(bands=queues - 1), flows) for queues in QUEUES]
    title = "Completion times of types 2 and 3 by number of queues, web search, load 0.8"
    return measure(title, PUBLISHED, cases, options, tell)


def draw(found: Experiment, path: Path) -> None:
    """Draws mean and p99 of each bin, with a bar for each number of queues."""
    runs = found.record["runs"]
    groups = list(runs[0]["completion"])
    figure, axes = panels(1, 2, width=6)
    for axis, value, title in ((axes[0][0], "mean_ms", "mean"), (axes[0][1], "p99_ms", "99th percentile")):
        series = []
        for entry, colour in zip(runs, SPARE, strict=False):
            heights = [entry["completion"][group][value] for group in groups]
            series.append(Series(f"{entry['queues']} queues", colour, heights, [sure(entry["trust"])] * len(groups)))
        bars(axis, groups, series)
        axis.set(title=title, ylabel="completion time, ms", yscale="log")
    axes[0][0].legend(frameon=False, fontsize=8)
    save(figure, found.record, path)
