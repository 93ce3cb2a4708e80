"""The coordinator's process: `python -m controller.coordinate --config FILE`. An edge: processes, scheduling.

A coordinator that died under load must be back within a second, on a machine that has no processor to spare. So its courier
is started first, beside it, and both start, heavy imports included, at real-time priority; the courier then gives it up.
"""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path

from controller.jsonlines import JsonLines
from controller.settings import CoordinatorSettings
from protocol.realtime import become_realtime

log = logging.getLogger("baton.coordinator")


def start_courier(store: str) -> tuple[JsonLines, subprocess.Popen[bytes]]:
    """Starts the courier on one end of a socket pair and returns the other."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "controller.courier", "--store", store, "--fd", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    return JsonLines(ours), process


def main(arguments: list[str] | None = None) -> int:
    """FILE is the validated settings as JSON, as `baton up` writes it."""
    parser = argparse.ArgumentParser(prog="coordinate")
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    settings = CoordinatorSettings.from_json(options.config.read_text())
    lines, courier = start_courier(settings.store)
    try:
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
            settings, Key.load(settings.key_file), ControlSocket(settings.interface), lines, epoch
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, coordinator.stop)
        if refused := become_realtime(settings.realtime_priority):
            log.warning("%s", refused)
        log.info("epoch %d, policy %s, on %s", epoch, settings.policy, settings.interface)
        coordinator.run()
    finally:
        courier.terminate()
        courier.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
