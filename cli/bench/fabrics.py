"""`baton bench fabrics`: traffic of several kinds on fabrics of several tiers, under each policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.experiment_time import ExperimentTime, enter, parse_link_rate, parse_slice, virtual_options
from cli.experiments import in_a_line, make_console, print_outcome, progress_bar
from cli.values import PICTURE, SEED, Number, refuse

if TYPE_CHECKING:
    from rich.console import Console

    from bench.record import Experiment, Tell

FILE: click.Path = click.Path(path_type=Path, dir_okay=False)
SHAPES = ("three-tier", "leaf-spine", "racks")
PATTERNS = ("one-receiver", "several-bottlenecks")
CONTROLS = ("cubic", "bbr", "reno", "dctcp")
VIRTUAL_RATE, REAL_TIME_RATE = "1gbit", "100mbit"
TRACE_NS = 5_000_000


@click.command(short_help="every policy on fabrics of several tiers, beside max-min fairness")
@click.option("--shape", type=click.Choice(SHAPES), default=SHAPES[0], show_default=True)
@click.option("--pattern", "patterns", type=click.Choice(PATTERNS), multiple=True, help="Of the traffic.  [default: each]")
@click.option("--policies", help="Such as uncoordinated,timeslice.  [default: uncoordinated,free,rate_limit,timeslice,auto]")
@click.option("--rate", "rate_text", help="Of a host's link.  [default: 1gbit, or 100mbit in real time]")
@click.option("--above", "above_text", help="Rate of all links between switches.  [default: mixed, 1.5 and 2 times a host's]")
@click.option("--rtt", "rtt_texts", multiple=True, help="Round trip between hosts, such as 500us; may be repeated.")
@click.option(
    "--congestion-control",
    "controls",
    type=click.Choice(CONTROLS),
    multiple=True,
    help="Of all TCP; may be repeated.  [default: cubic]",
)
@click.option("--connections", type=click.IntRange(1, 8), default=1, show_default=True, help="Of each TCP flow.")
@click.option("--slice", "slice_text", help="[default: 2ms, or 5ms in real time]")
@click.option("--seconds", type=Number(0.2), help="Of each measurement.  [default: 2, or 12 in real time]")
@click.option("--trace", is_flag=True, help="Add samples of TCP connections and queues, and all slots, to the record.")
@click.option("--clients", is_flag=True, help="In place of patterns: iperf3, wget, scp and ping beside a flood.")
@click.option("--json", "json_file", type=FILE, help="Write the record here.")
@click.option("--plot", type=PICTURE, help="Draw the figure here (PNG or SVG).")
@click.option("--quick", is_flag=True, help="Shorter runs.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of all random numbers, in virtual time.")
@virtual_options
def fabrics(
    shape: str,
    patterns: tuple[str, ...],
    policies: str | None,
    rate_text: str | None,
    above_text: str | None,
    rtt_texts: tuple[str, ...],
    controls: tuple[str, ...],
    connections: int,
    slice_text: str | None,
    seconds: float | None,
    trace: bool,
    clients: bool,
    json_file: Path | None,
    plot: Path | None,
    quick: bool,
    seed: int,
    time: ExperimentTime,
) -> None:
    """Run UDP floods and TCP flows on a fabric with mixed rates and redundant links, under each policy.

    Patterns: one-receiver, where all send to one host; several-bottlenecks, where flows cross several contended links and one
    wants little. Every flow's goodput stands beside its max-min share.
    """
    if clients:
        refuse({"patterns", "connections", "trace"}, "has no meaning with --clients")
        if len(rtt_texts) > 1 or len(controls) > 1:
            raise click.UsageError("--clients measures one round trip and one congestion control; give one of each at most")
    if rtt_texts and not time.virtual:
        raise click.UsageError("--rtt needs --virtual: the machine's own kernel may have no netem")
    round_trips = tuple(dict.fromkeys(parse_duration_of(text, "--rtt") for text in rtt_texts)) or (0,)
    rate_bps = parse_rate_of(rate_text or (VIRTUAL_RATE if time.virtual else REAL_TIME_RATE), time, "--rate")
    above_bps = None if above_text is None else parse_rate_of(above_text, time, "--above")
    slice_ns = parse_slice(slice_text or ("2ms" if time.virtual else "5ms"))
    enter(time, json_file, plot, seed=seed)
    from bench.fabrics import clients as programs
    from bench.fabrics import experiment

    chosen = tuple(policies.split(",")) if policies else ()
    try:
        experiment.policies(chosen)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--policies") from None
    options = experiment.Options(
        shape=shape,
        patterns=patterns or PATTERNS,
        policies=chosen,
        rate_bps=rate_bps,
        above_bps=above_bps,
        round_trips_ns=round_trips,
        controls=tuple(dict.fromkeys(controls)) or ("cubic",),
        connections=connections,
        slice_ns=slice_ns,
        seconds=seconds or ((1.0 if quick else 2.0) if time.virtual else (5.0 if quick else 12.0)),
        warmup_s=(0.5 if quick else 1.0) if time.virtual else 3.0,
        trace_ns=TRACE_NS if trace else 0,
        quick=quick,
        seed=seed,
    )
    console, module = make_console(), programs if clients else experiment
    measure(console, lambda tell: module.run(options, tell, Printer(console)), experiment.draw, json_file, plot)


def measure(
    console: Console,
    run: Callable[[Tell], Experiment],
    draw: Callable[[Experiment, Path], None],
    json_file: Path | None,
    plot: Path | None,
) -> None:
    """Runs an experiment under a progress bar, prints its verdict, and writes its record and picture where they are wanted."""
    from bench.record import write

    with in_a_line():
        with progress_bar(console) as (tell, _):
            found = run(tell)
        for line in ("", f"{found.record['title']}: {found.record['scale']}", found.record["verdict"]):
            console.print(line, highlight=False, soft_wrap=True)
        written = write(found, json_file) if json_file is not None else []
        if plot is not None:
            draw(found, plot)
            written.append(plot)
    print_outcome(console, written, found.record)


def parse_rate_of(text: str, time: ExperimentTime, option: str) -> int:
    """A link's rate on the command line, bit/s. Raises click.BadParameter, which names the option."""
    try:
        return parse_link_rate(text, time)
    except click.BadParameter as error:
        error.param_hint = option
        raise


