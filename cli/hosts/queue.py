"""`baton queue`: conditions under which a host's queues may send."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.reach import open_store, store_options, using_store
from cli.values import named, operator
from protocol.pfc import CLASSES

if TYPE_CHECKING:
    from controller.store.store import Store

LEAST_BPS = 10_000
"""Less is probably a rate without its unit."""
CLASS_NAMES = frozenset(map(str, range(CLASSES)))


@click.group()
def queue() -> None:
    """Set when, and how fast, a host's queue may send.

    A queue is a host's traffic to one destination, or of one class. It sends while any of its conditions is met. A condition
    with neither times nor a rate frees the queue; a queue whose last condition was removed is paused.
    """


def _queue_options(command: Any) -> Any:  # noqa: ANN401 -- a command, as click decorates it
    command = click.option("--class", "priority", type=int, help="The class of the traffic, 0 to 7.")(command)
    command = click.option("--destination", metavar="D", help="The host that the traffic goes to.")(command)
    return click.option("--host", metavar="H", required=True, help="The host that sends.")(command)


@queue.command()
@_queue_options
@click.option("--from", "begin", metavar="TIME", help="Start after this time, such as 5ms.  [default: now]")
@click.option("--until", "end", metavar="TIME", help="End after this time, such as 2s.  [default: never]")
@click.option("--rate", metavar="RATE", help="The highest rate, such as 10mbit.  [default: the link's]")
@store_options
@using_store()
def add(
    host: str,
    destination: str | None,
    priority: int | None,
    begin: str | None,
    end: str | None,
    rate: str | None,
    run_dir: Path,
    store: str | None,
) -> None:
    """Add a condition; without times and rate, free the queue."""
    from topology.units import parse_duration, parse_rate

    begin_ns, end_ns = named("--from", begin, parse_duration), named("--until", end, parse_duration)
    rate_bps = named("--rate", rate, parse_rate)
    if rate_bps is not None and rate_bps < LEAST_BPS:
        raise click.BadParameter(f"{rate} is less than 10Kbit; write the unit, such as 5Mbit", param_hint="--rate")
    if end_ns is not None and end_ns <= (begin_ns or 0):
        raise click.BadParameter("not after --from; write a longer time", param_hint="--until")
    opened = open_store(run_dir, store)
    name = _checked(opened, host, destination, priority, rate_bps or 0)
    now_ns = opened.time_ns()
    condition = {
        "number": 0,
        "from_ns": None if begin_ns is None else now_ns + begin_ns,
        "until_ns": None if end_ns is None else now_ns + end_ns,
        "rate_bps": rate_bps or 0,
    }

    def make(known: list[Any] | None) -> tuple[list[Any] | None, str]:
        if begin_ns is None and end_ns is None and rate_bps is None:
            return None, "is free"
        known = known or []
        number = max((other["number"] for other in known), default=0) + 1
        return [*known, condition | {"number": number}], f"has condition {number}"

    click.echo(_change(opened, host, name, make))


@queue.command()
@_queue_options
@click.option("--number", type=int, help="The condition's number in `baton queue list`.  [default: all]")
@store_options
@using_store()
def remove(
    host: str, destination: str | None, priority: int | None, number: int | None, run_dir: Path, store: str | None
) -> None:
    """Remove a condition, or all; a queue without conditions is paused."""
    opened = open_store(run_dir, store)
    name = _checked(opened, host, destination, priority, 0)

    def make(known: list[Any] | None) -> tuple[list[Any] | None, str]:
        known = known or []
        if number is not None and all(condition["number"] != number for condition in known):
            says = f"{_named(name)} of {host} has no condition {number}; see `baton queue list --host {host}`"
            raise click.BadParameter(says, param_hint="--number")
        left = [condition for condition in known if number is not None and condition["number"] != number]
        return left, f"has {len(left)} condition{'s' * (len(left) > 1)} left" if left else "is paused"

    click.echo(_change(opened, host, name, make))


@queue.command(name="list")
@click.option("--host", metavar="H", help="Show only this host's queues.")
@store_options
@using_store()
def list_(host: str | None, run_dir: Path, store: str | None) -> None:
    """Show every queue that is not free, with its conditions."""
    opened = open_store(run_dir, store)
    hosts, now_ns, members = opened.commands.queues() or {}, opened.time_ns(), _members(opened)
    if host is not None:
        _check_known("--host", host, {*members, *hosts})
    shown = {name: queues for name, queues in sorted(hosts.items()) if host in (None, name)}
    if not any(shown.values()):
        click.echo(f"every queue{'' if host is None else f' of {host}'} is free")
    for name, queues in shown.items():
        for queue_name, conditions in sorted(queues.items()):
            which = f"{name}, class {queue_name}" if queue_name in CLASS_NAMES else f"{name} -> {queue_name}"
            click.echo(f"{which}: {'paused' if not conditions else ''}".rstrip())
            for condition in conditions:
                click.echo(f"  {condition['number']}: {_shown(condition, now_ns)}")


def _shown(condition: Mapping[str, Any], now_ns: int) -> str:
    parts = []
    for key, word in (("from_ns", "from"), ("until_ns", "until")):
        if condition[key] is not None:
            seconds = (condition[key] - now_ns) / 1e9
            parts.append(f"{word} {abs(seconds):.3f} s {'ago' if seconds < 0 else 'ahead'}")
    if condition["rate_bps"]:
        parts.append(f"at {condition['rate_bps'] / 1e6:g} Mbit/s")
    return ", ".join(parts)


def _change(store: Store, host: str, queue: str, make: Callable[[list[Any] | None], tuple[list[Any] | None, str]]) -> str:
    """Gives a host's queue the conditions that `make` makes of those it has (None: it is free), and says what was done."""
    done = ""

    def changed(hosts: dict[str, Any]) -> dict[str, Any]:
        nonlocal done
        queues = dict(hosts.get(host, {}))
        conditions, did = make(queues.pop(queue, None))
        done = f"{host}: {_named(queue)} {did}"
        if conditions is not None:
            queues[queue] = conditions
        return {name: its for name, its in (hosts | {host: queues}).items() if its}

    store.commands.change_queues(changed)
    store.publish_event("queue", "warning", done, by=operator())
    return done


