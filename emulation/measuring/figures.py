"""The demo's results as a figure, laid out like XCo's Figures 4 and 15, and as a sentence. An edge: writes a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

POLICIES = ("uncoordinated", "rate_limit", "timeslice")
LABELS = {"uncoordinated": "uncoordinated", "rate_limit": "rate limit", "timeslice": "timeslice"}
# Okabe and Ito's palette, and a marker each: readable without colour vision.
STYLES: dict[str, tuple[str, str]] = {
    "uncoordinated": ("#D55E00", "o"),
    "rate_limit": ("#0072B2", "s"),
    "timeslice": ("#009E73", "^"),
}
PANELS: tuple[tuple[str, str, bool], ...] = (
    ("goodput_mbps", "total goodput (Mb/s, as received by applications)", False),
    ("tcp_mean_mbps", "mean goodput per TCP flow (Mb/s)", False),
    ("drops", "packets dropped at the bottleneck", True),
    ("rtt_max_ms", "ping RTT, maximum (ms)", True),
)


def value(run: dict[str, Any], name: str) -> float | None:
    """One number of a run's record; None when the run has none (no TCP flow, no ping answered)."""
    found = run["rtt_ms"]["max"] if name == "rtt_max_ms" else run[name]
    return None if found is None else float(found)


def demo_figure(runs: Sequence[dict[str, Any]], path: Path, *, rate_mbps: float, caption: str) -> None:
    """Draws four panels over K, a line for each policy. Invalid runs are hollow and not joined."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    for axis, (name, title, logarithmic) in zip(axes.flat, PANELS, strict=True):
        for policy in POLICIES:
            colour, marker = STYLES[policy]
            points = [(run["k"], value(run, name), run["valid"]) for run in runs if run["policy"] == policy]
            good = [(k, y) for k, y, valid in points if valid and y is not None]
            bad = [(k, y) for k, y, valid in points if not valid and y is not None]
            axis.plot([], [], color=colour, marker=marker, label=LABELS[policy], linewidth=1.8)  # always in the legend
            if good:
                axis.plot(*zip(*good, strict=True), color=colour, marker=marker, linewidth=1.8)
            if bad:
                axis.plot(*zip(*bad, strict=True), color=colour, marker=marker, fillstyle="none", linestyle="none")
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xlabel("K: UDP senders of 5 (the others are long TCP flows)")
        axis.set_xticks(sorted({run["k"] for run in runs}))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        if logarithmic:
            axis.set_yscale("symlog", linthresh=1)
        highest = max((y for run in runs if (y := value(run, name)) is not None), default=1.0)
        axis.set_ylim(bottom=0, top=max(1.0, highest) * (2 if logarithmic else 1.1))
    axes.flat[0].axhline(rate_mbps, color="grey", linewidth=0.8, linestyle=":")
    axes.flat[0].legend(frameon=False, loc="center right")
    figure.suptitle(caption, fontsize=11)
    if any(not run["valid"] for run in runs):
        figure.supxlabel("hollow: invalid run (the machine was saturated or slots came late)", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def gain(runs: Sequence[dict[str, Any]]) -> str:
    """One sentence: what the timeslice schedule gained at the K where the uncoordinated fabric did worst."""
    valid = {(run["policy"], run["k"]): run for run in runs if run["valid"]}
    both = [k for policy, k in valid if policy == "timeslice" and ("uncoordinated", k) in valid]
    if not both:
        return "No pair of valid runs to compare: repeat on an idle machine."
    k = max(both, key=lambda k: valid["timeslice", k]["goodput_mbps"] - valid["uncoordinated", k]["goodput_mbps"])
    without, with_it = valid["uncoordinated", k], valid["timeslice", k]

    def rtt(run: dict[str, Any]) -> str:
        found = run["rtt_ms"]["max"]
        return "no ping came back" if found is None else f"{found:.1f} ms"

    def jain(run: dict[str, Any]) -> str:
        return "nothing to share" if run["jain"] is None else f"{run['jain']:.2f}"

    return (
        f"With {k} of 5 senders on UDP the timeslice schedule delivers {with_it['goodput_mbps']:.1f} Mb/s instead of "
        f"{without['goodput_mbps']:.1f}, drops {with_it['drops']} packets instead of {without['drops']}, shares with "
        f"Jain's index {jain(with_it)} instead of {jain(without)}, and the longest ping takes "
        f"{rtt(with_it)} instead of {rtt(without)}."
    )
