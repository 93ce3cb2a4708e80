"""The `baton` command. Each group of commands is a small file, imported when one of its commands is
called."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click


class Entry(NamedTuple):
    """Where a command is, and what `baton --help` says of it."""

    module: str
    name: str
    help: str


COMMANDS = {
    "demo": Entry("cli.demo", "demo", "Show what coordination gains, on an emulated fabric."),
    "up": Entry("cli.operate.up", "up", "Bring up the controller side from one YAML file."),
    "down": Entry("cli.operate.up", "down", "Stop what `baton up` started, and remove what it made."),
    "status": Entry("cli.operate.status", "status", "Show fabric, members, policy, slots and errors."),
    "web": Entry("cli.operate.web", "web", "Serve the dashboard, the REST interface and the metrics."),
    "free": Entry("cli.operate.override", "free", "Open every gate at once: nobody waits for permission."),
    "coordinate": Entry("cli.operate.override", "coordinate", "Let the policy decide again, after `baton free`."),
    "queue": Entry("cli.hosts.queue", "queue", "Say when, and how fast, a host's queue may send."),
    "check": Entry("cli.machine.check", "check", "Check a configuration or fabric file, offline."),
    "agent": Entry("cli.hosts.agent", "agent", "Run a host's agent on one interface."),
    "switch-queues": Entry(
        "cli.machine.switch_queues", "switch_queues", "Keep the queues of a machine that has only switches."
    ),
    "switch-config": Entry("cli.machine.switch_config", "switch_config", "Print a hardware switch's queues and ECN."),
    "mark": Entry("cli.hosts.mark", "mark", "Run a command whose flows have a known size or deadline."),
    "coflow": Entry("cli.hosts.coflow", "coflow", "Open and close coflows, and run commands as parts of them."),
    "key": Entry("cli.operate.key", "key", "Make, and change, the key that a fabric's hosts share."),
    "pfc": Entry("cli.hosts.pfc", "pfc", "Pause classes of a host's link partner, and show pauses."),
    "user": Entry("cli.operate.user", "user", "Say who may change something through the dashboard."),
    "token": Entry("cli.operate.user", "token", "Make and revoke API tokens for programs."),
    "doctor": Entry("cli.machine.doctor", "doctor", "Say what this machine, or every host, offers and what would be better."),
    "install-units": Entry("cli.machine.units", "install_units", "Write systemd units for agent and controller, sandboxed."),
    "bench": Entry("cli.bench.bench", "bench", "Measure, and print JSON."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and help, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="baton", prog_name="baton")
def main() -> None:
    """Baton stops congestion in a data-center Ethernet before it happens: nobody sends into a contended
    link without permission, and the controller passes that permission round, a few milliseconds at a time.
    """


if __name__ == "__main__":
    main()
