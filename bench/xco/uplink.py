"""Thirteen senders to thirteen receivers through an uplink of ten times a host's rate, K of them UDP.

Reference: XCo (HPDC 2010), Figures 5 and 16: hosts of 1 Gb/s, an uplink of 10 Gb/s. Method: two switches, the thirteen senders
at one and the receivers at the other; goodput is what the receiving applications got.
"""

from __future__ import annotations

from pathlib import Path

from bench.record import Experiment, Tell
from bench.xco import plots
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, measure, published_for
from emulation.traffic.experiment import Flow
from topology import shapes

PUBLISHED = {
    "result": "timeslices let 10 of 13 hosts send at a time; rate limiting gives each 10/13 Gb/s and is slightly worse",
}
PAIRS = 13
FACTOR = 10


def layout(options: Options) -> Layout:
    """Two switches with thirteen hosts each."""
    rates = {"rate_bps": options.rate_bps, "bottleneck_bps": FACTOR * options.rate_bps}
    return Layout(shapes.build("dumbbell", left=PAIRS, right=PAIRS, **rates), ("s1", "s2"))


def flows(k: int) -> list[Flow]:
    """K UDP flows at full speed and 13 - K long TCP flows."""
    return [Flow("udp" if number < k else "tcp", f"h{number + 1}", f"h{PAIRS + number + 1}") for number in range(PAIRS)]


def run(options: Options, tell: Tell) -> Experiment:
    """Goodput of all flows together and of the TCP flows, by K."""
    ks = (0, 7, 13) if options.quick else (0, 3, 6, 9, 11, 13)
    cases = [Case({"udp": k}, flows(k), seconds=options.seconds(0.2, 1.0), warmup_s=options.seconds(0.2, 0.5)) for k in ks]
    measured = measure(layout(options), cases, options, tell)
    last = by_policy(measured.runs, "goodput_mbps", udp=PAIRS)
    some = by_policy(measured.runs, "tcp_mean_mbps", udp=ks[len(ks) // 2])
    link = FACTOR * options.rate_bps / 1e6
    without, limited, sliced = (float(last[policy] or 0) for policy in ("uncoordinated", "rate_limit", "timeslice"))
    tcp_without, tcp_sliced = float(some["uncoordinated"] or 0), float(some["timeslice"] or 0)
    share = link / PAIRS
    return concluded(
        "Thirteen senders through an uplink of ten times a host's rate, K of them UDP",
        PUBLISHED,
        measured,
        options,
        scale=f"uplink {link / 1e3:g} Gb/s, UDP messages of 60 KB, port buffer 100 packets",
        rows=[
            Row("goodput, K = 13, Mb/s", published_for("falls with K", "near 10 000", "near 10 000"), last),
            Row(f"each TCP flow, K = {ks[len(ks) // 2]}, Mb/s", published_for("", "10/13 of a host's", "10 at a time"), some),
        ],
        checks=[
            Check(f"without coordination 13 UDP flows lose much ({without:.0f} Mb/s arrive here)", without < 0.8 * link),
            Check(f"timeslices fill the uplink ({sliced:.0f} Mb/s)", sliced > 0.85 * link),
            Check(f"rate limiting nearly does ({limited:.0f} Mb/s)", limited > 0.8 * link),
            Check(
                f"beside UDP a TCP flow gets {tcp_sliced:.0f} Mb/s with timeslices instead of {tcp_without:.0f} (an equal "
                f"share is {share:.0f})",
                tcp_sliced > tcp_without and tcp_sliced > 0.7 * share,
            ),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws both goodputs over K."""
    plots.goodputs(found, path, "thirteen")
