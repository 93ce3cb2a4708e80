"""XCo's experiments on emulated fabrics, one module a figure: `baton bench xco FIGURE`.

Every module has `layout(options)`, the fabric and its bottleneck; `run(options, tell)`, which measures under each policy and
returns an `Experiment` (bench.record) with a verdict; and `draw(found, path)`, which draws the record.

Reference: XCo: Explicit Coordination to Prevent Network Fabric Congestion in Cloud Computing Cluster Platforms, HPDC 2010.
"""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """The module of a figure, what it shows, and how much faster than its hosts' links its fastest link is."""

    module: str
    help: str
    factor: int = 1


FIGURES = {
    "incast": Figure("bench.xco.incast", "blocks from N storage servers, barrier-synchronised (2, 3, 13, 14)"),
    "mix": Figure("bench.xco.mix", "five senders, K of them UDP, into one receiver (4, 15)"),
    "uplink": Figure("bench.xco.uplink", "13 senders through an uplink of ten times their rate (5, 16)", 10),
    "short": Figure("bench.xco.short", "a long TCP flow against K sequences of short connections (7, 17)"),
    "ping": Figure("bench.xco.ping", "ping over time, idle and under load (8, 18)"),
    "migration": Figure("bench.xco.migration", "a bulk transfer, like a live migration, beside 1 to 4 senders (19)"),
    "fairness": Figure("bench.xco.fairness", "the shares of two UDP and three TCP flows (20)"),
    "conservation": Figure("bench.xco.conservation", "five UDP flows, three of them at 5 % of the link (21)"),
    "responsiveness": Figure("bench.xco.responsiveness", "two sets of three senders take turns (22)"),
}
