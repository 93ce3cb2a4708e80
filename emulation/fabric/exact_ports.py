"""Ports whose packets leave at exact times, for virtual time. An edge: netlink, eBPF.

    root prio 1:
     |- 1:1     control: EtherType 0x88B5   -> pfifo 12:   leaves at once
     |- 1:2     everything else             -> fq 13:      leaves at the time that the packet carries

HTB and TBF let a few packets pass at once after a pause. Here bpf/departure.bpf.c gives each packet its time at the egress, and
drops those for which the buffer of `buffer_packets` has no room; `fq` only keeps the times. What counts is what HTB counts: the
frame without its check sequence, preamble and gap.

A host's interface has `fq` as its root and drops nothing. While an agent's queues are in its place, the program does nothing.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

from pyroute2 import IPRoute

from agents.kernel.netlink import (
    RTM_DELQDISC,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    TC_H_ROOT,
    Netlink,
    NetlinkError,
    attribute,
    message,
    options,
)
from agents.kernel.qdiscs import NEW, pfifo
from ebpf.build import object_path
from ebpf.libbpf import BpfObject
from emulation.fabric import filters
from emulation.fabric.host_port import LIMIT_PACKETS, HostPort
from emulation.fabric.ports import CONTROL_PACKETS, CONTROL_QUEUE, DATA_QUEUE, ROOT, PortCounters, SwitchPort
from emulation.fabric.qdisc_stats import QdiscReader

HOST_ROOT = 0xBA740000
"""The handle of a host's root queue: another than those of agents, by which `lend` knows whose queues there are."""
NAME = "baton_departure"
CONTROL_CLASS, DATA_CLASS = ROOT | 1, ROOT | 2
_PORT = struct.Struct("=QQQQIIII")  # bpf/links.h: struct exact_port
_PLIMIT, _FLOW_PLIMIT, _RATE_ENABLE, _TIMER_SLACK, _HORIZON, _HORIZON_DROP = 1, 2, 5, 13, 14, 15  # TCA_FQ_*
_MAX_32 = 0xFFFFFFFF
_TIME_BYTES = 8


def fq(index: int, handle: int, parent: int, packets: int) -> bytes:
    """A new `fq` qdisc that only keeps the times that packets carry, with room for so many packets of any flows."""
    settings = ((_PLIMIT, packets), (_FLOW_PLIMIT, packets), (_RATE_ENABLE, 0), (_TIMER_SLACK, 0), (_HORIZON, _MAX_32))
    data = b"".join(attribute(kind, struct.pack("I", value)) for kind, value in settings)
    data += attribute(_HORIZON_DROP, b"\0")
    return message(RTM_NEWQDISC, NEW, index, handle=handle, parent=parent, body=options("fq", data))


def prio(index: int, handle: int, parent: int) -> bytes:
    """A new `prio` qdisc of two bands; packets without a class of it go to the second one."""
    body = options("prio", struct.pack("i16B", 2, *[1] * 16))
    return message(RTM_NEWQDISC, NEW, index, handle=handle, parent=parent, body=body)


class Departures:
    """The program that gives an interface's packets their times."""

    def __init__(self, rate_bps: int, packets: int, bands: int = 0) -> None:
        """Loads it. Raises BuildError, BpfError: it cannot be built or loaded.

        Args:
            packets: the buffer.
            bands: the handle of the root `prio` with a band for control frames and one for data; 0: there is none.
        """
        self._object = BpfObject(object_path("departure", filters.SOURCES), entries={"departures": packets})
        self._port = self._object.map("ports", 4, _PORT.size)
        self._times = self._object.map("departures", 4, _TIME_BYTES)
        self._rate_bps, self._packets, self._bands = rate_bps, packets, bands

    def attach(self, netlink: Netlink, index: int) -> None:
        """Attaches it at an interface's egress with an idle link and an empty buffer. Raises NetlinkError."""
        for slot in range(self._packets):
            self._times[struct.pack("=I", slot)] = bytes(_TIME_BYTES)
        self._port[bytes(4)] = _PORT.pack(self._rate_bps, 0, 0, 0, self._bands, self._packets, 0, 0)
        program = self._object.program_fd(NAME)
        filters.attach(netlink, index, filters.EGRESS, filters.DEPARTURE_PREFERENCE, program, NAME)

    def attached(self, netlink: Netlink, index: int) -> bool:
        """Whether it is where `attach` has put it."""
        return filters.attached(netlink, index, filters.EGRESS, filters.DEPARTURE_PREFERENCE, NAME)

    def pause(self) -> None:
        """Gives packets no times until the next `attach`."""
        self._port[bytes(4)] = bytes(_PORT.size)

    def drops(self) -> int:
        """The packets for which the buffer had no room since `attach`."""
        return int(_PORT.unpack(self._port.get(bytes(4)) or bytes(_PORT.size))[3])

    def close(self) -> None:
        """Frees what this process holds; the program stays at the interface."""
        self._object.close()


