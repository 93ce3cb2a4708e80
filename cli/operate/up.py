"""`baton up` and `baton down`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import click

from controller.supervision import runstate
from controller.supervision.runstate import DEFAULT_RUN_DIR, NothingUp

DEFAULT_CONFIG = Path("/etc/baton/baton.yaml")
"""As controller.config.schema has it; that module is slow to import, so `baton up --help` does without."""


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_CONFIG,
    show_default=True,
    help="The YAML file; docs/operating.md explains every field, `baton check FILE` checks one.",
)
@click.option("--framework", type=click.Choice(["ryu", "os-ken"]), help="Instead of the file's openflow.framework.")
@click.option(
    "--foreground/--detach",
    default=False,
    help="Stay in the foreground until a signal comes (for systemd); or return when up.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Be the second of two controllers that share a store (`store:` is its URL), and lead when the first one is gone.",
)
def up(config: Path, framework: str | None, foreground: bool, standby: bool) -> None:
    """Bring up the controller side: store, OpenFlow application, coordinator.

    It is supervised: what ends is started again. A changed file, or SIGHUP, reloads the configuration; a
    bad file keeps the last good one, and says so here (in the foreground), in `baton status` and in the
    events.
    """
    if foreground:
        from controller.processes.logs import LOG_FORMAT
        from controller.supervision.serve import serve

        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
        sys.exit(serve(config, framework=framework, standby=standby, say=_say))
    ready, theirs = os.pipe()
    command = [
        sys.executable,
        "-m",
        "controller.supervision.serve",
        "--config",
        str(config),
        "--ready-fd",
        str(theirs),
    ]
    if framework is not None:
        command += ["--framework", framework]
    if standby:
        command.append("--standby")
    quiet = subprocess.DEVNULL
    subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, pass_fds=[theirs], start_new_session=True)
    os.close(theirs)
    with os.fdopen(ready) as pipe:
        word, _, text = pipe.readline().strip().partition(" ")
    if word != "ready":
        raise click.ClickException(text or "the supervisor ended without a word")
    click.echo("up; `baton status` shows what it does, `baton down` stops it")


def _say(text: str) -> None:
    """For the foreground: an error as every command shows one; readiness in the log."""
    word, _, rest = text.partition(" ")
    if word == "error":
        click.echo(f"Error: {rest}", err=True)


@click.command()
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_RUN_DIR,
    show_default=True,
    help="The run_dir of the configuration that is up.",
)
@click.option("--keep-logs", is_flag=True, help="Leave the log files in the run directory.")
def down(run_dir: Path, keep_logs: bool) -> None:
    """Stop what `baton up` started, and remove what it made. Nothing else is touched."""
    try:
        stopped = runstate.take_down(run_dir, keep_logs=keep_logs)
    except NothingUp as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing ran any more; removed what was left")
