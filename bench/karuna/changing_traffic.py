"""Thresholds while traffic changes: web search, data mining at once, and web search again.

Method: the tuner's own code (controller/priorities/tuning.py) gets, period after period, what hosts (links of 1 Gb/s) report:
flows of types 2 and 3, drawn from the published distribution, as many as the load needs (Poisson). The result of each period is
the mean FCT that its thresholds give to flows of the distribution that holds now, in the M/G/1 model of
controller/priorities/completion_model.py, over the least that there is. A period's thresholds come into force at its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.style import SPARE, panels
from controller.priorities.completion_model import Traffic
from controller.priorities.flow_sizes import FlowSizes
from controller.priorities.thresholds import optimise
from controller.priorities.tuning import Tuning
from emulation import cdfs
from protocol.bodies.flows.priorities import SizeCount, size_reports
from protocol.bodies.flows.size_bins import EDGES

HOSTS = (16, 64)
SEEDS = (1, 2, 3, 4, 5)
RATE_BPS = 1_000_000_000
PERIOD_S = 10
LOAD = 0.8
BANDS = 7
PHASES = (("web_search", 6), ("data_mining", 6), ("web_search", 6))
"""Workloads and how many periods each holds."""
NEAR = 0.05
"""Completion times this share above the best are back."""


def run() -> dict[str, Any]:
    """{"runs": [as `one` returns], "worst_after_two_periods": {hosts: share above the best, of all changes and seeds}}."""
    runs = [one(hosts, seed) for hosts in HOSTS for seed in SEEDS]
    worst = {
        hosts: max(
            entry["over_best"]
            for found in runs
            for entry in found["periods"]
            if found["hosts"] == hosts and entry["period"] > 1
        )
        for hosts in HOSTS
    }
    return {"runs": runs, "worst_after_two_periods": worst}


def one(hosts: int, seed: int) -> dict[str, Any]:
    """{"periods": [{"workload", "over_best", "changed", ...}], "periods_until_near": periods after each change, or null}."""
    chance = np.random.default_rng(seed)
    tuning = Tuning(BANDS)
    best = {name: optimise(_traffic(cdfs.load(name)), BANDS).value for name, _ in PHASES}
    periods: list[dict[str, Any]] = []
    waited: list[int | None] = []
    for name, count in PHASES:
        sizes = cdfs.load(name)
        traffic, in_phase = _traffic(sizes), []
        for at in range(count):
            tuning.take({"sizes": [RATE_BPS * hosts, PERIOD_S * 10**9, _rows(sizes, hosts, chance).hex()]})
            before = tuning.in_force
            tuned = tuning.period()
            assert tuning.in_force is not None
            over = [traffic.mean_fct(cuts) / best[name] - 1 for cuts in (before or tuning.in_force, tuning.in_force)]
            in_phase.append(over[1])
            shown = {"over_best_before": round(over[0], 4), "over_best": round(over[1], 4), "changed": tuned["changed"]}
            periods.append({"workload": name, "period": at + 1, "flows": sum(tuned["flows"]), **shown})
        near = [at + 1 for at in range(count) if max(in_phase[at:]) <= NEAR]
        waited.append(near[0] if near else None)
    return {"hosts": hosts, "seed": seed, "load": LOAD, "bands": BANDS, "periods": periods, "periods_until_near": waited}


def draw(found: dict[str, Any], path: Path) -> None:
    """Draws the mean FCT over the best, period after period."""
    figure, axes = panels(1, 1, width=8)
    axis = axes[0][0]
    for hosts, colour in zip(HOSTS, SPARE, strict=False):
        some = [[entry["over_best_before"] for entry in each["periods"]] for each in found["runs"] if each["hosts"] == hosts]
        over = 100 * np.maximum(np.array(some), 0.001)
        number = np.arange(over.shape[1] + 1)
        axis.stairs(over.max(axis=0), number, baseline=None, color=colour, label=f"{hosts} hosts, worst of {len(over)} runs")
    axis.set_yscale("log")
    axis.axhline(100 * NEAR, linestyle=":", color="grey")
    at = 0
    for name, count in PHASES:
        axis.axvline(at, linewidth=0.5, color="grey")
        axis.annotate(name.replace("_", " "), (at + 0.2, 0.02), xycoords=("data", "axes fraction"))
        at += count
    title = f"Thresholds after a change of traffic, load {LOAD:g}"
    axis.set(title=title, xlabel="time, periods", ylabel="mean FCT above the best, %")
    axis.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _traffic(sizes: FlowSizes) -> Traffic:
    return Traffic(0.0, LOAD / 2, LOAD / 2, sizes, sizes)


def _rows(sizes: FlowSizes, hosts: int, chance: np.random.Generator) -> bytes:
    """A period's report, all hosts together."""
    rows: list[SizeCount] = []
    for flow_type in (2, 3):
        mean_flows = LOAD / 2 * RATE_BPS * hosts * PERIOD_S / 8 / sizes.mean()
        drawn = sizes.quantile(chance.random(chance.poisson(mean_flows)))
        at = np.searchsorted(np.array(EDGES, dtype=np.float64), drawn, side="right") - 1
        flows, carried = np.bincount(at), np.bincount(at, weights=drawn)
        rows += [SizeCount(flow_type, int(cell), int(flows[cell]), round(carried[cell])) for cell in np.flatnonzero(flows)]
    return b"".join(report.rows for report in size_reports(0, 0, rows))
