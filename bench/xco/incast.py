"""Incast: one client asks N storage servers for a part of a block each, and for the next block when all have come.

Reference: XCo (HPDC 2010), Figures 2, 3, 13, 14. Method: a star; every server has one TCP connection to the client, which
asks all of them at once for their Nth part of a block of 1 MB, and again when the last byte of the last part has arrived. TCP
is that of 2010 (`tcp_of_2010`): a loss at the end of a part costs a retransmission timeout, 200 ms at least. The coordinator
regulates all pairs from the start (`mode: always`), as XCo's does: flows that collapse fill too little of a link to be
noticed. Goodput is what the client's application got.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.record import Experiment, Tell
from bench.style import panels, save
from bench.xco import plots
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, measure, published_for, tcp_of_2010
from emulation.measuring.measure import percentile
from emulation.stack.running import UnderPolicy
from emulation.traffic.experiment import Flow
from topology import shapes

PUBLISHED = {
    "result": "842 to 305 Mb/s of 1 Gb/s without coordination as N grows; timeslices highest, rate limiting between",
}
BLOCK_BYTES = 1_000_000
SERVERS, QUICK_SERVERS = (1, 2, 4, 6, 8, 12, 16), (1, 4, 8, 16)


def layout(options: Options) -> Layout:
    """A star of the servers and the client."""
    most = max(_servers(options))
    return Layout(shapes.build("star", hosts=most + 1, rate_bps=options.rate_bps), ("s1", f"h{most + 1}"))


def run(options: Options, tell: Tell) -> Experiment:
    """Goodput and the time of a block, by the number of servers."""
    found = layout(options)
    client = found.bottleneck[1]
    cases = [
        Case(
            {"servers": count},
            [Flow("block", f"h{number}", client, size=BLOCK_BYTES // count) for number in range(1, count + 1)],
            seconds=options.seconds(1.0, 5.0),
            warmup_s=options.seconds(0.5, 1.0),
        )
        for count in _servers(options)
    ]
    measured = measure(found, cases, options, tell, coordinator={"mode": "always"}, prepare=tcp_of_2010, more=_rounds)
    most = max(_servers(options))
    few, many = (by_policy(measured.runs, "goodput_mbps", servers=count) for count in (min(_servers(options)), most))
    without, limited, sliced = (float(many[policy] or 0) for policy in ("uncoordinated", "rate_limit", "timeslice"))
    return concluded(
        "Incast: goodput of barrier-synchronised block requests",
        PUBLISHED,
        measured,
        options,
        scale=f"blocks of {BLOCK_BYTES / 1e6:g} MB, port buffer {found.buffer_packets} packets",
        rows=[
            Row("goodput with 1 server, Mb/s", published_for("842", "", ""), few),
            Row(f"goodput with {most} servers, Mb/s", published_for("305 (most servers)", "between", "highest"), many),
        ],
        checks=[
            Check(
                "without coordination goodput falls as servers are added "
                f"({few['uncoordinated']:.0f} to {without:.0f} Mb/s here)",
                without < 0.9 * float(few["uncoordinated"] or 0),
            ),
            Check(f"timeslices give the most ({sliced:.0f} Mb/s with {most} servers)", sliced > max(without, limited)),
            Check(f"rate limiting lies between ({limited:.0f} Mb/s)", without <= limited <= sliced),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws goodput, and the 99th percentile of a block's time, over the number of servers."""
    runs = found.record["runs"]
    figure, axes = panels(1, 2)
    goodput, rounds = axes.flat
    plots.lines(goodput, runs, "servers", lambda run: run["goodput_mbps"])
    plots.lines(rounds, runs, "servers", lambda run: run["round_ms"]["p99"], log=True)
    goodput.set(xlabel="storage servers", ylabel="goodput, Mb/s")
    rounds.set(xlabel="storage servers", ylabel="time of a block, p99, ms")
    plots.legend(goodput)
    save(figure, found.record, path)


def _servers(options: Options) -> tuple[int, ...]:
    return QUICK_SERVERS if options.quick else SERVERS


def _rounds(_: Case, found: UnderPolicy) -> dict[str, Any]:
    took_ms = [round_ns / 1e6 for round_ns in found.outcome.rounds_ns]
    return {
        "rounds": len(took_ms),
        "round_ms": {"p50": percentile(took_ms, 50), "p99": percentile(took_ms, 99), "max": max(took_ms, default=None)},
    }
