"""Switch ports with a rate and a finite buffer, kept verified. An edge: netlink.

    root htb 1:                    default 1:3
     |- 1:1 the link's rate        the bucket of a few packets that makes it faithful
         |- 1:2 prio 0             control: EtherType 0x88B5          -> pfifo 12:
         |- 1:3 prio 1             everything else                    -> pfifo 13: `buffer_packets`, drop-tail

Both children have a negligible rate of their own and borrow from 1:1: so only its bucket shapes, and control frames go first.

Open vSwitch leaves the queues of a port alone if its QoS in OVSDB has the type `linux-noop` (`noop_qos`). `drifts` finds what
has changed all the same.

`emulation.fabric.priority_ports` has ports with eight priorities and ECN instead of one data queue.

A port drops frames in 13: (or 12:) and nowhere else: see `emulation.fabric.ovs` (socket buffers) and
`emulation.fabric.hidden_drops` (batches).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agents.kernel.netlink import Netlink
from controller.switch_queues.model import QueueCounters
from emulation.fabric import hidden_drops
from emulation.fabric.filters import EGRESS, HIDE_PREFERENCE, attach, attached
from emulation.fabric.qdisc_stats import QdiscReader, QdiscStats
from protocol.units import FRAME_BYTES

CONTROL_ETHERTYPE = 0x88B5
CONTROL_PACKETS = 64
# A timer that is late by less than burst / rate costs no throughput. A real port has no bucket: so a small one.
BURST_BYTES = 3 * FRAME_BYTES
LEAF_BYTES_PER_S = 1000  # negligible
ROOT, LINK, CONTROL, DATA = 0x10000, 0x10001, 0x10002, 0x10003
CONTROL_QUEUE, DATA_QUEUE = 0x120000, 0x130000
UNHEARD = "baton-unheard"


def noop_qos(port: str) -> tuple[str, ...]:
    """The ovs-vsctl arguments (after `--`) by which Open vSwitch leaves the queues of `port` alone."""
    return (f"--id=@{port}", "create", "QoS", "type=linux-noop", "--", "set", "Port", port, f"qos=@{port}")


class PortCounters(NamedTuple):
    """What a port has sent and dropped since it was shaped, apart for data and control frames."""

    data: QdiscStats
    control: QdiscStats

    @property
    def drops(self) -> int:
        """Frames that the port dropped, of both bands."""
        return self.data.drops + self.control.drops

    @property
    def sent_packets(self) -> int:
        """Frames that the port sent, of both bands."""
        return self.data.sent_packets + self.control.sent_packets


class SwitchPort:
    """One port's egress, in the network namespace of `netlink`."""

    data_queue = DATA_QUEUE
    """The handle of the queue whose backlog is that of all data."""
    exact = False
    """Whether packets leave at times that were computed for each of them (`emulation.fabric.exact_ports`)."""

    def __init__(self, netlink: IPRoute, name: str, rate_bps: int, buffer_packets: int, *, hide_drops: bool = True) -> None:
        """`hide_drops`: hides drops from a userspace datapath (see `emulation.fabric.hidden_drops`)."""
        self.name = name
        self.rate_bps = rate_bps
        self.buffer_packets = buffer_packets
        self.hide_drops = hide_drops
        self.index = socket.if_nametoindex(name)
        self._netlink = netlink

    def shape(self) -> None:
        """Replaces the queues that the port has; counters start at zero."""
        netlink, index = self._netlink, self.index
        _ignoring_absent(netlink, "del", index=index, parent=0xFFFFFFFF)
        netlink.tc("add", "htb", index, ROOT, default=DATA & 0xFFFF)
        rate = self.rate_bps // 8
        bucket = {"burst": BURST_BYTES, "cburst": BURST_BYTES, "quantum": FRAME_BYTES}
        netlink.tc("add-class", "htb", index, LINK, parent=ROOT, rate=rate, ceil=rate, **bucket)
        for band, (leaf, queue, limit) in enumerate(
            ((CONTROL, CONTROL_QUEUE, CONTROL_PACKETS), (DATA, DATA_QUEUE, self.buffer_packets))
        ):
            netlink.tc("add-class", "htb", index, leaf, parent=LINK, rate=LEAF_BYTES_PER_S, ceil=rate, prio=band, **bucket)
            netlink.tc("add", "pfifo", index, queue, parent=leaf, limit=limit)
        netlink.tc(
            "add-filter", "u32", index, parent=ROOT, prio=1, protocol=CONTROL_ETHERTYPE, target=CONTROL, keys=["0x0/0x0+0"]
        )
        if self.hide_drops:
            self._hide_drops()

    def counters(self, reader: QdiscReader) -> PortCounters:
        """The port's counters now."""
        return PortCounters(reader.read(self.index, DATA_QUEUE), reader.read(self.index, CONTROL_QUEUE))

    def queue_counters(self) -> tuple[QueueCounters, ...]:
        """The counters of each data queue; empty for a port with one data queue, whose counters `counters` has."""
        return ()

    def close(self) -> None:
        """Frees what this process holds for the port; the interface goes with its fabric."""

    def drifts(self) -> list[str]:
        """What is no longer as `shape` set it, one line each."""
        found = []
        queues = {message["handle"]: message for message in self._netlink.get_qdiscs(self.index)}
        for handle, kind in ((ROOT, "htb"), (CONTROL_QUEUE, "pfifo"), (DATA_QUEUE, "pfifo")):
            actual = queues[handle].get_attr("TCA_KIND") if handle in queues else "nothing"
            if actual != kind:
                found.append(f"{self.name}: queue {handle >> 16:x}: is {actual}, not {kind}")
        limit = _limit(queues.get(DATA_QUEUE))
        if limit is not None and limit != self.buffer_packets:
            found.append(f"{self.name}: the buffer holds {limit} packets, not {self.buffer_packets}")
        classes = {message["handle"]: message for message in self._netlink.get_classes(self.index)}
        rate = _rate(classes.get(LINK))
        if rate != self.rate_bps // 8:
            found.append(f"{self.name}: the rate is {(rate or 0) * 8} bit/s, not {self.rate_bps}")
        if not self._netlink.get_filters(self.index, parent=ROOT):
            found.append(f"{self.name}: the filter for control frames is gone")
        if self.hide_drops and not self._hides_drops():
            found.append(f"{self.name}: the classifier that hides drops is gone")
        return found

    def verify(self) -> list[str]:
        """Shapes the port again if it has drifted; the drifts found."""
        if found := self.drifts():
            self.shape()
        return found

    def _hide_drops(self) -> None:
        descriptor = hidden_drops.load_classifier()
        try:
            with closing(Netlink()) as netlink:
                attach(netlink, self.index, EGRESS, HIDE_PREFERENCE, descriptor, UNHEARD)
        finally:
            os.close(descriptor)

    def _hides_drops(self) -> bool:
        with closing(Netlink()) as netlink:
            return attached(netlink, self.index, EGRESS, HIDE_PREFERENCE, UNHEARD)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The backlog of one port's data queue over time: instants by CLOCK_MONOTONIC, packets."""

    times_ns: tuple[int, ...]
    packets: tuple[int, ...]


