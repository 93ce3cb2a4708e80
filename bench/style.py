"""The look of the figures: colours, the line that states the scale, bars and distributions. An edge: matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from emulation.measuring.confidence import sure

# Okabe and Ito's palette, which is readable without colour vision.
COLOURS = {
    "karuna": "#009E73",
    "mcp": "#56B4E9",
    "dctcp": "#0072B2",
    "cubic": "#D55E00",
    "sjf": "#E69F00",
    "edf": "#CC79A7",
}
SPARE = ("#009E73", "#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#56B4E9")
LABELS = {
    "karuna": "Karuna",
    "mcp": "MCP, one queue",
    "dctcp": "DCTCP",
    "cubic": "CUBIC",
    "sjf": "pFabric-SJF, fixed priorities",
    "edf": "pFabric-EDF, fixed priorities",
}


class Series(NamedTuple):
    """One bar in every group: its heights, and whether each was measured undisturbed. A height of None is not drawn."""

    label: str
    colour: str
    heights: Sequence[float | None]
    undisturbed: Sequence[bool]


# A dark theme as matplotlib's settings. What a figure draws in no colour of its own follows them.
_INK, _PAPER = "#e6e6e6", "#15181c"
THEMES: Mapping[str, Mapping[Any, Any]] = {
    "light": {},
    "dark": {
        **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"), _PAPER),
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
        **dict.fromkeys(("hatch.color", "patch.edgecolor", "lines.color"), _INK),
    },
}


@contextmanager
def theme(name: str) -> Iterator[None]:
    """Figures that are drawn and saved in the block have this one of `THEMES`."""
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "baton", **THEMES[name]}):
        yield


def ink() -> str:
    """The colour of marks that belong to no series: the theme's text."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def panels(rows: int, columns: int, *, width: float = 5.2, height: float = 3.7) -> tuple[Any, Any]:
    """A matplotlib figure and its axes, always as a 2-D array."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, record: dict[str, Any], path: Path) -> None:  # noqa: ANN401 -- matplotlib's
    """Adds the title, the published value, the scale and the seed, and writes the picture: PNG or SVG, by the path's ending."""
    import textwrap

    from matplotlib import pyplot

    figure.suptitle(record["title"], fontsize=11)
    lines = [f"Published: {record['published']['result']}", f"Here: {record['scale']}; seed {record['seed']}."]
    if not sure(record):
        lines.append("Hatched, dotted or crossed: disturbed, the machine was busy.")
    width = int(figure.get_size_inches()[0] * 17)
    figure.supxlabel("\n".join(line for text in lines for line in textwrap.wrap(text, width)), fontsize=8, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def bars(axis: Any, groups: Sequence[str], series: Sequence[Series]) -> None:  # noqa: ANN401 -- matplotlib's
    """Draws a group of bars for each of `groups`, with a bar for each series and its value above it."""
    width = 0.8 / len(series)
    for number, one in enumerate(series):
        label: str | None = one.label
        for at, (height, undisturbed) in enumerate(zip(one.heights, one.undisturbed, strict=True)):
            if height is None:
                continue
            x = at + (number - (len(series) - 1) / 2) * width
            axis.bar(x, height, width * 0.92, color=one.colour, label=label, hatch=None if undisturbed else "//")
            shown = f"{height:.3g}" if height < 1000 else f"{height:.0f}"
            axis.annotate(shown, (x, height), ha="center", va="bottom", fontsize=7)
            label = None
    axis.set_xticks(range(len(groups)), groups)


def distribution(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Points of the empirical cumulative distribution function."""
    ordered = sorted(values)
    return ordered, [(at + 1) / len(ordered) for at in range(len(ordered))]
