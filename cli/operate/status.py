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


@click.command()
@store_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--links", is_flag=True, help="Show what each link carries, and how that is known.")
@click.option("--members", is_flag=True, help="Show the members only.")
@click.option("--search", default="", metavar="WORDS", help="Show the members or links that match all words: names, addresses.")
@click.option("--page", type=click.IntRange(min=1), default=1, help="Show this page of a long list of members or links.")
@click.option("--wide", is_flag=True, help="Show all columns, in lines of more than 80 characters.")
def status(
    run_dir: Path, store: str | None, as_json: bool, links: bool, members: bool, search: str, page: int, wide: bool
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
    if as_json:
        click.echo(json.dumps(found, indent=1))
    elif links:
        from cli.operate.links import show as show_links

        show_links(found, search=search, page=page)
    else:
        from cli.operate.status_view import show, show_members

        if not members:
            show(found, wide=wide, search=search, page=page)
        elif not show_members(found["members"], wide=wide, search=search, page=page):
            click.echo("no host with an agent is known: start one with `baton agent`")
    from cli.operate.status_view import is_coordinated

    sys.exit(found["coordinator"] is None and is_coordinated(found))


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
    return {
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
