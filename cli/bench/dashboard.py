"""`baton bench dashboard`."""

from __future__ import annotations

from pathlib import Path

import click

from cli.experiment_time import make_room
from cli.experiments import print_json


@click.command()
@click.option("--hosts", type=click.IntRange(9, 10_000), default=200, show_default=True, help="Hosts in the generated fabric.")
@click.option("--flows", type=click.IntRange(12, 50_000), default=1_000, show_default=True, help="V2V flows between them.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def dashboard(hosts: int, flows: int, json_file: Path | None) -> None:
    """Measure the dashboard on a large fabric: page load, processor time, frames."""
    make_room(json_file)
    from bench.dashboard.dashboard import run

    print_json(run(hosts, flows), json_file)
