"""`baton install-units`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.operate.up import DEFAULT_CONFIG
from cli.values import interface_name, named

if TYPE_CHECKING:
    from cli.machine.unit_files import UnitFile

UNITS = Path("/etc/systemd/system")
USERS = Path("/etc/sysusers.d")
KEY = Path("/etc/baton/host")


@click.command()
@click.option("--role", type=click.Choice(["agent", "controller", "both"]), default="both", show_default=True)
@click.option("--interface", help="The agent's interface towards the fabric.")
@click.option("--rate", help="The rate of the agent's link, such as 10gbit.")
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), default=KEY, show_default=True,
    help="The agent's file, made by `baton host enroll`.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_CONFIG,
    show_default=True,
    help="The controller's YAML file.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=UNITS,
    show_default=True,
    help="The directory in which to write the units.",
)
@click.option("--dry-run", is_flag=True, help="Print the units and write nothing.")
@click.argument("agent_arguments", nargs=-1, metavar="[-- MORE ARGUMENTS OF `baton agent`]")
def install_units(
    role: str,
    interface: str | None,
    rate: str | None,
    key: Path,
    config: Path,
    directory: Path,
    dry_run: bool,
    agent_arguments: tuple[str, ...],
) -> None:
    """Write systemd units for the agent and the controller side, each in a sandbox, and the controller's users (sysusers.d).

    Starts nothing, but prints the commands that do. Replaces only files that this command wrote before.
    """
    if dry_run and role != "controller" and (interface is None or rate is None):
        click.echo("# To be read only: eth0 and 10gbit stand for the --interface and --rate that were not given.")
        interface, rate = interface or "eth0", rate or "10gbit"
    from cli.machine.unit_files import users

    try:
        units = list(_units(role, interface, rate, key.absolute(), config.absolute(), agent_arguments))
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    files = {directory / unit.name: unit.text for unit in units}
    makes = ""
    if role != "agent":
        path = (USERS if directory == UNITS else directory) / users().name
        files[path] = users().text
        makes = f"systemd-sysusers {path} && "
    for path, text in files.items():
        if dry_run:
            click.echo(f"# {path}\n{text}")
            continue
        _write(path, text)
        click.echo(f"wrote {path}")
    if not dry_run:
        # systemd looks for a name in its own directories only
        named = " ".join(f"'{unit.name if directory == UNITS else directory.absolute() / unit.name}'" for unit in units)
        click.echo(f"now: {makes}systemctl daemon-reload && systemctl enable --now {named}")


def _units(
    role: str, interface: str | None, rate: str | None, key: Path, config: Path, more: tuple[str, ...]
) -> Iterator[UnitFile]:
    from cli.machine import unit_files
    from ebpf.build import RUNNING
    from topology.units import parse_link_rate

    program = [str(Path(sys.executable).parent / "baton")]
    if role in ("agent", "both"):
        if interface is None or rate is None:
            missing = "rate" if interface else "interface"
            raise click.UsageError(f"--{missing} is missing; the agent needs it (or give --role controller)")
        interface_name("--interface", interface)
        named("--rate", rate, parse_link_rate)
        arguments = ["--rate", rate, "--key", str(key), *more]
        _check_arguments(["--interface", interface, *arguments])
        yield unit_files.agent(
            program,
            interface=interface,
            arguments=arguments,
            writable=(key.parent, RUNNING.directory.parent),
            priorities="--priorities" in more,
            guests=_hears_guests(more),
        )
    if role in ("controller", "both"):
        writable = (config.parent, RUNNING.directory.parent)
        yield unit_files.controller(program, config=config, writable=writable, netns=_has_netns(config))


def _check_arguments(arguments: list[str]) -> None:
    """Ends the command with an error, as `baton agent` would, for what it cannot read: its unit would start it for ever."""
    from cli.hosts.agent import agent

    agent.make_context("agent", arguments)


def _hears_guests(arguments: tuple[str, ...]) -> bool:
    """Whether these arguments of `baton agent` open its UDP port."""
    for argument, following in pairwise((*arguments, "")):
        name, _, value = argument.partition("=")
        if name == "--guests":
            return (value or following) != "0"
    return False


def _has_netns(config: Path) -> bool:
    """Whether the file is a valid configuration that names a network namespace for the coordinator."""
    from controller.config.reading import ConfigError, load

    try:
        coordinator = load(config).coordinator
    except ConfigError:
        return False
    return coordinator is not None and coordinator.netns is not None


def _write(path: Path, text: str) -> None:
    from cli.machine.unit_files import MARK

    try:
        path.parent.mkdir(exist_ok=True)
        if path.exists() and not path.read_text(encoding="utf-8").startswith(MARK):
            raise click.ClickException(f"{path}: was not made by this command; move it away, or give another --directory")
        fresh = path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.chmod(fresh, 0o644)  # noqa: PTH101 -- systemd's own units have this mode
        fresh.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}; run as root, or give another --directory") from None
