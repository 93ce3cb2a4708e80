"""`baton agent`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import click

from cli.values import named
from controller.processes.logs import log_to_stderr


@click.command()
@click.option("--interface", required=True, help="The interface towards the fabric.")
@click.option("--rate", help="The rate of the interface's link, such as 100mbit.  [default: what the link tells]")
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), required=True, help="This host's file: see `baton host enroll`."
)
@click.option("--address", multiple=True, help="An IP address that lives here and the kernel does not know; may be repeated.")
@click.option("--name", help="This host's name, to be sure that the file is its own.")
@click.option(
    "--gate",
    type=click.Choice(["tbf", "plug", "auto"]),
    default="auto",
    show_default=True,
    help="The queueing discipline that holds packets back.",
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    default=Path("/run/baton"),
    show_default=True,
    help="The directory for the agent's records.",
)
@click.option("--take-over", is_flag=True, help="Replace queues that another program put on the interface.")
@click.option(
    "--realtime",
    type=click.IntRange(0, 99),
    help="SCHED_FIFO priority of the agent; 0 for none.  [default: 20; none on fewer than 4 processors]",
)
@click.option(
    "--priorities/--no-priorities",
    default=False,
    show_default=True,
    help="Tag flows with priorities, choose their congestion control, and report their sizes.",
)
@click.option(
    "--cgroup",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="With --priorities: choose the congestion control of this cgroup's processes only.  [default: all]",
)
@click.option(
    "--guests",
    type=click.IntRange(0, 65_535),
    is_flag=False,
    flag_value=6652,
    metavar="[PORT]",
    help="With --priorities: hear guests behind the bridge, who mark their flows, at UDP port 6652 or PORT; 0: root alone.",
)
@click.option(
    "--pfc",
    type=click.Choice(["software", "nic", "off"]),
    default="off",
    show_default=True,
    help="What obeys the link partner's pauses (IEEE 802.1Qbb, 802.3x): this agent, or the interface itself.",
)
@click.option(
    "--priority-tag",
    type=click.IntRange(0, 7),
    help="Tag control frames with this 802.1p priority, for switches that Baton does not control.  [default: no tag]",
)
@click.option("--busy-poll", is_flag=True, help="Never sleep: gates change sooner, but the agent occupies a processor.")
@click.option(
    "--statistics",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the agent's counters to this file (JSON) at the end.",
)
def agent(
    interface: str,
    rate: str | None,
    key: Path,
    address: tuple[str, ...],
    name: str | None,
    gate: str,
    run_dir: Path,
    take_over: bool,
    realtime: int | None,
    priorities: bool,
    cgroup: Path | None,
    guests: int | None,
    pfc: str,
    priority_tag: int | None,
    busy_poll: bool,
    statistics: Path | None,
) -> None:
    """Run this host's agent until a signal ends it, and then restore the interface.

    The agent finds the addresses of the interface, of the bridge that it is a port of, and of the VMs behind that bridge, and
    follows their changes.
    """
    from agents.config import AgentConfig, usual_realtime
    from agents.run import run
    from topology.units import parse_link_rate

    check_priorities(priorities, guests, cgroup)
    rate_bps = named("--rate", rate, parse_link_rate) or _told_rate_bps(interface)
    addresses = read_addresses(address)
    if statistics is not None and not statistics.absolute().parent.is_dir():
        raise click.BadParameter(f"{statistics.parent} is no directory; make it first", param_hint="--statistics")
    if os.geteuid() == 0:  # anyone else is told to be root
        _check_writable("--run-dir", run_dir)
        if statistics is not None:
            _check_writable("--statistics", statistics.absolute().parent)
    log_to_stderr()
    try:
        config = AgentConfig(
            interface=interface,
            rate_bps=rate_bps,
            rate_source="--rate" if rate is not None else "the link",
            key_file=key,
            name=name or "",
            addresses=addresses,
            gate=gate,
            run_dir=run_dir,
            take_over=take_over,
            realtime=usual_realtime(len(os.sched_getaffinity(0))) if realtime is None else realtime or None,
            statistics=statistics,
            priorities=priorities,
            cgroup=cgroup,
            guests=guests,
            pfc=pfc,
            priority_tag=priority_tag,
            busy_poll=busy_poll,
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(run(config))


def check_priorities(priorities: bool, guests: int | None, cgroup: Path | None) -> None:
    """Ends the command with an error where an option needs --priorities, or --cgroup names none."""
    if guests is not None and not priorities:
        raise click.UsageError("--guests: needs --priorities, by which flows are tagged")
    if cgroup is not None and not priorities:
        raise click.UsageError("--cgroup: needs --priorities, by which the agent chooses a congestion control")
    if cgroup is not None and not (cgroup / "cgroup.procs").exists():
        raise click.BadParameter(f"{cgroup} is no cgroup; name a directory of cgroup version 2", param_hint="--cgroup")


def read_addresses(texts: Iterable[str]) -> tuple[IPv4Address | IPv6Address, ...]:
    """The addresses of --address. Ends the command with an error: one is none that other hosts reach."""
    from agents.addresses.found import routable
    from agents.guests.flows import unmapped

    try:
        addresses = tuple(unmapped(ip_address(text)) for text in texts)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write one such as 10.0.0.1", param_hint="--address") from None
    if strange := next((one for one in addresses if not routable(one)), None):
        says = f"{strange} is not the address of one host that others reach; write one such as 10.0.0.1"
        raise click.BadParameter(says, param_hint="--address")
    return addresses


def _check_writable(option: str, directory: Path) -> None:
    from agents.kernel.files import in_the_way

    if (other := in_the_way(directory)) is not None:
        says = f"{other} is not root's own to write in, and the agent gives up root's rights over others' files"
        remedy = "name a directory of root's" + (f", or chown root {other}" if other == directory.resolve() else "")
        raise click.BadParameter(f"{says}; {remedy}", param_hint=option)


def _told_rate_bps(interface: str) -> int:
    from agents.kernel.speed import link_speed_bps

    try:
        rate_bps = link_speed_bps(interface)
    except OSError as error:
        raise click.ClickException(f"interface {interface}: {error.strerror or error}; name one that `ip link` shows") from None
    if not rate_bps:
        raise click.ClickException(
            f"interface {interface} tells no speed (it is virtual, or down): name its link's rate, such as --rate 100mbit"
        )
    return rate_bps
