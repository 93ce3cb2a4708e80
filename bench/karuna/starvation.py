"""Flows in the last queue below two that fill the link, with and without ageing, with and without ECN.

Reference: Karuna (SIGCOMM 2016): flows of types 2 and 3 that timed out kappa times are promoted, kappa from 2 to 10. Method:
two long flows of known size in band 1 fill the link. Four flows of unknown size start beside them, are demoted after 100 KB,
and starve until the long ones end; with ageing each promotion gives them another 100 KB in band 1. Without ageing kappa is a
value that no flow reaches. A port that marks by the sum of its queues already relieves the starved flows, since it holds back
the long ones; so the benchmark also runs without marking, where the long flows keep the buffer full.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.karuna.record import Case, Experiment, Options, Tell, measure
from bench.style import SPARE, panels, save
from controller.priorities.completion_model import Thresholds
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.stack.star import RECEIVER
from emulation.traffic.flow_run import FlowResult
from emulation.traffic.flow_schedule import Schedule, ScheduledFlow

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016",
    "result": "ageing lets starved flows send again; no figure is published for it",
}
STARVED_BYTES = 500_000  # here and below: at 100 Mb/s
THRESHOLDS = Thresholds((500_000_000,), (100_000,))
NEVER = 255
BUCKET_NS = 100_000_000
AGEING = {True: (2, 10), False: (NEVER, NEVER)}


def run(options: Options, tell: Tell) -> Experiment:
    """The same flows with ageing and without."""
    long_bytes = options.sized(25_000_000 if options.quick else 100_000_000)
    starved_bytes = options.sized(STARVED_BYTES)
    thresholds = Thresholds(*(tuple(map(options.sized, cuts)) for cuts in (THRESHOLDS.beta, THRESHOLDS.alpha)))
    long = [ScheduledFlow(number, 0, f"h{number + 1}", RECEIVER, long_bytes, 2) for number in range(2)]
    starved = [
        ScheduledFlow(2 + number, 300_000_000 + 50_000_000 * number, f"h{3 + number % 3}", RECEIVER, starved_bytes, 3)
        for number in range(4)
    ]
    flows = Schedule((*long, *starved), round(2 * long_bytes * 8e9 / (0.95 * options.rate_bps)))
    cases = []
    for marking in (schemes.MARKING_PACKETS, None):
        for ageing, (least, most) in AGEING.items():
            settings = dataclasses.replace(schemes.TAGGER, kappa_min=least, kappa_max=most)
            scheme = schemes.karuna(thresholds, tagger=settings, marking_packets=marking)
            cases.append(Case({"ageing": ageing, "ecn": marking is not None}, scheme, flows))
    title = f"Four flows of {starved_bytes // 1000:,} KB and unknown size below two that fill the link"
    scale = f"{options.rate}, flows of our own"
    return measure(title, PUBLISHED, cases, options, tell, scale=scale, bucket_ns=BUCKET_NS, more=_starved)


def _starved(found: Sequence[FlowResult]) -> dict[str, Any]:
    return {
        "starved": [
            {
                "fct_ms": None if one.fct_ns is None else round(one.fct_ns / 1e6, 1),
                "received_bytes": one.received_bytes,
                "retransmits": one.retransmits,
            }
            for one in found
            if one.flow.flow_type == 3
        ]
    }


def draw(found: Experiment, path: Path) -> None:
    """Draws, over time, what the starved flows have received together and what the long ones send."""
    figure, axes = panels(1, 2)
    total_mb = sum(row["size_bytes"] for row in found.raw if row["run"] == 0 and row["type"] == 3) / 1e6
    rate_mbps = found.record["runs"][0]["scheme"]["rate_mbps"]
    for number, entry in enumerate(found.record["runs"]):
        rows = [row for row in found.raw if row["run"] == number]
        ended = [row["fct_ns"] for row in rows if row["type"] == 3]
        last = "not all complete" if None in ended else f"the last after {max(ended) / 1e9:.1f} s"
        label = f"{'ECN' if entry['ecn'] else 'no ECN'}, {'ageing' if entry['ageing'] else 'no ageing'}: {last}"
        style = {"color": SPARE[number], "label": label, "linestyle": "-" if sure(entry["trust"]) else ":"}
        starved, long = _buckets(rows, 3), _buckets(rows, 2)
        times = [at * BUCKET_NS / 1e9 for at in range(max(*starved, *long) + 1)]
        got = [sum(size for at, size in starved.items() if at * BUCKET_NS / 1e9 <= now) / 1e6 for now in times]
        axes[0][0].plot(times, got, **style)
        axes[0][1].plot(times, [long.get(at, 0) * 8e3 / BUCKET_NS for at in range(len(times))], **style)
    axes[0][0].set(xlabel="seconds", ylabel="MB of the starved flows received", ylim=(0, total_mb * 1.05))
    axes[0][1].set(xlabel="seconds", ylabel="Mb/s of the long flows", ylim=(0, 1.05 * rate_mbps))
    axes[0][0].legend(edgecolor="none", framealpha=0.8, fontsize=8)
    save(figure, found.record, path)


def _buckets(rows: list[dict[str, Any]], flow_type: int) -> dict[int, int]:
    sums: dict[int, int] = {}
    for row in rows:
        if row["type"] == flow_type:
            for at, size in row.get("buckets", {}).items():
                sums[int(at)] = sums.get(int(at), 0) + size
    return sums
