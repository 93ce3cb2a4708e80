"""`baton demo`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from cli.experiment_time import ExperimentTime, enter, parse_link_rate, parse_slice, virtual_options
from cli.experiments import in_a_line, link_lines, make_console, progress_bar
from cli.values import PICTURE


@click.command()
@click.option("--quick", is_flag=True, help="K = 0, 3, 5 and short runs: under 90 seconds.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write every figure here.")
@click.option("--plot", type=PICTURE, help="Draw the figure here (PNG).")
@click.option("--keep", is_flag=True, help="Keep the fabric running at the end, with a Mininet prompt.")
@click.option("--slice", "slice_text", default="10ms", show_default=True, help="Length of a timeslice.")
@click.option("--framework", type=click.Choice(["ryu", "os-ken"]), default="ryu", show_default=True)
@click.option("--rate", "rate_text", default="100mbit", show_default=True, help="Of every link; above 100mbit: --virtual.")
@virtual_options
def demo(
    quick: bool,
    json_file: Path | None,
    plot: Path | None,
    keep: bool,
    slice_text: str,
    framework: str,
    rate_text: str,
    time: ExperimentTime,
) -> None:
    """Show what coordination gains, on an emulated fabric.

    Five senders, one receiver, one bottleneck of 100 Mb/s: XCo's Figure 1(a). K of the senders are UDP at full speed, the
    others long TCP flows; each mix runs uncoordinated, rate-limited, and under the timeslice schedule.
    """
    rate_bps = parse_link_rate(rate_text, time)
    if keep and time.virtual:
        raise click.UsageError("--keep has no prompt in virtual time: leave one of them out")
    slice_ns = parse_slice(slice_text)
    enter(time, json_file, plot)
    from emulation.stack.demo import QUICK, DemoOptions

    chosen = QUICK if quick else DemoOptions()
    options = dataclasses.replace(chosen, slice_ns=slice_ns, framework=framework).at_rate(rate_bps)
    _run(options, json_file, plot, keep)


def _run(options: Any, json_file: Path | None, plot: Path | None, keep: bool) -> None:  # noqa: ANN401 -- a DemoOptions, whose module is imported late
    from emulation.fabric.fabric import EmulatedFabric
    from emulation.stack.demo import run_demo

    console = make_console()
    with progress_bar(console, total=options.seconds) as (tell, progress):

        def finished(record: dict[str, Any], emulated: EmulatedFabric) -> None:
            progress.stop()
            _show(console, record, options, json_file, plot)
            if keep:
                console.print("The fabric and Baton keep running; type `exit` to end both.")
                emulated.prompt()

        with in_a_line():
            run_demo(options, tell, finished)


def _show(console: Any, record: dict[str, Any], options: Any, json_file: Path | None, plot: Path | None) -> None:  # noqa: ANN401 -- a rich Console and DemoOptions, imported late
    from emulation.measuring.figures import demo_figure
    from emulation.stack.demo import write_json

    console.print(_table(record["runs"]))  # before anything is written, which a full disk may prevent
    if json_file is not None:
        write_json(record, json_file)
    for line in (*link_lines(record["runs"]), *_disturbed(record["runs"])):
        console.print(line, highlight=False, soft_wrap=True, style="dim")
    if plot is not None:
        rate_mbps = record["environment"]["rate_mbps"]
        caption = f"Five senders into one {rate_mbps:.0f} Mb/s port, {options.slice_ns / 1e6:g} ms slices"
        demo_figure(record["runs"], plot, rate_mbps=rate_mbps, caption=caption)
    console.print(record["confidence"]["holds"], soft_wrap=True)
    for path in (json_file, plot):
        if path is not None:
            console.print(f"written: {path}")


def _table(runs: list[dict[str, Any]]) -> Any:  # noqa: ANN401 -- a rich Table, imported late
    from rich.table import Table

    from emulation.measuring.confidence import sure
    from emulation.measuring.figures import LABELS, milliseconds

    table = Table(title="Goodput as received by the applications")
    for heading in ("K", "policy", "Mb/s", "per TCP", "Jain", "drops", "RTT ms p50", "p99", "max", "slots", "late"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for run in sorted(runs, key=lambda run: run["k"]):
        rtt = run["rtt_ms"]
        table.add_row(
            str(run["k"]),
            LABELS[run["policy"]],
            f"{run['goodput_mbps']:.1f}",
            "-" if run["tcp_mean_mbps"] is None else f"{run['tcp_mean_mbps']:.1f}",
            "-" if run["jain"] is None else f"{run['jain']:.2f}",
            str(run["drops"]),
            *("lost" if rtt[name] is None else milliseconds(rtt[name]) for name in ("p50", "p99", "max")),
            str(run["slots"] or "-"),
            str(run["late_slots"]),
            style=None if sure(run) else "dim",
        )
    if not all(sure(run) for run in runs):
        table.caption = "dim: indicative, since the run was disturbed; the reasons stand below"
    return table


def _disturbed(runs: list[dict[str, Any]]) -> list[str]:
    """A line for each run that was disturbed: by what, and which figures that can have changed."""
    from emulation.measuring.confidence import level_of, reasons, sure
    from emulation.measuring.figures import LABELS

    return [
        f"K = {run['k']}, {LABELS[run['policy']]}: {level_of(run).value}; {'; '.join(reasons(run))} "
        f"({'; '.join(run['confidence']['affected'])})"
        for run in sorted(runs, key=lambda run: run["k"])
        if not sure(run)
    ]
