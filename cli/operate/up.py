"""`baton up` and `baton down`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import click

from controller.supervision import runstate
from controller.supervision.runstate import DEFAULT_RUN_DIR, NothingUp, command

DEFAULT_CONFIG = Path("/etc/baton/baton.yaml")
"""The default of controller.config.schema, repeated here because that module is slow to import."""


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_CONFIG,
    show_default=True,
    help="The YAML file; docs/operating.md explains every field, and `baton check FILE` finds mistakes.",
)
@click.option("--framework", type=click.Choice(["ryu", "os-ken"]), help="Use it instead of the file's openflow.framework.")
@click.option(
    "--foreground/--detach",
    default=False,
    help="Stay in the foreground until a signal comes (for systemd), or return once everything runs.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Be the second of two controllers that share a store (`store:` is its URL), and lead when the first one fails.",
)
def up(config: Path, framework: str | None, foreground: bool, standby: bool) -> None:
    """Bring up the controller side: store, OpenFlow application, coordinator.

    A supervisor restarts every process that ends. It reloads the configuration when the file changes, or on SIGHUP. If the
    new file has mistakes, the last good configuration stays in force, and the mistakes appear here (in the foreground), in
    `baton status` and in the events.
    """
    if foreground:
        from controller.processes.logs import LOG_FORMAT
        from controller.supervision.serve import serve

        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
        sys.exit(serve(config, framework=framework, standby=standby, say=_say))
    from controller.config.reading import load

    ready, theirs = os.pipe()
    words = [
        sys.executable,
        "-m",
        "controller.supervision.serve",
        "--config",
        str(config),
        "--ready-fd",
        str(theirs),
    ]
    if framework is not None:
        words += ["--framework", framework]
    if standby:
        words.append("--standby")
    quiet = subprocess.DEVNULL
    subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, pass_fds=[theirs], start_new_session=True)
    os.close(theirs)
    with os.fdopen(ready) as pipe:
        word, _, text = pipe.readline().strip().partition(" ")
    if word != "ready":
        raise click.ClickException(text or "the supervisor ended without a message; see its log in the run directory")
    run_dir = load(config).run_dir
    click.echo(f"up; `{command('status', run_dir)}` shows what it does, `{command('down', run_dir)}` stops it")


def _say(text: str) -> None:
    """Prints an error of the supervisor as every command prints one; readiness is in the log."""
    word, _, rest = text.partition(" ")
    if word == "error":
        click.echo(f"Error: {rest}", err=True)


@click.command()
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_RUN_DIR,
    show_default=True,
    help="The run_dir of the configuration that runs.",
)
@click.option("--keep-logs", is_flag=True, help="Keep the log files in the run directory.")
def down(run_dir: Path, keep_logs: bool) -> None:
    """Stop the processes that `baton up` started, and remove what they made; touch nothing else."""
    try:
        stopped = runstate.take_down(run_dir, keep_logs=keep_logs)
    except NothingUp as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running; removed what was left")
