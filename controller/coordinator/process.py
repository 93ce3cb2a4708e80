"""The coordinator's process: `python -m controller.coordinator.process --config FILE`. An edge: processes, scheduling.

It stands by until it is elected, leads until another controller is, and stands by again. A coordinator that died under load
must be back within a second, on a machine that has no processor to spare. So it starts its store bridge and its elector first,
and all three start, heavy imports included, at real-time priority; the store bridge then gives it up.
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
from collections.abc import Callable, Sequence
from pathlib import Path

from controller.config.settings import CoordinatorSettings
from controller.processes.confine import KEPT, LINK
from controller.processes.jsonlines import JsonLines
from controller.processes.logs import log_to_stderr
from controller.processes.pulse import Pulse
from protocol.realtime import become_realtime, hold_garbage
from protocol.units import SECOND_NS

log = logging.getLogger("baton.coordinator")

KEPT_PERIODS = 4
"""So many of the hosts' reports the store keeps at least what was published: as often as they come it is published again."""


class Helpers:
    """The coordinator's store bridge, elector and tuner, each a process at one end of a socket pair."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ends: dict[str, socket.socket] = {}

    def start(self, module: str, *arguments: str, store: str | None = None, given: Sequence[int] = ()) -> JsonLines:
        """Starts `python -m module ARGUMENTS --fd N`, in place of one that has ended, and returns the near end. It finds the
        URL of the store in BATON_REDIS: a URL may have a password, and every user of the machine can read arguments. `given`:
        other descriptors that it gets."""
        if (before := self._running.pop(module, None)) is not None:
            _end(before)
        ours, theirs = socket.socketpair()
        self._running[module] = subprocess.Popen(
            [sys.executable, "-m", module, *arguments, "--fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno(), *given],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"} | ({} if store is None else {"BATON_REDIS": store}),
        )
        theirs.close()
        self._ends[module] = ours
        return JsonLines(ours)

    def start_tuner(self) -> JsonLines:
        """Its lines do not block: what it has no time for is lost."""
        lines = self.start("controller.priorities.tuner")
        lines.socket.setblocking(False)
        return lines

    def end(self) -> None:
        """Ends them all."""
        for end in self._ends.values():  # the elector gives the lease back when it finds itself alone
            end.close()
        for process in self._running.values():
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _stop_by(*calls: Callable[[], None]) -> None:
    def stop(*_: object) -> None:
        for call in calls:
            call()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def main(arguments: list[str] | None = None) -> int:
    """FILE is the validated settings as JSON, as `baton up` writes it. BATON_LINK has the descriptors of two packet sockets in
    the interface's network namespace: this process may neither make one nor enter that (controller/processes/confine.py).
    BATON_KEPT has that of the file of the last epoch (controller/election/last_epoch.py); without it none is kept."""
    parser = argparse.ArgumentParser(prog="coordinate")
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(arguments)
    hold_garbage()
    log_to_stderr()
    settings = CoordinatorSettings.from_json(options.config.read_text())
    helpers = Helpers()
    try:
        kept = ["--keep-s", str(KEPT_PERIODS * settings.report_ns // SECOND_NS)]
        lines = helpers.start("controller.coordinator.store_bridge", *kept, store=settings.store)
        lease = ["--name", settings.name, "--lease-ns", str(settings.lease_ns)]
        lease += ["--replicas", str(settings.replicas)] if settings.replicas else []
        lease += ["--priority", str(settings.realtime_priority)] if settings.realtime_priority is not None else []
        kept_epoch = [int(number) for number in os.environ.get(KEPT, "").split()]
        lease += ["--last-fd", str(kept_epoch[0])] if kept_epoch else []
        elector = helpers.start("controller.election.elector", *lease, store=settings.store, given=kept_epoch)
        from controller.coordinator.candidate import CachedLines, Candidate  # late: see the module's docstring
        from controller.coordinator.coordinator import DEFERRED, Coordinator
        from controller.election.leadership import Leadership
        from controller.frames.library import LIBRARY
        from controller.members.admission import SHARED_KEY
        from controller.policies.compiled.library import why_missing
        from protocol.key import Key
        from protocol.keyring import KeyRing
        from protocol.keys.hosts import Master
        from protocol.link import ControlSocket

        for connection in (lines.socket, elector.socket):
            connection.setblocking(False)
        bridge, leadership = CachedLines(lines), Leadership.begin(settings, elector)
        keys = KeyRing(Master.load(settings.key_file))
        shared = Key.load(settings.shared_key_file) if settings.shared_key_file is not None else None
        if shared is not None:
            log.warning("%s", SHARED_KEY)
        given = [int(number) for number in os.environ.get(LINK, "").split()]
        link = ControlSocket(settings.interface, deferred=DEFERRED, priority_tag=settings.control_priority_tag, given=given)
        pulse = Pulse()
        candidate = Candidate(settings, keys, link, bridge, leadership, shared, pulse.beat)
        if refused := become_realtime(settings.realtime_priority):
            log.warning("%s", refused)
        if missing := LIBRARY.why_missing():
            log.warning("frames are handled one by one, which takes ten times as long: %s", missing)
        if slow := why_missing():  # compiled now, if need be: it may take longer than the loop may stand still
            log.warning("policies plan in Python, which takes fifty times as long: %s", slow)
        _stop_by(candidate.stop)
        while candidate.stand_by():
            coordinator = Coordinator(
                settings, keys, link, bridge, leadership, helpers.start_tuner, shared, compiled=not missing
            )
            _stop_by(candidate.stop, coordinator.stop)
            log.info("leading: epoch %d, policy %s, on %s", leadership.epoch, settings.policy, settings.interface)
            bridge.write({"leads": leadership.epoch})
            coordinator.take(bridge.latest(), time.monotonic_ns())
            coordinator.timers.every(time.monotonic_ns(), SECOND_NS, pulse.beat)
            coordinator.run()
            leadership.end_term(bridge)
    finally:
        helpers.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
