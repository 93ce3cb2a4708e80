"""Flows that cannot meet their deadline any more: schemes 1 and 2 give them up, scheme 3 never does.

Reference: Karuna (SIGCOMM 2016), section 3 and figure 8: scheme 1 aborts a flow that has fallen behind by more than the link
carries, scheme 2 one that would need more than the link, scheme 3 none. Scheme 1 terminated more flows than scheme 2, but fewer
deadlines were missed (a terminated flow counts as missed). Method: web search and data mining
sizes, half of the flows with tight deadlines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.priorities.mcp_settings import Termination
from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, measure, remark, sizes_of
from bench.style import SPARE, Series, bars, panels, save
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_schedule import Mixture

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, figure 8",
    "result": "scheme 1 terminates more flows than scheme 2 and misses fewer deadlines, terminated ones counted as missed; "
    "under web search and under data mining sizes",
}
ROWS = (("web_search", 0.9), ("data_mining", 0.9), ("web_search", 0.7), ("data_mining", 0.7))
QUICK = 2
"""So many of them in a quick run."""
MIXTURE = Mixture((0.5, 0.25, 0.25), deadline_mean_ms=25, slack=1.1)
NAMES = ("missed", "terminated")


def cases(options: Options) -> list[Case]:
    """Three schemes of termination under each workload and load."""
    found = []
    for workload, load in ROWS[:QUICK] if options.quick else ROWS:
        flows = arrivals(sizes_of(workload, options), load, 4 if options.quick else 25, MIXTURE, options)
        for number in Termination:
            at: dict[str, Any] = {"workload": workload, "load": load, "termination": number.value}
            found.append(Case(at, schemes.karuna(termination=number), flows))
    return found


def run(options: Options, tell: Tell) -> Experiment:
    """Measures all cases."""
    title, given = "Deadlines missed and flows terminated, by termination scheme", cases(options)
    scale = remark(options, (case.at["workload"] for case in given))
    return measure(title, PUBLISHED, given, options, tell, scale=scale)


def draw(found: Experiment, path: Path) -> None:
    """Draws a panel for each workload and load: missed and terminated, a group for each scheme."""
    runs = found.record["runs"]
    shown = [row for row in ROWS if any((entry["workload"], entry["load"]) == row for entry in runs)]
    figure, axes = panels((len(shown) + 1) // 2, min(2, len(shown)))
    for axis, (workload, load) in zip(axes.flat, shown, strict=True):
        mine = [entry for entry in runs if (entry["workload"], entry["load"]) == (workload, load)]
        undisturbed = [sure(entry["trust"]) for entry in mine]
        series = [
            Series(name, colour, [entry["deadlines"][name] for entry in mine], undisturbed)
            for name, colour in zip(NAMES, SPARE, strict=False)
        ]
        bars(axis, [f"scheme {entry['termination']}" for entry in mine], series)
        title = f"{workload.replace('_', ' ')}, load {load:g}"
        axis.set(title=title, ylabel="share of flows with deadlines", ylim=(0, None))
        axis.set_ylim(0, 1.15 * axis.get_ylim()[1])  # room for the names
        axis.legend(frameon=False, fontsize=8, loc="upper center", ncols=len(NAMES))
    save(figure, found.record, path)
