"""`baton coflow`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.reach import open_store, store_options, using_store
from cli.values import named, of_option
from protocol.bodies.text import printable
from protocol.units import MILLISECOND_NS
from topology.fabric import natural

if TYPE_CHECKING:
    from controller.coflows.client import CoflowClient
    from controller.store.store import Store


@click.group()
def coflow() -> None:
    """Coflows: groups of flows whose application needs all of them to finish.

    Coflows with a deadline that is admitted go first. The others go by what is left of them where their sizes are known (by
    --flow best, or by --size), and by what they have sent where they are not.
    """


@coflow.command("open")
@store_options
@click.option("--name", default="", help="A description for people.")
@click.option("--deadline", help="The time in which the whole coflow must finish, such as 200ms; at most 4094ms.")
@click.option("--size", help="The total size of its flows, if only that is known, such as 50MB.")
@click.option("--flow", "flows", multiple=True, help="What it sends from host to host, such as h1:h2:5MB. As often as needed.")
def open_(
    run_dir: Path, store: str | None, name: str, deadline: str | None, size: str | None, flows: tuple[str, ...]
) -> None:
    """Open a coflow and print its id. A coflow that is not closed expires after an hour.

    A deadline together with --flow is admitted or refused; a refused one is told why, and the coflow is open without it. It may
    be admitted later, when others end: `baton coflow list` shows that.
    """
    from topology.units import parse_duration, parse_size

    deadline_ns, size_bytes = named("--deadline", deadline, parse_duration), named("--size", size, parse_size)
    deadline_ms = None if deadline_ns is None else -(-deadline_ns // MILLISECOND_NS)
    shared = open_store(run_dir, store)
    with _client(shared) as client:
        known = _flows(shared, flows, "--flow ")
        try:
            opened = client.open(name, deadline_ms=deadline_ms, size_bytes=size_bytes, flows=known)
        except ValueError as error:
            raise click.UsageError(of_option(str(error))) from None
    click.echo(opened.id)
    if opened.verdict is not None and opened.verdict.deadline != "admitted":
        click.echo(f"deadline {opened.verdict.deadline}: {opened.verdict.why}", err=True)


def _flows(store: Store, texts: tuple[str, ...], option: str) -> list[tuple[str, str, int]]:
    """The flows of the command line. Ends the command with an error: one can't be read, or names a host that there is not (as
    far as any are known: a coflow may be opened before the coordinator starts)."""
    members = {member["name"] for member in store.members().values()}
    found = members.union(host["name"] for host in (store.fabric() or {}).get("fabric", {}).get("hosts", ()))
    known = {name for name in found if ":" not in name}  # a name with colons, of a switch's port, can't be written here
    flows = []
    for text in texts:
        try:
            flows.append(_flow(text, known))
        except ValueError as error:
            raise click.UsageError(f"{option}{text}: {error}") from None
    return flows


def _flow(text: str, known: set[str]) -> tuple[str, str, int]:
    from controller.coflows.coflow import checked_flows
    from topology.units import parse_size

    parts = text.split(":")
    if len(parts) != 3:
        raise ValueError("is not SOURCE:DESTINATION:BYTES; write h1:h2:5MB")
    flow = parts[0], parts[1], parse_size(parts[2])
    try:
        checked_flows([flow])
    except ValueError as error:
        raise ValueError(str(error).partition(": ")[2]) from None
    for host in flow[:2]:
        if known and host not in known:
            raise ValueError(f"no host is called {host}; hosts are {', '.join(sorted(known, key=natural))}")
    return flow


@coflow.command()
@store_options
@click.argument("id_", metavar="ID", type=int)
@click.argument("flows", metavar="SOURCE:DESTINATION:BYTES...", nargs=-1, required=True)
def add(run_dir: Path, store: str | None, id_: int, flows: tuple[str, ...]) -> None:
    """Tell of more flows of an open coflow, such as h1:h2:5MB."""
    shared = open_store(run_dir, store)
    with _client(shared) as client:
        part = client.find(id_)
        more = _flows(shared, flows, "")
        try:
            found = part.add_all(more)
        except ValueError as error:
            raise click.UsageError(str(error).removeprefix("flows: ")) from None
    click.echo(f"coflow {id_} has {sum(flow.size_bytes for flow in found)} bytes between {len(found)} pairs of hosts")


@coflow.command()
@store_options
@click.argument("id_", metavar="ID", type=int)
def close(run_dir: Path, store: str | None, id_: int) -> None:
    """Close a coflow: the others go on without it."""
    with _client(open_store(run_dir, store)) as client:
        client.find(id_).close()
    click.echo(f"coflow {id_} is closed")


@coflow.command("list")
@store_options
@using_store()
def list_(run_dir: Path, store: str | None) -> None:
    """Show the open coflows in their order: the queue of each, what its place goes by, and whether its deadline is kept."""
    shared = open_store(run_dir, store)
    found, now_ns = shared.coflows(), shared.time_ns()
    told = {entry["id"]: (at, entry) for at, entry in enumerate((shared.status() or {}).get("coflow_order", ()))}
    if not found:
        click.echo("no coflow is open")
        return
    row = "{:>7}  {:>5}  {:>12}  {:>10}  {:>8}  {:>9}  {:>12}  {:>12}  {}"
    click.echo(row.format("id", "queue", "by", "open for", "due in", "deadline", "bytes", "sent", "name"))
    last = len(told)
    for number, entry in sorted(found.items(), key=lambda item: (told.get(item[0], (last,))[0], item[1]["opened_ns"], item[0])):
        due_ns, flows = entry["deadline_ns"], entry.get("flows", ())
        size = sum(flow[2] for flow in flows) if flows else entry["size_bytes"]
        place = told[number][1] if number in told else {"queue": "-", "by": "-", "sent_bytes": "-"}
        verdict = entry.get("verdict", {"deadline": "-", "why": ""})
        due = "-" if due_ns is None else "late" if due_ns <= now_ns else _milliseconds(due_ns - now_ns)
        age = _milliseconds(now_ns - entry["opened_ns"])
        size_text = "-" if size is None else size
        said = printable(entry["name"])
        shown = (place["queue"], place["by"], age, due, verdict["deadline"], size_text, place["sent_bytes"], said)
        click.echo(row.format(number, *shown))
        if verdict["deadline"] == "refused":
            click.echo(f"         refused: {verdict['why']}")


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
    with _client(open_store(run_dir, store)) as client:
        part = client.find(id_)
    own = CoflowMark(part.id)
    try:
        flow = FlowMark(named("--size", size, parse_size))
    except ValueError as error:
        raise click.UsageError(of_option(str(error))) from None
    if part.deadline_ns is None:
        run_marked(command, own)
    run_marked(command, flow, deadline_ns=max(1, part.deadline_ns), late=own)


@contextmanager
def _client(store: Store) -> Iterator[CoflowClient]:
    from controller.coflows.client import CoflowClient, NotOpen

    try:
        with using_store():
            yield CoflowClient(store)
    except NotOpen as error:
        raise click.ClickException(str(error)) from None


def _milliseconds(duration_ns: int) -> str:
    return f"{duration_ns // MILLISECOND_NS} ms"
