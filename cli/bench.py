"""`baton bench`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import click


class Benchmark(NamedTuple):
    """Where it is, whether it emulates a fabric, and what it measures."""

    module: str
    emulated: bool
    help: str


BENCHMARKS = {
    "latency": Benchmark("bench.latency", True, "backlog to directive, directive to gate"),
    "conservation": Benchmark("bench.conservation", True, "link use with and without yields (XCo's Figure 21)"),
    "failure": Benchmark("bench.failure", True, "the coordinator killed under load"),
    "loss": Benchmark("bench.loss", True, "20 % of the directives lost"),
    "policies": Benchmark("bench.policies", False, "the scheduler's inner loop, 5 to 5,000 nodes"),
    "thresholds": Benchmark("bench.thresholds", False, "sieving thresholds, their certificate and their rivals"),
    "protocol": Benchmark("bench.protocol", False, "encoding, decoding and verifying a frame"),
}


@click.command()
@click.argument("name", type=click.Choice(list(BENCHMARKS)))
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def bench(name: str, json_file: Path | None) -> None:
    """Measure one thing, and print JSON. Each method is told in the module's docstring (bench/NAME.py)."""
    chosen = BENCHMARKS[name]
    if chosen.emulated:
        from emulation import box

        if os.geteuid() != 0:
            raise click.ClickException("an emulated fabric needs root: run it with sudo")
        if not box.inside():
            box.enter([sys.executable, "-m", "cli.main", *sys.argv[1:]])
    result = importlib.import_module(chosen.module).run()
    text = json.dumps(result, indent=1)
    click.echo(text)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(text + "\n")


bench.help = (bench.help or "") + "\n\n\b\n" + "\n".join(f"{name:13} {found.help}" for name, found in BENCHMARKS.items())
