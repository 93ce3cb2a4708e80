"""`baton pfc`: lets a host pause its link partner (IEEE 802.1Qbb), and shows the hosts' counters of pauses."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.hosts.pfc_view import UNTOLD, is_told
from cli.reach import open_store, store_options, using_store
from cli.values import operator
from protocol.bodies.pfc import class_mask, classes_of
from protocol.pfc import CLASSES

if TYPE_CHECKING:
    from controller.store.store import Store

ANSWER_S = 3.0
ANSWERS = {
    "done": "",
    "storm": "the agent skipped the classes that have a storm of pauses: wait until pfc.restoration is over",
    "unanswered": "the agent did not answer: see its log",
}


@click.group()
def pfc() -> None:
    """Pauses between a host and its link partner, in eight classes. Agents that run with --pfc obey and send them."""


def _classes(_: click.Context, __: click.Parameter, text: str) -> int:
    try:
        return class_mask(int(part) for part in text.split(","))
    except ValueError as error:
        why = str(error) if "write" in str(error) else f"{text!r}; write classes from 0 to {CLASSES - 1}, such as 3,5"
        raise click.BadParameter(why) from None


def _duration(_: click.Context, __: click.Parameter, text: str) -> int:
    from topology.units import parse_duration

    try:
        duration_ns = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not duration_ns:
        raise click.BadParameter(f"{text}; write a duration above 0, or use `baton pfc resume`")
    return duration_ns


_host = click.option("--host", required=True, help="The host, as `baton status` names it.")
_which = click.option("--classes", callback=_classes, required=True, help="Classes from 0 to 7, such as 3,5.")


@pfc.command()
@_host
@_which
@click.option("--for", "duration_ns", callback=_duration, required=True, help="How long, such as 2ms.")
@store_options
def pause(host: str, classes: int, duration_ns: int, run_dir: Path, store: str | None) -> None:
    """Have a host pause classes of its link partner. The agent renews a pause that is longer than one frame allows."""
    _command(open_store(run_dir, store), host, classes, duration_ns)
    click.echo(f"{host} pauses {_named(classes)} of its link partner for {duration_ns / 1e6:g} ms")


@pfc.command()
@_host
@click.option("--classes", callback=_classes, default="0,1,2,3,4,5,6,7", show_default=True, help="Classes, such as 3,5.")
@store_options
def resume(host: str, classes: int, run_dir: Path, store: str | None) -> None:
    """Have a host end pauses of its link partner at once."""
    _command(open_store(run_dir, store), host, classes, 0)
    click.echo(f"{host} resumes {_named(classes)} of its link partner")


@pfc.command()
@store_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@using_store()
def status(run_dir: Path, store: str | None, as_json: bool) -> None:
    """Show each host's counters: pauses received, sent and refused, paused time, storms."""
    shared = open_store(run_dir, store)
    leader, members = shared.status(), shared.members()
    hosts = _by_interface([member for member in members.values() if member.get("pfc")])
    if as_json:
        found = {name: {"classes": member["pfc"], **member.get("pfc_state", {})} for name, member in hosts.items()}
        click.echo(json.dumps({"settings": (leader or {}).get("pfc"), "hosts": found}, indent=1))
    else:
        from cli.hosts.pfc_view import show

        show((leader or {}).get("pfc"), hosts)


@using_store()
def _command(store: Store, host: str, classes: int, duration_ns: int) -> None:
    """Sends a command to a host's agent and waits for the result. Raises ClickException: it can't be carried out."""
    leader = store.status()
    if leader is None:
        raise click.ClickException("no coordinator is running now, so the host can't be reached; see `baton status`")
    _check(leader, store.members(), host, classes, duration_ns)
    number = store.commands.publish_pfc_command({"host": host, "classes": classes, "duration_ns": duration_ns})
    what = f"pause {_named(classes)} for {duration_ns / 1e6:g} ms" if duration_ns else f"resume {_named(classes)}"
    store.publish_event("audit", "info", f"pfc: {host} is to {what}", by=operator())
    answer = _answer(store, host, number)
    if problem := ANSWERS.get(answer, answer):
        raise click.ClickException(f"{host}: {problem}")


def _check(leader: dict[str, Any], members: dict[int, dict[str, Any]], host: str, classes: int, duration_ns: int) -> None:
    from topology.units import format_duration

    interfaces = [member for member in members.values() if member["name"] == host]
    if not interfaces:
        names = ", ".join(sorted(member["name"] for member in members.values())) or "there are none now"
        raise click.ClickException(f"--host: no member is called {host}; members: {names}")
    able = [member for member in interfaces if member.get("pfc")]
    if not able:
        raise click.ClickException(f"--host: the agent of {host} has no PFC; run it with `baton agent --pfc software` or `nic`")
    settings = leader.get("pfc")
    if settings is None or not all(map(is_told, able)):
        raise click.ClickException(f"{host}: {UNTOLD}")
    for priority in classes_of(classes) if settings["action"] != "alert" else ():
        limit_ns = settings["detection_ns"][priority]
        if duration_ns >= limit_ns:
            raise click.ClickException(
                f"--for: class {priority} paused for {format_duration(duration_ns)} would be a storm, which is one from "
                f"{format_duration(limit_ns)} on; write less, or raise pfc.detection in the configuration"
            )


def _by_interface(able: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Members by their names; those of a host with several interfaces by their addresses, too."""
    interfaces = Counter(member["name"] for member in able)
    return {
        member["name"] if interfaces[member["name"]] == 1 else f"{member['name']} ({member['mac']})": member for member in able
    }


def _answer(store: Store, host: str, number: int) -> str:
    """The answer of the host's agent; of a host with several interfaces one that is not "done", if there is any."""
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        able = [member for member in store.members().values() if member["name"] == host and member.get("pfc")]
        answers = [member.get("pfc_state", {}).get("answers", {}).get(str(number)) for member in able]
        if answers and all(answers):
            return str(next((answer for answer in answers if answer != "done"), "done"))
        time.sleep(0.05)
    return "unanswered"


def _named(classes: int) -> str:
    names = [str(priority) for priority in classes_of(classes)]
    return f"class {names[0]}" if len(names) == 1 else f"classes {', '.join(names)}"
