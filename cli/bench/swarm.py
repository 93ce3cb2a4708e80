"""`baton bench swarm`: the real coordinator under thousands of agents; `baton bench agent`: one real agent among them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.experiment_time import make_room
from cli.experiments import enter_box, make_console, print_json, print_outcome, progress_bar, require_root
from cli.values import PICTURE, SEED, Number, named, refuse

if TYPE_CHECKING:
    from bench.swarm.swarm import Options

SHAPES = ("racks", "rows", "leaf-spine")
POLICIES = ("auto", "timeslice", "rate_limit", "hybrid", "steps")
MODES = ("on_demand", "always")
FIGURE_SECONDS = 20.0
OF_COORDINATOR = frozenset({"slice_text", "policy", "mode", "lose", "kill_coordinator", "change_tree", "watch_machine"})
"""The options that only a run with a coordinator reads."""


@click.command(short_help="the real coordinator under thousands of agents; XCo's Figure 27")
@click.option("--hosts", type=click.IntRange(4, 65_536), default=400, show_default=True, help="On the fabric.")
@click.option("--destinations", type=click.IntRange(1, 64), default=1, show_default=True, help="Of each host that sends.")
@click.option("--shape", type=click.Choice(SHAPES), default="rows", show_default=True, help="Of the fabric.")
@click.option("--slice", "slice_text", default="10ms", show_default=True)
@click.option("--seconds", type=Number(0.5), help="That are measured.  [default: 60; of each run of --figure27 20]")
@click.option("--policy", type=click.Choice(POLICIES), default="timeslice", show_default=True)
@click.option("--mode", type=click.Choice(MODES), default="on_demand", show_default=True, help="Which pairs are regulated.")
@click.option("--lose", type=Number(0, 0.9), default=0.0, help="This share of the control frames, each way.")
@click.option("--load", type=Number(0, 1), default=0.0, help="Of each sender's rate, at random.  [default: all]")
@click.option("--buffer", "buffer_kb", type=click.IntRange(1), default=250, show_default=True, help="Of each port, in kB.")
@click.option("--uncoordinated", is_flag=True, help="No coordinator: all send at their links' rate.")
@click.option("--start-at-once", is_flag=True, help="All hosts register at the same moment.")
@click.option("--kill-coordinator", is_flag=True, help="It is killed after the measurement and started again.")
@click.option("--change-tree", is_flag=True, help="After the measurement a switch hangs below its neighbour, and then back.")
@click.option("--watch-machine", is_flag=True, help="When processors stood, too; stops are then longer by some 0.2 ms.")
@click.option("--figure27", is_flag=True, help="XCo's Figure 27: loss with and without, 800 to 4,800 machines, and a picture.")
@click.option("--most", type=click.IntRange(800), default=4_800, show_default=True, help="Machines of --figure27.")
@click.option("--out", type=PICTURE, help="The picture of --figure27 (.svg or .png).")
@click.option("--seed", type=SEED, default=1, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def swarm(
    hosts: int, destinations: int, shape: str, slice_text: str, seconds: float | None, policy: str, mode: str, lose: float,
    load: float, buffer_kb: int, uncoordinated: bool, start_at_once: bool, kill_coordinator: bool, change_tree: bool,
    watch_machine: bool, figure27: bool, most: int, out: Path | None, seed: int, json_file: Path | None,
) -> None:  # fmt: skip
    """Measure the real coordinator under a swarm of agents with a model of all links' bytes (docs/scale.md)."""
    if figure27:
        refuse({"hosts", "shape", "destinations", "uncoordinated", "policy"}, "is what --figure27 itself sets")
    else:
        refuse({"most", "out"}, "has no meaning without --figure27")
    if uncoordinated:
        refuse(OF_COORDINATOR, "has no meaning with --uncoordinated, where no coordinator is")
    slice_ns = _slice_ns(slice_text)
    make_room(json_file, out)
    if not uncoordinated:
        require_root()
        enter_box()
    from bench.swarm.swarm import NotReady, Options

    try:
        options = Options(
            hosts, destinations, shape, slice_ns, seconds or (FIGURE_SECONDS if figure27 else 60.0), policy,
            mode, lose, load, 1000 * buffer_kb, uncoordinated, start_at_once, kill_coordinator,
            change_tree, watch_machine, seed,
        )  # fmt: skip
        if figure27:
            _figure27(options, most, out, json_file)
        else:
            _one(options, json_file)
    except (NotReady, ValueError) as error:
        raise click.ClickException(str(error)) from None


def _slice_ns(text: str) -> int:
    """The length of a slice, of those that a configuration takes; ends the command with an error otherwise."""
    from controller.config.settings import RANGES
    from topology.units import parse_duration

    slice_ns = named("--slice", text, parse_duration) or 0
    least_ns, most_ns = RANGES["slice_ns"]
    if not least_ns <= slice_ns <= most_ns:
        says = f"{text} is no timeslice; write a duration from 200us to 1s, such as 2ms"
        raise click.BadParameter(says, param_hint="--slice")
    return slice_ns


def _one(options: Options, json_file: Path | None) -> None:
    from bench.swarm.swarm import run

    with progress_bar(make_console()) as (tell, _):
        record = run(options, tell)
    print_json(record, json_file)


@click.command(short_help="one real agent among thousands of a swarm: memory, processor, time to join")
@click.option("--hosts", type=click.IntRange(4, 65_536), default=4_800, show_default=True, help="On the fabric.")
@click.option("--shape", type=click.Choice(SHAPES), default="rows", show_default=True, help="Of the fabric.")
@click.option("--slice", "slice_text", default="10ms", show_default=True)
@click.option("--rate", default="100mbit", show_default=True, help="Of the agent's link.")
@click.option("--seconds", type=Number(0.5), default=20.0, show_default=True, help="That are measured.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def agent(hosts: int, shape: str, slice_text: str, rate: str, seconds: float, json_file: Path | None) -> None:
    """Measure what a fabric of thousands of hosts costs one host's agent (docs/scale.md)."""
    from topology.units import parse_link_rate

    slice_ns = _slice_ns(slice_text)
    rate_bps = named("--rate", rate, parse_link_rate) or 0
    make_room(json_file)
    require_root()
    enter_box()
    from bench.swarm.real_agent import Options, run
    from bench.swarm.swarm import NotReady

    try:
        options = Options(hosts, shape, slice_ns, rate_bps, seconds)
        with progress_bar(make_console()) as (tell, _):
            record = run(options, tell)
    except (NotReady, ValueError) as error:
        raise click.ClickException(str(error)) from None
    print_json(record, json_file)


def _figure27(options: Options, most: int, out: Path | None, json_file: Path | None) -> None:
    from bench.record import write
    from bench.swarm.figure27 import draw, measure

    console = make_console()
    with progress_bar(console) as (tell, _):
        found = measure(options, tell, most=most)
    for run in found.record["runs"]:
        console.print(
            f"{run['hosts']:6} machines, {run['policy']:14}{100 * run['loss_fraction']:8.3f} % lost, "
            f"{100 * run['link_use']:6.1f} % of the optimum carried",
            highlight=False,
        )
    console.print(found.record["verdict"], highlight=False, soft_wrap=True)
    written = write(found, json_file) if json_file is not None else []
    if out is not None:
        draw(found, out)
        written.append(out)
    print_outcome(console, written, found.record)
