"""`baton bench fuzz`."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.option("--seconds", type=click.FloatRange(0.2), default=60.0, show_default=True, help="How long, half of it for each.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the generators.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def fuzz(seconds: float, seed: int, json_file: Path | None) -> None:
    """Control frames and REST requests that nobody should believe. Ends with 1 if one crashed something, or was believed."""
    from bench.fuzz.fuzz import run

    result = run(seconds, seed)
    text = json.dumps(result, indent=1)
    click.echo(text)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(text + "\n")
    if result["crashes"] or result["accepted_forgeries"]:
        raise click.ClickException("something crashed or was believed; the result has the first findings")
