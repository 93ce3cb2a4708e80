"""Makes and keeps the queues of `controller.switch_queues.model` at a switch port of this machine. An edge: netlink, eBPF.

    root htb ba70:                  the link's rate (ba70:1)
     |- ba70:2 prio 0               control: EtherType 0x88B5               -> pfifo ba71:
     |- ba70:4 prio 1               network: ARP, ICMP, LLDP, spanning tree -> pfifo ba72:
     |- ba70:3 prio 2               data -> htb ba73:, whose classes never lack tokens: strict priorities only
         |- ba73:1 to 8 prio 0 to 7 queues 0 to 7                           -> pfifo ba80: to ba87:

There are two levels since HTB has only eight priorities; and ba73: shows the backlog of all data. The classifier at the egress
hook (bpf/switch_queues.bpf.c) chooses the class, limits the shared buffer and marks. It reads the queues' real lengths; the
kernel's `red` could not do that, since a `red` can't see the sum of several queues.

`drifts` says what has changed; `verify` repairs it. Baton removes only what it made, and knows that by the handles and the
classifier's name. Queues of another program stay, and Baton makes none until the operator has removed them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from controller.switch_queues.model import BAND_PACKETS, DSCPS, MAX_RATE_BPS, QUEUES, PortQueues, QueueCounters
from ebpf import egress
from ebpf.build import object_path
from ebpf.libbpf import BpfObject
from protocol.units import FRAME_BYTES

SOURCES = Path(__file__).parent / "bpf"
# bpf/switch_queues.h has the same handles and layouts.
ROOT, CONTROL_FIFO, NETWORK_FIFO, DATA = 0xBA700000, 0xBA710000, 0xBA720000, 0xBA730000
LINK, CONTROL_CLASS, DATA_CLASS, NETWORK_CLASS = ROOT | 1, ROOT | 2, ROOT | 3, ROOT | 4
BANDS = QUEUES + 2
_SETTINGS = struct.Struct(f"=IIII{QUEUES}I{QUEUES}I{DSCPS}s")
_COUNTS = struct.Struct("=QQ")
CLASSIFIER, PREFERENCE = "baton_queues", 0xBA7
TC_H_ROOT, CLSACT, EGRESS, INGRESS = 0xFFFFFFFF, 0xFFFF0000, 0xFFFFFFF3, 0xFFFFFFF2
ETH_P_ALL = 3
NEVER = 0xFFFFFFFF
UNLIMITED = 4 * MAX_RATE_BPS // 8  # bytes/s
LEAF_BYTES_PER_S = 1000  # negligible: the classes below a link borrow its bandwidth
SUPER_PACKET_BYTES = 64 << 10
TIMER_S = 50e-6
"""How late a timer may fire without loss of throughput: the bucket covers so much time."""


def fifo(queue: int) -> int:
    """The handle of a data queue's pfifo."""
    return 0xBA800000 + (queue << 16)


class PortTaken(Exception):
    """The port has queues that another program made; the text says which, and what to do."""


def without_egress(qdiscs: Iterable[Any]) -> str:
    """Why programs cannot be attached to the egress of a port with these qdiscs, and what to do; empty: they can."""
    why = egress.without_egress(qdisc.get_attr("TCA_KIND") for qdisc in qdiscs)
    return f"{why}; replace it first" if why else ""


