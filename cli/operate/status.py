"""`baton status`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.reach import open_store, store_options
from controller.supervision import runstate
from controller.supervision.runstate import NothingUp

if TYPE_CHECKING:
    from controller.store.store import Store
    from webui.state.lists import Page


@click.command()
@store_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print everything as JSON, with the members or links that --search and --page show."
)
@click.option("--links", is_flag=True, help="Show what each link carries, and how that is known.")
@click.option("--members", is_flag=True, help="Show the members only.")
@click.option("--search", default="", metavar="WORDS", help="Show the members or links that match all words: names, addresses.")
@click.option("--page", type=click.IntRange(min=1), help="Show this page of a long list of members or links.")
@click.option("--wide", is_flag=True, help="Show all columns, in lines of more than 80 characters.")
def status(
    run_dir: Path, store: str | None, as_json: bool, links: bool, members: bool, search: str, page: int | None, wide: bool
) -> None:
    """Show processes, fabric, members, policy, slots and errors. Exits with 1 when no coordinator runs."""
    from controller.store.store import StoreUnavailable

    if links and members:
        raise click.UsageError("--links, --members: each shows one list; give one of them")
    shared = open_store(run_dir, store)
    try:
        found = collect(shared, run_dir if store is None else None)
    except StoreUnavailable as error:
        raise click.ClickException(str(error)) from None
    from cli.operate.status_view import LACKING, is_coordinated, lacks

    try:
        _show(found, "links" if links else "members" if members else "", search, page, as_json=as_json, wide=wide)
    except LACKING as error:
        raise click.ClickException(lacks(error)) from None
    sys.exit(found["coordinator"] is None and is_coordinated(found))


def _show(found: dict[str, Any], part: str, search: str, page: int | None, *, as_json: bool, wide: bool) -> None:
    """Prints what was collected; `part`: only its "links" or "members", or all (empty)."""
    if as_json:
        if part == "links" or search or page is not None:
            found = narrowed(found, part or "members", search, page)
        click.echo(json.dumps(found, indent=1))
    elif part == "links":
        from cli.operate.links import show as show_links

        show_links(found, search=search, page=page or 1)
    else:
        from cli.operate.status_view import show, show_members

        if not part:
            show(found, wide=wide, search=search, page=page or 1)
        elif not show_members(found["members"], wide=wide, search=search, page=page or 1):
            click.echo("no host with an agent is known: start one with `baton agent`")


def narrowed(found: dict[str, Any], name: str, search: str, page: int | None) -> dict[str, Any]:
    """What was collected, of the "members" or "links" those that match `search`, and of these a page if one is given.

    "links" are those of the table. "listed" says how many there are and match, and which of them these are. All else is as it
    was, for scripts that read it.
    """
    from cli.operate import links, status_view

    def page_of(**most: int) -> Page:
        if name == "links":
            return links.page_of(links.rows(found), search=search, page=page or 1, **most)
        return status_view.page_of(found["members"], search=search, page=page or 1, **most)

    part = page_of() if page is not None else page_of(most=sys.maxsize)
    if line := status_view.no_such(page or 1, part):
        click.echo(line, err=True)
    listed = {"list": name, **part.document()}
    rows = listed.pop("rows")
    shown = [row._asdict() for row in rows] if name == "links" else {str(row.node): row.told for row in rows}
    return {**found, name: shown, "listed": listed}


def collect(store: Store, run_dir: Path | None) -> dict[str, Any]:
    """What the store and, if given, the run directory hold, as JSON values.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    from controller.store.url import redacted

    processes: dict[str, dict[str, Any]] = {}
    config, config_error = "", ""
    if run_dir is not None:
        try:
            state = runstate.load(run_dir)
        except NothingUp as error:
            raise click.ClickException(str(error)) from None
        config, config_error = state.config, state.config_error
        processes["supervisor"] = {"pid": state.supervisor.pid, "restarts": 0}
        for name, identity in state.services.items():
            processes[name] = {
                "pid": identity.pid if identity else None,
                "restarts": state.restarts.get(name, 0),
            }
    status = store.status()
    found = {
        "store": redacted(store.url),
        "config": config,
        "config_error": config_error,
        "processes": processes,
        "override": store.override() or "coordinate",
        "policy": store.policy(),
        "coordinator": None if status is None else {"links": store.capacities(), **status},
        "controllers": store.controllers(),
        "members": {str(node): member for node, member in store.members().items()},
        "fabric": store.fabric(),
        "ports": store.ports(),
        "thresholds": store.thresholds(),
        "events": store.events(100),
    }
    return found | {"unreadable": store.connection.unread.lines()}
