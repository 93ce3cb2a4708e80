"""Karuna's experiments on an emulated star, one module a figure: `baton bench karuna FIGURE`.

Every module has `run(options, tell)`, which measures and returns an `Experiment` (bench.karuna.record), and `draw(found,
path)`, which draws its record like the published figure. 2 processors emulate 100 Mb/s faithfully in real time: flow sizes are
then a tenth of the published ones, so that times are as at 1 Gb/s. In virtual time links have the published rate, too.
"""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """The module of a figure, what it shows, and the rates of links, bit/s, that it can have."""

    module: str
    help: str
    rates: tuple[int, ...] = (100_000_000, 1_000_000_000)


RATES = (100_000_000, 1_000_000_000, 10_000_000_000)

FIGURES = {
    "microbench": Figure("bench.karuna.microbench", "queue of two long flows, DCTCP and CUBIC (Mininet-HiFi)", RATES),
    "deadlines": Figure("bench.karuna.deadlines", "deadline flows before long ones: MCP, DCTCP, EDF"),
    "sjf-edf": Figure("bench.karuna.sjf_edf", "SJF hurts deadlines, EDF hurts the rest (Figures 1, 2)"),
    "throughput": Figure("bench.karuna.throughput", "four flows over time (Figure 6)"),
    "fct": Figure("bench.karuna.fct", "completion times by size against DCTCP (Figure 7)"),
    "termination": Figure("bench.karuna.termination", "flows given up, by scheme 1, 2 and 3 (Figure 8)"),
    "thresholds": Figure("bench.karuna.thresholds", "wrong thresholds with and without ECN (Figure 9)"),
    "queues": Figure("bench.karuna.queues", "2, 4 and 8 queues (Figure 10)"),
    "starvation": Figure("bench.karuna.starvation", "a starved flow with and without ageing"),
}
