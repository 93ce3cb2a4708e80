"""Karuna's experiments on an emulated star, one module a figure: `baton bench karuna FIGURE`.

Every module has `run(options, tell)`, which measures and returns an `Experiment` (bench.karuna.record), and `draw(found,
path)`, which draws its record like the published figure. All times are as on links of ten times the rate with flows of ten
times the size: 2 processors emulate 100 Mb/s faithfully, not 1 Gb/s.
"""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """The module of a figure, and what it shows."""

    module: str
    help: str


FIGURES = {
    "microbench": Figure("bench.karuna.microbench", "queue of two long flows, DCTCP and CUBIC (Mininet-HiFi)"),
    "deadlines": Figure("bench.karuna.deadlines", "deadline flows before long ones: MCP, DCTCP, EDF"),
    "sjf-edf": Figure("bench.karuna.sjf_edf", "SJF hurts deadlines, EDF hurts the rest (Figures 1, 2)"),
    "throughput": Figure("bench.karuna.throughput", "four flows over time (Figure 6)"),
    "fct": Figure("bench.karuna.fct", "completion times by size against DCTCP (Figure 7)"),
    "termination": Figure("bench.karuna.termination", "flows given up, by scheme 1, 2 and 3 (Figure 8)"),
    "thresholds": Figure("bench.karuna.thresholds", "wrong thresholds with and without ECN (Figure 9)"),
    "queues": Figure("bench.karuna.queues", "2, 4 and 8 queues (Figure 10)"),
    "starvation": Figure("bench.karuna.starvation", "a starved flow with and without ageing"),
}
