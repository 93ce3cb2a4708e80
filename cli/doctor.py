"""`baton doctor`: what this machine offers, what is used instead of what it lacks, and what would be
better."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import click


class Row(NamedTuple):
    """One thing that Baton can use: as agents.kernel has it, and the same for programs and rights."""

    name: str
    present: bool
    instead: str
    improve: str
    version: str = ""


class Program(NamedTuple):
    """A program, how it tells its version, what is done without it, and the Debian package that has it."""

    name: str
    arguments: tuple[str, ...]
    instead: str
    package: str


PROGRAMS = (
    Program("ovs-vswitchd", ("--version",), "no OpenFlow switches on this machine", "openvswitch-switch"),
    Program(
        "redis-server", ("--version",), "a Redis elsewhere, by store in the configuration", "redis-server"
    ),
    Program("clang", ("--version",), "no eBPF programs can be built: flows are not told apart", "clang"),
    Program("mn", ("--version",), "no emulated fabrics: no demo", "mininet"),
    Program("tc", ("-V",), "nothing: agents need it", "iproute2"),
)
DISTRIBUTIONS = {"ryu": "os-ken, by openflow.framework", "os-ken": "Ryu, by openflow.framework"}
LATEST_PRIORITY = 40
PATIENCE_S = 5.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def doctor(as_json: bool) -> None:
    """Say what was found, what is used instead of what is missing, and what to install for better.

    Changes nothing; as root it sees all of the kernel.
    """
    from agents import kernel

    rows = [Row(*(getattr(feature, name) for name in Row._fields[:4])) for feature in kernel.probe()]
    rows += [*_programs(), *_distributions(), _realtime()]
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=1))
    else:
        _show(rows)


def _programs() -> Iterator[Row]:
    for program in PROGRAMS:
        improve = f"apt-get install {program.package}"
        if (path := shutil.which(program.name)) is None:
            yield Row(program.name, False, program.instead, improve)
            continue
        try:
            answer = subprocess.run(
                [path, *program.arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
            )
            lines = (answer.stdout + answer.stderr).strip().splitlines()
        except (OSError, subprocess.TimeoutExpired) as error:
            yield Row(program.name, False, f"{path} does not run: {error}", improve)
            continue
        yield Row(program.name, True, "", "", lines[0] if lines else "")


def _distributions() -> Iterator[Row]:
    for name, instead in DISTRIBUTIONS.items():
        try:
            yield Row(name, True, "", "", metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Row(name, False, instead, "make setup")


def _realtime() -> Row:
    """Whether a real-time priority may be taken, tried in a child that changes nothing here."""
    child = os.fork()
    if child == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(LATEST_PRIORITY))
        except OSError:
            os._exit(1)
        os._exit(0)
    allowed = os.waitpid(child, 0)[1] == 0
    runtime = Path("/proc/sys/kernel/sched_rt_runtime_us").read_text().strip()
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    improve = "run as root, or give CAP_SYS_NICE (systemd: AmbientCapabilities=CAP_SYS_NICE)"
    return Row(
        "real-time priority",
        allowed,
        "" if allowed else "normal priority: slots may come late on a busy machine",
        "" if allowed else improve,
        f"limit {limit}, sched_rt_runtime_us {runtime}",
    )


def _show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "found", "used instead", "for better")
    for row in rows:
        mark: Any = Text("yes", style="green") if row.present else Text("no", style="yellow")
        found = f"{row.name}: {row.version}" if row.version else row.name
        table.add_row(mark, Text(found), Text(row.instead), Text(row.improve))
    Console().print(table)
