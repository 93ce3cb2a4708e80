"""`baton bench`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import NamedTuple

import click

from cli.bench.dashboard import dashboard
from cli.bench.fabrics import fabrics
from cli.bench.figures import figures
from cli.bench.fuzz import fuzz
from cli.bench.host_control import host_control
from cli.bench.karuna import both, karuna
from cli.bench.random_flows import random_flows
from cli.bench.scale import scale
from cli.bench.siege import siege
from cli.bench.swarm import agent, swarm
from cli.bench.switches import switches
from cli.bench.xco import xco
from cli.experiment_time import ExperimentTime, enter, make_room, virtual_options
from cli.experiments import in_a_line, print_json
from cli.values import PICTURE, SEED


class Benchmark(NamedTuple):
    """A benchmark: the module that holds it, whether it emulates a fabric, what it measures, whether it draws a picture, and
    whether its `run` takes a seed (those that emulate)."""

    module: str
    emulated: bool
    help: str
    draws: bool = False
    seeded: bool = False


BENCHMARKS = {
    "latency": Benchmark("bench.coordination.latency", True, "backlog to directive, directive to gate"),
    "conservation": Benchmark("bench.coordination.conservation", True, "link use with and without yields (XCo's Figure 21)"),
    "failure": Benchmark("bench.coordination.failure", True, "the coordinator killed under load"),
    "failover": Benchmark("bench.coordination.failover", True, "the leader killed under load, its standby takes over"),
    "fencing": Benchmark("bench.coordination.fencing", True, "a stopped leader wakes after another has been elected"),
    "store": Benchmark("bench.coordination.store_lost", True, "the store killed, and back empty"),
    "sentinel": Benchmark("bench.coordination.sentinel", True, "the master of three Redis servers killed; a demoted one left"),
    "override": Benchmark("bench.coordination.override", True, "free and coordinate under load"),
    "loss": Benchmark("bench.coordination.loss", True, "20 % of the directives lost"),
    "coflow": Benchmark("bench.karuna.coflow", True, "completion times of coflows in order, against none", seeded=True),
    "coflow-orders": Benchmark("bench.karuna.coflow_orders", False, "orders of coflows on a big switch of fluids"),
    "policies": Benchmark("bench.computing.policies", False, "the scheduler's inner loop, 5 to 5,000 nodes"),
    "thresholds": Benchmark("bench.computing.thresholds", False, "sieving thresholds, their certificate and their rivals"),
    "changing-traffic": Benchmark("bench.karuna.changing_traffic", False, "thresholds after traffic changes", draws=True),
    "regions": Benchmark("bench.computing.regions", False, "what one set of thresholds costs where regions differ"),
    "aggregation": Benchmark("bench.computing.aggregation", False, "size reports of 10,000 hosts added up"),
    "hostile": Benchmark("bench.dashboard.hostile", False, "the page while 2,000 hostile connections are open"),
    "protocol": Benchmark("bench.computing.protocol", False, "encoding, decoding and verifying a frame"),
}


class _Benches(click.Group):
    """Finds `baton bench NAME` in the table of benchmarks, which all take the same options, or among the other commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*BENCHMARKS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(cmd_name, BENCHMARKS[cmd_name]) if cmd_name in BENCHMARKS else super().get_command(ctx, cmd_name)


_OTHERS = {
    "xco": xco,
    "karuna": karuna,
    "both": both,
    "host-control": host_control,
    "fabrics": fabrics,
    "random-flows": random_flows,
    "figures": figures,
    "dashboard": dashboard,
    "scale": scale,
    "fuzz": fuzz,
    "siege": siege,
    "swarm": swarm,
    "agent": agent,
    "switches": switches,
}


@click.group(cls=_Benches, commands=_OTHERS)
def bench() -> None:
    """Measure one thing, and print JSON. The docstring of each benchmark's module (in bench/) describes its method."""


def _command(name: str, chosen: Benchmark) -> click.Command:
    def measure(json_file: Path | None, plot: Path | None = None, seed: int | None = None) -> None:
        make_room(json_file, plot)
        module = importlib.import_module(chosen.module)
        found = module.run() if seed is None else module.run(seed=seed)
        print_json(found, json_file)
        if plot is not None:
            module.draw(found, plot)

    def emulate(json_file: Path | None, time: ExperimentTime, seed: int | None = None) -> None:
        enter(time, json_file, seed=1 if seed is None else seed)
        with in_a_line():
            measure(json_file, seed=seed)

    file = click.Path(path_type=Path, dir_okay=False)
    run = click.option("--json", "json_file", type=file, help="Write the result here, too.")(
        virtual_options(emulate) if chosen.emulated else measure
    )
    if chosen.seeded:
        run = click.option("--seed", type=SEED, default=1, show_default=True, help="Of what is drawn at random.")(run)
    if chosen.draws:
        run = click.option("--plot", type=PICTURE, help="Draw the result into this file (.png or .svg).")(run)
    text = f"{chosen.help[0].upper()}{chosen.help[1:]}."
    return click.command(name, help=text, short_help=chosen.help)(run)
