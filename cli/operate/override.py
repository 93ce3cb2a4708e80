"""`baton free` and `baton coordinate`: the operator's global override."""

from __future__ import annotations

from pathlib import Path

import click

from cli.reach import open_store, store_options
from cli.values import operator
from controller.processes.waiting import wait_until

SEEN_S = 3.0


@click.command()
@store_options
def free(run_dir: Path, store: str | None) -> None:
    """Open every gate at once: every host sends freely, as if there were no Baton."""
    _override("free", run_dir, store)


@click.command()
@store_options
def coordinate(run_dir: Path, store: str | None) -> None:
    """Let the policy decide again which host may send, after `baton free`."""
    _override("coordinate", run_dir, store)


def _override(word: str, run_dir: Path, url: str | None) -> None:
    from controller.store.store import StoreUnavailable

    store = open_store(run_dir, url)
    try:
        store.set_override(word)
        try:
            store.publish_event("override", "warning", f"override: {word}", by=operator())
        except StoreUnavailable as error:  # an event that can't be written keeps no gate closed
            click.echo(f"override set to {word}, but no event tells of it: {error}", err=True)
        leads = store.status() is not None
        taken = leads and wait_until(lambda: (store.status() or {}).get("override") == word, timeout_s=SEEN_S)
    except StoreUnavailable as error:
        raise click.ClickException(str(error)) from None
    done = "every gate is open" if word == "free" else "the policy decides"
    if not leads and word == "free":
        done = "set to free; no coordinator is running now, so every gate is open, and stays so when one starts"
    elif not leads:
        done = "set to coordinate; no coordinator is running now, so every gate is open until one starts"
    elif not taken:
        raise click.ClickException(
            f"override set to {word}, but the coordinator did not apply it within {SEEN_S:g} s: see its log"
        )
    click.echo(done)