def parse_duration_of(text: str, option: str) -> int:
    """A duration on the command line, ns. Raises click.BadParameter, which names the option."""
    from topology.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


class Printer:
    """Prints a line for each run as it is measured, and a heading before the first one of a pattern on a fabric."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._heading = ""

    def __call__(self, run: dict[str, Any]) -> None:
        """Prints one run."""
        ideal = " ".join(f"{flow['source']} {flow['ideal_mbps']:.0f}" for flow in run["flows"])
        where = f"{run['pattern']}, round trip {run['round_trip_us']:g} us, {run['congestion_control']}; ideal Mb/s: {ideal}"
        heading = f"\n{where}\n{'':14}{'sum':>6}{'of ideal':>9}{'least':>6}{'Jain':>7}{'drops':>8}{'ping p50':>9}{'p99':>7}"
        heading += f"{'lost':>5}{'slots':>7}{'yields':>7}{'late':>6}  each flow, Mb/s"
        if heading != self._heading:
            self._heading = heading
            self._print(heading)
        p50, p99 = (run["rtt_ms"][name] for name in ("p50", "p99"))
        rates = " ".join(f"{flow['goodput_mbps']:.0f}" for flow in run["flows"])
        self._print(
            f"{run['policy']:14}{run['goodput_mbps']:>6.0f}{run['of_ideal']:>9.1%}{run['least_of_ideal']:>6.0%}"
            f"{run['jain_of_ideal']:>7.3f}{run['drop_share']:>8.2%}{_ms(p50):>9}{_ms(p99):>7}{run['pings']['lost']:>5}"
            f"{run['slots']:>7}{run['yields']:>7}{run['late_slots']:>6}  {rates}"
        )
        if "longest_stall_ms" in run:
            stalls = ", ".join(f"{flow['kind']} {flow['longest_stall_ms']:.0f}" for flow in run["flows"][1:])
            self._print(f"{'':14}longest stalls, ms: {stalls}; nobody looked for {run['unseen_ms']:.0f} ms")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


def _ms(time_ms: float | None) -> str:
    return "-" if time_ms is None else f"{time_ms:.2f}"
