"""Puts packets into the traffic class of their destination, on an interface that does PFC itself. An edge: eBPF, netlink.

The interface pauses a class of transmit queues. A packet's queue follows from its priority, by the interface's own map from
priorities to classes (`dcb ets show`). Packets to no destination node, above all control frames, get a priority without PFC.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping

from agents.bpf.build import object_path
from agents.kernel import qdiscs
from agents.kernel.netlink import RTM_GETQDISC, RTM_GETTFILTER, Netlink, NetlinkError
from agents.kernel.snapshot import EGRESS, NIC_CLASS_PREFERENCE, without_egress
from agents.queues.queues import CONTROL, FIRST_NODE, LAST_NODE, OTHER, ROOT, SMALL
from ebpf.libbpf import BpfObject
from protocol.pfc import CLASSES

DEFAULT = 0


class NicClasses:
    """The priorities of packets on one interface, over the classifier and the HTB of `agents.queues.queues`.

    Args:
        lossless: the priorities that have PFC.

    Raises:
        BuildError, BpfError: the programs cannot be built or loaded; nothing is changed then.
    """

    def __init__(self, interface: str, lossless: Collection[int]) -> None:
        self._interface, self._index = interface, socket.if_nametoindex(interface)
        self._netlink = Netlink()
        self._object = BpfObject(object_path("nic_class"))
        self._map = self._object.map("nic_classes", 4, 4)
        self._mapped: dict[int, int] = {}
        free = [priority for priority in range(CLASSES) if priority not in lossless]
        self.unpaused = free[-1] if free else DEFAULT
        for minor in (CONTROL & 0xFFFF, SMALL & 0xFFFF, OTHER & 0xFFFF):
            self._write(minor, self.unpaused)

    def install(self) -> None:
        """Attaches both programs to queues that exist. Raises BpfError, NetlinkError."""
        self._attach()
        self._filter()

    def _attach(self) -> None:
        self._object.attach_egress("set_class", self._index, NIC_CLASS_PREFERENCE, replace=True)

    def _filter(self) -> None:
        fd = self._object.program_fd("find_class")
        self._netlink.request(qdiscs.bpf_filter(self._index, ROOT, NIC_CLASS_PREFERENCE, fd, "find_class"))

    def assign(self, classes: Mapping[int, int]) -> None:
        """Replaces the classes of all destinations; those without one have class 0."""
        for node in self._mapped.keys() - classes.keys():
            self._write(node, DEFAULT)
        for node, priority in classes.items():
            if FIRST_NODE <= node <= LAST_NODE:
                self._write(node, priority)
        self._mapped = dict(classes)

    def _write(self, minor: int, priority: int) -> None:
        self._map[minor.to_bytes(4, "little")] = priority.to_bytes(4, "little")

    def repair(self) -> list[str]:
        """Restores the filters, one of which disappears when the queues are created again; returns lines to log of those that
        were missing."""
        found = []
        try:
            if not self._has(EGRESS) and not self._without_egress():
                self._attach()
                found.append("the filter that gives packets the interface's classes was missing")
            if not self._has(ROOT):
                self._filter()
                found.append("the filter that finds packets' classes was missing")
        except NetlinkError as error:
            found.append(f"classes of the interface: {error.strerror}")
        return found

    def _without_egress(self) -> bool:
        """Whether another's qdisc is in the way: the classifier, which has the same place, says so."""
        return bool(without_egress(self._netlink.dump(RTM_GETQDISC, self._index), self._interface))

    def _has(self, parent: int) -> bool:
        filters = self._netlink.dump(RTM_GETTFILTER, self._index, parent=parent)
        return any(entry.info >> 16 == NIC_CLASS_PREFERENCE for entry in filters)

    def close(self) -> None:
        """Frees the programs. Their attachments disappear with the queues and with the restored snapshot of the interface."""
        self._object.close()
        self._netlink.close()