class ExactPort(SwitchPort):
    """One switch port's egress, in the network namespace in which it is made."""

    exact = True

    def __init__(self, netlink: IPRoute, name: str, rate_bps: int, buffer_packets: int) -> None:
        """Raises OSError, BuildError: there is no such interface, or the program cannot be built or loaded."""
        super().__init__(netlink, name, rate_bps, buffer_packets, hide_drops=False)
        self._tc = Netlink()
        self._departures = Departures(rate_bps, buffer_packets, ROOT)

    def shape(self) -> None:
        """Replaces the queues that the port has; counters start at zero."""
        _remove_root(self._tc, self.index)
        self._tc.request(prio(self.index, ROOT, TC_H_ROOT))
        self._tc.request(pfifo(self.index, CONTROL_QUEUE, CONTROL_CLASS, CONTROL_PACKETS))
        # The program drops; at one instant the queue may hold a packet more, whose time has just come.
        self._tc.request(fq(self.index, DATA_QUEUE, DATA_CLASS, 2 * self.buffer_packets + 1))
        self._departures.attach(self._tc, self.index)

    def counters(self, reader: QdiscReader) -> PortCounters:
        """The port's counters now."""
        data, control = reader.read(self.index, DATA_QUEUE), reader.read(self.index, CONTROL_QUEUE)
        return PortCounters(data._replace(drops=data.drops + self._departures.drops()), control)

    def drifts(self) -> list[str]:
        """What is no longer as `shape` set it, one line each."""
        kinds = {entry.handle: entry.kind for entry in self._tc.dump(RTM_GETQDISC, self.index)}
        wanted = {ROOT: "prio", CONTROL_QUEUE: "pfifo", DATA_QUEUE: "fq"}
        found = [
            f"{self.name}: queue {handle >> 16:x}: is {kinds.get(handle, 'nothing')}, not {kind}"
            for handle, kind in wanted.items()
            if kinds.get(handle) != kind
        ]
        if not self._departures.attached(self._tc, self.index):
            found.append(f"{self.name}: the program that gives packets their times is gone")
        return found

    def close(self) -> None:
        """Frees what this process holds for the port; the interface goes with its fabric."""
        self._departures.close()
        self._tc.close()


class ExactHostPort(HostPort):
    """One host's interface; the `Netlink` that `connect` makes is in the host's namespace."""

    def __init__(self, netlink: IPRoute, name: str, rate_bps: int, connect: Callable[[], Netlink]) -> None:
        """Raises BuildError, BpfError: the program cannot be built or loaded."""
        super().__init__(netlink, name, rate_bps)
        self._tc = connect()
        self._departures = Departures(rate_bps, LIMIT_PACKETS)
        self._lent = False

    def shape(self) -> None:
        """Replaces the root queue of the interface."""
        _remove_root(self._tc, self.index)
        self._tc.request(fq(self.index, HOST_ROOT, TC_H_ROOT, 2 * LIMIT_PACKETS))
        self._departures.attach(self._tc, self.index)
        self._lent = False

    def lend(self) -> None:
        """Gives packets no times as long as an agent has its queues here: they are not delayed, nor dropped, twice."""
        if self._root() != ("fq", HOST_ROOT):
            self._departures.pause()
            self._lent = True

    def verify(self) -> list[str]:
        """Shapes the interface again if it has drifted, or was lent; the drifts found."""
        found = self.drifts()
        if found or self._lent:
            self.shape()
        return found

    def _root(self) -> tuple[str, int]:
        roots = (entry for entry in self._tc.dump(RTM_GETQDISC, self.index) if entry.parent == TC_H_ROOT)
        return next(((root.kind, root.handle) for root in roots), ("nothing", 0))

    def drifts(self) -> list[str]:
        """What is no longer as `shape` set it, one line each."""
        kind, handle = self._root()
        if (kind, handle) != ("fq", HOST_ROOT):
            return [f"{self.name}: the root queue is {kind} {handle >> 16:x}:, not fq {HOST_ROOT >> 16:x}:"]
        if not self._departures.attached(self._tc, self.index):
            return [f"{self.name}: the program that gives packets their times is gone"]
        return []

    def close(self) -> None:
        """Frees what this process holds for the interface."""
        self._departures.close()
        self._tc.close()


def _remove_root(netlink: Netlink, index: int) -> None:
    with contextlib.suppress(NetlinkError):  # there was none to delete
        netlink.request(message(RTM_DELQDISC, 0, index, parent=TC_H_ROOT))