def _named(queue: str) -> str:
    return f"the queue of class {queue}" if queue in CLASS_NAMES else f"queue {queue}"


def _checked(store: Store, host: str, destination: str | None, priority: int | None, rate_bps: int) -> str:
    """Checks the options against the members; returns the queue's name in the store's document."""
    if (destination is None) == (priority is None):
        raise click.UsageError("write either --destination or --class")
    if priority is not None and not 0 <= priority < CLASSES:
        raise click.BadParameter(f"{priority}; classes are from 0 to {CLASSES - 1}", param_hint="--class")
    members, hosts = _members(store), store.commands.queues() or {}
    _check_known("--host", host, {*members, *hosts})  # what has conditions may be away now
    if destination is not None:
        _check_known("--destination", destination, {*members, *hosts.get(host, ())})
    if destination == host:
        raise click.BadParameter("a host sends nothing to itself; name another", param_hint="--destination")
    if destination in CLASS_NAMES:
        says = f"a host called {destination} can't be told from class {destination}; enroll it by another name"
        raise click.BadParameter(says, param_hint="--destination")
    if host in members and rate_bps > (link_bps := members[host]["rate_bps"]):
        raise click.BadParameter(
            f"{rate_bps} bit/s is above the link's {link_bps}; write that or less, or leave it out", param_hint="--rate"
        )
    return destination if destination is not None else str(priority)


def _members(store: Store) -> dict[str, dict[str, Any]]:
    return {member["name"]: member for member in store.members().values()}


def _check_known(option: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        members = ", ".join(sorted(known)) or "none: is a coordinator up?"
        raise click.BadParameter(f"no member is called {name}; members are {members}", param_hint=option)
