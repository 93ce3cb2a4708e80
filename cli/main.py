"""The `baton` command. Each command, or group of commands, is a module that is imported only when it is called."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import click


class CommandEntry(NamedTuple):
    """A command: its module, its name there, and its line in `baton --help`."""

    module: str
    name: str
    help: str


COMMANDS = {
    "demo": CommandEntry("cli.demo", "demo", "Show what coordination gains, on an emulated fabric."),
    "up": CommandEntry("cli.operate.up", "up", "Bring up the controller side from one YAML file."),
    "down": CommandEntry("cli.operate.up", "down", "Stop what `baton up` started, and remove what it made."),
    "status": CommandEntry("cli.operate.status", "status", "Show fabric, members, policy, slots and errors."),
    "web": CommandEntry("cli.operate.web", "web", "Serve the dashboard, the REST interface and the metrics."),
    "free": CommandEntry("cli.operate.override", "free", "Open every gate at once: no host waits for permission."),
    "coordinate": CommandEntry("cli.operate.override", "coordinate", "Let the policy decide again, after `baton free`."),
    "queue": CommandEntry("cli.hosts.queue", "queue", "Set when, and how fast, a host's queue may send."),
    "check": CommandEntry("cli.machine.check", "check", "Check a configuration or fabric file, offline."),
    "agent": CommandEntry("cli.hosts.agent", "agent", "Run a host's agent on one interface."),
    "switch-queues": CommandEntry(
        "cli.machine.switch_queues", "switch_queues", "Keep the switch ports' queues on a machine without a controller."
    ),
    "switch-config": CommandEntry(
        "cli.machine.switch_config", "switch_config", "Print the queue and ECN configuration of a hardware switch."
    ),
    "mark": CommandEntry("cli.hosts.mark", "mark", "Run a command, and announce the size or deadline of its flows."),
    "flow": CommandEntry("cli.hosts.flow", "flow", "Announce the size or deadline of flows of a host's guests, by address."),
    "coflow": CommandEntry("cli.hosts.coflow", "coflow", "Open and close coflows, and run commands as parts of them."),
    "key": CommandEntry("cli.operate.key", "key", "Make or change the controllers' key, from which hosts' keys are derived."),
    "host": CommandEntry("cli.hosts.host", "host", "Enroll hosts, each with a key of its own, and revoke their keys."),
    "pfc": CommandEntry("cli.hosts.pfc", "pfc", "Pause classes of a host's link partner, and show pauses."),
    "user": CommandEntry("cli.operate.user", "user", "Manage the users who may change settings in the dashboard."),
    "token": CommandEntry("cli.operate.user", "token", "Make and revoke API tokens for programs."),
    "doctor": CommandEntry("cli.machine.doctor", "doctor", "Check what this machine, or every host, has and lacks."),
    "install-units": CommandEntry(
        "cli.machine.units", "install_units", "Write sandboxed systemd units for agent and controller."
    ),
    "bench": CommandEntry("cli.bench.bench", "bench", "Measure, and print JSON."),
    "simulate": CommandEntry("cli.simulate", "simulate", "Simulate flows on large fabrics in ns-3: Karuna beside others."),
    "virtual": CommandEntry("cli.virtual", "virtual", "Run commands in virtual time: exact, whatever else the machine does."),
}


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextmanager
def in_one_line() -> Iterator[None]:
    """A mistake in the command line is one line that names it, without click's lines on how to call the command. So is a full
    disk, to which a command's output may be going."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        _give_up_output()
        place = "the output" if error.filename is None else os.fsdecode(error.filename)
        raise click.ClickException(f"{place}: {error.strerror}; make room, or write it elsewhere") from None
    except click.UsageError as error:
        if "\n" not in error.message:  # not the help of a group that was called without a command
            error.ctx = None
        raise


def _give_up_output() -> None:
    """Closes standard output if it takes no more: else Python would try once more at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            sys.stdout.close()


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is called."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:  # noqa: ANN401 -- click's
        """Reads the options before the command's name."""
        with in_one_line():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 -- click's
        """Runs the command."""
        with in_one_line():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands' names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the command of this name; None if there is none."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the table of commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="baton", prog_name="baton")
def main() -> None:
    """Baton stops congestion in a data-center Ethernet before it happens: no host sends into a contended
    link without permission, and the controller passes that permission round, a few milliseconds at a time.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be text


if __name__ == "__main__":
    main()
