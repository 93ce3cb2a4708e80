"""The pictures of XCo's experiments: a line or a bar for each policy. An edge: matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from bench.record import Experiment
from bench.style import Series, bars, panels, save
from emulation.measuring.confidence import sure
from emulation.measuring.figures import LABELS, POLICIES, STYLES

Value = Callable[[Mapping[str, Any]], float | None]
"""One value of a run's record; None: there is none to draw."""


def lines(axis: Any, runs: Sequence[Mapping[str, Any]], x: str, y: Value, *, log: bool = False) -> None:  # noqa: ANN401 -- matplotlib's
    """A line over `x` for each policy; disturbed runs are hollow."""
    for policy in POLICIES:
        colour, marker = STYLES[policy]
        points = [(run[x], y(run), sure(run)) for run in runs if run["policy"] == policy]
        drawn = [(at, height) for at, height, _ in points if height is not None]
        hollow = [(at, height) for at, height, undisturbed in points if height is not None and not undisturbed]
        if drawn:
            axis.plot(*zip(*drawn, strict=True), color=colour, marker=marker, label=LABELS[policy], linewidth=1.8)
        if hollow:
            axis.plot(*zip(*hollow, strict=True), "x", color=colour, markersize=9)
    axis.set_xticks(sorted({run[x] for run in runs}))
    if log:
        axis.set_yscale("log")
    else:
        axis.set_ylim(0, 1.1 * max((height for run in runs if (height := y(run)) is not None), default=1.0))


def goodputs(found: Experiment, path: Path, senders: str) -> None:
    """Draws the goodput of all flows and that of a TCP flow over K, how many of so many senders send UDP."""
    runs = found.record["runs"]
    figure, (axes,) = panels(1, 2)
    drawn = ("goodput_mbps", "goodput"), ("tcp_mean_mbps", "mean goodput of a TCP flow")
    for axis, (value, what) in zip(axes, drawn, strict=True):
        lines(axis, runs, "udp", itemgetter(value))
        axis.set(xlabel=f"K: UDP senders of {senders}", ylabel=f"{what}, Mb/s")
    legend(axes[0])
    save(figure, found.record, path)


def grouped(
    axis: Any,  # noqa: ANN401 -- matplotlib's
    runs: Sequence[Mapping[str, Any]],
    groups: Sequence[str],
    heights: Callable[[Mapping[str, Any]], Sequence[float | None]],
) -> None:
    """A group of bars for each of `groups`, with a bar for each policy; `heights`: of a policy's run, one a group."""
    series = []
    for policy in POLICIES:
        for run in runs:
            if run["policy"] == policy:
                values = list(heights(run))
                series.append(Series(LABELS[policy], STYLES[policy][0], values, [sure(run)] * len(values)))
    bars(axis, groups, series)


def legend(axis: Any) -> None:  # noqa: ANN401 -- matplotlib's
    """The policies' names above the axis, where they hide no value."""
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
