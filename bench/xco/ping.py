"""Ping over time: an idle fabric, five long TCP flows into one receiver, and two UDP beside three TCP ones.

Reference: XCo (HPDC 2010), Figures 8 and 18. Method: the emulated star; a sender pings the receiver every 9.7 ms, which is no
multiple of a round of slots. The published 20 ms need a port that holds 20 ms of traffic, so the ports have that here; reply
times are the kernel's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.record import Experiment, Tell
from bench.style import panels, save
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, label, measure, published_for, select
from emulation.measuring.confidence import sure
from emulation.measuring.figures import POLICIES, STYLES
from emulation.stack.running import UnderPolicy
from emulation.stack.star import BOTTLENECK, RECEIVER, SENDERS, mixed_flows
from topology import shapes

PUBLISHED = {"result": "86 us idle; 0.1 to 20 ms under load without coordination; 0.1 to 2 ms with XCo"}
INTERVAL_NS = 9_700_000
BUFFER_PACKETS = 1650
"""At 1 Gb/s: 20 ms of full frames."""
LOADS = {"none": None, "5 TCP": 0, "2 UDP, 3 TCP": 2}
LOADED = tuple(load for load, k in LOADS.items() if k is not None)


def layout(options: Options) -> Layout:
    """The star of five senders and a receiver, with deep buffers."""
    fabric = shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=options.rate_bps)
    return Layout(fabric, BOTTLENECK, options.scaled(BUFFER_PACKETS))


def run(options: Options, tell: Tell) -> Experiment:
    """Round-trip times under each load."""
    cases = [
        Case(
            {"load": load},
            [] if k is None else mixed_flows(k),
            seconds=options.seconds(1.5, 10.0),
            warmup_s=options.seconds(0.5, 1.0) if k is not None else 0.1,
            ping=(SENDERS[0], RECEIVER),
            ping_interval_ns=INTERVAL_NS,
        )
        for load, k in LOADS.items()
    ]
    found = layout(options)
    measured = measure(found, cases, options, tell, more=_longest, raw=_raw)
    idle = by_policy(measured.runs, "rtt_p50_ms", load="none")
    worst = {policy: _worst(measured.runs, policy) for policy in POLICIES}
    texts = {policy: "no ping came back" if value is None else f"{value:.2f} ms" for policy, value in worst.items()}
    sliced, without = worst["timeslice"], worst["uncoordinated"]
    return concluded(
        "Ping over time under load",
        PUBLISHED,
        measured,
        options,
        scale=f"port buffer {found.buffer_packets} packets, a ping every 9.7 ms",
        rows=[
            Row("idle, median, ms", published_for("0.086", "", ""), idle),
            *(
                Row(f"{load}, longest, ms", published_for("20", "", "2"), by_policy(measured.runs, "rtt_max_ms", load=load))
                for load in LOADED
            ),
        ],
        checks=[
            Check(
                f"without coordination a loaded ping waits for full buffers (up to {texts['uncoordinated']} here)",
                without is None or without > 5,
            ),
            Check(f"with timeslices it takes 2 ms at most (up to {texts['timeslice']})", sliced is not None and sliced <= 2.05),
            Check(
                "timeslices lose no ping",
                all(select(measured.runs, policy="timeslice", load=load)["pings"]["lost"] == 0 for load in LOADED),
            ),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws a panel for each load, with the round-trip times of each policy over time."""
    runs = found.record["runs"]
    figure, axes = panels(1, len(LOADS), width=4.6)
    for axis, load in zip(axes.flat, LOADS, strict=True):
        for number, entry in enumerate(runs):
            if entry["load"] != load:
                continue
            points = [(row["ping"] * INTERVAL_NS / 1e9, row["rtt_ms"]) for row in found.raw if row["run"] == number]
            policy, lost = entry["policy"], entry["pings"]["lost"]
            name = label(policy) + (f", {lost} of {entry['pings']['sent']} lost" if lost else "")
            colour, marker = STYLES[policy]
            line = "-" if sure(entry) else ":"
            xs, ys = zip(*points, strict=True) if points else ((), ())
            axis.plot(xs, ys, line, marker=marker, markersize=2, linewidth=0.7, color=colour, label=name)
        axis.set(title=f"load: {load}", xlabel="seconds", ylabel="round trip, ms", yscale="log")
        axis.legend(edgecolor="none", framealpha=0.8, fontsize=7)
    save(figure, found.record, path)


def _worst(runs: list[dict[str, Any]], policy: str) -> float | None:
    found = [run["rtt_max_ms"] for run in runs if run["policy"] == policy and run["load"] in LOADED and run["rtt_max_ms"]]
    return max(found, default=None)


def _longest(_: Case, found: UnderPolicy) -> dict[str, Any]:
    summary = found.outcome.pings.summary()
    return {"rtt_p50_ms": summary["p50"], "rtt_max_ms": summary["max"]}


def _raw(_: Case, found: UnderPolicy) -> list[dict[str, Any]]:
    pings = found.outcome.pings
    return [{"ping": number, "rtt_ms": rtt} for number, rtt in zip(pings.numbers, pings.rtt_ms, strict=True)]
