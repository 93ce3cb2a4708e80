"""Pure SJF hurts flows with deadlines, pure EDF hurts the rest.

Reference: Karuna (SIGCOMM 2016), figures 1 and 2 (ns-2): deadlines missed under SJF, and 95th percentile of the other flows'
completion times under EDF, as the share of flows with deadlines grows. Method: web search sizes at load 0.8; SJF and EDF
approximated on eight fixed priorities (emulation.traffic.fixed_priorities), and Karuna under the same flows. Deadlines are
tight.
"""

from __future__ import annotations

from pathlib import Path

from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, cuts_for, measure, sizes_of, thresholds_for
from bench.style import COLOURS, LABELS, ink, panels, save
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_schedule import Mixture

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, figures 1 and 2",
    "result": "SJF misses no deadline of responses smaller than 1 % of the other flows, more than 40 % of those as large as "
    "the 20th percentile (13 KB); size-based schemes miss 7 to 25 % of deadlines. Under EDF the tail of short flows grows "
    "about 5 times as deadline flows go from 0 to 8 % of the traffic",
    "set_up": "load 80 % of 1 Gb/s, realistic sizes, no type 3; deadlines exponential, 10 ms on average",
    "sjf_missed_by_size_percentile": {"1": 0.0, "20": 0.4},
    "edf_tail_growth_from_0_to_8_percent": 5.0,
    "size_based_missed": [0.07, 0.25],
}
LOAD = 0.8
SHARES = (0.05, 0.15, 0.3)
SLACK = 2.0
"""The least deadline, over the time that the link takes for the flow alone."""
MARKERS = {"sjf": "o", "edf": "s", "karuna": "^"}
PANELS = (("deadlines missed, share", "missed"), ("95th percentile of the others, ms", "p95_ms"))


def run(options: Options, tell: Tell) -> Experiment:
    """Three schemes at each share of deadlines."""
    sizes = sizes_of("web_search", options)
    cases = []
    for share in SHARES[::2] if options.quick else SHARES:
        rest = (1 - share) / 2
        mixture = Mixture((share, rest, rest), slack=SLACK)
        flows = arrivals(sizes, LOAD, 5 if options.quick else 25, mixture, options)
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
            bad = [(x, y) for x, y, entry in zip(shares, heights, mine, strict=True) if not sure(entry["trust"])]
            if bad:
                axis.plot(*zip(*bad, strict=True), color=ink(), marker="x", linestyle="none")
        axis.set(xlabel="share of flows with deadlines", ylabel=label, ylim=(0, None))
    axes[0][0].legend(frameon=False, fontsize=8)
    save(figure, found.record, path)
