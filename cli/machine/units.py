"""`baton install-units`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.operate.up import DEFAULT_CONFIG
from cli.values import interface_name, named, refuse

if TYPE_CHECKING:
    from cli.machine.unit_files import UnitFile
    from controller.config.schema import Config

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
    if role == "controller":
        refuse({"interface", "rate", "key", "agent_arguments"}, "is the agent's, and --role controller has none")
    if role == "agent":
        refuse({"config"}, "is the controller's, and --role agent has none")
    if dry_run and role != "controller" and (interface is None or rate is None):
        click.echo("# To be read only: eth0 and 10gbit stand for the --interface and --rate that were not given.")
        interface, rate = interface or "eth0", rate or "10gbit"
    from cli.machine.unit_files import users

    run_dirs: list[Path] = []
    try:
        units = list(_units(role, interface, rate, key.absolute(), config.absolute(), agent_arguments, run_dirs))
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    files = {directory / unit.name: unit.text for unit in units}
    makes = ""
    if role != "agent":
        path = (USERS if directory == UNITS else directory) / users().name
        files[path] = users().text
        makes = f"systemd-sysusers {path} && "
    if not dry_run:
        for path in files:  # all of them before one is written
            _check_own(path)
        for path in run_dirs:
            _make(path)
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
    role: str, interface: str | None, rate: str | None, key: Path, config: Path, more: tuple[str, ...], run_dirs: list[Path]
) -> Iterator[UnitFile]:
    """The units; adds run directories that systemd does not make to `run_dirs`."""
    from cli.machine import unit_files
    from cli.machine.unit_files import RUN_DIR
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
        chosen = _chosen(["--interface", interface, *arguments])
        for option, given in (("interface", interface), ("rate", rate), ("key", key)):
            if chosen[option] != given:
                raise click.UsageError(f"--{option} is given twice, here and behind --; leave the latter out")
        places = [] if chosen["statistics"] is None else [_apart("--statistics", chosen["statistics"]).parent]
        if (run_dir := _apart("--run-dir", chosen["run_dir"])) != RUN_DIR:
            run_dirs.append(run_dir)
            places.append(run_dir)
        yield unit_files.agent(
            program,
            interface=interface,
            arguments=arguments,
            writable=(key.parent, RUNNING.directory.parent, *map(Path.resolve, places)),
            run_dir=run_dir.resolve(),
            priorities=chosen["priorities"],
            guests=bool(chosen["guests"]),
        )
    if role in ("controller", "both"):
        places, run_dir, netns = [], RUN_DIR, False
        if (loaded := _loaded(config)) is not None:
            run_dir = loaded.run_dir
            if loaded.run_dir != RUN_DIR:
                run_dirs.append(loaded.run_dir)
                places.append(loaded.run_dir)
            if loaded.coordinator is not None:
                places.append(loaded.coordinator.key_file.parent)
                netns = loaded.coordinator.netns is not None
        writable = (config.parent, RUNNING.directory.parent, *map(Path.resolve, places))  # systemd takes no path with ..
        yield unit_files.controller(program, config=config, writable=writable, run_dir=run_dir.resolve(), netns=netns)


def _chosen(arguments: list[str]) -> dict[str, Any]:
    """What `baton agent` reads of its arguments. Ends the command with an error, as it would, for what it cannot read: its unit
    would start it for ever."""
    from cli.hosts.agent import agent, check_priorities, read_addresses

    chosen = agent.make_context("agent", arguments).params
    check_priorities(chosen["priorities"], chosen["guests"], chosen["cgroup"])
    read_addresses(chosen["address"])
    return chosen


def _apart(option: str, path: Path) -> Path:
    """The path, which the unit may write below its directory alone."""
    if not path.is_absolute() or path.parent == Path("/"):
        raise click.UsageError(f"{option}: {path} is no place for a unit; name a whole path, such as /var/lib/baton/NAME")
    return path


def _loaded(config: Path) -> Config | None:
    """The configuration; None if the file is no valid one (yet)."""
    from controller.config.reading import ConfigError, load

    try:
        return load(config)
    except ConfigError:
        return None


def _make(path: Path) -> None:
    """Makes a run directory: its unit may write only below it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}; run as root, or name another run directory") from None


def _check_own(path: Path) -> None:
    from cli.machine.unit_files import MARK

    try:
        strange = path.exists() and not path.read_bytes().startswith(MARK.encode())
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}; run as root, or give another --directory") from None
    if strange:
        raise click.ClickException(f"{path}: was not made by this command; move it away, or give another --directory")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        fresh = path.with_suffix(".new")
        try:
            fresh.write_text(text, encoding="utf-8")
            os.chmod(fresh, 0o644)  # noqa: PTH101 -- systemd's own units have this mode
            fresh.replace(path)
        finally:
            with suppress(OSError):
                fresh.unlink()
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}; run as root, or give another --directory") from None
