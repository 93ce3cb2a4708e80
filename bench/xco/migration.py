"""A bulk transfer like a live migration, beside 1 to 4 senders into the same receiver.

Reference: XCo (HPDC 2010), Figure 19: a virtual machine of 256 MB migrates at 1 Gb/s. Method: the emulated star; h5 sends the
bulk over one TCP connection to the receiver, into which N other hosts send UDP (or long TCP flows) at full speed. The time is
from the first byte to the receiver's close. A transfer that takes more than `PATIENCE` times an equal share's time is given up.
The link's use is what all applications received until then, not of the whole measurement, most of which the others have alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.record import Experiment, Tell
from bench.style import panels, save
from bench.xco import plots
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, measure, published_for, select
from emulation.measuring.figures import LABELS, POLICIES, STYLES
from emulation.measuring.measure import rate_mbps
from emulation.stack.running import UnderPolicy
from emulation.stack.star import BOTTLENECK, RECEIVER, SENDERS, mixed_flows
from emulation.traffic.experiment import Flow
from topology import shapes

PUBLISHED = {
    "result": "with XCo the time grows linearly with the number of senders, alike for TCP and UDP, without it exponentially; "
    "the link carries about 950 against less than 500 Mb/s",
}
BULK_BYTES = 256 << 20
QUICK_PART = 16
"""A quick run transfers this part of it."""
MIGRATING = SENDERS[-1]
COUNTS = (1, 2, 3, 4)
PATIENCE = 3.0
WARMUP_S = 0.4
BUCKET_NS = 10_000_000


def layout(options: Options) -> Layout:
    """The star of five senders and a receiver."""
    return Layout(shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=options.rate_bps), BOTTLENECK)


def run(options: Options, tell: Tell) -> Experiment:
    """The transfer's time by the number of senders."""
    size = options.scaled(BULK_BYTES // (QUICK_PART if options.quick else 1))
    alone_s = size * 8 / options.rate_bps
    kinds = ("udp",) if options.quick else ("udp", "tcp")
    cases = [
        Case(
            {"senders": count, "kind": kind},
            _flows(count, kind, size, WARMUP_S),
            seconds=PATIENCE * (count + 1) * alone_s,
            warmup_s=WARMUP_S,
            bucket_ns=BUCKET_NS,
        )
        for kind in kinds
        for count in COUNTS
    ]
    measured = measure(layout(options), cases, options, tell, more=_transfer)
    runs = measured.runs
    times = {count: by_policy(runs, "transfer_s", senders=count, kind="udp") for count in COUNTS}
    growth = _growth(times[1]["timeslice"], times[4]["timeslice"])
    without = select(runs, policy="uncoordinated", senders=4, kind="udp")
    use = by_policy(runs, "use_mbps", senders=4, kind="udp")
    link = options.rate_bps / 1e6
    slow = without["transfer_s"]
    given_up = f"has moved {without['moved_fraction']:.0%} when it is given up after {without['given_up_s']:.2f} s"
    ended = given_up if slow is None else f"takes {slow:.2f} s"
    last = times[4]["timeslice"]
    return concluded(
        "A bulk transfer, like a live migration, beside N senders",
        PUBLISHED,
        measured,
        options,
        scale=f"{size / (1 << 20):.3g} MB over TCP, port buffer 100 packets",
        rows=[
            *(
                Row(f"seconds beside {count} UDP senders", published_for("exponential", "", "linear"), times[count])
                for count in COUNTS
            ),
            Row("link use during the transfer, 4 UDP senders, Mb/s", published_for("below 500", "", "about 950"), use),
        ],
        checks=[
            Check(
                f"with timeslices the time grows linearly ({last or 0:.2f} s beside four senders, {growth or 0:.2f} times that "
                "beside one; 2.5 is linear)",
                growth is not None and 2.0 <= growth <= 3.1,
            ),
            Check(
                f"without coordination it grows much faster (beside four it {ended})",
                last is not None and (slow is None or slow > 1.5 * last),
            ),
            Check(
                f"during the transfer the link carries {use['timeslice'] or 0:.0f} Mb/s instead of "
                f"{use['uncoordinated'] or 0:.0f}, less than half of it",
                float(use["timeslice"] or 0) > 0.9 * link and float(use["uncoordinated"] or 0) < 0.5 * link,
            ),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws the times over the number of senders, a panel for each kind; a hollow triangle is a transfer that was given up."""
    runs = found.record["runs"]
    kinds = list(dict.fromkeys(run["kind"] for run in runs))
    figure, axes = panels(1, len(kinds))
    for axis, kind in zip(axes.flat, kinds, strict=True):
        mine = [run for run in runs if run["kind"] == kind]
        plots.lines(axis, mine, "senders", lambda run: run["transfer_s"])
        lost = [run for run in mine if run["transfer_s"] is None]
        for policy in POLICIES:
            points = [(run["senders"], run["given_up_s"]) for run in lost if run["policy"] == policy]
            if points:
                colour = STYLES[policy][0]
                axis.plot(*zip(*points, strict=True), "^", fillstyle="none", color=colour,
                          label=f"{LABELS[policy]}: given up, not complete")  # fmt: skip
        axis.set_ylim(0, 1.1 * max(run["transfer_s"] or run["given_up_s"] for run in mine))
        axis.set(xlabel=f"{kind.upper()} senders beside it", ylabel="time of the transfer, s")
        axis.legend(frameon=False, fontsize=8)
    save(figure, found.record, path)


def _flows(count: int, kind: str, size: int, warmup_s: float) -> list[Flow]:
    """The bulk begins with the measurement, when the others send already."""
    beside = mixed_flows(len(SENDERS) if kind == "udp" else 0)[:count]
    return [Flow("tcp", MIGRATING, RECEIVER, total=size, phase_ns=round(warmup_s * 1e9)), *beside]


def _transfer(case: Case, found: UnderPolicy) -> dict[str, Any]:
    """A run's own figures; "use_mbps": goodput of all until the transfer's end, or until it was given up."""
    bulk = found.outcome.flows[0]
    took_ns = bulk.sender["completed_ns"]
    whole = (found.outcome.duration_ns if took_ns is None else took_ns) // BUCKET_NS
    until_end = sum(sum(flow.buckets[:whole]) for flow in found.outcome.flows)
    return {
        "use_mbps": round(rate_mbps(until_end, whole * BUCKET_NS), 2) if whole else None,
        "transfer_s": None if took_ns is None else round(took_ns / 1e9, 4),
        "moved_fraction": round(bulk.received_bytes / bulk.flow.total, 4),
        "given_up_s": round(case.seconds, 3),
    }


def _growth(first: float | None, last: float | None) -> float | None:
    return None if not first or last is None else last / first
