"""How commands reach the running system: the options that name its store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from controller.supervision import runstate
from controller.supervision.runstate import DEFAULT_RUN_DIR, NothingUp
from protocol.bodies.text import printable

if TYPE_CHECKING:
    from controller.store.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def store_options(command: Command) -> Command:
    """Adds --run-dir and --store to a command."""
    command = click.option(
        "--run-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=DEFAULT_RUN_DIR,
        show_default=True,
        help="The run_dir of the configuration that runs on this machine.",
    )(command)
    return click.option("--store", help="The store's URL, for a controller side on another machine.")(command)


def open_store(run_dir: Path, url: str | None) -> Store:
    """The store that `--store` names, or else the one that the run directory's `baton up` uses.

    Ends the command with an error if Baton does not run there, or the URL is wrong.
    """
    from controller.store.store import Store, StoreUnavailable

    try:
        if url is None:
            state = runstate.load(run_dir)
            if not state.alive():
                down = runstate.command("down", run_dir)
                raise NothingUp(f"what was up in {run_dir} was killed: `{down}` tidies up, `baton up` starts it again")
            url = state.store
        return Store(url)
    except (NothingUp, StoreUnavailable) as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def using_store() -> Iterator[None]:
    """A block, or a function, that uses the store. Ends the command with an error where the store is away, or a document there
    is not as this Baton writes it."""
    from controller.store.store import StoreUnavailable

    try:
        yield
    except StoreUnavailable as error:
        raise click.ClickException(str(error)) from None
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        lacks = printable(f"what the store holds lacks something ({type(error).__name__}: {error})")
        raise click.ClickException(f"{lacks}; upgrade the older Baton, or see `baton status --json`") from None
