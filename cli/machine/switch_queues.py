"""`baton switch-queues`."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click

from cli.operate.up import DEFAULT_CONFIG
from controller.processes.logs import log_to_stderr


@click.command("switch-queues")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_CONFIG,
    show_default=True,
    help="The YAML file; its section switch_queues names ports of this machine.",
)
@click.option("--store", help="The URL of the controller's store, for events.  [default: the file's store, if any]")
def switch_queues(config: Path, store: str | None) -> None:
    """Set up the queues of this machine's switch ports, and keep them in place until the command is stopped.

    For machines with switches but no controller; on the controller, `baton up` does the same. At the end it removes the
    queues that it set up.
    """
    from controller.config.reading import ConfigError, load
    from controller.store.store import Store, StoreUnavailable
    from controller.switch_queues.keeper import Keeper, keep

    try:
        loaded = load(config)
        if loaded.switch_queues is None:
            raise click.ClickException(f"{config}: switch_queues: is missing; name the ports of this machine and their rates")
        url = store or loaded.store
        events = Store(url) if url else None
    except (ConfigError, StoreUnavailable) as error:
        raise click.ClickException(str(error)) from None
    if os.geteuid() != 0:
        raise click.ClickException("queues need root: run the command with sudo")
    log_to_stderr()
    keep(Keeper(loaded.switch_queues.settings(), events, machine=socket.gethostname()))
