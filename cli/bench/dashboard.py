"""`baton bench dashboard`."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.option("--hosts", type=click.IntRange(9, 2_000), default=200, show_default=True, help="Hosts in the generated fabric.")
@click.option("--flows", type=click.IntRange(12, 10_000), default=1_000, show_default=True, help="V2V flows between them.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def dashboard(hosts: int, flows: int, json_file: Path | None) -> None:
    """The dashboard under a large fabric: page load, processor time, frames."""
    from bench.dashboard.dashboard import run

    text = json.dumps(run(hosts, flows), indent=1)
    click.echo(text)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(text + "\n")
