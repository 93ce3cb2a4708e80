"""Flows that cannot meet their deadline any more: schemes 1 and 2 give them up, scheme 3 never does.

Reference: Karuna (SIGCOMM 2016), section 3 and figure 8: scheme 1 aborts a flow that has fallen behind by more than the link
carries, scheme 2 one that would need more than the link, scheme 3 none. Scheme 1 terminated more flows than scheme 2, but fewer
deadlines were missed (a terminated flow counts as missed). Method: web search sizes, half of the flows with tight deadlines.
"""

from __future__ import annotations

from pathlib import Path

from agents.priorities.mcp_model import Termination
from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, measure, sizes_of, thresholds_for
from bench.style import SPARE, Series, bars, panels, save
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_schedule import Mixture

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, figure 8",
    "result": "scheme 1 terminates more flows than scheme 2 and misses fewer deadlines, terminated ones counted as missed",
}
LOADS = (0.7, 0.9)
MIXTURE = Mixture((0.5, 0.25, 0.25), deadline_mean_ms=25, slack=1.1)
NAMES = ("missed", "terminated")


def run(options: Options, tell: Tell) -> Experiment:
    """Three schemes of termination at each load."""
    sizes = sizes_of("web_search", options)
    cases = []
    for load in LOADS[-1:] if options.quick else LOADS:
        flows = arrivals(sizes, load, 10 if options.quick else 25, MIXTURE, options)
        thresholds = thresholds_for(sizes, load, MIXTURE.shares, 7)
        for number in Termination:
            scheme = schemes.karuna(thresholds, termination=number)
            cases.append(Case({"load": load, "termination": number.value}, scheme, flows))
    return measure("Deadlines missed and flows terminated, by termination scheme", PUBLISHED, cases, options, tell)


def draw(found: Experiment, path: Path) -> None:
    """Draws a panel for each load: missed and terminated, a group for each scheme."""
    runs = found.record["runs"]
    loads = sorted({entry["load"] for entry in runs})
    figure, axes = panels(1, len(loads))
    for axis, load in zip(axes.flat, loads, strict=True):
        mine = [entry for entry in runs if entry["load"] == load]
        undisturbed = [sure(entry["trust"]) for entry in mine]
        series = [
            Series(name, colour, [entry["deadlines"][name] for entry in mine], undisturbed)
            for name, colour in zip(NAMES, SPARE, strict=False)
        ]
        bars(axis, [f"scheme {entry['termination']}" for entry in mine], series)
        axis.set(title=f"load {load:g}", ylabel="share of flows with deadlines", ylim=(0, None))
        axis.legend(frameon=False, fontsize=8)
    save(figure, found.record, path)
