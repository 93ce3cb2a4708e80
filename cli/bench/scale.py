"""`baton bench scale`: the schedule alone on fabrics of thousands of hosts."""

from __future__ import annotations

from pathlib import Path

import click

from cli.experiment_time import make_room
from cli.experiments import print_json
from cli.values import SEED, Number, refuse

SHAPES = ("racks", "rows", "leaf-spine")
POLICIES = ("timeslice", "hybrid", "steps", "rate_limit", "auto")
SLICES, MATCHING_SLOTS = 50, 2_000


@click.command(short_help="the schedule alone, thousands of hosts: time a grant, what is granted of the optimum")
@click.option("--hosts", type=click.IntRange(4, 65_536), default=800, show_default=True, help="On the fabric.")
@click.option("--destinations", type=click.IntRange(1), default=8, show_default=True, help="Of each host that sends.")
@click.option("--shape", type=click.Choice(SHAPES), default="racks", show_default=True, help="Of the fabric.")
@click.option("--slice", "slice_text", default="2ms", show_default=True)
@click.option(
    "--slices", type=click.IntRange(2), help=f"That are measured.  [default: {SLICES}; in matching {MATCHING_SLOTS} packets]"
)
@click.option(
    "--load",
    type=Number(0, 1, min_open=True),
    help="Of what may be granted of the fullest link (0.98 of it; in matching all), by demands that come at random.  "
    "[default: saturated; several loads in matching]",
)
@click.option("--matching", is_flag=True, help="Fastpass's workload: one switch, all to all, slots of one packet.")
@click.option(
    "--window", type=click.IntRange(1, 16), default=16, show_default=True, help="Slots planned at once, in matching by steps."
)
@click.option("--policy", type=click.Choice(POLICIES), default="timeslice", show_default=True, help="Which plans.")
@click.option("--core-only", is_flag=True, help="Leave out the reference in Python: with thousands of hosts it takes minutes.")
@click.option("--seed", type=SEED, default=1, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def scale(
    hosts: int,
    destinations: int,
    shape: str,
    slice_text: str,
    slices: int | None,
    load: float | None,
    matching: bool,
    window: int,
    policy: str,
    core_only: bool,
    seed: int,
    json_file: Path | None,
) -> None:
    """Measure the schedule alone on a large fabric: time a grant, longest plan, memory, and what is granted of the optimum."""
    from bench.computing.scale import LEAST_SLICE_NS, Case, run
    from topology.units import parse_duration

    if matching:
        refuse({"shape", "destinations", "slice_text"}, "has no meaning with --matching: all send to all, slots of one packet")
    if not matching or policy != "steps":
        refuse({"window"}, "counts with --matching and --policy steps alone")
    try:
        slice_ns = parse_duration(slice_text)
        if slice_ns < LEAST_SLICE_NS:
            raise ValueError(f"{slice_text} is too short; write 1us or more, such as 2ms")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--slice") from None
    try:
        count = slices or (MATCHING_SLOTS if matching else SLICES)
        shape = "star" if matching else shape
        case = Case(hosts, destinations, shape, slice_ns, count, load, matching, seed, policy, not core_only, window)
        case.check()
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    make_room(json_file)
    print_json(run(case), json_file)
