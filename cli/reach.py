"""How a command finds the store of what is up: shared by the commands that read or change the running
system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from controller.supervision import runstate
from controller.supervision.runstate import DEFAULT_RUN_DIR, NothingUp

if TYPE_CHECKING:
    from controller.store.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def store_options(command: Command) -> Command:
    """Adds --run-dir and --store."""
    command = click.option(
        "--run-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=DEFAULT_RUN_DIR,
        show_default=True,
        help="The run_dir of the configuration that is up here.",
    )(command)
    return click.option("--store", help="The store's URL, for a controller side on another machine.")(command)


def open_store(run_dir: Path, url: str | None) -> Store:
    """The store that `--store` names, or that of what is up in the run directory. Ends the command when
    there is none."""
    from controller.store.store import Store, StoreUnavailable

    try:
        if url is None:
            state = runstate.load(run_dir)
            if not state.alive():
                raise NothingUp(f"what was up in {run_dir} was killed: `baton down` tidies up, `baton up` starts it again")
            url = state.store
        return Store(url)
    except (NothingUp, StoreUnavailable) as error:
        raise click.ClickException(str(error)) from None
