"""`baton bench switches`."""

from __future__ import annotations

from pathlib import Path

import click

from cli.experiment_time import make_room
from cli.experiments import enter_box, in_a_line, make_console, print_json, progress_bar, require_root
from cli.values import SEED


@click.command(short_help="the OpenFlow application before hundreds of switches: start, cut, join, restart")
@click.option("--switches", "count", type=click.IntRange(23, 1_000), default=265, show_default=True)
@click.option("--hosts", type=click.IntRange(20, 65_536), default=4_800, show_default=True)
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the pairs that are walked.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def switches(count: int, hosts: int, seed: int, json_file: Path | None) -> None:
    """Measure the OpenFlow application before a swarm of switches: start, a link cut, one host more, and a restart."""
    make_room(json_file)
    require_root()
    enter_box()
    from bench.openflow.switches import run

    try:
        with in_a_line(), progress_bar(make_console()) as (tell, _):
            record = run(count, hosts, seed, tell)
    except (RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    print_json(record, json_file)
