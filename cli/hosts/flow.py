"""`baton flow`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.reach import Command
from cli.values import named, of_option
from protocol.units import MILLISECOND_NS

if TYPE_CHECKING:
    from agents.guests.client import MarkClient


def agent_options(command: Command) -> Command:
    """Adds the options that say which agent is asked."""
    command = click.option("--interface", help="Ask on the host: the agent's interface, if there are several agents.")(command)
    command = click.option(
        "--run-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("/run/baton"),
        show_default=True,
        help="Ask on the host: the agent's run directory.",
    )(command)
    return click.option("--agent", help="Ask from within a guest: an address of the host's bridge, such as 10.0.0.1[:6652].")(
        command
    )


@click.group()
def flow() -> None:
    """Marks for flows of guests (VMs, containers) behind the bridge of a host, by address and port.

    Run it within the guest with --agent, or on the host, as root. For programs on the host itself there is `baton mark`.
    """


@flow.command()
@click.option("--from", "source", metavar="ADDR[:PORT]", help="The sender, a guest.  [default with --agent: this guest]")
@click.option("--to", "target", metavar="ADDR[:PORT]", required=True, help="The receiver, such as 10.0.0.9:5432.")
@click.option("--size", help="How much each connection will send, such as 5MB; at most 1048575 KiB.")
@click.option("--deadline", help="The time in which each must finish, such as 20ms; at most 4094ms.")
@click.option("--for", "duration", default="10s", show_default=True, help="How long the mark is held; at most 1h.")
@agent_options
def mark(
    source: str | None, target: str, size: str | None, deadline: str | None, duration: str,
    agent: str | None, run_dir: Path, interface: str | None,
) -> None:  # fmt: skip
    """Announce the size or the deadline of a guest's flows to the agent of its host."""
    from topology.units import parse_duration, parse_size

    if size is None and deadline is None:
        raise click.UsageError("nothing to mark; give --size, --deadline or both")
    fields: dict[str, Any] = {"do": "mark", "to": target}
    if (size_bytes := named("--size", size, parse_size)) is not None:
        fields["size_bytes"] = size_bytes
    for option, text, field in (("--deadline", deadline, "deadline_ms"), ("--for", duration, "for_ms")):
        if (duration_ns := named(option, text, parse_duration)) is not None:
            fields[field] = -(-duration_ns // MILLISECOND_NS)
    told = _ask(fields, source, agent, run_dir, interface)["marked"]
    click.echo(_described(told))


@flow.command()
@click.option("--from", "source", metavar="ADDR[:PORT]", help="The sender, a guest.  [default with --agent: this guest]")
@click.option("--to", "target", metavar="ADDR[:PORT]", required=True, help="The receiver, as it was marked.")
@agent_options
def unmark(source: str | None, target: str, agent: str | None, run_dir: Path, interface: str | None) -> None:
    """Take a mark away before it expires."""
    _ask({"do": "unmark", "to": target}, source, agent, run_dir, interface)


@flow.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the agent's answer.")
@agent_options
def list_(as_json: bool, agent: str | None, run_dir: Path, interface: str | None) -> None:
    """Show the marks that are held, and on the host what expired and what was refused."""
    told = _ask({"do": "status"}, None, agent, run_dir, interface)
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    for one in told["marks"]:
        click.echo(_described(one))
    if (more := told["held"] - len(told["marks"])) > 0:
        click.echo(f"and {more} more")
    ended = f", {told['expired']} expired, {told['removed']} removed" if "expired" in told else ""
    click.echo(f"{told['held']} held{ended}")
    if refusals := told.get("refusals"):
        click.echo("refused: " + ", ".join(f"{count} {cause}" for cause, count in refusals.items()))


def _described(told: dict[str, Any]) -> str:
    parts = [f"deadline {told['deadline_ms']} ms"] if "deadline_ms" in told else []
    parts += [f"size {told['size_bytes']:,} bytes"] if "size_bytes" in told else []
    return f"{told['from']} -> {told['to']}: {', '.join(parts)}, for {told['for_ms'] / 1000:g} s"


def _ask(fields: dict[str, Any], source: str | None, agent: str | None, run_dir: Path, interface: str | None) -> dict[str, Any]:
    """The agent's answer; a refusal or silence ends the command with its reason."""
    from agents.guests.client import NoAnswer

    if source is not None:
        fields["from"] = source
    try:
        with _client(agent, source, run_dir, interface) as client:
            answer = client.ask(fields)
    except NoAnswer as error:
        raise click.ClickException(error.strerror or str(error)) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if "refused" in answer:
        raise click.ClickException(of_option(str(answer.get("why", answer["refused"]))))
    return answer


def _client(agent: str | None, source: str | None, run_dir: Path, interface: str | None) -> MarkClient:
    from agents.guests.client import MarkClient, NoAnswer
    from agents.guests.flows import parse_end
    from agents.guests.requests import PORT
    from agents.guests.sockets import operator_socket

    if agent is not None:
        address, port = parse_end("--agent", agent)
        return MarkClient.of_guest(address, port or PORT, parse_end("--from", source)[0] if source is not None else None)
    found = sorted(run_dir.glob(operator_socket(run_dir, interface or "*").name))
    if not found:
        raise NoAnswer(0, f"{run_dir}: no agent with --guests runs here; within a guest, name it by --agent")
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} agents run here; name one by --interface")
    return MarkClient.of_operator(found[0])
