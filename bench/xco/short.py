"""One long TCP flow and K sequences of short TCP connections through one uplink.

Reference: XCo (HPDC 2010), Figures 7 and 17: connections of 30 KB, K from 0 to 400, an uplink of 1 Gb/s. Method: two switches;
h1 sends the long flow to h3, and h2 keeps K connections to h4 open, each of which sends 30 KB, waits for the receiver's close
and is followed by the next. Below 1 Gb/s there are fewer sequences in the same proportion, so that each has the same share.
TCP is that of 2010 (`tcp_of_2010`). Goodput is what the receiving applications got.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.record import Experiment, Tell
from bench.style import panels, save
from bench.xco import plots
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, measure, published_for, tcp_of_2010
from emulation.stack.running import Running, UnderPolicy
from emulation.traffic.experiment import Flow
from topology import shapes

PUBLISHED = {
    "result": "the long flow falls from 940 to 89 Mb/s, the total to 280, as K goes to 400; with XCo it settles near 430 Mb/s",
}
CONNECTION_BYTES = 30_000
LONG, SHORT = ("h1", "h3"), ("h2", "h4")


def layout(options: Options) -> Layout:
    """Two hosts at each of two switches; the uplink has the rate of a host."""
    return Layout(shapes.build("dumbbell", rate_bps=options.rate_bps, bottleneck_bps=options.rate_bps), ("s1", "s2"))


def run(options: Options, tell: Tell) -> Experiment:
    """Goodput of the long flow and of both together, by K."""
    published_ks = (0, 100, 400) if options.quick else (0, 50, 100, 200, 300, 400)
    ks = [options.scaled(k) if k else 0 for k in published_ks]
    cases = [
        Case({"sequences": k}, _flows(k), seconds=options.seconds(1.0, 4.0), warmup_s=options.seconds(0.5, 1.0))
        for k in dict.fromkeys(ks)
    ]
    measured = measure(layout(options), cases, options, tell, prepare=_prepare, more=_parts)
    alone, most = (by_policy(measured.runs, "long_mbps", sequences=k) for k in (0, ks[-1]))
    total = by_policy(measured.runs, "goodput_mbps", sequences=ks[-1])
    without, sliced = float(most["uncoordinated"] or 0), float(most["timeslice"] or 0)
    link, both = options.rate_bps / 1e6, float(total["uncoordinated"] or 0)
    return concluded(
        "A long TCP flow against K sequences of short TCP connections",
        PUBLISHED,
        measured,
        options,
        scale=f"connections of {CONNECTION_BYTES / 1e3:g} KB, port buffer 100 packets",
        rows=[
            Row("long flow, K = 0, Mb/s", published_for("940", "", ""), alone),
            Row(f"long flow, K = {ks[-1]}, Mb/s", published_for("89 (K = 400)", "", "near 430"), most),
            Row(f"both together, K = {ks[-1]}, Mb/s", published_for("280 (K = 400)", "", ""), total),
        ],
        checks=[
            Check(
                f"without coordination the long flow collapses ({alone['uncoordinated']:.0f} to {without:.0f} Mb/s here)",
                without < 0.3 * float(alone["uncoordinated"] or 0),
            ),
            Check(f"so does the total ({both:.0f} Mb/s)", both < 0.7 * link),
            Check(f"with timeslices the long flow keeps nearly half of the link ({sliced:.0f} Mb/s)", sliced > 0.38 * link),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws the long flow's goodput, the total, and the median time of a connection, over K."""
    runs = found.record["runs"]
    figure, axes = panels(1, 3, width=4.4)
    plots.lines(axes[0][0], runs, "sequences", lambda run: run["long_mbps"])
    plots.lines(axes[0][1], runs, "sequences", lambda run: run["goodput_mbps"])
    plots.lines(axes[0][2], runs, "sequences", lambda run: run["connection_ms"]["p50"])
    labels = ("long flow, Mb/s", "both together, Mb/s", "a connection of 30 KB, median, ms")
    for axis, ylabel in zip(axes[0], labels, strict=True):
        axis.set(xlabel="K: sequences of short connections", ylabel=ylabel)
    plots.legend(axes[0][0])
    save(figure, found.record, path)


def _flows(k: int) -> list[Flow]:
    return [Flow("tcp", *LONG), *([Flow("short", *SHORT, size=CONNECTION_BYTES, count=k)] if k else [])]


def _prepare(running: Running) -> None:
    tcp_of_2010(running)
    # Thousands of connections a second: without it their ports would wait for a minute each, and run out.
    running.emulated.run_in(SHORT[0], "sysctl", "-qw", "net.ipv4.tcp_tw_reuse=1")


def _parts(_: Case, found: UnderPolicy) -> dict[str, Any]:
    long, *short = found.outcome.flows
    sender = short[0].sender if short else {"connections": 0, "connection_ms": dict.fromkeys(("p50", "p99", "max"))}
    return {
        "long_mbps": round(long.goodput_mbps, 2),
        "short_mbps": round(sum(flow.goodput_mbps for flow in short), 2),
        "connections": sender["connections"],
        "connection_ms": sender["connection_ms"],
    }
