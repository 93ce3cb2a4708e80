"""Runs a command with marked sockets, for `baton mark` and `baton coflow run`."""

from __future__ import annotations

import errno
import sys
from typing import NoReturn

import click

from protocol.flowmark import CoflowMark, FlowMark

NOT_FOUND = 127
"""The exit status for a command that does not exist, as in shells."""


def run_marked(
    command: tuple[str, ...],
    mark: FlowMark | CoflowMark,
    *,
    deadline_ns: int = 0,
    late: CoflowMark | None = None,
) -> NoReturn:
    """Runs the command and exits with its status; `deadline_ns` and `late` are those of `agents.priorities.marked_run.run`."""
    from agents.priorities.marked_run import run
    from ebpf.build import BuildError

    try:
        sys.exit(run(command, mark, deadline_ns=deadline_ns, late=late))
    except BuildError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        if error.errno == errno.ENOENT and error.filename == command[0]:
            click.echo(f"Error: {command[0]}: there is no such command", err=True)
            sys.exit(NOT_FOUND)
        where = f"{error.filename}: " if error.filename else ""
        remedy = "; run this as root" if error.errno == errno.EPERM else ""
        raise click.ClickException(f"{where}{error.strerror or error}{remedy}") from None
