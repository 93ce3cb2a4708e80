"""Has control frames go first at this machine's switches, by `controller.switch_queues.control_keeper`. An edge: a process."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from controller.openflow.control_paths import control_paths, flooded
from controller.openflow.forwarding import ControlAttachment, coordinator_port
from controller.openflow.view import Link, View
from controller.switch_queues.control_keeper import MOST_BYTES, Stranger, Wanted, WantedSwitch

REPOSITORY = Path(__file__).resolve().parents[2]

log = logging.getLogger("baton.openflow")


def wanted(
    view: View, active: frozenset[Link], attachment: ControlAttachment | None, standbys: Iterable[ControlAttachment]
) -> Wanted:
    """What the keeper is to do for these switches. Pure; arguments as of `forwarding.tables`."""
    found = {}
    standbys = tuple(standbys)
    attached = (coordinator_port(view, each) for each in (attachment, *standbys))
    coordinators = [each.mac for each in attached if each is not None]
    for dpid, paths in control_paths(view, active, attachment, standbys).items():
        ports = view.switches[dpid].ports
        named = [
            (ports[path.port].name, path.source, path.target, None if path.out is None else ports[path.out].name)
            for path in paths
            if path.port in ports and (path.out is None or path.out in ports)
        ]
        addresses = {port.name: port.mac for port in ports.values()}
        leaving = sorted(ports[number].name for number in flooded(view, active, dpid))
        found[f"{dpid:016x}"] = WantedSwitch(addresses, leaving, named, coordinators)
    return Wanted(found)


class LocalSwitches:
    """The keeper's process, which ends with this one. It starts when there is something to say, and again if it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._told = ""
        self._heard: socket.socket | None = None
        self._rest = b""

    def tell(self, what: Wanted) -> None:
        """Tells the keeper what is wanted now, if that has changed."""
        text = what.to_json()
        alive = self._process is not None and self._process.poll() is None
        if alive and text == self._told:
            return
        try:
            if not alive:
                self._process = self._start()
            assert self._process is not None and self._process.stdin is not None
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
            self._told = text
        except OSError as error:
            log.warning("control frames do not go first at this machine's switches: %s", error)

    def strangers(self) -> Iterator[Stranger]:
        """Who speaks to a coordinator on no known path, as the keeper has seen since the last call; waits for nothing."""
        try:
            while self._heard is not None and (got := self._heard.recv(MOST_BYTES)):
                *lines, self._rest = (self._rest + got).split(b"\n")
                yield from (Stranger(*json.loads(line)) for line in lines)
        except BlockingIOError:
            return

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "controller.switch_queues.control_keeper"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        if self._heard is not None:
            self._heard.close()
        # A socket, since the framework's green threads make no read of a pipe that does not wait.
        self._heard, theirs = socket.socketpair()
        self._heard.setblocking(False)
        self._rest = b""
        with theirs:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs.fileno(), env=environment)
