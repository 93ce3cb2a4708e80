"""`baton simulate`: flows on spine-leaf fabrics in ns-3, under DCTCP, PIAS, pFabric and Karuna."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.experiment_time import make_room
from cli.experiments import make_console, print_json, progress_bar, write_text
from cli.values import PICTURE, SEED, Number, named, refuse

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from simulation.cases import Case

SCHEMES = ("dctcp", "pias", "pfabric", "pfabric_edf", "karuna")
LOAD, SHARE, SLACK = Number(0.01, 0.99), Number(0, 1), Number(0.001, 1_000_000)
SOME, ADMITTED = Number(0.01, 1), Number(0, 2, min_open=True)
"""A share above 0: in `Settings` and `Mixture` 0 stands for any."""
READ_BY = {"validate": ("flows", "json_file"), "xco": ("control_delay", "json_file")}
"""The options that count with each of these."""
MOST_FLOWS, MOST_NODES = 10_000_000, 1_000
"""Flows of a run; leaves, spines, hosts of a leaf. A mistyped larger number would fill the memory before anything is told."""
OPTIONS = {
    "leaves": "--leaves", "spines": "--spines", "hosts_per_leaf": "--hosts-per-leaf", "host_bps": "--host-rate",
    "uplink_bps": "--uplink-rate", "mean_ns": "--deadline-mean", "least_ns": "--deadline-least",
    "most_deadline_bytes": "--deadline-most",
}  # fmt: skip
"""The options that give fields of `SpineLeaf` and `Mixture`, whose errors begin with the field's name."""
MOST_DELAY_NS = 1_000_000_000
"""Of a host's link, one way: with a mistyped longer one more packets are on the way than the program counts."""
LONGEST_LINE = 1_000
WORKLOAD = "web_search_ns2"
FABRICS = ("small", "medium", "paper")
FILE, FOLDER = click.Path(path_type=Path, dir_okay=False), click.Path(path_type=Path, file_okay=False)
COLUMNS = (
    ("scheme", "scheme"), ("load", "load"), ("missed", "missed"), ("mean_ms", "mean ms"), ("p95_ms", "p95"), ("p99_ms", "p99"),
    ("small_mean_ms", "small mean"), ("small_p99_ms", "small p99"), ("large_mean_ms", "large mean"),
    ("slowdown_mean", "slowdown"), ("unfinished", "never ended"), ("wall_s", "took s"),
)  # fmt: skip


