"""`baton mark`."""

from __future__ import annotations

import click

from cli.values import named, of_option
from protocol.units import MILLISECOND_NS


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--size", help="How much a connection will send, such as 5MB; at most 1048575 KiB.")
@click.option("--deadline", help="The time in which a connection must finish, such as 20ms; at most 4094ms.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def mark(size: str | None, deadline: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND, and tell Baton the size and deadline of every connection that it makes.

    COMMAND itself needs no change: Baton marks its sockets as they are made. Exits with COMMAND's exit status.
    """
    from cli.hosts.marked import run_marked
    from protocol.flowmark import FlowMark
    from topology.units import parse_duration, parse_size

    if size is None and deadline is None:
        raise click.UsageError("nothing to mark; give --size, --deadline or both")
    deadline_ns, size_bytes = named("--deadline", deadline, parse_duration), named("--size", size, parse_size)
    try:
        flow = FlowMark(size_bytes, None if deadline_ns is None else -(-deadline_ns // MILLISECOND_NS))
    except ValueError as error:
        raise click.UsageError(of_option(str(error))) from None
    run_marked(command, flow)
