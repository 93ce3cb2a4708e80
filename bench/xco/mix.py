"""Five senders into one receiver, K of them UDP at full speed and the others long TCP flows.

Reference: XCo (HPDC 2010), Figures 4 and 15. Method: the emulated star; goodput is what the receiving application got.
"""

from __future__ import annotations

from pathlib import Path

from bench.record import Experiment, Tell
from bench.xco import plots
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, measure, published_for
from emulation.stack.star import BOTTLENECK, RECEIVER, SENDERS, mixed_flows
from topology import shapes

PUBLISHED = {
    "result": "without coordination goodput falls with K; timeslices near 1 Gb/s for every K, TCP flows near 200 Mb/s each; "
    "rate limiting between",
}


def layout(options: Options) -> Layout:
    """The star of five senders and a receiver."""
    return Layout(shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=options.rate_bps), BOTTLENECK)


def run(options: Options, tell: Tell) -> Experiment:
    """Goodput of all flows together and of the TCP flows, by K."""
    cases = [
        Case(
            {"udp": k},
            mixed_flows(k),
            seconds=options.seconds(1.0, 4.0),
            warmup_s=options.seconds(0.5, 1.0),
            ping=(SENDERS[0], RECEIVER),
        )
        for k in ((0, 3, 5) if options.quick else range(len(SENDERS) + 1))
    ]
    measured = measure(layout(options), cases, options, tell)
    first, last = (by_policy(measured.runs, "goodput_mbps", udp=k) for k in (0, len(SENDERS)))
    each = by_policy(measured.runs, "tcp_mean_mbps", udp=3)
    sliced = [float(run["goodput_mbps"]) for run in measured.runs if run["policy"] == "timeslice"]
    link, fair = options.rate_bps / 1e6, options.rate_bps / 1e6 / len(SENDERS)
    without, limited = float(last["uncoordinated"] or 0), float(last["rate_limit"] or 0)
    tcp = float(each["timeslice"] or 0)
    return concluded(
        "Five senders into one receiver, K of them UDP",
        PUBLISHED,
        measured,
        options,
        scale="UDP messages of 60 KB, port buffer 100 packets",
        rows=[
            Row("goodput, K = 0, Mb/s", published_for("", "", "near 1000"), first),
            Row("goodput, K = 5, Mb/s", published_for("falls with K", "between", "near 1000"), last),
            Row("each TCP flow, K = 3, Mb/s", published_for("", "", "near 200"), each),
        ],
        checks=[
            Check(
                f"without coordination goodput falls as K grows ({first['uncoordinated']:.0f} to {without:.0f} Mb/s here)",
                without < 0.7 * float(first["uncoordinated"] or 0),
            ),
            Check(f"timeslices fill the link for every K ({min(sliced):.0f} Mb/s or more)", min(sliced) > 0.9 * link),
            Check(f"a TCP flow beside three UDP ones gets a fifth of it ({tcp:.0f} Mb/s)", abs(tcp - fair) < 0.15 * fair),
            Check(f"rate limiting is better than none ({limited:.0f} Mb/s at K = 5)", limited > without),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws both goodputs over K."""
    plots.goodputs(found, path, "five")