@click.command(short_help="flows on spine-leaf fabrics in ns-3: DCTCP, PIAS, pFabric, Karuna")
@click.option("--scheme", "schemes", type=click.Choice(SCHEMES), multiple=True, help="Repeat for several.  [default: all]")
@click.option("--workload", "workloads", multiple=True, default=(WORKLOAD,), show_default=True, help="In emulation/cdfs.")
@click.option("--load", "loads", type=LOAD, multiple=True, default=(0.8,), show_default=True, help="Of links, in frames.")
@click.option("--seed", "seeds", type=SEED, multiple=True, default=(1,), show_default=True)
@click.option("--flows", type=click.IntRange(1, MOST_FLOWS), default=1_000, show_default=True, help="Of each run.")
@click.option("--margin", type=Number(0, 0.49), default=0.1, show_default=True, help="Part of --flows uncounted at each end.")
@click.option("--fabric", "fabric_name", type=click.Choice(FABRICS), default="small", show_default=True, help="8 to 144 hosts.")
@click.option("--leaves", type=click.IntRange(1, MOST_NODES), help="Instead of the fabric's.")
@click.option("--spines", type=click.IntRange(0, MOST_NODES), help="Instead of the fabric's.")
@click.option("--hosts-per-leaf", type=click.IntRange(1, MOST_NODES), help="Instead of the fabric's.")
@click.option("--host-rate", help="Instead of the fabric's 10 Gb/s.")
@click.option("--uplink-rate", help="Instead of the fabric's.")
@click.option("--host-delay", help="One way, on a host's link with its processing.  [default: 20us]")
@click.option("--spray", is_flag=True, help="Each packet takes the next path.  [default: a flow keeps its path]")
@click.option("--deadline-share", type=SHARE, default=0.2, show_default=True, help="Of flows; half of the rest tell sizes.")
@click.option("--deadline-mean", default="5ms", show_default=True, help="Exponential; at least 0.5 ms, and the slack.")
@click.option("--deadline-most", default="1MB", show_default=True, help="Larger flows have no deadline.")
@click.option("--slack", type=SLACK, default=1.25, show_default=True, help="Least deadline, in times of the flow alone.")
@click.option("--deadline-reserved", type=SOME, help="Share of a sender's link that deadlines ask for.  [default: any]")
@click.option("--deadline-least", default="500us", show_default=True, help="The shortest deadline.")
@click.option("--aim", type=Number(0.1, 1), default=0.9375, show_default=True, help="Of the deadline, for MCP.")
@click.option("--crowd", type=click.IntRange(0), default=32, show_default=True, help="Packets in queue 0; above, MCP yields.")
@click.option("--termination", type=click.IntRange(1, 3), default=3, show_default=True, help="MCP's scheme; 3: never.")
@click.option("--admit", type=ADMITTED, help="Share of a host's link that the coordinator gives deadlines.  [default: any]")
@click.option("--admit-from", default="1MB", show_default=True, help="With --admit: flows of this size and more ask.")
@click.option("--admit-delay", default="1ms", show_default=True, help="With --admit: from a flow's start to the answer.")
@click.option("--ack-segments", type=click.IntRange(1, 10), default=1, show_default=True, help="Acknowledged together.")
@click.option("--jobs", type=click.IntRange(1), help="Simulations at a time.  [default: processors]")
@click.option("--scheduler", help="Of a Dask cluster that simulates instead, as tcp://HOST:PORT.")
@click.option("--folder", type=FOLDER, default=Path("results/simulation"), show_default=True, help="Keeps each result.")
@click.option("--again", is_flag=True, help="Simulate also what the folder has.")
@click.option("--validate", is_flag=True, help="Compare the simulator with formulas and with another simulator instead.")
@click.option("--xco", type=click.Choice(("23", "24", "25", "26", "27")), help="XCo's figure of UDP and TCP senders instead.")
@click.option("--control-delay", default="50us", show_default=True, help="With --xco, from host to coordinator and back, each.")
@click.option("--json", "json_file", type=FILE, help="Write the results here.")
@click.option("--plot", "plot_file", type=PICTURE, help="Draw the results here.")
def simulate(json_file: Path | None, validate: bool, xco: str | None, **options: Any) -> None:  # noqa: ANN401 -- click's
    """Simulate flows on a spine-leaf fabric, packet by packet, and compare how long they take and which deadlines they miss.

    Runs with equal workload, load, number of flows and seed have the same flows under each scheme. It needs ns-3: `make
    simulation`.
    """
    from simulation.run import RunError
    from simulation.sweep import ClusterError, FolderError, all_kept
    from simulation.toolchain import ToolchainError, why_missing

    _refuse_unread("validate" if validate else "xco" if xco is not None else "")
    make_room(json_file, options["plot_file"])
    console = make_console()
    try:
        cases = [] if validate or xco is not None else _named(options)
        folder = None if options["again"] else options["folder"]
        if not options["scheduler"] and not (cases and folder and all_kept(cases, folder)) and (missing := why_missing()):
            raise click.ClickException(missing)
        if validate:
            _validate(console, options["flows"], json_file)
        elif xco is not None:
            _xco(console, int(xco), options["control_delay"], json_file)
        else:
            _sweep(console, cases, json_file, **options)
    except FolderError as error:
        raise click.BadParameter(f"{error}; name another folder", param_hint="--folder") from None
    except (RunError, ClusterError, ToolchainError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _refuse_unread(mode: str) -> None:
    """Ends the command if an option was given that does not count; `mode`: an option of `READ_BY`, or empty for a sweep."""
    if not mode:
        refuse({"control_delay"}, "has no meaning without --xco")
        if click.get_current_context().params["admit"] is None:
            refuse({"admit_from", "admit_delay"}, "has no meaning without --admit")
        if click.get_current_context().params["deadline_reserved"] is not None:
            refuse({"deadline_mean"}, "has no meaning with --deadline-reserved, which draws no deadlines")
        if click.get_current_context().params["scheduler"] is not None:
            refuse({"jobs"}, "has no meaning with --scheduler: the cluster's workers decide")
        return
    known = {option.name or "" for option in click.get_current_context().command.params}
    refuse(known - {mode, *READ_BY[mode]}, f"has no meaning with --{mode}")


def _named(options: dict[str, Any]) -> list[Case]:
    """The cases of these options. Ends the command with an error that names the option whose value none can have."""
    try:
        return _cases(**options)
    except ValueError as error:
        field, of, _ = str(error).partition(" is ")
        if not of or field not in OPTIONS:
            raise
        raise click.BadParameter(str(error), param_hint=OPTIONS[field]) from None


def _parse_delay(text: str) -> int:
    from topology.units import parse_duration

    delay_ns = parse_duration(text)
    if delay_ns > MOST_DELAY_NS:
        raise ValueError(f"{text} is no delay of a link; write one from 0us to 1s, such as 20us")
    return delay_ns


def _cases(**options: Any) -> list[Case]:  # noqa: ANN401 -- click's
    from dataclasses import replace

    from emulation import cdfs
    from simulation.cases import grid
    from simulation.fabric import SIZES
    from simulation.flows import Mixture
    from simulation.schemes import Settings
    from topology.units import parse_duration, parse_rate, parse_size

    given = {
        "leaves": options["leaves"],
        "spines": options["spines"],
        "hosts_per_leaf": options["hosts_per_leaf"],
        "host_bps": named("--host-rate", options["host_rate"], parse_rate),
        "uplink_bps": named("--uplink-rate", options["uplink_rate"], parse_rate),
        "host_delay_ns": named("--host-delay", options["host_delay"], _parse_delay),
    }
    fabric = replace(SIZES[options["fabric_name"]], **{name: value for name, value in given.items() if value is not None})
    with_deadline = options["deadline_share"]
    mixture = Mixture(
        shares=(with_deadline, (1 - with_deadline) / 2, (1 - with_deadline) / 2),
        mean_ns=named("--deadline-mean", options["deadline_mean"], parse_duration) or 0,
        least_ns=named("--deadline-least", options["deadline_least"], parse_duration) or 0,
        reserved=options["deadline_reserved"] or 0.0,
        slack=options["slack"],
        most_deadline_bytes=named("--deadline-most", options["deadline_most"], parse_size) or 0,
    )
    for workload in options["workloads"]:
        cdfs.load(workload)
    return grid(
        options["schemes"] or SCHEMES, options["workloads"], options["loads"], options["seeds"],
        flows=options["flows"], margin=options["margin"], fabric=fabric, mixture=mixture,
        settings=Settings(
            spray=options["spray"], termination=options["termination"], crowd=options["crowd"], aim=options["aim"],
            admit=options["admit"] or 0.0, admit_from_bytes=named("--admit-from", options["admit_from"], parse_size) or 0,
            admit_delay_ns=named("--admit-delay", options["admit_delay"], parse_duration) or 0,
            ack_segments=options["ack_segments"],
        ),
    )  # fmt: skip


def _sweep(console: Console, cases: list[Case], json_file: Path | None, **options: Any) -> None:  # noqa: ANN401 -- click's
    from rich.table import Table

    from simulation.comparison import gains, rows
    from simulation.sweep import sweep

    done = dict.fromkeys((case.key for case in cases), 0.0)
    with progress_bar(console, float(len(done))) as (move, _):

        def tell(case: Case, part: float) -> None:
            done[case.key] = part
            move(f"{case.scheme}, {case.workload}, load {case.load:g}", sum(done.values()))

        results = sweep(
            cases, options["folder"], tell,
            jobs=options["jobs"] or os.cpu_count() or 1, scheduler=options["scheduler"], again=options["again"],
        )  # fmt: skip
    table = rows(results)
    for workload in dict.fromkeys(row.workload for row in table):
        shown = Table(title=f"{workload}: flows without deadline, and the deadlines missed of the others")
        for _, title in COLUMNS:
            shown.add_column(title, justify="right")
        for row in (row for row in table if row.workload == workload):
            shown.add_row(*(_shown(name, getattr(row, name)) for name, _ in COLUMNS))
        _print_whole(console, shown)
    found = [str(gain) for gain in gains(results)]
    for line in found:
        console.print(line, highlight=False, soft_wrap=True)
    if json_file is not None:
        _write(console, {"rows": [row._asdict() for row in table], "gains": found, "results": results}, json_file)
    if options["plot_file"] is not None:
        from simulation.figure import draw

        draw(table, options["plot_file"])
        console.print(f"written: {options['plot_file']}", soft_wrap=True)


def _validate(console: Console, flows: int, json_file: Path | None) -> None:
    from simulation.validation import PacketClass, cobham_ns, dctcp_queue, pfabric_alone, priority_queue

    classes = [PacketClass(0, 300_000, 1000), PacketClass(3, 300_000, 500), PacketClass(7, 250_000, 1500)]
    with progress_bar(console) as (tell, _):
        tell("the priority queue", 0.0)
        found: dict[str, Any] = {
            "priority_queue": {
                "cobham_ns": [round(wait, 1) for wait in cobham_ns(classes, 10_000_000_000)],
                "simulated_ns": priority_queue(classes, 10_000_000_000, 1_000_000, seed=1),
            }
        }
        tell("DCTCP's queue", 0.0)
        found["dctcp_queue"] = dctcp_queue()
        tell("pFabric alone", 0.0)
        found["pfabric_alone"] = pfabric_alone(flows, progress=lambda part: tell("pFabric alone", part))
    if json_file is None:
        print_json(found, None)
    else:
        _write(console, found, json_file)


def _xco(console: Console, number: int, control_delay: str, json_file: Path | None) -> None:
    from rich.table import Table

    from simulation.xco import FIGURES, simulate
    from topology.units import parse_duration

    figure, control_ns = FIGURES[number], named("--control-delay", control_delay, parse_duration) or 0
    titles = (figure.of, "coordinated", "lost", "Gb/s", "whole messages", "a TCP flow", "a UDP sender", "took s")
    shown = Table(*titles, title=f"XCo, Figure {number}")
    found: list[dict[str, Any]] = []
    try:
        with progress_bar(console, float(2 * len(figure.counts))) as (tell, _):
            for count in figure.counts:
                for coordinated in (False, True):
                    tell(f"{count}, {'coordinated' if coordinated else 'uncoordinated'}", float(len(found)))
                    one = simulate(number, count, coordinated=coordinated, control_ns=control_ns)
                    found.append({"count": count, "coordinated": coordinated, **one})
                    rates = ("goodput_bps", "whole_bps", "tcp_bps", "udp_bps")
                    values = ("-" if one[name] is None else f"{one[name] / 1e9:.3g}" for name in rates)
                    shown.add_row(str(count), "yes" if coordinated else "no", f"{one['loss']:.1%}", *values, str(one["wall_s"]))
    finally:  # an interrupt costs no run that has ended
        if json_file is not None and found:
            counted = {"from_ns": figure.from_ns, "until_ns": figure.until_ns, "control_ns": control_ns}
            complete = len(found) == 2 * len(figure.counts)
            _write(console, {"figure": number, **counted, "complete": complete, "runs": found}, json_file)
    console.print(shown)


def _write(console: Console, found: dict[str, Any], path: Path) -> None:
    import json

    write_text(json.dumps(found, indent=1), path)
    console.print(f"written: {path}", soft_wrap=True)


def _print_whole(console: Console, table: Table) -> None:
    """Prints a table with every word of it, whatever the terminal's width: cut off, `pfabric` is also `pfabric_edf`."""
    for column in table.columns:
        column.no_wrap = True
    unbounded = console.options.update(max_width=LONGEST_LINE)
    console.width = max(console.width, console.measure(table, options=unbounded).maximum)
    console.print(table)


def _shown(name: str, value: object) -> str:
    if value is None:
        return "-"
    if name == "missed" and isinstance(value, float):
        return f"{value:.1%}"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"
