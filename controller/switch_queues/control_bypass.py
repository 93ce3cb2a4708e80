"""Leads control frames around a switch that runs in userspace, in the kernel, from port to port. An edge: eBPF.

Such a switch reads each port through a packet socket and sends by another one: with full links, or without a processor,
frames are lost there before any queue could tell them apart. See bpf/control_path.bpf.c; no setting of the switch or its ports
changes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ebpf.build import object_path
from ebpf.libbpf import BpfMap, BpfObject

SOURCES = Path(__file__).parent / "bpf"
# bpf/control_first.h has the same layouts.
_KEY, _PATH, _INDEX, _STATION = struct.Struct("=I6s6s"), struct.Struct("=IIQ"), struct.Struct("=I"), struct.Struct("=6sH")


class Bypass(NamedTuple):
    """Frames from `source` to `target` (6 bytes each) that come in by interface `port` leave by `out`; 0: by all others."""

    port: int
    target: bytes
    source: bytes
    out: int


class ControlBypass:
    """The ports of one userspace switch. The programs stay until `close`, or the end of this process, however it ends."""

    def __init__(self) -> None:
        """Loads the program. Raises BuildError, BpfError."""
        self._object = BpfObject(object_path("control_path", SOURCES))
        self._paths = self._object.map("paths", _KEY.size, _PATH.size)
        self._ports = self._object.map("ports", _INDEX.size, _INDEX.size)
        self._coordinators = self._object.map("coordinators", _STATION.size, _INDEX.size)
        self._strangers = self._object.map("strangers", _KEY.size, _INDEX.size)
        self._links: dict[int, int] = {}
        self._written: dict[bytes, int] = {}

    def attach(self, port: int) -> None:
        """Leads the control frames that come in here. Raises BpfError: the interface has another's program, which stays."""
        if port not in self._links:
            self._links[port] = self._object.attach_xdp("baton_path", port)

    def follow(self, ports: Iterable[int], paths: Iterable[Bypass], coordinators: Iterable[bytes]) -> None:
        """From now on leads frames by these paths, and those to all by these interfaces; notes who speaks to a coordinator on
        no path. Raises BpfError: an interface is gone, or there are more paths than the table holds."""
        paths, wanted = tuple(paths), frozenset(ports)
        _replace(self._ports, {_INDEX.pack(index): _INDEX.pack(index) for index in wanted})
        _replace(self._coordinators, {_STATION.pack(address, 0): _INDEX.pack(1) for address in coordinators})
        known = {_KEY.pack(path.port, path.target, path.source): path.out for path in paths}
        for key in self._written.keys() - known.keys():
            self._paths.remove(key)
            del self._written[key]
        for key, out in known.items():
            if self._written.get(key) != out:
                self._paths[key] = _PATH.pack(out, 0, 0)
                self._written[key] = out

    def detach(self, ports: Iterable[int]) -> None:
        """Takes the program off every other interface."""
        for index in self._links.keys() - frozenset(ports):
            os.close(self._links.pop(index))

    def strangers(self) -> list[tuple[int, bytes]]:
        """The interface and the address of each station that has spoken to a coordinator on no path since the last call."""
        keys = list(self._strangers.keys())
        for key in keys:
            self._strangers.remove(key)
        return [(index, source) for index, _, source in map(_KEY.unpack, keys)]

    def close(self) -> None:
        """Takes the programs off the interfaces."""
        while self._links:
            os.close(self._links.popitem()[1])
        self._object.close()


def _replace(held: BpfMap, wanted: Mapping[bytes, bytes]) -> None:
    for key in [key for key in held.keys() if key not in wanted]:  # noqa: SIM118 -- no dict
        held.remove(key)
    for key, value in wanted.items():
        held[key] = value
