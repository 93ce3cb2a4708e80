"""Prints what `baton pfc status` found, and makes the line about pauses in `baton status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

COUNTED = {"class", "received", "sent", "refused", "paused_ms", "storms"}
STATE = {"mode", "paused", "storming", "bad", "strangers"}
UNTOLD = "the leader tells too little of pauses, as one of another version does; upgrade it"
COLUMNS = ("host", "who pauses", "class", "received", "sent", "refused", "paused", "storms", "now")


def is_told(member: Mapping[str, Any]) -> bool:
    """Whether a member's document has all that is shown of its pauses; one that another version wrote may lack some."""
    return member.get("pfc_state", {}).keys() >= STATE and all(row.keys() >= COUNTED for row in member["pfc"])


def show(settings: Mapping[str, Any] | None, hosts: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints the settings, and a row for each class of each host with a counter above 0."""
    console = Console(highlight=False, markup=False)
    if settings is None:
        console.print("no coordinator answers: hosts keep obeying pauses by their last settings")
    else:
        partners = ", ".join(settings["accept_from"]) or "any link partner"
        console.print(f"accepted from  {partners}")
        times = [", ".join(_ms(value) for value in sorted(set(settings[name]))) for name in ("detection_ns", "restoration_ns")]
        console.print(f"storms         detected after {times[0]}, restored after {times[1]}, action {settings['action']}")
    if not hosts:
        console.print("no host's agent runs with --pfc")
        return
    if untold := sorted(name for name, member in hosts.items() if not is_told(member)):
        console.print(f"{', '.join(untold)}: {UNTOLD}")
    hosts = {name: member for name, member in hosts.items() if is_told(member)}
    if not hosts:
        return
    table = Table()
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("host", "who pauses", "now") else "right")
    for name, member in sorted(hosts.items()):
        state = member["pfc_state"]
        rows = [row for row in member["pfc"] if any(value for key, value in row.items() if key != "class")]
        for row in rows or [None]:
            table.add_row(*(Text(str(cell)) for cell in _cells(name, state, row)))
    console.print(table)
    for name, member in sorted(hosts.items()):
        if line := _not_taken(member["pfc_state"]):
            console.print(f"{name}: {line}")


def line(members: Mapping[str, Mapping[str, Any]]) -> str:
    """One line for `baton status`; empty if no agent runs with --pfc."""
    known = [member for member in members.values() if member.get("pfc")]
    if not known:
        return ""
    told = [member for member in known if is_told(member)]
    rows = [row for member in told for row in member["pfc"]]
    counts = {name: sum(row[name] for row in rows) for name in ("received", "sent", "refused", "storms")}
    storming = [f"{member['name']} class {number}" for member in told for number in member["pfc_state"]["storming"]]
    text = ", ".join(f"{count} {name}" for name, count in counts.items()) if told else ""
    untold = f"of {len(known) - len(told)} {UNTOLD}" if len(told) < len(known) else ""
    storms = f"storm now: {', '.join(storming)}" if storming else ""
    return "; ".join(filter(None, (f"{len(known)} hosts", text, storms, untold)))


def _cells(name: str, state: Mapping[str, Any], row: Mapping[str, Any] | None) -> tuple[object, ...]:
    if row is None:
        return (name, state["mode"], "", 0, 0, 0, "", 0, "")
    now = [word for word, key in (("paused", "paused"), ("storm", "storming")) if row["class"] in state[key]]
    paused = _ms(row["paused_ms"] * 1e6)
    counts = (row["received"], row["sent"], row["refused"], paused, row["storms"])
    return (name, state["mode"], row["class"], *counts, ", ".join(now))


def _not_taken(state: Mapping[str, Any]) -> str:
    found = [
        f"{count} frames {what}"
        for count, what in (
            (state["strangers"], "of partners that are not authorised"),
            (state["bad"], "that are no valid pauses"),
        )
        if count
    ]
    return ", ".join(found)


def _ms(value_ns: float) -> str:
    return f"{value_ns / 1e6:g} ms"
