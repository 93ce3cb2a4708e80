"""`baton bench random-flows`: TCP flows that come at random on a fabric of several tiers, under each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.bench.fabrics import CONTROLS, REAL_TIME_RATE, SHAPES, VIRTUAL_RATE, measure, parse_duration_of, parse_rate_of
from cli.experiment_time import ExperimentTime, enter, parse_slice, virtual_options
from cli.experiments import make_console
from cli.values import PICTURE, SEED, Number

if TYPE_CHECKING:
    from rich.console import Console

FILE: click.Path = click.Path(path_type=Path, dir_okay=False)


@click.command(short_help="how long random TCP flows take under each policy, beside max-min fair fluids")
@click.option("--shape", type=click.Choice(SHAPES), default=SHAPES[0], show_default=True)
@click.option(
    "--receivers", type=click.Choice(["all", "one"]), default="all", show_default=True, help="All hosts, or one: the last."
)
@click.option(
    "--load", type=Number(0.01, 0.95), default=0.4, show_default=True, help="Of each link that leads to a receiver."
)
@click.option("--workload", default="web_search", show_default=True, help="Sizes, in emulation/cdfs.")
@click.option("--policies", default="uncoordinated,auto", show_default=True)
@click.option("--rate", "rate_text", help="Of a host's link.  [default: 1gbit, or 100mbit in real time]")
@click.option("--rtt", "rtt_text", help="Round trip between hosts, such as 500us.")
@click.option("--congestion-control", "control", type=click.Choice(CONTROLS), default="cubic", show_default=True)
@click.option("--slice", "slice_text", help="[default: 2ms, or 5ms in real time]")
@click.option("--seconds", type=Number(0.2), help="Of the arrivals that are measured.  [default: 3, or 12 in real time]")
@click.option("--json", "json_file", type=FILE, help="Write the record here, and each flow beside it.")
@click.option("--plot", type=PICTURE, help="Draw the figure here (PNG or SVG).")
@click.option("--quick", is_flag=True, help="A third of the arrivals.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the flows.")
@virtual_options
def random_flows(
    shape: str,
    receivers: str,
    load: float,
    workload: str,
    policies: str,
    rate_text: str | None,
    rtt_text: str | None,
    control: str,
    slice_text: str | None,
    seconds: float | None,
    json_file: Path | None,
    plot: Path | None,
    quick: bool,
    seed: int,
    time: ExperimentTime,
) -> None:
    """Run TCP flows of a published workload, which come at random, on a fabric of several tiers, and tell how long they take.

    Mean and p99 of the completion times stand beside those of fluids that share every link max-min fairly.
    """
    if rtt_text and not time.virtual:
        raise click.UsageError("--rtt needs --virtual: the machine's own kernel may have no netem")
    round_trip_ns = parse_duration_of(rtt_text, "--rtt") if rtt_text else 0
    rate_bps = parse_rate_of(rate_text or (VIRTUAL_RATE if time.virtual else REAL_TIME_RATE), time, "--rate")
    slice_ns = parse_slice(slice_text or ("2ms" if time.virtual else "5ms"))
    enter(time, json_file, plot, seed=seed)
    from bench.fabrics import experiment
    from bench.fabrics import random_flows as measured
    from emulation import cdfs

    chosen = tuple(policies.split(","))
    for option, check in (("--policies", lambda: experiment.policies(chosen)), ("--workload", lambda: cdfs.load(workload))):
        try:
            check()
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=option) from None
    options = measured.Options(
        shape=shape,
        receivers=receivers,
        load=load,
        workload=workload,
        policies=chosen,
        rate_bps=rate_bps,
        round_trip_ns=round_trip_ns,
        control=control,
        slice_ns=slice_ns,
        seconds=(seconds or (3.0 if time.virtual else 12.0)) / (3 if quick else 1),
        warmup_s=1.0 if time.virtual else 3.0,
        quick=quick,
        seed=seed,
    )
    console = make_console()
    measure(console, lambda tell: measured.run(options, tell, Printer(console)), measured.draw, json_file, plot)


class Printer:
    """Prints a line for each run as it is measured, and a heading before the first one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._headed = False

    def __call__(self, run: dict[str, Any]) -> None:
        """Prints one run."""
        classes = run["completion"]
        if not self._headed:
            self._headed = True
            sizes = (f"{name} ({found['flows']})" for name, found in classes.items())
            heading = "".join(f"{text:>26}" for text in sizes)
            self._print(f"{'mean, p99 in ms':16}{heading}{'incomplete':>12}{'retransmits':>12}{'drops':>7}")
        times = "".join(f"{_ms(found['mean_ms']) + ', ' + _ms(found['p99_ms']):>26}" for found in classes.values())
        counts = f"{run['retransmits']:>12}{run['drops']:>7}" if "drops" in run else ""
        self._print(f"{run['policy']:16}{times}{classes['all']['incomplete']:>12}{counts}")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


def _ms(time_ms: float | None) -> str:
    return "-" if time_ms is None else f"{time_ms:.1f}"
