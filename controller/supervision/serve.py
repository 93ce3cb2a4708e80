"""The supervisor as a process: `baton up --foreground` calls `serve`; all others start this module. An edge."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from controller.config.reading import ConfigError
from controller.processes.logs import LOG_FORMAT
from controller.store.store import StoreUnavailable
from controller.supervision.preflight import CannotStart
from controller.supervision.supervisor import Supervisor


def serve(
    path: Path | None,
    *,
    framework: str | None = None,
    owner: int = 0,
    standby: bool = False,
    log_to_file: bool = False,
    say: Callable[[str], None],
) -> int:
    """Starts the controller side and keeps it running until SIGTERM or SIGINT; returns the exit code. SIGHUP reloads.

    Calls `say` once, with "ready NAME=VALUE<tab>..." (the environment of the OpenFlow application) or "error TEXT".
    """
    try:
        supervisor = Supervisor(path, framework=framework, owner=owner, standby=standby)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: supervisor.stop())
        signal.signal(signal.SIGHUP, lambda *_: supervisor.reload_soon())
        supervisor.start(log_to_file=log_to_file)
    except (ConfigError, CannotStart, StoreUnavailable) as error:
        say(f"error {error}")
        return 1
    try:
        say("ready " + "\t".join(f"{name}={value}" for name, value in supervisor.environment.items()))
        supervisor.run()
    finally:
        supervisor.close()
    return 0


def main(arguments: list[str] | None = None) -> int:
    """`python -m controller.supervision.serve`: `baton up` starts it, and so does an OpenFlow application without one."""
    parser = argparse.ArgumentParser(prog="serve")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--framework", choices=("ryu", "os-ken"))
    parser.add_argument("--siblings-of", type=int, default=0)
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("--ready-fd", type=int, required=True)
    options = parser.parse_args(arguments)
    ready = os.fdopen(options.ready_fd, "w")

    def say(text: str) -> None:
        ready.write(text + "\n")
        ready.close()

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    return serve(
        options.config,
        framework=options.framework,
        owner=options.siblings_of,
        standby=options.standby,
        log_to_file=not options.siblings_of,
        say=say,
    )


if __name__ == "__main__":
    sys.exit(main())