class OccupancySampler:
    """Samples the data queues of ports inside its block, from a thread of its own.

    One reading costs about 10 microseconds. The thread sleeps `interval_ns` between rounds, so rounds drift: each sample has
    its own time.
    """

    def __init__(self, ports: Iterable[SwitchPort], interval_ns: int = 1_000_000) -> None:
        self._ports = tuple(ports)
        self._interval_s = interval_ns / 1e9
        self._samples: dict[str, list[tuple[int, int]]] = {port.name: [] for port in self._ports}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="occupancy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def occupancy(self, port: SwitchPort, until_ns: int | None = None) -> Occupancy:
        """The samples of a port, before an instant of CLOCK_MONOTONIC if one is given; call it once the block has ended."""
        samples = [sample for sample in self._samples[port.name] if until_ns is None or sample[0] < until_ns]
        return Occupancy(tuple(at for at, _ in samples), tuple(packets for _, packets in samples))

    def _sample(self) -> None:
        reader = QdiscReader()
        try:
            while not self._ended.wait(self._interval_s):
                for port in self._ports:
                    self._samples[port.name].append(
                        (time.monotonic_ns(), reader.read(port.index, port.data_queue).backlog_packets)
                    )
        finally:
            reader.close()


def _ignoring_absent(netlink: IPRoute, command: str, **arguments: int | str) -> None:
    try:
        netlink.tc(command, **arguments)
    except NetlinkError:  # ENOENT or EINVAL, depending on the kind: there was none
        return


def _limit(queue: Any) -> int | None:  # noqa: ANN401 -- pyroute2 is untyped
    options = queue.get_attr("TCA_OPTIONS") if queue is not None else None
    return None if options is None else int(options["limit"])


def _rate(shaped: Any) -> int | None:  # noqa: ANN401 -- pyroute2 is untyped
    options = shaped.get_attr("TCA_OPTIONS") if shaped is not None else None
    return None if options is None else int(options.get_attr("TCA_HTB_PARMS")["rate"])
