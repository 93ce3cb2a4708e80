"""Lets control frames go first at this machine's ports of the switches that Baton controls:
`python -m controller.switch_queues.control_keeper`. An edge: processes, netlink.

The supervisor runs it, for it needs rights that the OpenFlow application has not. The application connects, and sends a line of
JSON (`Wanted`) whenever switches or paths change; whatever it sends, this process touches nothing but control frames.
A port is on this machine if an interface of this network namespace has its name and its address. Control frames through a
switch that runs in userspace are led around it (`control_bypass`); at the ports of others they go first (`control_first`).
The keeper answers with a line (`Stranger`) when a station speaks to a coordinator on no known path: the frame by which the
switch would tell the controller may be lost in it. Once a second it looks after its ports again. When the connection ends, and
at SIGTERM, it undoes everything.

BATON_REDIS: the URL of the store, if there is one, for events.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from pyroute2 import IPRoute

from controller.processes.logs import log_to_stderr
from controller.store.store import Store, StoreUnavailable
from controller.switch_queues.control_bypass import Bypass, ControlBypass
from controller.switch_queues.control_first import ControlFirst
from controller.switch_queues.port import ROOT
from ebpf.build import BuildError
from ebpf.libbpf import BpfError

log = logging.getLogger("baton.control")

PERIOD_S, STRANGERS_S = 1.0, 0.05
PATIENCE_S = 5.0
"""How long to wait for an application that reads nothing."""
MOST_BYTES = 1 << 16
MOST_LINE = 1 << 24
"""How long a line may be: that of thousands of switches is shorter."""
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class WantedSwitch(NamedTuple):
    """One switch: the addresses of its ports by name, the ports by which heartbeats leave, and its control frames' paths as
    (port, source, target, port or none for all others)."""

    ports: dict[str, str]
    flooded: list[str]
    paths: list[tuple[str, str, str, str | None]]
    coordinators: list[str]


class Stranger(NamedTuple):
    """A station that speaks to a coordinator: the switch's datapath id, the port's name, the station's address."""

    dpid: str
    port: str
    address: str


class Wanted(NamedTuple):
    """All switches that Baton controls, by datapath id."""

    switches: dict[str, WantedSwitch]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote. Raises ValueError."""
        try:
            return cls({dpid: WantedSwitch(**fields) for dpid, fields in json.loads(text).items()})
        except (TypeError, AttributeError) as error:
            raise ValueError(f"control paths: {error}") from None

    def to_json(self) -> str:
        """The text that `from_json` reads, in one line."""
        return json.dumps({dpid: switch._asdict() for dpid, switch in self.switches.items()})


class ControlKeeper:
    """The ports of this network namespace."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._netlink = IPRoute()
        self._bypasses: dict[str, ControlBypass] = {}
        self._firsts: dict[str, ControlFirst] = {}
        self._told: dict[str, str] = {}
        self._wanted = Wanted({})

    def follow(self, wanted: Wanted) -> None:
        """Takes over what is wanted, and looks after the ports."""
        self._wanted = wanted
        self.check()

    def check(self) -> None:
        """Looks after every port once."""
        links = {link.get_attr("IFLA_IFNAME"): link for link in self._netlink.get_links()}
        here = {dpid: _local(switch, links) for dpid, switch in self._wanted.switches.items()}
        bypassed: set[str] = set()
        for dpid, ports in here.items():
            if ports and all(links[name].get_attr("IFLA_MASTER") is None for name in ports):
                bypassed |= self._lead(dpid, ports)
        for dpid in self._bypasses.keys() - {dpid for dpid, ports in here.items() if ports}:
            self._bypasses.pop(dpid).close()
        first = {name: index for ports in here.values() for name, index in ports.items() if name not in bypassed}
        for name in [name for name, port in self._firsts.items() if first.get(name) != port.index]:
            self._firsts.pop(name).remove()
        for name in first:
            self._go_first(name)

    def close(self) -> None:
        """Undoes everything."""
        for port in self._firsts.values():
            port.remove()
        for bypass in self._bypasses.values():
            bypass.close()
        self._firsts, self._bypasses = {}, {}
        self._netlink.close()

    def strangers(self) -> list[Stranger]:
        """Who has spoken to a coordinator on no known path since the last call."""
        found = []
        for dpid, bypass in self._bypasses.items():
            for index, address in bypass.strangers():
                with contextlib.suppress(OSError):  # the port is gone by now
                    found.append(Stranger(dpid, socket.if_indextoname(index), address.hex(":")))
        return found

    def _lead(self, dpid: str, ports: dict[str, int]) -> set[str]:
        """Leads control frames around a userspace switch; the ports that need nothing more: on the others it is refused."""
        switch = self._wanted.switches[dpid]
        paths = [
            Bypass(ports[port], _address(target), _address(source), ports[out] if out is not None else 0)
            for port, source, target, out in switch.paths
            if port in ports and (out is None or out in ports)
        ]
        try:
            bypass = self._bypasses.get(dpid)
            if bypass is None:
                bypass = self._bypasses[dpid] = ControlBypass()
            flooded = [ports[name] for name in switch.flooded if name in ports]
            bypass.follow(flooded, paths, map(_address, switch.coordinators))
            used = {path.port for path in paths} | set(flooded)
            bypass.detach(used)
        except (BuildError, OSError) as error:
            self._tell(f"switch {dpid}", f"control frames go through the switch: {error}")
            return set()
        refused = set[str]()
        for name in [name for name, index in ports.items() if index in used]:
            try:
                bypass.attach(ports[name])
            except BpfError as error:
                refused.add(name)
                self._tell(name, f"{name}: control frames go through the switch: {error}")
        return ports.keys() - refused

    def _go_first(self, name: str) -> None:
        try:
            port = self._firsts.get(name)
            if any(queue["handle"] == ROOT for queue in self._netlink.get_qdiscs(socket.if_nametoindex(name))):
                if port is not None:  # `switch_queues` serves control frames first there, by a priority of its own
                    self._firsts.pop(name).remove()
                return
            if port is None:
                port = self._firsts[name] = ControlFirst(self._netlink, name)
            waits = port.apply().waits
        except (BuildError, OSError) as error:
            waits = f"control frames do not go first: {error}"
        self._tell(name, f"{name}: {waits}" if waits else "")

    def _tell(self, what: str, text: str) -> None:
        """An event for the operator when something about this port or switch is new; an empty text: nothing is wrong."""
        if self._told.get(what, "") == text:
            return
        self._told[what] = text
        if not text:
            return
        log.warning("%s", text)
        if self._store is not None:
            with contextlib.suppress(StoreUnavailable):
                self._store.publish_event("control_first", "warning", text)


