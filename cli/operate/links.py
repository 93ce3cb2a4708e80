"""Prints the links that `baton status --links` shows: what each carries, how that is known, and who takes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.operate.status_view import no_such, title
from topology.units import format_rate
from webui.state.lists import Page, Wanted, paged

WIDTH = 80
PAGE = 200
"""Links of one page."""
STATES = {"contended": "yellow", "blocked": "dim"}


class LinkRow(NamedTuple):
    """One directed link; loads in bit/s."""

    source: str
    target: str
    capacity_bps: int
    known_from: str
    load_bps: int | None
    """None where no switch counts it."""
    unmanaged_bps: int
    """What hosts without an agent take of it, and members are not granted."""
    state: str


def rows(found: Mapping[str, Any]) -> list[LinkRow]:
    """Every directed link in what `baton status` collected. Without a coordinator members' rates are not taken into account."""
    coordinator, fabric = found["coordinator"] or {}, found["fabric"] or {}
    loads = {(one["source"], one["target"]): one["load_bps"] for one in (found.get("ports") or {}).get("links", ())}
    contended = {tuple(link) for link in coordinator.get("contended", ())}
    blocked = {frozenset(link) for link in fabric.get("blocked", ())}
    made = []
    for link in coordinator.get("links") or fabric.get("links", ()):
        ends = link["source"], link["target"]
        state = "contended" if ends in contended else "blocked" if frozenset(ends) in blocked else ""
        others = link.get("unmanaged_bps", 0)
        made.append(LinkRow(*ends, link["capacity_bps"], link["from"], loads.get(ends), others, state))
    return made


def page_of(links: list[LinkRow], *, search: str, page: int, most: int = PAGE) -> Page:
    """A page of those links whose ends and state have all words of `search`."""
    terms = search.lower().split()
    matching = [link for link in links if all(term in f"{link.source} {link.target} {link.state}".lower() for term in terms)]
    return paged(matching, len(links), Wanted(page=page, most=most))


def show(found: Mapping[str, Any], console: Console | None = None, *, search: str = "", page: int = 1) -> None:
    """Prints a page of a table of at most 80 columns, and the links of the fabric file that the fabric lacks."""
    console = console or Console(highlight=False, markup=False, width=WIDTH)
    links = rows(found)
    if not links:
        console.print("no link is known yet: the switches have not been learned")
        return
    part = page_of(links, search=search, page=page)
    table = Table(title=title(part, "links", ", each in one direction"), title_justify="left")
    table.add_column("link", overflow="fold")
    for name in ("carries", "load", "others"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("known from", "state"):
        table.add_column(name, no_wrap=True)
    for link in part.rows:
        others = _rate(link.unmanaged_bps) if link.unmanaged_bps else ""
        load = "" if link.load_bps is None else _rate(link.load_bps)
        cells = (f"{link.source} > {link.target}", format_rate(link.capacity_bps), load, others, link.known_from, link.state)
        table.add_row(*(Text(cell) for cell in cells), style=STATES.get(link.state))
    console.print(table)
    if line := no_such(page, part):
        console.print(Text(line, "yellow"))
    if part.page < part.pages:
        console.print(f"page {part.page} of {part.pages}; add --page {part.page + 1} for the next")
    for line in _notes(found, links):
        console.print(Text(line, "yellow"))


def _notes(found: Mapping[str, Any], links: list[LinkRow]) -> Iterator[str]:
    if any(link.unmanaged_bps for link in links):
        yield "others: hosts without an agent; members are granted what they leave"
    for a, b in (found["fabric"] or {}).get("not_found", ()):
        remedy = "correct its names, or wait until both ends have connected"
        yield f"the fabric file gives a rate of {a} - {b}, and there is no such link; {remedy}"


def _rate(bps: int) -> str:
    if bps < 50_000:  # it would read as nothing
        return f"{bps / 1e3:.1f}k" if bps else "0"
    return f"{bps / 1e6:.1f}M" if bps < 999_950_000 else f"{bps / 1e9:.2f}G"
