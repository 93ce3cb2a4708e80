"""SJF hurts flows with deadlines, EDF above SJF hurts the rest.

Reference: Karuna (SIGCOMM 2016), figures 1 and 2 (ns-2, one link of 1 Gb/s, web search sizes as in `SIZES`, deadlines
exponential around 10 ms, no type 3). Figure 1: responses of one size each, with deadlines, among other flows at load 0.8, which
are of type 2; missed deadlines over the responses' size, as a percentile of the other flows' sizes, under SJF. Figure 2: flows
with deadlines are a share of the traffic at load 0.8, the rest is of type 2; tail of the short flows of type 2 over that share,
under EDF above SJF. Karuna runs beside both.

*What the excerpt at hand leaves open.* How much the responses of figure 1 add (here `RESPONSE_LOAD` for each size), which
percentile the tail is (here the 99th), which flows are short (here to 100 KB, as in figure 7), and what becomes of a deadline
that no scheme can meet (here it is raised to 1.25 times what the link takes for the flow alone, as in pFabric's experiments,
SIGCOMM 2013, and to 1 ms, the unit of the mark). SJF and EDF are approximated on eight fixed
priorities (emulation.traffic.fixed_priorities).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.karuna.record import Case, Experiment, Options, Tell, arrivals, cuts_for, measure
from bench.style import COLOURS, LABELS, ink, panels, save
from controller.priorities.flow_sizes import FlowSizes
from emulation import cdfs
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.traffic.flow_run import FlowResult
from emulation.traffic.flow_schedule import Mixture, Schedule, merged
from emulation.traffic.flow_stats import completion, deadlines

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
PERCENTILES = (1, 5, 10, 15, 20)
"""Figure 1: the sizes of the responses. More than published, to see from which size on deadlines are missed:"""
BEYOND = (40, 60)
RESPONSE_LOAD = 0.005
SHARES = (0.0, 0.02, 0.04, 0.06, 0.08)
"""Figure 2: of the traffic."""
DEADLINE = {"deadline_mean_ms": 10.0, "deadline_least_ms": 1.0, "slack": 1.25}
SHORT_BYTES = 100_000
MARKERS = {"sjf": "o", "edf": "s", "karuna": "^"}


def sizes(options: Options) -> FlowSizes:
    """Web search as in ns-2, a KB for each packet of 1,460 bytes there, so that the 20th percentile is the published 13 KB."""
    return cdfs.load("web_search_ns2").scaled(1000 / 1460 * options.scale)


def responses(options: Options, seconds: float) -> Schedule:
    """Figure 1's flows: type 2 at `LOAD`, and responses of each size at `RESPONSE_LOAD`."""
    others = arrivals(sizes(options), LOAD, seconds, Mixture((0.0, 1.0, 0.0)), options)
    mixture = Mixture((1.0, 0.0, 0.0), **DEADLINE)
    found = [others]
    for percent in (*PERCENTILES, *BEYOND):
        size = response_bytes(options, percent)
        one = FlowSizes((size - 0.25, size + 0.25), (0.0, 1.0))
        found.append(arrivals(one, RESPONSE_LOAD, seconds, mixture, options._replace(seed=1000 * options.seed + percent)))
    return dataclasses.replace(merged(*found), length_ns=others.length_ns)


def response_bytes(options: Options, percent: int) -> int:
    """The size of figure 1's responses at a percentile of the other flows' sizes."""
    return round(float(sizes(options).quantile(percent / 100)))


def mixed(options: Options, share: float, seconds: float) -> Schedule:
    """Figure 2's flows: this share of them has deadlines, the others are of type 2."""
    return arrivals(sizes(options), LOAD, seconds, Mixture((share, 1 - share, 0.0), **DEADLINE), options)


def run(options: Options, tell: Tell) -> Experiment:
    """SJF and Karuna with responses of all sizes; EDF and Karuna at each share of deadlines."""
    seconds = 5 if options.quick else 25
    first, cuts = responses(options, seconds), cuts_for(sizes(options), LOAD, 8)
    cases = [Case({"figure": 1}, scheme, first) for scheme in (schemes.sjf(cuts), schemes.karuna())]
    for share in SHARES[::4] if options.quick else SHARES:
        flows, cuts = mixed(options, share, seconds), cuts_for(sizes(options), LOAD, 4)
        cases += [Case({"figure": 2, "share": share}, scheme, flows) for scheme in (schemes.edf(cuts), schemes.karuna())]

    def more(found: Sequence[FlowResult]) -> dict[str, Any]:
        return {"short": short(found, options), "responses": missed_by_size(found, options)}

    title = "Deadlines missed by size under SJF; tail of short flows by share of deadlines under EDF; and Karuna; load 0.8"
    return measure(title, PUBLISHED, cases, options, tell, more=more)


def short(found: Sequence[FlowResult], options: Options) -> dict[str, Any]:
    """Completion times of the short flows of type 2."""
    limit = SHORT_BYTES * options.scale
    return completion(one for one in found if one.flow.flow_type == 2 and one.flow.size_bytes <= limit)


def missed_by_size(found: Sequence[FlowResult], options: Options) -> dict[str, Any]:
    """By percentile, how many responses there were and the share that missed the deadline; sizes without responses are left
    out."""
    due = [one for one in found if one.flow.flow_type == 1]
    rows = {}
    for percent in (*PERCENTILES, *BEYOND):
        size = response_bytes(options, percent)
        if mine := [one for one in due if one.flow.size_bytes == size]:
            rows[str(percent)] = {"bytes": size, "flows": len(mine), "missed": deadlines(mine)["missed"]}
    return rows


def draw(found: Experiment, path: Path) -> None:
    """Draws figure 1, deadlines missed over the responses' size, and figure 2, the short flows' tail over the share."""
    figure, axes = panels(1, 2)
    first, second = axes.flat
    for name in MARKERS:
        one = [entry for entry in found.record["runs"] if entry["scheme"]["name"] == name and entry["figure"] == 1]
        for entry in one:
            rows = entry["responses"]
            points = [(int(percent), 100 * row["missed"]) for percent, row in rows.items()]
            _line(first, name, points, [sure(entry["trust"])] * len(points))
        many = [entry for entry in found.record["runs"] if entry["scheme"]["name"] == name and entry["figure"] == 2]
        if many:
            points = [(100 * entry["share"], entry["short"]["p99_ms"]) for entry in many]
            _line(second, name, points, [sure(entry["trust"]) for entry in many])
    first.axvspan(0, max(PERCENTILES), color="0.5", alpha=0.1, linewidth=0)
    first.set(
        xlabel="size of responses, percentile of the others (shaded: published)", ylabel="deadlines missed, %",
        title="Figure 1", ylim=(0, None), xlim=(0, None),
    )  # fmt: skip
    second.set(xlabel="share of flows with deadlines, %", ylabel="p99 of short flows, ms", title="Figure 2", ylim=(0, None))
    for axis in axes.flat:
        axis.legend(frameon=False, fontsize=8)
    save(figure, found.record, path)


def _line(axis: Any, name: str, points: Sequence[tuple[float, float]], undisturbed: Sequence[bool]) -> None:  # noqa: ANN401 -- matplotlib's
    axis.plot(*zip(*points, strict=True), color=COLOURS[name], label=LABELS[name], marker=MARKERS[name])
    bad = [point for point, good in zip(points, undisturbed, strict=True) if not good]
    if bad:
        axis.plot(*zip(*bad, strict=True), color=ink(), marker="x", linestyle="none")
