"""`baton doctor`: the kernel features, programs and libraries of this machine, and what Baton uses instead of missing ones;
with --hosts, what differs between the hosts of the fabric."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.reach import open_store, store_options
from cli.values import refuse

if TYPE_CHECKING:
    from agents.kernel.features import Feature


class Row(NamedTuple):
    """A kernel feature (as in agents.kernel.features), a program or a library that Baton can use."""

    name: str
    kind: str
    present: bool
    instead: str
    improve: str
    version: str = ""


class Program(NamedTuple):
    """A program, the arguments that print its version, what replaces it if it is missing, and its Debian package."""

    name: str
    arguments: tuple[str, ...]
    instead: str
    package: str


PROGRAMS = (
    Program("ovs-vswitchd", ("--version",), "no OpenFlow switches on this machine", "openvswitch-switch"),
    Program("redis-server", ("--version",), "a Redis server on another machine (`store` in the configuration)", "redis-server"),
    Program("clang", ("--version",), "no eBPF programs can be built: the agent can't tell flows apart", "clang"),
    Program("mn", ("--version",), "no emulated fabrics: no demo", "mininet"),
    Program("tc", ("-V",), "nothing: agents need it", "iproute2"),
)
DISTRIBUTIONS = {
    "ryu": "os-ken, with openflow.framework: os-ken",
    "os-ken": "Ryu, with openflow.framework: ryu",
}
FOR_ADMINISTRATORS = "/usr/sbin:/sbin"
"""Where tc and ovs-vswitchd are, and where a user's PATH does not lead on Debian."""
PIPED_WIDTH = 200
"""Of the tables where no terminal shows them: a remedy is one line, to be copied."""
PATIENCE_S = 5.0
LATELY_S = 2.0
"""How long frames must have been refused to count."""


@click.command()
@store_options
@click.option("--hosts", is_flag=True, help="Compare the fabric's hosts instead; exit with 1 if they differ.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def doctor(run_dir: Path, store: str | None, hosts: bool, as_json: bool) -> None:
    """Show what this machine has, what Baton uses instead of what is missing, and what to install.

    Changes nothing. Run it as root to see all kernel features.
    """
    if hosts:
        _compare_hosts(run_dir, store, as_json)
        return
    refuse({"store", "run_dir"}, "has no meaning without --hosts")
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{FOR_ADMINISTRATORS}"
    from agents.kernel.probe import ProbeRefused, probe

    try:
        features = probe()
    except ProbeRefused as error:
        raise click.ClickException(str(error)) from None
    rows = collect(features)
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=1))
    else:
        _show(rows)


def _compare_hosts(run_dir: Path, store: str | None, as_json: bool) -> None:
    from cli.machine import doctor_hosts
    from controller.store.store import StoreUnavailable

    shared = open_store(run_dir, store)
    try:
        before = members = shared.members()
        status, fabric = shared.status(), shared.fabric()
        if any(map(doctor_hosts.refused_by, members.values())):  # at each start switches flood some frames: do they go on?
            time.sleep(max(LATELY_S, 2 * int((status or {}).get("report_ns", 0)) / 1e9))
            members = shared.members()
    except StoreUnavailable as error:
        raise click.ClickException(str(error)) from None
    rows, found = doctor_hosts.rows(members), doctor_hosts.findings(members, status, fabric, before=before)
    if as_json:
        click.echo(json.dumps({"hosts": rows, "findings": [one._asdict() for one in found]}, indent=1))
    else:
        doctor_hosts.show(rows, found)
    sys.exit(bool(found))


def collect(features: Iterable[Feature]) -> list[Row]:
    """The rows of the kernel's features, programs, libraries and what emulations can have; a program that is among the kernel's
    rows gets its version.
    """
    rows = {feature.name: Row(**asdict(feature)) for feature in features}
    for row in (*_programs(), *_libraries(), *_compiled(), _cpu_shares()):
        known = rows.get(row.name)
        rows[row.name] = known._replace(version=row.version) if known else row
    return list(rows.values())


def _programs() -> Iterator[Row]:
    for program in PROGRAMS:
        improve = f"apt install {program.package}"
        path = shutil.which(program.name)
        if path is None:
            yield Row(program.name, "tool", False, program.instead, improve)
            continue
        try:
            answer = subprocess.run([path, *program.arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            yield Row(program.name, "tool", False, f"{path} does not run: {error}", improve)
            continue
        lines = (answer.stdout + answer.stderr).strip().splitlines()
        yield Row(program.name, "tool", True, "", "", lines[0] if lines else "")


def _libraries() -> Iterator[Row]:
    for name, instead in DISTRIBUTIONS.items():
        try:
            yield Row(name, "library", True, "", "", metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Row(name, "library", False, instead, "make setup")


def _compiled() -> Iterator[Row]:
    """The libraries in C. What serves instead of a missing one is in Python."""
    from agents.reflex.slot_state import LIBRARY as SLOTS
    from controller.frames.library import LIBRARY as FRAMES
    from controller.policies.compiled import library as policies
    from controller.priorities.compiled.library import LIBRARY as SHORTEST_PATHS

    for why, name, instead in (
        (
            policies.why_missing(),
            "compiled schedule",
            "turns and rates are planned in Python, in time for some 200 hosts",
        ),
        (
            FRAMES.why_missing(),
            "compiled frames",
            "the coordinator handles frames one by one in Python, in time for some 200 hosts",
        ),
        (
            SHORTEST_PATHS.why_missing(),
            "compiled shortest paths",
            "thresholds of flow sizes are computed by NumPy, more slowly and on a coarser grid",
        ),
        (
            SLOTS.why_missing(),
            "compiled reflex for slots",
            "an agent obeys slots in Python, at three times the processor time",
        ),
    ):
        yield Row(name, "library", not why, f"{instead}: {why}" if why else "", "apt install clang" if why else "")


def _cpu_shares() -> Row:
    from emulation.fabric.cpu_shares import remedy

    improve = remedy()
    instead = "" if not improve else "emulated hosts share the processors without limits (no --cpu-shares)"
    return Row("cpu shares", "emulation", not improve, instead, improve)


def _show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    for kind in dict.fromkeys(row.kind for row in rows):
        names = [row.name for row in rows if row.kind == kind and row.present]
        if names:
            console.print(Text.assemble((f"{kind:<20}", "green"), ", ".join(names)))
    missing = [row for row in rows if not row.present]
    if missing:
        table = Table(title_justify="left", expand=False)
        for name in ("missing", "used instead", "what would be better"):
            table.add_column(name, overflow="fold")
        for row in missing:
            table.add_row(Text(f"{row.kind} {row.name}"), Text(row.instead), Text(row.improve))
        console.print(table)
    for row in rows:
        if row.version:
            console.print(Text.assemble((f"{row.name:<20}", "bold"), row.version))
