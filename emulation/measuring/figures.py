"""The demo's results as a figure, laid out like XCo's Figures 4 and 15, and as a sentence. An edge: writes a file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulation.measuring.confidence import goodput, margin, reasons, sure

POLICIES = ("uncoordinated", "rate_limit", "timeslice")
LABELS = {"uncoordinated": "uncoordinated", "rate_limit": "rate limit", "timeslice": "timeslice", "auto": "auto"}
# Okabe and Ito's palette, and a marker each: readable without colour vision.
STYLES: dict[str, tuple[str, str]] = {
    "uncoordinated": ("#D55E00", "o"),
    "rate_limit": ("#0072B2", "s"),
    "timeslice": ("#009E73", "^"),
    "auto": ("#CC79A7", "D"),
}
PANELS: tuple[tuple[str, str, bool], ...] = (
    ("goodput_mbps", "total goodput (Mb/s, as received by applications)", False),
    ("tcp_mean_mbps", "mean goodput per TCP flow (Mb/s)", False),
    ("drops", "packets dropped at the bottleneck", True),
    ("rtt_max_ms", "ping RTT, maximum (ms)", True),
)


def value(run: Mapping[str, Any], name: str) -> float | None:
    """One number of a run's record; None when the run has none (no TCP flow, no ping answered)."""
    found = run["rtt_ms"]["max"] if name == "rtt_max_ms" else run[name]
    return None if found is None else float(found)


def demo_figure(runs: Sequence[Mapping[str, Any]], path: Path, *, rate_mbps: float, caption: str) -> None:
    """Draws four panels over K, a line for each policy; writes PNG or SVG. Runs that were disturbed are hollow."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    for axis, (name, title, logarithmic) in zip(axes.flat, PANELS, strict=True):
        for policy in POLICIES:
            colour, marker = STYLES[policy]
            points = [(run["k"], value(run, name), sure(run)) for run in runs if run["policy"] == policy]
            shown = [(k, y) for k, y, _ in points if y is not None]
            disturbed = [(k, y) for k, y, undisturbed in points if not undisturbed and y is not None]
            axis.plot([], [], color=colour, marker=marker, label=LABELS[policy], linewidth=1.8)  # always in the legend
            if shown:
                axis.plot(*zip(*shown, strict=True), color=colour, marker=marker, linewidth=1.8)
            if disturbed:
                hollow = axis.get_facecolor()
                axis.plot(*zip(*disturbed, strict=True), color=colour, marker=marker, markerfacecolor=hollow, linestyle="none")
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xlabel("K: UDP senders of 5 (the others are long TCP flows)")
        axis.set_xticks(sorted({run["k"] for run in runs}))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        if logarithmic:  # below the smallest value, and at most 1, the axis is linear: drops may be 0
            least = min((y for run in runs if (y := value(run, name))), default=1.0)
            axis.set_yscale("symlog", linthresh=min(1.0, 10 ** math.floor(math.log10(least))))
        highest = max((y for run in runs if (y := value(run, name)) is not None), default=1.0)
        axis.set_ylim(bottom=0, top=max(1.0, highest) * (2 if logarithmic else 1.1))
    axes.flat[0].axhline(rate_mbps, color="grey", linewidth=0.8, linestyle=":")
    axes.flat[0].legend(frameon=False, loc="center right")
    figure.suptitle(caption, fontsize=11)
    if not all(sure(run) for run in runs):
        figure.supxlabel("hollow: disturbed (the machine was busy); the record says what, and by how much at most", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def gain(runs: Sequence[Mapping[str, Any]], rate_mbps: float) -> str:
    """What the timeslice schedule gained, in one sentence, and beside it how sure that is if a run was disturbed.

    It compares at the K at which the difference in goodput exceeds most what disturbances can explain.
    """
    by_run = {(run["policy"], run["k"]): run for run in runs}
    both = [k for policy, k in by_run if policy == "timeslice" and ("uncoordinated", k) in by_run]
    if not both:
        return "There is nothing to compare: the demo ran no K both uncoordinated and under the timeslice schedule."

    def least(k: int) -> float:
        bounds = (goodput(run, run["goodput_mbps"], rate_mbps) for run in (by_run["timeslice", k], by_run["uncoordinated", k]))
        return margin(*bounds)

    k = max(both, key=least)
    without, with_it = by_run["uncoordinated", k], by_run["timeslice", k]
    found = (
        f"With {k} of 5 senders on UDP the timeslice schedule delivers {with_it['goodput_mbps']:.1f} Mb/s instead of "
        f"{without['goodput_mbps']:.1f}, drops {with_it['drops']} packets instead of {without['drops']}, shares with "
        f"Jain's index {_jain(with_it)} instead of {_jain(without)}, and the longest ping takes "
        f"{_rtt(with_it)} instead of {_rtt(without)}."
    )
    return found if sure(with_it) and sure(without) else f"{found} {_doubt(without, with_it, least(k), rate_mbps)}"


def _doubt(without: Mapping[str, Any], with_it: Mapping[str, Any], least_mbps: float, rate_mbps: float) -> str:
    """How sure a comparison of disturbed runs is, and how to be exact."""
    why = "; ".join(dict.fromkeys(f"{LABELS[run['policy']]}: {text}" for run in (without, with_it) for text in reasons(run)))
    offs = " and ".join(f"{goodput(run, run['goodput_mbps'], rate_mbps).off:.1f}" for run in (with_it, without))
    holds = (
        f"can change these two goodputs by at most {offs} Mb/s, so that at least {least_mbps:.1f} Mb/s of the difference hold"
        if least_mbps > 0
        else f"could change these two goodputs by {offs} Mb/s, which is more than their difference"
    )
    return f"This is indicative, since the machine was busy ({why}): that {holds}. `baton demo --virtual` is exact."


def milliseconds(value_ms: float) -> str:
    """A time in ms, without the unit: two digits where one after the point would say nothing."""
    return f"{value_ms:.1f}" if value_ms >= 1 or not value_ms else f"{value_ms:.2g}"


def _rtt(run: Mapping[str, Any]) -> str:
    found = run["rtt_ms"]["max"]
    return "no ping came back" if found is None else f"{milliseconds(found)} ms"


def _jain(run: Mapping[str, Any]) -> str:
    return "nothing to share" if run["jain"] is None else f"{run['jain']:.2f}"
