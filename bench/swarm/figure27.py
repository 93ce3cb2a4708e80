"""XCo's Figure 27: what a tree of 800 to 4,800 machines loses with and without coordination.

Reference: XCo (HPDC 2010), Figure 27: racks of 20 machines at 1 Gb/s; 10 racks a row, each by 10 Gb/s to the switch at the
row's end; N rows, each by one link of 10 Gb/s to the core. The 200 machines of a row send UDP at line rate to the 200 of
another row, half of the rows to the other half. Method: as bench/swarm/swarm.py; the paper's machines and links are ns-3's,
ours the swarm's model. Without coordination the model runs alone, with it the real coordinator's process plans the slots, in
real time. A coordinator that does not carry so many machines is measured all the same: its loss is that of a fabric whose
hosts fail open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.record import Experiment, Tell, record_of
from bench.style import panels, save
from bench.swarm.swarm import Options, run
from bench.xco.record import Check, Row, verdict
from emulation.measuring.confidence import Confidence, Disturbance, Level, sure, together
from emulation.measuring.fidelity import environment
from emulation.measuring.figures import LABELS, STYLES
from protocol.units import SECOND_NS

STEP, MOST = 800, 4_800
ALONE_S = 2.0
PUBLISHED = {"result": "without coordination up to 90 % are lost, with XCo's timeslices almost nothing"}
WITHOUT, WITH = "uncoordinated", "timeslice"
MOST_BEHIND_NS = 20_000_000
"""By so much the links' model lags: what the swarm does later than that comes to the links too late."""
COARSEST_NS = 1_000_000
"""In longer steps of the links' model two slots of a link may overlap, and lose nothing. In a millisecond a port's buffer takes
what overlaps."""
LOST_MOST, USED_LEAST = 0.001, 0.97


def measure(options: Options, tell: Tell, *, most: int = MOST) -> Experiment:
    """Loss and use of the links by the number of machines, without coordination and with it."""
    runs, raw = list[dict[str, Any]](), list[dict[str, Any]]()
    sizes = range(STEP, most + 1, STEP)
    for number, hosts in enumerate(sizes):
        for policy in (WITHOUT, WITH):
            tell(f"{hosts} machines, {LABELS[policy]}", (number + (policy == WITH) / 4) / len(sizes))
            seconds = ALONE_S if policy == WITHOUT else options.seconds
            case = replace(options, hosts=hosts, shape="rows", destinations=1, seconds=seconds, uncoordinated=policy == WITHOUT)
            found = run(case)
            raw.append(found)
            runs.append({"hosts": hosts, "policy": policy, **_shown(found), "confidence": _confidence(found)})
    return Experiment(_record(runs, options), raw)


def _shown(found: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "loss_fraction", "link_use", "sent_gbps", "delivered_gbps", "optimum_gbps", "late_fraction", "grants_per_s",
        "frames_per_s", "coordinator_cpu", "rss_mb", "loop_stop_max_us", "members_s", "members", "swarm_cpu", "missing",
        "model_behind_max_us", "model_step_max_us",
    )  # fmt: skip
    return {name: found[name] for name in names if name in found}


def _confidence(found: Mapping[str, Any]) -> dict[str, Any]:
    behind_ns, step_ns = (1e3 * found.get(name, 0.0) for name in ("swarm_behind_max_us", "model_step_max_us"))
    disturbed = list[Disturbance]()
    if behind_ns > MOST_BEHIND_NS:
        text = f"the swarm itself was late by {behind_ns / 1e6:.0f} ms at most"
        disturbed.append(Disturbance(text, behind_ns / SECOND_NS / found["case"]["seconds"], behind_ns, figures=("late",)))
    if step_ns > COARSEST_NS:
        text = f"the links' model made steps of up to {step_ns / 1e6:g} ms: what overlapped for less was not lost in it"
        disturbed.append(Disturbance(text, 0.0, step_ns, figures=("drops",)))
    if disturbed:
        return Confidence(Level.INDICATIVE, tuple(disturbed)).to_dict()
    return Confidence(Level.EXACT if "members" not in found else Level.GOOD).to_dict()


def _record(runs: list[dict[str, Any]], options: Options) -> dict[str, Any]:
    largest = max(run["hosts"] for run in runs)
    last = {run["policy"]: run for run in runs if run["hosts"] == largest}
    coordinated = [run for run in runs if run["policy"] == WITH]
    alone = [run["loss_fraction"] for run in runs if run["policy"] == WITHOUT]
    most_lost = max(run["loss_fraction"] for run in coordinated)
    least_used = min(run["link_use"] for run in coordinated)
    rows = [
        Row(
            f"lost, {largest} machines, %",
            {WITHOUT: "up to 90", WITH: "almost none"},
            {policy: round(100 * run["loss_fraction"], 3) for policy, run in last.items()},
        ),
        Row(
            f"carried of the optimum, {largest} machines, %",
            {},
            {policy: round(100 * run["link_use"], 1) for policy, run in last.items()},
        ),
    ]
    checks = [
        Check(f"without coordination {min(alone):.0%} to {max(alone):.0%} are lost", min(alone) >= 0.85),
        Check(f"with timeslices {most_lost:.2%} at most", most_lost <= LOST_MOST),
        Check(f"and the links carry {least_used:.1%} of the optimum at least", least_used >= USED_LEAST),
    ]
    places = {f"{run['policy']}, {run['hosts']} machines": run for run in runs}
    record = record_of(
        "Loss on a tree of rows, racks and machines",
        PUBLISHED,
        runs,
        scale=f"slices of {options.slice_ns / 1e6:g} ms, {options.buffer_bytes / 1e3:g} kB a port, {options.seconds:g} s",
        seed=options.seed,
        quick=False,
        confidence=together(places),
        environment=environment(),
    )
    compared = [{"what": row.what, "published": dict(row.published), "ours": dict(row.ours)} for row in rows]
    return {**record, "compared": compared, "verdict": verdict(checks)}


def draw(found: Experiment, path: Path) -> None:
    """Draws both losses, and what the links carry of the optimum, over the number of machines; disturbed runs are hollow."""
    runs = found.record["runs"]
    figure, axes = panels(1, 2)
    for axis, value, label in zip(
        axes[0], ("loss_fraction", "link_use"), ("lost of what was sent, %", "carried of the optimum, %"), strict=True
    ):
        for policy in (WITHOUT, WITH):
            colour, marker = STYLES[policy]
            points = [(run["hosts"], 100 * run[value], sure(run)) for run in runs if run["policy"] == policy]
            axis.plot(*zip(*((x, y) for x, y, _ in points), strict=True), color=colour, label=LABELS[policy], linewidth=1.8)
            for x, y, undisturbed in points:
                axis.plot(x, y, marker, color=colour, markerfacecolor=colour if undisturbed else "none", markersize=7)
        axis.set(xlabel="machines", ylabel=label, ylim=(-3, 105))
        axis.set_xticks(sorted({run["hosts"] for run in runs}))
    axes[0][0].axhline(90, color="0.6", linestyle=":", label="published, without: up to 90 %")
    axes[0][0].legend(frameon=False, fontsize=8, loc="center right")
    save(figure, found.record, path)
