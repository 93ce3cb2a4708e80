"""`baton bench host-control`: off and on delays, residual packets and throughput of fine-grained host control."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from cli.experiment_time import make_room
from cli.experiments import enter_box, make_console, print_outcome, progress_bar, require_root, write_text
from cli.values import SEED

PARTS = ("delays", "days", "throughput")


@click.command("host-control", short_help="off and on delays, residual packets, throughput (fine-grained host control)")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the record here.")
@click.option("--plot", type=click.Path(path_type=Path, file_okay=False), help="Draw the pictures into this directory (PNG).")
@click.option("--interfaces", metavar="A,B", help="Use these two interfaces, joined by a wire, instead of a veth pair.")
@click.option("--quick", is_flag=True, help="Fewer sizes and flows, fewer and shorter runs: about a minute.")
@click.option("--part", type=click.Choice(PARTS), multiple=True, help="Only this part; may be repeated.  [default: all]")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Seed of the times at which flows are closed and opened.")
def host_control(
    json_file: Path | None, plot: Path | None, interfaces: str | None, quick: bool, part: tuple[str, ...], seed: int
) -> None:
    """Measure how soon a flow stops and starts after a command, and how many packets still leak, beside published figures.

    A is the sender's interface. During the run each interface is in a network namespace of its own; afterwards both are
    back in place, with their former settings.
    """
    make_room(json_file, None if plot is None else plot / "off.png")
    require_root("network namespaces need root: run the command with sudo")
    pair: tuple[str, str] | None = None
    if interfaces is not None:
        names = interfaces.split(",")
        if len(names) != 2 or not all(names):
            raise click.BadParameter(f"{interfaces!r}: write two names, such as eth1,eth2", param_hint="--interfaces")
        pair = names[0], names[1]
    else:
        enter_box()
    from bench.host_control import experiment
    from bench.host_control.ends import EndsError
    from bench.host_control.plots import draw
    from ebpf.build import BuildError
    from ebpf.libbpf import BpfError
    from emulation.netns import NamespaceError

    console = make_console()
    options = experiment.Options(quick, seed, pair, part or PARTS)
    try:
        with progress_bar(console) as (tell, _):
            found = experiment.run(options, tell)
    except (EndsError, NamespaceError, BuildError, BpfError, OSError) as error:
        raise click.ClickException(str(error)) from None
    write_text(json.dumps(found.record, indent=1), json_file)
    for line in table(found.record):
        console.print(line, highlight=False, soft_wrap=True)
    written = [] if json_file is None else [json_file]
    if plot is not None:
        written += draw(found, plot)
    print_outcome(console, written, found.record)


def table(record: dict[str, Any]) -> list[str]:
    """The measured figures, one line for each run, then the published ones."""
    lines = []
    columns = "".join(f"   {name + ' p50':>8}{'p99':>8}{'p99-p1':>8}" for name in ("off", "on"))
    head = f"{'':22}{'agent':>9}{'B':>6}{'flows':>6}{columns}   residual"
    for kind, title in (("delays", head), ("days", ""), ("throughput", "")):
        runs = [run for run in record["runs"] if run["kind"] == kind]
        if runs:
            lines += [title, *(_LINES[kind](run) for run in runs)] if title else [_LINES[kind](run) for run in runs]
    return [*lines, f"Published: {record['published']['result']}"]


def _delays(run: dict[str, Any]) -> str:
    def three(found: dict[str, Any]) -> str:
        return "".join(f"{found.get(name, float('nan')):8.1f}" for name in ("p50", "p99", "range"))

    leaked = run["packets_after_close"].get("max", run["packets_after_command"].get("max"))
    name = f"{run['transport']}, {run['gate']}"
    return (
        f"{name:22}{run['agent']:>9}{run['size_bytes']:6}{run['flows']:6}   {three(run['off_us'])}   {three(run['on_us'])}"
        f"   {leaked}{_doubt(run)}"
    )


def _days(run: dict[str, Any]) -> str:
    off, remap = (run[name].get("mean", 0) for name in ("residual_after_off", "residual_after_remap"))
    return (
        f"{run['flows']} flows, days of {run['day_us'] / 1e3:g} ms, {run['transport']}, {run['agent']}: "
        f"{run['residual_packets']} residual of {run['own_packets']} packets "
        f"({off:.2f} a day, {remap:.2f} a remapping){_doubt(run)}"
    )


def _throughput(run: dict[str, Any]) -> str:
    rates = ", ".join(f"{case} {rate:.1f}" for case, rate in run["mbps"].items())
    return f"throughput in Mb/s: {rates} (idle {run['idle_change_percent']:+.1f} %){_doubt(run)}"


def _doubt(run: dict[str, Any]) -> str:
    from emulation.measuring.confidence import level_of, sure

    return "" if sure(run["trust"]) else f"  {level_of(run['trust']).value}"


_LINES = {"delays": _delays, "days": _days, "throughput": _throughput}
