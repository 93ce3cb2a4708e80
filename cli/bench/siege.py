"""`baton bench siege`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bench.siege.rates import HTTP_CONNECTIONS, KINDS
from cli.experiment_time import make_room
from cli.experiments import enter_box, in_a_line, make_console, print_outcome, progress_bar, require_root, write_text
from cli.values import Number, refuse

QUICK_S = 10.0


@click.command(short_help="coordination while all floods come at once")
@click.option("--seconds", type=Number(2.0), default=60.0, show_default=True, help="Of each of the three phases.")
@click.option("--quick", is_flag=True, help=f"Phases of {QUICK_S:g} s.")
@click.option("--factor", type=Number(0.0), default=1.0, show_default=True, help="Of the floods' rates.")
@click.option("--only", type=click.Choice(KINDS), multiple=True, help="Only this flood; may be repeated.  [default: all]")
@click.option(
    "--connections", type=click.IntRange(0, 4_000), default=HTTP_CONNECTIONS, show_default=True, help="To the web server."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result here, too.")
def siege(
    seconds: float, quick: bool, factor: float, only: tuple[str, ...], connections: int, json_file: Path | None
) -> None:
    """Measure a loaded fabric undisturbed, beside harmless frames, and under all floods at once.

    Rates are for two processors: bench/siege/rates.py lists them. Exits with 1 if a target was missed.
    """
    if quick:
        refuse({"seconds"}, "is what --quick itself sets")
    make_room(json_file)
    require_root()
    enter_box()
    from bench.siege.siege import Options, run

    console = make_console()
    options = Options(QUICK_S if quick else seconds, factor, only or KINDS, connections)
    with in_a_line(), progress_bar(console) as (tell, _):
        record = run(options, tell)
    write_text(json.dumps(record, indent=1), json_file)
    for line in table(record):
        console.print(line, highlight=False, soft_wrap=True)
    shown = {"runs": list(record["phases"].values()), "confidence": record["confidence"]}
    print_outcome(console, [] if json_file is None else [json_file], shown)
    if not all(verdict["holds"] for verdict in record["verdicts"]):
        raise click.ClickException("a target was missed")


def table(record: dict[str, Any]) -> list[str]:
    """The phases, what came and was refused, the processes, the verdicts; a line each."""
    lines = [f"{'':12}{'Mb/s':>8}{'slots':>8}{'late':>7}{'pings lost':>12}{'page p50':>10}{'p99':>8}  ms"]
    for name, phase in record["phases"].items():
        pings, page = phase["pings"], phase["page_ms"]
        lines.append(
            f"{name:12}{phase['goodput_mbps']:8.1f}{phase['slots']:8}{phase['late_slots']:7}"
            f"{pings['lost']:6} of {pings['sent']:<5}{page['p50'] or 0:8.0f}{page['p99'] or 0:8.0f}"
        )
    lines.append("sent: " + ", ".join(f"{kind} {count}" for kind, count in sorted(record["sent"].items())))
    lines.append("refused: " + ", ".join(f"{cause} {count}" for cause, count in record["refused"].items()))
    lines.append("events: " + ", ".join(f"{kind} {count}" for kind, count in sorted(record["events"].items())))
    for name, found in record["processes"].items():
        memory, descriptors = found["memory"], found["descriptors"]
        cpu = "/".join(f"{100 * phase['cpu'].get(name, 0.0):.0f}" for phase in record["phases"].values())
        lines.append(
            f"{name:14}{memory['begin_mb']:7.1f} to {memory['end_mb']:6.1f} MB, {memory['slope_mb_min']:+6.2f} MB/min; {cpu} % "
            f"of a processor; descriptors {descriptors['begin']}, at most {descriptors['most']}, {descriptors['after']} after"
        )
    lines += record["logs"]
    for verdict in record["verdicts"]:
        held = "held" if verdict["holds"] else "MISSED"
        lines.append(f"{held:7}{verdict['target']}: {verdict['found']} (wanted {verdict['wanted']})")
    return lines
