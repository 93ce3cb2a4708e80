"""Draws the results: delays by size and number of flows, staircases, throughput. An edge: matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.host_control.experiment import Results
from bench.style import SPARE, Series, bars, ink, panels
from emulation.measuring.confidence import sure

OWN, WRONG = "#0072B2", "#D55E00"
NAMES = {"none": "gate alone", "condition": "condition", "pfc": "PFC"}


def draw(found: Results, directory: Path) -> list[Path]:
    """Writes the figures of the results into a directory; their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    runs = found.record["runs"]
    made = []
    if delays := [run for run in runs if run["kind"] == "delays"]:
        made.append(_save(_delays(delays), directory / "delays.png"))
    if found.stairs:
        made.append(_save(_staircases(runs, found.stairs), directory / "staircases.png"))
    if flows := [run for run in runs if run["kind"] == "throughput"]:
        made.append(_save(_throughput(flows[0]), directory / "throughput.png"))
    return made


def draw_delays(runs: list[dict[str, Any]], path: Path) -> None:
    """Writes the figure of the off and on delays alone, from the runs of a record."""
    _save(_delays([run for run in runs if run["kind"] == "delays"]), path)


def _save(figure: Any, path: Path) -> Path:  # noqa: ANN401 -- matplotlib's
    from matplotlib import pyplot

    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def _label(run: dict[str, Any]) -> str:
    how = run["gate"] if run["transport"] == "none" else run["agent"]
    return f"{NAMES[run['transport']]}, {how}"


def _delays(runs: list[dict[str, Any]]) -> Any:  # noqa: ANN401 -- matplotlib's
    """A row for off and one for on delays, a panel for each size: p50, and the span from p1 to p99."""
    sizes = sorted({run["size_bytes"] for run in runs})
    labels = list(dict.fromkeys(_label(run) for run in runs))
    figure, axes = panels(2, len(sizes), width=4.6, height=3.6)
    for row, (name, title) in enumerate((("off_us", "off delay"), ("on_us", "on delay"))):
        for column, size in enumerate(sizes):
            axis = axes[row][column]
            here = [run for run in runs if run["size_bytes"] == size and run[name]["samples"]]
            counts = sorted({run["flows"] for run in here})
            for number, label in enumerate(labels):
                mine = sorted((run for run in here if _label(run) == label), key=lambda run: int(run["flows"]))
                xs = [counts.index(run["flows"]) + (number - (len(labels) - 1) / 2) * 0.13 for run in mine]
                middle = [run[name]["p50"] for run in mine]
                low = [max(0.0, run[name]["p50"] - (run[name]["p99"] - run[name]["range"])) for run in mine]
                high = [max(0.0, run[name]["p99"] - run[name]["p50"]) for run in mine]
                colour = SPARE[number % len(SPARE)]
                axis.errorbar(xs, middle, yerr=(low, high), color=colour, fmt="o", markersize=4, capsize=2, linewidth=1,
                              label=label)  # fmt: skip
                bad = [at for at, run in enumerate(mine) if not sure(run["trust"])]
                axis.plot([xs[at] for at in bad], [middle[at] for at in bad], "x", color=ink(), markersize=7)
            axis.set_xticks(range(len(counts)), [str(count) for count in counts])
            axis.set_title(f"{title}, {size} B", fontsize=10, loc="left")
            axis.set_xlabel("flows")
            axis.set_ylabel("us")
            axis.set_yscale("symlog", linthresh=100)
            axis.yaxis.set_major_formatter("{x:g}")
            axis.axhline(0, color="grey", linewidth=0.8)
    shown = axes[0][0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    figure.suptitle("Off and on delays: p50, and p1 to p99 (an off delay is known to one turn of all flows)", fontsize=11)
    _mark(figure, runs)
    return figure


def _staircases(runs: list[dict[str, Any]], stairs: dict[int, list[tuple[float, int, bool]]]) -> Any:  # noqa: ANN401
    """A panel for each run: each packet's flow over time; packets of another flow than the day's are marked."""
    columns = 2
    figure, axes = panels(-(-len(stairs) // columns), columns, width=6.2, height=2.9)
    for axis in axes.flat[len(stairs) :]:
        axis.set_visible(False)
    for axis, (number, points) in zip(axes.flat, stairs.items(), strict=False):
        run = runs[number]
        for own, colour, marker, size in ((True, OWN, "s", 1.2), (False, WRONG, "x", 18)):
            here = [(at / 1e3, flow) for at, flow, mine in points if mine is own]
            if here:
                times, flows = zip(*here, strict=True)
                axis.scatter(times, flows, s=size, color=colour, marker=marker, linewidths=0.8)
        axis.set_title(
            f"{run['flows']} flows, days of {run['day_us'] / 1e3:g} ms, {run['transport']}, {run['agent']}: "
            f"{run['residual_packets']} residual of {run['own_packets']}" + ("" if sure(run["trust"]) else " (disturbed)"),
            fontsize=9,
            loc="left",
        )
        axis.set_xlabel("ms")
        axis.set_ylabel("flow")
        axis.set_ylim(-1, run["flows"])
        axis.set_yticks(range(0, run["flows"] + 1, max(4, run["flows"] // 4)))
    figure.suptitle("Days within weeks: which flow's packets arrive when (crosses: on another flow's day)", fontsize=11)
    _mark(figure, [runs[number] for number in stairs])
    return figure


def _throughput(run: dict[str, Any]) -> Any:  # noqa: ANN401 -- matplotlib's
    figure, axes = panels(1, 1, width=5.5, height=3.8)
    cases = {"without": "without control", "idle": "control idle", "active": "a neighbour controlled"}
    heights = [run["mbps"][case] for case in cases]
    bars(axes[0][0], list(cases.values()), [Series("TCP", SPARE[0], heights, [sure(run["trust"])] * len(heights))])
    axes[0][0].set_ylabel("Mb/s")
    rounds = len(run["rounds"]["idle"])
    axes[0][0].set_title(f"TCP through a link of {run['rate_mbps']:g} Mb/s (median of {rounds})", fontsize=10)
    _mark(figure, [run])
    return figure


def _mark(figure: Any, runs: list[dict[str, Any]]) -> None:  # noqa: ANN401 -- matplotlib's
    if not all(sure(run["trust"]) for run in runs):
        note = "crossed, hatched or marked: disturbed, the machine was busy"
        figure.suptitle("\n".join(filter(None, (figure.get_suptitle(), note))), fontsize=10)
