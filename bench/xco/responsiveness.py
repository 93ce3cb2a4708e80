"""Responsiveness: two sets of three senders into one receiver take turns.

Reference: XCo (HPDC 2010), Figure 22: the sets alternate every 2 s. Method: a star; three hosts send UDP while the other three
rest, and the receiver's application counts bytes in buckets of 1 ms. A transition begins when one set stops and the other
starts, and is over with the first bucket in which the new set gets `FULL` of its steady rate, or with the last one in which the
old set gets anything, whichever is later. What the old set's sockets hold (208 KiB a host) is still sent in that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.record import Experiment, Tell
from bench.style import SPARE, panels, save
from bench.xco.record import Case, Check, Layout, Options, Row, by_policy, concluded, label, measure, published_for
from emulation.measuring.confidence import sure
from emulation.measuring.measure import mean
from emulation.stack.running import UnderPolicy
from emulation.traffic.experiment import Flow
from topology import shapes

PUBLISHED = {
    "result": "each transition under 10 ms, of which under 1 ms is control; making a queue for a new pair took 75 ms",
}
SETS = (("h1", "h2", "h3"), ("h4", "h5", "h6"))
RECEIVER = "h7"
DATAGRAM_BYTES = 1400
BUCKET_NS = 1_000_000
FULL = 0.9
SEARCHED_NS = 200_000_000
"""A transition that takes longer than this was none."""


def layout(options: Options) -> Layout:
    """A star of the six senders and the receiver."""
    return Layout(shapes.build("star", hosts=7, rate_bps=options.rate_bps), ("s1", RECEIVER))


def run(options: Options, tell: Tell) -> Experiment:
    """The times of the transitions."""
    turn_s = options.seconds(0.4, 2.0)
    turn_ns, turns = round(turn_s * 1e9), 5 if options.quick else 6
    flows = [
        Flow("udp", host, RECEIVER, size=DATAGRAM_BYTES, on_ns=turn_ns, off_ns=turn_ns, phase_ns=number * turn_ns)
        for number, hosts in enumerate(SETS)
        for host in hosts
    ]
    # The first two turns, in which the coordinator finds the contended link, are the warm-up.
    case = Case({"turn_ms": round(turn_s * 1e3, 3)}, flows, seconds=turns * turn_s, warmup_s=2 * turn_s, bucket_ns=BUCKET_NS)
    measured = measure(layout(options), [case], options, tell, more=_transitions, raw=_raw)
    mean_ms, longest = (by_policy(measured.runs, name) for name in ("transition_mean_ms", "transition_max_ms"))
    first = by_policy(measured.runs, "first_byte_mean_ms")
    missing = {run["policy"]: run["transitions_missing"] for run in measured.runs}
    sliced = longest["timeslice"]
    return concluded(
        "Two sets of three UDP senders take turns",
        PUBLISHED,
        measured,
        options,
        scale=f"turns of {turn_s:g} s, datagrams of 1.4 KB, buckets of 1 ms",
        rows=[
            Row("transition, mean, ms", published_for("", "", "under 10"), mean_ms),
            Row("transition, longest, ms", published_for("", "", "under 10"), longest),
            Row("first byte of the new set, mean, ms", published_for("", "", "control under 1"), first),
        ],
        checks=[
            Check(
                f"with timeslices every transition takes less than 10 ms (here up to {sliced or 0:.0f} ms in steps of 1 ms"
                + (f", and {missing['timeslice']} were not complete)" if missing["timeslice"] else ")"),
                sliced is not None and sliced < 10 and not missing["timeslice"],
            )
        ],
    )


def transition(leaving: Sequence[int], coming: Sequence[int], at: int, steady: float, most: int) -> int | None:
    """How many buckets a transition takes that begins with the bucket `at`; None: more than `most`.

    Args:
        leaving, coming: bytes of the old and of the new set in each bucket.
        steady: the new set's bytes in a bucket once it has the link.
    """
    window = range(at, min(at + most, len(coming)))
    full = next((bucket for bucket in window if coming[bucket] >= FULL * steady), None)
    if full is None or not steady or leaving[window[-1]]:
        return None
    last = max((bucket for bucket in window if leaving[bucket]), default=at - 1)
    return max(full, last) + 1 - at


def draw(found: Experiment, path: Path) -> None:
    """Draws what each set received around the first transition, a panel for each policy."""
    runs = found.record["runs"]
    figure, axes = panels(1, len(runs), width=4.6)
    for number, (axis, entry) in enumerate(zip(axes.flat, runs, strict=True)):
        rows = {row["set"]: row["bytes"] for row in found.raw if row["run"] == number}
        at = round(entry["turn_ms"] * 1e6 / BUCKET_NS)
        first, last = max(0, at - 20), at + 40
        for colour, (name, buckets) in zip(SPARE, rows.items(), strict=False):
            heights = [size * 8e3 / BUCKET_NS for size in buckets[first:last]]
            axis.plot(range(first - at, first - at + len(heights)), heights, drawstyle="steps-post", color=colour,
                      linestyle="-" if sure(entry) else ":", linewidth=1.2, label=f"set {name + 1}")  # fmt: skip
        axis.axvline(0, color="grey", linewidth=0.8, linestyle="--")
        longest = entry["transition_max_ms"]
        text = "none complete" if longest is None else f"longest of {entry['transitions']}: {longest:.0f} ms"
        axis.set(title=f"{label(entry['policy'])}, {text}", xlabel="ms after the turn", ylabel="received, Mb/s", ylim=(0, None))
        axis.legend(frameon=False, fontsize=8)
    save(figure, found.record, path)


def _sets(found: UnderPolicy) -> tuple[list[int], list[int]]:
    """The bytes of both sets in each bucket."""
    sums = []
    for hosts in SETS:
        mine = [flow.buckets for flow in found.outcome.flows if flow.flow.source in hosts]
        sums.append([sum(sizes) for sizes in zip(*mine, strict=True)])
    return sums[0], sums[1]


def _transitions(case: Case, found: UnderPolicy) -> dict[str, Any]:
    sets, turn = _sets(found), round(case.flows[0].on_ns / BUCKET_NS)
    took, first_bytes, missing = list[int](), list[int](), 0
    # The measurement begins with a turn of the first set; every later turn is a transition.
    for number in range(1, round(case.seconds * 1e9 / case.flows[0].on_ns)):
        leaving, coming = sets[(number - 1) % 2], sets[number % 2]
        at = number * turn
        steady = mean(coming[at + turn // 2 : at + turn]) or 0.0
        buckets = transition(leaving, coming, at, steady, min(turn, SEARCHED_NS // BUCKET_NS))
        if buckets is None:
            missing += 1
            continue
        took.append(buckets)
        first_bytes.append(next(bucket for bucket in range(at, len(coming)) if coming[bucket]) - at)
    ms = BUCKET_NS / 1e6
    return {
        "transitions": len(took),
        "transitions_missing": missing,
        "transition_mean_ms": None if not took else round((mean(took) or 0.0) * ms, 3),
        "transition_max_ms": max(took) * ms if took else None,
        "first_byte_mean_ms": None if not first_bytes else round((mean(first_bytes) or 0.0) * ms, 3),
    }


def _raw(_: Case, found: UnderPolicy) -> list[dict[str, Any]]:
    return [{"set": number, "bucket_ns": BUCKET_NS, "bytes": sizes} for number, sizes in enumerate(_sets(found))]
