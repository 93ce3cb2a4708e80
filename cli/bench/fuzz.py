"""`baton bench fuzz`."""

from __future__ import annotations

from pathlib import Path

import click

from cli.experiment_time import make_room
from cli.experiments import print_json
from cli.values import SEED, Number


@click.command()
@click.option("--seconds", type=Number(0.2), default=60.0, show_default=True, help="In all; each part gets a fifth.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Seed of the generators.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def fuzz(seconds: float, seed: int, json_file: Path | None) -> None:
    """Send what must be refused: control frames, REST requests, OpenFlow, LLDP, frames and documents at the election. Exits
    with 1 at a crash, or if one was accepted."""
    make_room(json_file)
    from bench.fuzz.fuzz import run

    result = run(seconds, seed)
    print_json(result, json_file)
    if result["crashes"] or result["accepted_forgeries"]:
        raise click.ClickException("an input caused a crash or was accepted; the result holds the first findings")
