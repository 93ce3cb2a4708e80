"""The coordinator's process: `python -m controller.coordinate --config FILE`. An edge: processes, scheduling.

A coordinator that died under load must be back within a second, on a machine that has no processor to spare. So its courier
is started first, beside it, and both start, heavy imports included, at real-time priority; the courier then gives it up.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from controller.jsonlines import JsonLines
from controller.settings import CoordinatorSettings
from protocol.realtime import become_realtime

log = logging.getLogger("baton.coordinator")


class Helpers:
    """The coordinator's courier and tuner, each a process at one end of a socket pair."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, module: str, *arguments: str) -> JsonLines:
        """Starts `python -m module ARGUMENTS --fd N`, in place of one that has ended, and returns the near end."""
        if (before := self._running.pop(module, None)) is not None:
            _end(before)
        ours, theirs = socket.socketpair()
        self._running[module] = subprocess.Popen(
            [sys.executable, "-m", module, *arguments, "--fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        theirs.close()
        return JsonLines(ours)

    def start_tuner(self) -> JsonLines:
        """Its lines do not block: what it has no time for is lost."""
        lines = self.start("controller.tuner")
        lines.socket.setblocking(False)
        return lines

    def end(self) -> None:
        """Ends them all."""
        for process in self._running.values():
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def main(arguments: list[str] | None = None) -> int:
    """FILE is the validated settings as JSON, as `baton up` writes it."""
    parser = argparse.ArgumentParser(prog="coordinate")
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    settings = CoordinatorSettings.from_json(options.config.read_text())
    helpers = Helpers()
    try:
        lines = helpers.start("controller.courier", "--store", settings.store)
        from controller.coordinator import Coordinator  # late: see the module's docstring
        from protocol.auth import Key
        from protocol.link import ControlSocket

        first = lines.read()
        if not first:
            log.error("the courier did not start")
            return 1
        epoch = int(first[0]["epoch"])
        lines.socket.setblocking(False)
        coordinator = Coordinator(
            settings, Key.load(settings.key_file), ControlSocket(settings.interface), lines, epoch, helpers.start_tuner
        )
        coordinator.take(first[1:], time.monotonic_ns())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, coordinator.stop)
        if refused := become_realtime(settings.realtime_priority):
            log.warning("%s", refused)
        log.info("epoch %d, policy %s, on %s", epoch, settings.policy, settings.interface)
        coordinator.run()
    finally:
        helpers.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
