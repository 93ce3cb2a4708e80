"""`baton bench karuna` and `baton bench both`: experiments with a record, raw data and a figure."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import click

from bench.karuna import FIGURES
from cli.experiment_time import ExperimentTime, enter, parse_link_rate, virtual_options
from cli.experiments import make_console, print_outcome, progress_bar
from cli.values import PICTURE, SEED

FILE: click.Path = click.Path(path_type=Path, dir_okay=False)


def _recorded(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that all these experiments take."""
    for option in (
        click.option("--seed", type=SEED, default=1, show_default=True, help="Seed of the flows' sizes, starts and deadlines."),
        click.option("--quick", is_flag=True, help="Fewer and shorter runs: about a minute."),
        click.option("--plot", type=PICTURE, help="Draw the figure here (PNG)."),
        click.option("--json", "json_file", type=FILE, help="Write the record here, and its raw data beside it."),
    ):
        command = option(command)
    return virtual_options(command)


@click.command(short_help="experiments on flow priorities, one a figure")
@click.argument("figure", type=click.Choice(list(FIGURES)))
@click.option("--rate", "rate_text", default="100mbit", show_default=True, help="Of every link; above 100mbit: --virtual.")
@_recorded
def karuna(
    figure: str, rate_text: str, json_file: Path | None, plot: Path | None, quick: bool, seed: int, time: ExperimentTime
) -> None:
    """Measure one figure of Karuna on an emulated star, and print the result beside the published one."""
    rate_bps = parse_link_rate(rate_text, time)
    if rate_bps not in FIGURES[figure].rates:
        names = [f"{rate // 10**6}mbit" if rate < 10**9 else f"{rate // 10**9}gbit" for rate in FIGURES[figure].rates]
        allowed = f"{', '.join(names[:-1])} or {names[-1]}"
        raise click.BadParameter(f"{figure} cannot have {rate_text}; write {allowed}", param_hint="--rate")
    _measure(FIGURES[figure].module, json_file, plot, quick, seed, time, rate_bps)


@click.command(short_help="timeslices and flow priorities: neither, each alone, both")
@_recorded
def both(json_file: Path | None, plot: Path | None, quick: bool, seed: int, time: ExperimentTime) -> None:
    """Measure deadlines, short and long flows under timeslices alone, flow priorities alone, and both at once."""
    _measure("bench.karuna.combined", json_file, plot, quick, seed, time)


def _measure(
    module_name: str,
    json_file: Path | None,
    plot: Path | None,
    quick: bool,
    seed: int,
    time: ExperimentTime,
    rate_bps: int | None = None,
) -> None:
    enter(time, json_file, plot, seed=seed)
    from agents.priorities.marked_run import NoCgroup
    from bench.karuna.record import Options
    from bench.record import write
    from ebpf.build import BuildError
    from ebpf.libbpf import BpfError
    from emulation.fabric.fabric import EmulationError
    from emulation.stack.stack import StackError

    console = make_console()
    module = importlib.import_module(module_name)
    try:
        with progress_bar(console) as (tell, _):
            found = module.run(Options(quick, seed) if rate_bps is None else Options(quick, seed, rate_bps), tell)
    except (EmulationError, StackError, BuildError, BpfError, NoCgroup) as error:
        raise click.ClickException(str(error)) from None
    console.print_json(data={name: value for name, value in found.record.items() if name != "environment"})
    written = write(found, json_file) if json_file is not None else []
    if plot is not None:
        module.draw(found, plot)
        written.append(plot)
    print_outcome(console, written, found.record)


karuna.help = (karuna.help or "") + "\n\n\b\n" + "\n".join(f"{name:13} {found.help}" for name, found in FIGURES.items())
