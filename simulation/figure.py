"""Draws a sweep: deadlines missed and completion times against the load, a row of panels for each workload. An edge: a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulation.comparison import Row
from simulation.schemes import SCHEMES

PANELS = (
    ("missed", "deadlines missed"),
    ("p95_ms", "without deadline: p95, ms"),
    ("small_p99_ms", "to 100 KB: p99, ms"),
    ("large_mean_ms", "above 10 MB: mean, ms"),
)


def draw(table: Sequence[Row], path: Path) -> None:
    """Writes the picture; its format is the name's ending. Raises ValueError for an unknown ending, OSError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    workloads = list(dict.fromkeys(row.workload for row in table))
    figure, axes = pyplot.subplots(len(workloads), len(PANELS), figsize=(16, 3.6 * len(workloads)), squeeze=False)
    for line, workload in zip(axes, workloads, strict=True):
        for axis, (name, label) in zip(line, PANELS, strict=True):
            for scheme in SCHEMES:
                points = sorted(
                    (row.load, getattr(row, name))
                    for row in table
                    if row.workload == workload and row.scheme == scheme and getattr(row, name) is not None
                )
                if points:
                    axis.plot(*zip(*points, strict=True), marker="o", label=scheme)
            axis.set(xlabel="load", ylabel=label, title=workload.replace("_", " "))
            axis.set_ylim(bottom=0)
        if drawn := [axis for axis in line if axis.lines]:
            drawn[0].legend()  # without deadlines the first panel is empty
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
