"""The shares of two UDP and three TCP flows into one receiver.

Reference: XCo (HPDC 2010), Figure 20. Method: the emulated star; goodput is what the receiving application got of each flow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.record import Experiment, Tell
from bench.style import panels, save
from bench.xco import plots
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, measure, published_for, select
from emulation.stack.running import UnderPolicy
from emulation.stack.star import BOTTLENECK, SENDERS, mixed_flows
from topology import shapes

PUBLISHED = {"result": "near-equal shares of two UDP and three TCP flows with XCo"}
UDP = 2
EQUAL = 0.95
"""Jain's index from which five shares are near equal: one of them may be 45 % off. Of five flows that get nothing it is 1."""


def layout(options: Options) -> Layout:
    """The star of five senders and a receiver."""
    return Layout(shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=options.rate_bps), BOTTLENECK)


def run(options: Options, tell: Tell) -> Experiment:
    """Each flow's goodput."""
    case = Case({"udp": UDP}, mixed_flows(UDP), seconds=options.seconds(2.0, 8.0), warmup_s=options.seconds(0.5, 1.0))
    measured = measure(layout(options), [case], options, tell, more=_shares)
    jain = by_policy(measured.runs, "jain")
    each = {policy: select(measured.runs, policy=policy)["flows_mbps"] for policy in jain}
    spread = {policy: f"{min(found):.0f} to {max(found):.0f} Mb/s" for policy, found in each.items()}
    return concluded(
        "Shares of two UDP and three TCP flows",
        PUBLISHED,
        measured,
        options,
        scale="UDP messages of 60 KB, port buffer 100 packets",
        rows=[
            Row("Jain's index of the five shares", published_for("", "", "near 1"), jain),
            Row("smallest share, Mb/s", published_for("", "", "near 200"), {name: min(found) for name, found in each.items()}),
            Row("largest share, Mb/s", published_for("", "", "near 200"), {name: max(found) for name, found in each.items()}),
        ],
        checks=[
            Check(
                f"with timeslices the shares are near equal ({spread['timeslice']}, Jain's index {jain['timeslice'] or 0:.3f})",
                float(jain["timeslice"] or 0) >= EQUAL and min(each["timeslice"]) > 0,
            ),
            Check(
                f"without coordination they are not ({spread['uncoordinated']})",
                float(jain["uncoordinated"] or 0) < EQUAL or not any(each["uncoordinated"]),
            ),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws a group of bars for each flow."""
    runs = found.record["runs"]
    figure, axes = panels(1, 1, width=8)
    groups = [f"{flow['kind'].upper()} {flow['source']}" for flow in runs[0]["flows"]]
    plots.grouped(axes[0][0], runs, groups, lambda run: run["flows_mbps"])
    axes[0][0].set(ylabel="goodput, Mb/s")
    plots.legend(axes[0][0])
    save(figure, found.record, path)


def _shares(_: Case, found: UnderPolicy) -> dict[str, Any]:
    return {"flows_mbps": [round(flow.goodput_mbps, 2) for flow in found.outcome.flows]}
