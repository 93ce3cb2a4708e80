"""Deadline flows one after another before two long DCTCP flows: MCP, DCTCP in its place, and strict priority by deadline.

Reference: Karuna (SIGCOMM 2016), sections 3.1 and 4: a deadline flow should finish just before its deadline and leave the rest
of the link to others; DCTCP ignores deadlines, and EDF takes the whole link first. Method: each deadline flow starts at the
deadline of the one before; a flow's figure is its completion time over its deadline, the background's is what its receivers got
over what the deadline flows leave of the link's payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.priorities.congestion_control import DCTCP, MCP
from bench.karuna.record import Case, Experiment, Options, Tell, measure
from bench.style import COLOURS, LABELS, panels, save
from controller.priorities.completion_model import Thresholds
from emulation.measuring.confidence import sure
from emulation.stack import schemes
from emulation.stack.star import RECEIVER
from emulation.traffic.flow_run import FlowResult
from emulation.traffic.flow_schedule import Schedule, ScheduledFlow
from protocol.units import FRAME_BYTES

PUBLISHED = {
    "source": "Karuna, SIGCOMM 2016, section 3.1",
    "result": "MCP flows complete just before their deadlines, at the least cost to the others; stated without a number",
}
DEADLINES = ((100_000, 50), (250_000, 100), (500_000, 200), (1_000_000, 400), (2_000_000, 800))
"""Sizes in bytes at 100 Mb/s and deadlines in ms; they require 16 to 20 % of the link."""
BACKGROUND_BYTES = 60_000_000
WARM_UP_NS = 700_000_000
GAP_NS = 100_000_000
BUCKET_NS = 10_000_000
SEGMENT_BYTES = 1448
LEAST_RATIO, LEAST_BACKGROUND = 0.85, 0.9
THRESHOLDS = Thresholds((200_000, 1_000_000), (100_000, 1_000_000))
CUTS = (1_000_000, 2_000_000, 4_000_000)


def run(options: Options, tell: Tell) -> Experiment:
    """Four schemes with the same flows."""
    schedule = _schedule(1 if options.quick else 3, options)
    mcp = schemes.Scheme("mcp", DCTCP, deadline_transport=MCP)
    thresholds = Thresholds(*(tuple(map(options.sized, cuts)) for cuts in (THRESHOLDS.beta, THRESHOLDS.alpha)))
    compared = (mcp, schemes.karuna(thresholds), schemes.dctcp(), schemes.edf([options.sized(cut) for cut in CUTS]))
    cases = [Case({}, scheme, schedule) for scheme in compared]
    title, scale = "Deadline flows before two long DCTCP flows", f"{options.rate}, sizes and deadlines of our own"

    def shares(found: Sequence[FlowResult]) -> dict[str, Any]:
        return _shares(found, options.rate_bps)

    return measure(title, PUBLISHED, cases, options, tell, scale=scale, bucket_ns=BUCKET_NS, more=shares)


def _schedule(rounds: int, options: Options) -> Schedule:
    flows, at_ns = [], WARM_UP_NS
    for number, (size, deadline_ms) in enumerate(DEADLINES * rounds, start=2):
        flows.append(ScheduledFlow(number, at_ns, f"h{1 + number % 3}", RECEIVER, options.sized(size), 1, deadline_ms))
        at_ns += deadline_ms * 1_000_000 + GAP_NS
    long = (ScheduledFlow(at, 0, f"h{4 + at}", RECEIVER, options.sized(BACKGROUND_BYTES), 3) for at in (0, 1))
    return Schedule((*long, *flows), at_ns)


def _shares(found: Sequence[FlowResult], rate_bps: int) -> dict[str, Any]:
    due = [one for one in found if one.flow.deadline_ms is not None]
    ratios = [None if one.fct_ns is None else round(one.fct_ns / one.flow.deadline_ms / 1e6, 3) for one in due]  # type: ignore[operator]  # `due` has deadlines
    until_ns = max(one.flow.start_ns + (one.fct_ns or 0) for one in due)
    got = sum(
        size
        for one in found
        if one.flow.deadline_ms is None
        for at, size in one.buckets.items()
        if WARM_UP_NS <= int(at) * BUCKET_NS < until_ns
    )
    payload = rate_bps / 8e9 * (until_ns - WARM_UP_NS) * SEGMENT_BYTES / FRAME_BYTES
    background = got / (payload - sum(one.received_bytes for one in due))
    done = [ratio for ratio in ratios if ratio is not None]
    return {
        "completion_over_deadline": ratios,
        "deadlines_met": sum(one.met for one in due) / len(due),
        "background_of_what_is_left": round(background, 3),
        "meets": {
            f"completion from {LEAST_RATIO} to 1 of the deadline": len(done) == len(due)
            and LEAST_RATIO <= min(done) <= max(done) <= 1,
            f"background >= {LEAST_BACKGROUND} of what is left": background >= LEAST_BACKGROUND,
        },
    }


def draw(found: Experiment, path: Path) -> None:
    """Draws, left, completion over deadline by flow size for each scheme; right, the background's share."""
    runs = found.record["runs"]
    figure, axes = panels(1, 2)
    left, right = axes.flat
    for number, entry in enumerate(runs):
        name = entry["scheme"]["name"]
        doubt = "" if sure(entry["trust"]) else " (disturbed)"
        points = [
            (row["size_bytes"] / 1e3 * 1.06**number, row["fct_ns"] / 1e6 / row["deadline_ms"])
            for row in found.raw
            if row["run"] == number and row["deadline_ms"] is not None and row["fct_ns"] is not None
        ]
        style = {"color": COLOURS[name], "marker": "o", "linestyle": "none", "markersize": 5}
        left.plot(*zip(*points, strict=True), label=LABELS[name] + doubt, **style)
        right.bar(number, entry["background_of_what_is_left"], color=COLOURS[name])
    left.axhspan(LEAST_RATIO, 1, color="0.9", zorder=0)
    left.set(xscale="log", xlabel="flow size (KB)", ylabel="completion time / deadline", title="deadline flows")
    left.set_ylim(bottom=0)
    left.legend(frameon=False, fontsize=8)
    right.axhline(LEAST_BACKGROUND, color="0.5", linewidth=0.8, linestyle="--")
    right.set(ylabel="received / left by deadline flows", title="two long flows", ylim=(0, 1.1))
    right.set_xticks(range(len(runs)), [LABELS[entry["scheme"]["name"]].replace(", ", "\n") for entry in runs])
    save(figure, found.record, path)
