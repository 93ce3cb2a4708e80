"""`baton bench karuna` and `baton bench both`: experiments with a record, raw data and a figure."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from bench.karuna import FIGURES

FILE: click.Path = click.Path(path_type=Path, dir_okay=False)


def _recorded(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every such experiment."""
    for option in (
        click.option("--seed", type=int, default=1, show_default=True, help="Of the flows: their sizes, starts and deadlines."),
        click.option("--quick", is_flag=True, help="Fewer and shorter runs: about a minute."),
        click.option("--plot", type=FILE, help="Draw the figure here (PNG)."),
        click.option("--json", "json_file", type=FILE, help="Write the record here, and its raw data beside it."),
    ):
        command = option(command)
    return command


@click.command(short_help="experiments on flow priorities, one a figure")
@click.argument("figure", type=click.Choice(list(FIGURES)))
@_recorded
def karuna(figure: str, json_file: Path | None, plot: Path | None, quick: bool, seed: int) -> None:
    """Measure one figure of Karuna on an emulated star of 100 Mb/s, and print what came out beside what was published."""
    _measure(FIGURES[figure].module, json_file, plot, quick, seed)


@click.command(short_help="timeslices and flow priorities: neither, each alone, both")
@_recorded
def both(json_file: Path | None, plot: Path | None, quick: bool, seed: int) -> None:
    """Measure deadlines, short and long flows under timeslices alone, flow priorities alone, and both at once."""
    _measure("bench.karuna.both", json_file, plot, quick, seed)


def _measure(module_name: str, json_file: Path | None, plot: Path | None, quick: bool, seed: int) -> None:
    from emulation import box

    if os.geteuid() != 0:
        raise click.ClickException("an emulated fabric needs root: run it with sudo")
    if not box.inside():
        box.enter([sys.executable, "-m", "cli.main", *sys.argv[1:]])
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from bench.karuna.record import Options, write
    from ebpf.build import BuildError
    from ebpf.libbpf import BpfError
    from emulation.fabric.fabric import EmulationError
    from emulation.stack.stack import StackError

    console = Console()
    if not console.is_terminal:
        console.width = 110
    module = importlib.import_module(module_name)
    columns = (TextColumn("{task.description:45}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("starting", total=1.0)
            options = Options(quick, seed)
            found = module.run(options, lambda what, done: progress.update(task, description=what, completed=min(done, 1.0)))
    except (EmulationError, StackError, BuildError, BpfError) as error:
        raise click.ClickException(str(error)) from None
    console.print_json(data={name: value for name, value in found.record.items() if name != "environment"})
    written = write(found, json_file) if json_file is not None else []
    if plot is not None:
        module.draw(found, plot)
        written.append(plot)
    for path in written:
        console.print(f"written: {path}")
    if not found.record["valid"]:
        console.print("invalid: the machine did not keep up in at least one run; repeat on an idle machine")


karuna.help = (karuna.help or "") + "\n\n\b\n" + "\n".join(f"{name:13} {found.help}" for name, found in FIGURES.items())
