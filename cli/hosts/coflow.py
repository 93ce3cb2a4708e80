"""`baton coflow`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.reach import open_store, store_options
from protocol.units import MILLISECOND_NS

if TYPE_CHECKING:
    from controller.priorities.coflow_client import CoflowClient


@click.group()
def coflow() -> None:
    """Coflows: groups of flows whose application needs all of them to finish.

    Coflows with a deadline go first. The others go in the order in which they were opened; a heavy one shares with the next.
    """


@coflow.command("open")
@store_options
@click.option("--name", default="", help="A description for people.")
@click.option("--deadline", help="The time in which the whole coflow must finish, such as 200ms; at most 4094ms.")
@click.option("--size", help="The total size of its flows, if it is known, such as 50MB.")
def open_(run_dir: Path, store: str | None, name: str, deadline: str | None, size: str | None) -> None:
    """Open a coflow and print its id. A coflow that is not closed expires after an hour."""
    from topology.units import parse_duration, parse_size

    with _client(run_dir, store) as client:
        try:
            deadline_ms = None if deadline is None else -(-parse_duration(deadline) // MILLISECOND_NS)
            size_bytes = None if size is None else parse_size(size)
            opened = client.open(name, deadline_ms=deadline_ms, size_bytes=size_bytes)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    click.echo(opened.id)


@coflow.command()
@store_options
@click.argument("id_", metavar="ID", type=int)
def close(run_dir: Path, store: str | None, id_: int) -> None:
    """Close a coflow: the next one moves up, and flows that the closed one still sends go last."""
    with _client(run_dir, store) as client:
        client.find(id_).close()


@coflow.command("list")
@store_options
def list_(run_dir: Path, store: str | None) -> None:
    """Show the open coflows in their order."""
    from controller.store.store import StoreUnavailable

    shared = open_store(run_dir, store)
    try:
        found, now_ns = shared.coflows(), shared.time_ns()
    except StoreUnavailable as error:
        raise click.ClickException(str(error)) from None
    row = "{:>7}  {:>10}  {:>8}  {:>12}  {}"
    click.echo(row.format("id", "open for", "due in", "bytes", "name"))
    for number, entry in sorted(found.items(), key=lambda item: (item[1]["opened_ns"], item[0])):
        due_ns, size = entry["deadline_ns"], entry["size_bytes"]
        due = "-" if due_ns is None else "late" if due_ns <= now_ns else _milliseconds(due_ns - now_ns)
        age = _milliseconds(now_ns - entry["opened_ns"])
        click.echo(row.format(number, age, due, "-" if size is None else size, entry["name"]))


@coflow.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@store_options
@click.option("--size", help="How much each connection will send, such as 5MB; for a coflow with a deadline.")
@click.argument("id_", metavar="ID", type=int)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run_(run_dir: Path, store: str | None, size: str | None, id_: int, command: tuple[str, ...]) -> None:
    """Run COMMAND as a part of a coflow: every connection that it makes belongs to the coflow.

    COMMAND itself needs no change: Baton marks its sockets as they are made. Exits with COMMAND's exit status.
    """
    from cli.hosts.marked import run_marked
    from protocol.flowmark import CoflowMark, FlowMark
    from topology.units import parse_size

    command = command[command[0] == "--" :]
    if not command:
        raise click.UsageError("nothing to run; write a command after --")
    with _client(run_dir, store) as client:
        part = client.find(id_)
    own = CoflowMark(part.id)
    try:
        flow = FlowMark(None if size is None else parse_size(size))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if part.deadline_ns is None:
        run_marked(command, own)
    run_marked(command, flow, deadline_ns=max(1, part.deadline_ns), late=own)


@contextmanager
def _client(run_dir: Path, url: str | None) -> Iterator[CoflowClient]:
    from controller.priorities.coflow_client import CoflowClient, NotOpen
    from controller.store.store import StoreUnavailable

    try:
        yield CoflowClient(open_store(run_dir, url))
    except (StoreUnavailable, NotOpen) as error:
        raise click.ClickException(str(error)) from None


def _milliseconds(duration_ns: int) -> str:
    return f"{duration_ns // MILLISECOND_NS} ms"
