"""Makes and keeps the queues of this machine's switch ports: `python -m controller.switch_queues.keeper --config FILE`. An
edge: processes, netlink.

`baton up` runs it when the configuration has a section `switch_queues`, `baton switch-queues` on machines that are only
switches. Once a second it checks every interface that the section names. It makes the queues of a new interface, and makes them
again where another program has changed them; each of these is one event for the operator, and so is a name that no interface
has. At SIGTERM it removes its queues; the queues of a killed keeper stay, and the next one takes them over.

A check costs about 10 ms of processor time a port (docs/operating.md).
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from pyroute2 import IPRoute

from controller.processes.logs import log_to_stderr
from controller.store.store import Store, StoreUnavailable
from controller.switch_queues import ovs
from controller.switch_queues.model import KeeperSettings, PortQueues
from controller.switch_queues.ovs import PortHasQos
from controller.switch_queues.port import PortTaken, QueuedPort
from ebpf.build import BuildError

log = logging.getLogger("baton.queues")

PERIOD_S = 1.0
PATIENT_CHECKS = 15
"""After so many checks a name that no port has is told: a switch may make its ports later than this machine starts."""


class Keeper:
    """The ports of one configuration, in this process's network namespace."""

    def __init__(self, settings: KeeperSettings, store: Store | None = None, *, machine: str = "") -> None:
        """`machine`: the name of this machine, for events, where it is not the controller's."""
        self._settings = settings
        self._store = store
        self._where = f"{machine}: " if machine else ""
        self._netlink = IPRoute()
        self._kept: dict[str, QueuedPort] = {}
        self._troubles: dict[str, str] = {}
        self._idle: dict[str, int] = {}
        """By name in the settings: for how many checks it has meant no port."""

    def check(self) -> None:
        """Checks every port once, and repairs it."""
        names = socket.if_nameindex()
        wanted = dict(self._wanted(names))
        self._look_for_idle([name for _, name in names])
        ports = {index for index, _ in wanted.values()}
        for name, port in list(self._kept.items()):
            if port.index not in ports:  # gone, or with a name that is no port's
                self._give_back(name)
            elif name not in wanted or wanted[name][0] != port.index:  # with the name of another port
                self._forget(name)
        for name, (_, queues) in wanted.items():
            try:
                self._keep(name, queues)
            except (PortTaken, PortHasQos, BuildError, OSError) as error:
                if self._troubles.get(name) != str(error):
                    self._troubles[name] = str(error)
                    self._tell("error", f"switch_queues: {error}")
            else:
                if self._troubles.pop(name, None) is not None:
                    self._tell("info", f"switch_queues: {name}: its queues are kept")

    def close(self) -> None:
        """Removes all queues that this keeper made."""
        for name in list(self._kept):
            self._give_back(name)
        self._netlink.close()

    def _look_for_idle(self, names: list[str]) -> None:
        """Tells of each line of the settings that means no port, and later that it does."""
        left = set(names)
        for pattern, _ in self._settings.ports:
            matching = set(fnmatch.filter(names, pattern))
            if matching & left:
                if self._idle.pop(pattern, 0) >= PATIENT_CHECKS:
                    self._tell("info", f"switch_queues.ports: {pattern}: has an interface now")
                left -= matching
                continue
            self._idle[pattern] = self._idle.get(pattern, 0) + 1
            if self._idle[pattern] == PATIENT_CHECKS:
                why, remedy = "no interface of this machine has such a name", "make the interface"
                if matching:
                    why, remedy = "earlier lines name all its interfaces, and the first counts", "leave it out"
                self._tell("warning", f"switch_queues.ports: {pattern}: {why}; correct it, or {remedy}")

    def _wanted(self, names: list[tuple[int, str]]) -> Iterator[tuple[str, tuple[int, PortQueues]]]:
        """The existing interfaces that the settings name, with index; the first pattern that matches an interface counts."""
        for index, name in names:
            for pattern, rate_bps in self._settings.ports:
                if fnmatch.fnmatchcase(name, pattern):
                    yield name, (index, PortQueues(rate_bps, self._settings.queues))
                    break

    def _keep(self, name: str, wanted: PortQueues) -> None:
        if (port := self._kept.get(name)) is None:
            port = QueuedPort(self._netlink, name, wanted)
            try:
                ovs.set_noop_qos(name)
                port.apply()
            except BaseException:
                port.close()
                ovs.clear_noop_qos(name)
                raise
            self._kept[name] = port
            self._tell("info", f"switch_queues: {name}: eight priorities, {wanted.queues.buffer_packets} packets")
        elif drifts := port.drifts():
            ovs.set_noop_qos(name)
            port.verify()
            more = f" and {len(drifts) - 1} more" if len(drifts) > 1 else ""
            self._tell("warning", f"switch_queues: {drifts[0]}{more}; put right")

    def _give_back(self, name: str) -> None:
        try:
            self._kept[name].remove()
        except OSError as error:
            log.error("%s", error)
        self._forget(name)

    def _forget(self, name: str) -> None:
        ovs.clear_noop_qos(name)
        self._kept.pop(name).close()

    def _tell(self, severity: str, text: str) -> None:
        text = self._where + text
        log.log(logging.INFO if severity == "info" else logging.WARNING, "%s", text)
        if self._store is not None:
            with contextlib.suppress(StoreUnavailable):
                self._store.publish_event("switch_queues", severity, text)


def keep(keeper: Keeper) -> None:
    """Keeps the ports until SIGTERM or SIGINT, then removes the queues. For the main thread."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        while not stopping.is_set():
            keeper.check()
            stopping.wait(PERIOD_S)
    finally:
        keeper.close()


def main(arguments: list[str] | None = None) -> int:
    """`--config FILE`: `KeeperSettings` as JSON, as `baton up` writes it. BATON_REDIS: the URL of the store, if any."""
    parser = argparse.ArgumentParser(prog="queue_keeper")
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(arguments)
    log_to_stderr()
    try:
        settings = KeeperSettings.from_json(options.config.read_text(encoding="utf-8"))
        store = Store(os.environ["BATON_REDIS"]) if "BATON_REDIS" in os.environ else None
    except (OSError, ValueError, StoreUnavailable) as error:
        parser.error(str(error))
    keep(Keeper(settings, store))
    return 0


if __name__ == "__main__":
    sys.exit(main())
