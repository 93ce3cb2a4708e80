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

from controller.openflow.tables.control_paths import control_paths, flooded
from controller.openflow.tables.forwarding import ControlAttachment, coordinator_port
from controller.openflow.view import Link, View
from controller.switch_queues.control_keeper import MOST_BYTES, Stranger, Wanted, WantedSwitch

REPOSITORY = Path(__file__).resolve().parents[2]

log = logging.getLogger("baton.openflow")


def wanted(
    view: View,
    active: frozenset[Link],
    attachment: ControlAttachment | None,
    standbys: Iterable[ControlAttachment],
    dpids: Iterable[int] | None = None,
) -> Wanted:
    """What the keeper is to do for these switches, or every one of the view. Pure; the rest as of `forwarding.tables`."""
    found = {}
    standbys = tuple(standbys)
    attached = (coordinator_port(view, each) for each in (attachment, *standbys))
    coordinators = [each.mac for each in attached if each is not None]
    for dpid, paths in control_paths(view, active, attachment, standbys, dpids).items():
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
    """The keeper: the supervisor's, which listens at a Unix socket; without a supervisor, a child that ends with this process.
    It is called when there is something to say, and again if it has died."""

    def __init__(self, path: str | None = None) -> None:
        """`path`: where the supervisor's keeper listens; None: there is no supervisor."""
        self._path = path
        self._told = ""
        self._connection: socket.socket | None = None
        self._heard: socket.socket | None = None
        self._rest = b""
        self._trouble = ""

    def tell(self, what: Wanted) -> None:
        """Tells the keeper what is wanted now, if that has changed."""
        text = what.to_json()
        if self._connection is not None and text == self._told:
            return
        self._told = text
        try:
            if self._connection is None:
                self._connection = self._started() if self._path is None else self._called(self._path)
                # A second one, since the framework's green threads wait wherever a socket may block.
                self._heard = self._connection.dup()
                self._heard.setblocking(False)
                self._rest = b""
            self._connection.sendall(text.encode() + b"\n")
            self._trouble = ""
        except OSError as error:
            self._hang_up()
            if str(error) != self._trouble:
                log.warning("control frames do not go first at this machine's switches: %s", error)
            self._trouble = str(error)

    def strangers(self) -> Iterator[Stranger]:
        """Who speaks to a coordinator on no known path, as the keeper has seen since the last call; waits for nothing."""
        try:
            while self._heard is not None:
                if not (got := self._heard.recv(MOST_BYTES)):
                    self._hang_up()
                    return
                *lines, self._rest = (self._rest + got).split(b"\n")
                yield from (Stranger(*json.loads(line)) for line in lines)
        except BlockingIOError:
            return
        except OSError:
            self._hang_up()

    @property
    def lost(self) -> bool:
        """Whether the keeper has gone, or was not there, so that it must be told again."""
        return bool(self._told) and self._connection is None

    def _hang_up(self) -> None:
        for end in (self._connection, self._heard):
            if end is not None:
                end.close()
        self._connection = self._heard = None

    def _called(self, path: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.connect(path)
        except OSError:
            made.close()
            raise
        return made

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "controller.switch_queues.control_keeper", "--fd", str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        with theirs:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=environment)
        return ours