def _local(switch: WantedSwitch, links: dict[str, Any]) -> dict[str, int]:
    """The index of each port of a switch that is an interface of this namespace."""
    return {
        name: links[name]["index"]
        for name, address in switch.ports.items()
        if name in links and links[name].get_attr("IFLA_ADDRESS") == address.lower()
    }


def _address(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def keep(keeper: ControlKeeper, connection: socket.socket) -> None:
    """Follows the lines that come by a connection until it ends, or until a signal; then undoes everything."""
    rest, due = b"", time.monotonic() + PERIOD_S
    connection.settimeout(PATIENCE_S)
    try:
        while True:
            readable = select.select([connection], (), (), STRANGERS_S)[0]
            for stranger in keeper.strangers():
                connection.sendall(json.dumps(stranger).encode() + b"\n")
            if time.monotonic() >= due:
                keeper.check()
                due = time.monotonic() + PERIOD_S
            if not readable:
                continue
            got = connection.recv(MOST_BYTES)
            if not got:
                return
            *lines, rest = (rest + got).split(b"\n")
            if len(rest) > MOST_LINE:
                raise ValueError(f"more than {MOST_LINE} bytes without the end of a line")
            if lines:
                keeper.follow(Wanted.from_json(lines[-1].decode()))
    finally:
        keeper.close()


def serve(path: Path, peer: int, store: Store | None) -> None:
    """Listens at a Unix socket, and follows one OpenFlow application of the user `peer` after the other, without end."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        path.chmod(0o660)
        listening.listen()
        while True:
            connection, _ = listening.accept()
            with connection:
                credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                uid = _CREDENTIALS.unpack(credentials)[1]
                if uid not in (0, peer):
                    log.warning("a process of uid %d wanted to say where control frames go", uid)
                    continue
                try:
                    keep(ControlKeeper(store), connection)
                except Exception as error:  # whatever it sends: the next one is served
                    log.warning("the OpenFlow application: %s: %s", type(error).__name__, error)


def main(arguments: list[str] | None = None) -> int:
    """The supervisor starts it with --listen and --peer, an OpenFlow application without a supervisor with --fd."""
    parser = argparse.ArgumentParser(prog="control_keeper")
    parser.add_argument("--fd", type=int, help="One end of a socket pair, to serve until it ends.")
    parser.add_argument("--listen", type=Path, help="The socket at which to serve one application after the other.")
    parser.add_argument("--peer", type=int, default=0, help="The uid that may connect there, besides root.")
    options = parser.parse_args(arguments)
    log_to_stderr()

    def leave(*_: object) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    try:
        store = Store(os.environ["BATON_REDIS"]) if "BATON_REDIS" in os.environ else None
    except (ValueError, StoreUnavailable):
        store = None
    if options.listen is None:
        keep(ControlKeeper(store), socket.socket(fileno=options.fd))
    else:
        serve(options.listen, options.peer, store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