class QueuedPort:
    """One port's egress. The IPRoute must be in the calling thread's network namespace."""

    def __init__(self, netlink: IPRoute, name: str, port: PortQueues, *, preference: int = PREFERENCE) -> None:
        """Loads the classifier; changes nothing yet. Raises OSError (no such interface), BuildError, BpfError.

        `preference`: the classifier's among the programs at the egress; the kernel runs them from the lowest up.
        """
        self.name = name
        self.port = port
        self._preference = preference
        self.index = socket.if_nametoindex(name)
        self._netlink = netlink
        self._object = BpfObject(object_path("switch_queues", SOURCES))
        self._counts = self._object.map("counts", 4, _COUNTS.size)
        queues = port.queues
        threshold = NEVER if queues.marking_threshold_bytes is None else queues.marking_threshold_bytes
        self._object.map("settings", 4, _SETTINGS.size)[bytes(4)] = _SETTINGS.pack(
            queues.shared_packets,
            BAND_PACKETS,
            threshold,
            queues.per_queue,
            *(round(256 * share) for share in queues.share or (0,) * QUEUES),
            *queues.reserved,
            bytes(queues.dscp_to_queue),
        )

    # Making and keeping

    def apply(self) -> None:
        """Makes the queues; keeps those of an earlier process if they are right.

        Raises:
            PortTaken: the port has queues of another program, or an ingress qdisc.
            OSError: the kernel refuses; no half-made queues stay.
        """
        root = next((queue for queue in self._qdiscs().values() if queue["parent"] == TC_H_ROOT), None)
        if root is not None and root["handle"] >> 16 and root["handle"] != ROOT:
            kind, handle = root.get_attr("TCA_KIND"), f"{root['handle'] >> 16:x}:"
            raise PortTaken(f"{self.name}: has queues of another ({kind} {handle}); `tc qdisc del dev {self.name} root` first")
        self._make()

    def verify(self) -> list[str]:
        """Repairs whatever has changed; returns what had, one line each. Raises OSError, and PortTaken for an ingress qdisc."""
        if found := self.drifts():
            self._make()
        return found

    def drifts(self) -> list[str]:
        """What has changed since the queues were made, one line each. Raises OSError: the interface is gone."""
        found = [f"{self.name}: {drift}" for drift in self._queue_drifts()]
        if not self._has_classifier():
            found.append(f"{self.name}: the classifier that marks is gone")
        return found

    def remove(self) -> None:
        """Removes Baton's queues and classifier, and nothing else. The interface may be gone."""
        try:
            queues = self._qdiscs()
            if ROOT in queues and queues[ROOT]["parent"] == TC_H_ROOT:
                self._netlink.tc("del", index=self.index, parent=TC_H_ROOT)
            if self._has_classifier():
                self._netlink.tc(
                    "del-filter", "bpf", self.index, parent=EGRESS, prio=self._preference, protocol=ETH_P_ALL, handle=1
                )
                if not any(self._netlink.get_filters(self.index, parent=hook) for hook in (EGRESS, INGRESS)):
                    self._netlink.tc("del", "clsact", self.index)
        except NetlinkError as error:
            if self.index in {link["index"] for link in self._netlink.get_links()}:
                raise OSError(error.code, f"{self.name}: {error}") from None

    def close(self) -> None:
        """Frees the resources of this process; queues and classifier stay."""
        self._object.close()

    # Reading

    def counters(self) -> tuple[QueueCounters, ...]:
        """The counters of queues 0 to 7: sent since the queues were made, drops and marks since the classifier was loaded."""
        queues = self._qdiscs()
        return tuple(_counters(queues[fifo(queue)], *self._counted(queue)) for queue in range(QUEUES))

    def drops(self, *, data: bool) -> int:
        """Frames dropped for lack of buffer: of the data queues, or else of the control and network bands."""
        return sum(self._counted(band)[0] for band in (range(QUEUES) if data else range(QUEUES, BANDS)))

    def _counted(self, band: int) -> tuple[int, int]:
        drops, marks = _COUNTS.unpack(self._counts.get(struct.pack("=I", band)) or bytes(_COUNTS.size))
        return drops, marks

    # The kernel's state

    def _qdiscs(self) -> dict[int, Any]:
        return {message["handle"]: message for message in self._netlink.get_qdiscs(self.index)}

    def _has_classifier(self) -> bool:
        filters = self._netlink.get_filters(self.index, parent=EGRESS)
        options = (message.get_attr("TCA_OPTIONS") for message in filters)
        return any(_attribute(option, "TCA_BPF_NAME", "").startswith(CLASSIFIER) for option in options)

    def _queue_drifts(self) -> list[str]:
        found = []
        queues = self._qdiscs()
        if ROOT not in queues:
            return ["the queues are gone"]
        for handle, kind, limit in self._wanted_qdiscs():
            message = queues.get(handle)
            actual = message.get_attr("TCA_KIND") if message is not None else "nothing"
            if message is None or actual != kind:
                found.append(f"queue {handle >> 16:x}: is {actual}, not {kind}")
            elif kind == "pfifo" and (held := message.get_attr("TCA_OPTIONS")["limit"]) != limit:
                found.append(f"queue {handle >> 16:x}: holds {held} packets, not {limit}")
        classes = {message["handle"]: message for message in self._netlink.get_classes(self.index)}
        for handle, _, rate, ceil, priority in self._wanted_classes():
            options = classes[handle].get_attr("TCA_OPTIONS") if handle in classes else None
            made = _attribute(options, "TCA_HTB_PARMS", None)
            shown = f"class {handle >> 16:x}:{handle & 0xFFFF:x}"
            if made is None:
                found.append(f"{shown} is gone")
                continue
            # The parameters have 32 bits; the kernel tells a higher rate beside them.
            own, most = (_attribute(options, f"TCA_HTB_{name.upper()}64", made[name]) for name in ("rate", "ceil"))
            if (own, most) != (rate, ceil):
                found.append(f"{shown}: the rate is {most * 8} bit/s, not {ceil * 8}")
            elif handle != LINK and made["prio"] != priority:
                found.append(f"{shown}: the priority is {made['prio']}, not {priority}")
        return found

    def _wanted_qdiscs(self) -> list[tuple[int, str, int]]:
        """Handle, kind, and limit of a pfifo in packets: above the buffer's, which the classifier enforces."""
        spare = 2 * self.port.queues.buffer_packets
        bands = [(handle, "pfifo", 2 * BAND_PACKETS) for handle in (CONTROL_FIFO, NETWORK_FIFO)]
        queues = [(fifo(queue), "pfifo", spare) for queue in range(QUEUES)]
        return [(ROOT, "htb", 0), (DATA, "htb", 0), *bands, *queues]

    def _wanted_classes(self) -> list[tuple[int, int, int, int, int]]:
        """Handle, parent, rate and ceiling in bytes/s, priority; parents first."""
        rate = self.port.rate_bps // 8
        bands = ((CONTROL_CLASS, 0), (NETWORK_CLASS, 1), (DATA_CLASS, 2))
        return [
            (LINK, ROOT, rate, rate, 0),
            *((handle, LINK, LEAF_BYTES_PER_S, rate, priority) for handle, priority in bands),
            *((DATA | queue + 1, DATA, UNLIMITED, UNLIMITED, queue) for queue in range(QUEUES)),
        ]

    def _make(self) -> None:
        if why := without_egress(self._qdiscs().values()):
            raise PortTaken(f"{self.name}: {why}")
        try:
            if self._queue_drifts():
                self._make_queues()
            self._object.attach_egress(CLASSIFIER, self.index, self._preference, replace=True)
        except (NetlinkError, OSError) as error:
            self.remove()
            raise OSError(getattr(error, "code", None) or getattr(error, "errno", 0), f"{self.name}: {error}") from None

    def _make_queues(self) -> None:
        netlink, index = self._netlink, self.index
        if any(queue["parent"] == TC_H_ROOT and queue["handle"] >> 16 for queue in self._qdiscs().values()):
            netlink.tc("del", index=index, parent=TC_H_ROOT)
        link_burst = max(3 * FRAME_BYTES, int(self.port.rate_bps / 8 * TIMER_S))
        netlink.tc("add", "htb", index, ROOT, default=DATA_CLASS & 0xFFFF)
        for handle, parent, rate, ceil, priority in self._wanted_classes():
            if handle == DATA | 1:
                netlink.tc("add", "htb", index, DATA, parent=DATA_CLASS, default=QUEUES)
            burst = SUPER_PACKET_BYTES if rate == UNLIMITED else link_burst
            # HTB serves a class's own rate before borrowers of any priority, so the own rate is next to nothing.
            own = 1 if rate == LEAF_BYTES_PER_S else burst
            sizes = {"burst": own, "cburst": burst, "quantum": FRAME_BYTES}
            netlink.tc("add-class", "htb", index, handle, parent=parent, rate=rate, ceil=ceil, prio=priority, **sizes)
        parents = {CONTROL_FIFO: CONTROL_CLASS, NETWORK_FIFO: NETWORK_CLASS}
        parents.update({fifo(queue): DATA | queue + 1 for queue in range(QUEUES)})
        for handle, kind, limit in self._wanted_qdiscs():
            if kind == "pfifo":
                netlink.tc("add", kind, index, handle, parent=parents[handle], limit=limit)


def _counters(message: Any, drops: int, marks: int) -> QueueCounters:  # noqa: ANN401 -- pyroute2 is untyped
    statistics = message.get_attr("TCA_STATS2")
    sent, waiting = statistics.get_attr("TCA_STATS_BASIC"), statistics.get_attr("TCA_STATS_QUEUE")
    return QueueCounters(sent["packets"], sent["bytes"], drops + waiting["drops"], marks, waiting["qlen"])


def _attribute(options: Any, name: str, otherwise: Any) -> Any:  # noqa: ANN401 -- pyroute2 is untyped
    found = options.get_attr(name) if options is not None else None
    return otherwise if found is None else found
