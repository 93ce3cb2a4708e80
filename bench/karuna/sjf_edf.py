"""Pure SJF hurts flows with deadlines, pure EDF hurts the rest.

Reference: Karuna (SIGCOMM 2016), figures 1 and 2 (ns-2): deadlines missed under SJF, and 95th percentile of the other flows'
completion times under EDF, as the share of flows with deadlines grows. Method: web search sizes at load 0.8; SJF and EDF
approximated on eight fixed priorities (emulation.traffic.fixed_priorities), and Karuna under the same flows. Deadlines are
tight.
"""

from __future__ import annotations

from pathlib import Path

from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, cuts_for, measure, sizes_of, thresholds_for
from bench.style import COLOURS, LABELS, panels, save
from emulation.stack import schemes
from emulation.traffic.flow_schedule import Mixture

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, figures 1 and 2",
    "result": "pure SJF hurts flows with deadlines, pure EDF hurts the others; no number is at hand",
}
LOAD = 0.8
SHARES = (0.05, 0.15, 0.3)
SLACK = 2.0
"""The least deadline, over the time that the link takes for the flow alone."""
MARKERS = {"sjf": "o", "edf": "s", "karuna": "^"}
PANELS = (("deadlines missed, share", "missed"), ("95th percentile of the others, ms", "p95_ms"))


def run(options: Options, tell: Tell) -> Experiment:
    """Three schemes at each share of deadlines."""
    sizes = sizes_of("web_search")
    cases = []
    for share in SHARES[::2] if options.quick else SHARES:
        rest = (1 - share) / 2
        mixture = Mixture((share, rest, rest), slack=SLACK)
        flows = arrivals(sizes, LOAD, 5 if options.quick else 25, mixture, options.seed)
        thresholds = thresholds_for(sizes, LOAD, mixture.shares, 7)
        compared = schemes.sjf(cuts_for(sizes, LOAD, 8)), schemes.edf(cuts_for(sizes, LOAD, 4)), schemes.karuna(thresholds)
        cases += [Case({"share_of_deadlines": share}, scheme, flows) for scheme in compared]
    title = "SJF and EDF alone, and Karuna, over the share of flows with deadlines, load 0.8"
    return measure(title, PUBLISHED, cases, options, tell)


def draw(found: Experiment, path: Path) -> None:
    """Draws the deadlines missed, and the tail of the other flows, over the share of flows with deadlines."""
    figure, axes = panels(1, 2)
    runs = found.record["runs"]
    for axis, (label, value) in zip(axes.flat, PANELS, strict=True):
        for name, marker in MARKERS.items():
            mine = [entry for entry in runs if entry["scheme"]["name"] == name]
            shares = [entry["share_of_deadlines"] for entry in mine]
            heights = [{**entry["completion"]["all"], **entry["deadlines"]}[value] for entry in mine]
            axis.plot(shares, heights, color=COLOURS[name], label=LABELS[name], marker=marker)
            bad = [(x, y) for x, y, entry in zip(shares, heights, mine, strict=True) if not entry["trust"]["valid"]]
            if bad:
                axis.plot(*zip(*bad, strict=True), color="black", marker="x", linestyle="none")
        axis.set(xlabel="share of flows with deadlines", ylabel=label, ylim=(0, None))
    axes[0][0].legend(frameon=False, fontsize=8)
    save(figure, found.record, path)
