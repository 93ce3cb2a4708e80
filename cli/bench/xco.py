"""`baton bench xco`: XCo's experiments, published values beside ours."""

from __future__ import annotations

import importlib
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from bench.xco import FIGURES, Figure
from cli.experiment_time import (
    MOST_BPS,
    REAL_TIME_MOST_BPS,
    ExperimentTime,
    enter,
    parse_link_rate,
    virtual_options,
)
from cli.experiments import make_console, print_outcome, progress_bar
from cli.values import PICTURE, SEED, refuse

FILE: click.Path = click.Path(path_type=Path, dir_okay=False)
VIRTUAL_BPS = 1_000_000_000
"""The rate of a host in virtual time, unless given: XCo's own."""


@click.command(short_help="XCo's experiments, one a figure: incast, mixes, migration, fairness")
@click.argument("figure", type=click.Choice(list(FIGURES)), metavar="FIGURE")
@click.option("--json", "json_file", type=FILE, help="Write the record here, and its raw data beside it.")
@click.option("--plot", type=PICTURE, help="Draw the figure here (PNG or SVG).")
@click.option("--quick", is_flag=True, help="Fewer and shorter runs: some minutes.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of all random numbers, in virtual time.")
@click.option("--rate", "rate_text", help="Of a host's link.  [default: 1gbit, or 100mbit for the fastest link in real time]")
@click.option("--prompt", is_flag=True, help="In place of measuring, give Mininet's prompt on the figure's fabric, with Baton.")
@virtual_options
def xco(
    figure: str,
    json_file: Path | None,
    plot: Path | None,
    quick: bool,
    seed: int,
    rate_text: str | None,
    prompt: bool,
    time: ExperimentTime,
) -> None:
    """Measure one figure of XCo on an emulated fabric, and print the result beside the published one.

    Every figure is measured without coordination, rate-limited, and with timeslices; hosts have 1 Gb/s in virtual time, as
    published.
    """
    chosen = FIGURES[figure]
    rate_bps = host_rate(rate_text, chosen, time)
    if prompt:
        refuse({"json_file", "plot", "quick"}, "has no meaning with --prompt, which measures nothing")
    if prompt and time.virtual:
        raise click.UsageError("--prompt waits for a person, whose time is real: leave --virtual out")
    enter(time, json_file, plot, seed=seed)
    from bench.xco.record import Options
    from ebpf.build import BuildError
    from ebpf.libbpf import BpfError
    from emulation.fabric.fabric import EmulationError
    from emulation.stack.stack import StackError

    module, options = importlib.import_module(chosen.module), Options(quick, seed, rate_bps)
    try:
        if prompt:
            _prompt(module.layout(options), options)
        else:
            _measure(module, options, json_file, plot)
    except (EmulationError, StackError, BuildError, BpfError) as error:
        raise click.ClickException(str(error)) from None


def host_rate(text: str | None, figure: Figure, time: ExperimentTime) -> int:
    """The rate of a host's link. Raises click.BadParameter: the figure can't have it; names the fastest that it can have."""
    most_bps = (MOST_BPS if time.virtual else REAL_TIME_MOST_BPS) // figure.factor
    if text is None:
        return min(VIRTUAL_BPS, most_bps)
    rate_bps = parse_link_rate(text, time)
    if rate_bps > most_bps:
        from topology.units import format_rate

        problem = f"is too fast: a link of this fabric has {figure.factor} times the rate of a host"
        remedy = f"write at most {format_rate(most_bps).lower()}" + ("" if time.virtual else ", or add --virtual")
        raise click.BadParameter(f"{text} {problem}; {remedy}", param_hint="--rate")
    return rate_bps


def as_script(figure: str) -> None:
    """Runs the command for one figure, with the options of the calling script (mininet/xco_*.py)."""
    options = sys.argv[1:]
    sys.argv = ["baton", "bench", "xco", figure, *options]  # what runs again in the sandbox
    xco(args=[figure, *options], prog_name=f"xco_{figure}.py")


def _measure(module: Any, options: Any, json_file: Path | None, plot: Path | None) -> None:  # noqa: ANN401 -- a figure's module and its Options, imported late
    from bench.record import write

    console = make_console()
    with progress_bar(console) as (tell, _):
        found = module.run(options, tell)
    console.print(_table(found.record))
    console.print(found.record["verdict"], highlight=False, soft_wrap=True)
    written = write(found, json_file) if json_file is not None else []
    if plot is not None:
        module.draw(found, plot)
        written.append(plot)
    print_outcome(console, written, found.record)


def _prompt(layout: Any, options: Any) -> None:  # noqa: ANN401 -- a figure's Layout and Options, imported late
    from emulation.stack.running import with_baton

    settings = {"slice": f"{options.slice_ns}ns"}
    with with_baton(layout.fabric, buffer_packets=layout.buffer_packets, coordinator=settings) as (emulated, _):
        for name, address in emulated.endpoints().items():
            click.echo(f"{name:8} {address}")
        click.echo("Every host has an agent; type `exit` to end all.")
        emulated.prompt()


def _table(record: dict[str, Any]) -> Any:  # noqa: ANN401 -- a rich Table, imported late
    """Published values beside ours, by policy."""
    from rich.table import Table

    from emulation.measuring.figures import LABELS, POLICIES

    table = Table(title=record["title"], caption=f"here: {record['scale']}; published: {record['published']['source']}")
    table.add_column("")
    for policy in POLICIES:
        table.add_column(f"{LABELS[policy]}\npublished")
        table.add_column("\nhere", justify="right")
    for row in record["compared"]:
        cells = []
        for policy in POLICIES:
            value = row["ours"].get(policy)
            cells += [row["published"].get(policy, ""), "-" if value is None else f"{value:.4g}"]
        table.add_row(row["what"], *cells)
    return table


xco.help = cleandoc(xco.help or "") + "\n\n\b\n" + "\n".join(f"{name:15} {found.help}" for name, found in FIGURES.items())
