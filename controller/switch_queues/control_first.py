"""Lets control frames go first at one port of this machine whose queue the kernel serves. An edge: netlink, eBPF.

The queue stays as the operator made it; see bpf/control_first.bpf.c, and controller/switch_queues/control_room.py for how much
of it data may fill.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from controller.switch_queues.control_room import CONTROL_PRIORITY, Room, room
from controller.switch_queues.port import EGRESS, ETH_P_ALL, INGRESS, TC_H_ROOT, without_egress
from ebpf.build import object_path
from ebpf.libbpf import BpfObject

SOURCES = Path(__file__).parent / "bpf"
PROGRAM, PREFERENCE = "baton_control", 0xBA8
_SETTINGS = struct.Struct("=IIII")  # bpf/control_first.h


class ControlFirst:
    """One port. The program stays until `remove`, also when this process is killed; the next one takes it over."""

    def __init__(self, netlink: IPRoute, name: str) -> None:
        """Loads the program; changes nothing yet. Raises OSError (no such interface), BuildError, BpfError."""
        self.index = socket.if_nametoindex(name)
        self._netlink = netlink
        self._object = BpfObject(object_path("control_first", SOURCES))
        self._settings = self._object.map("settings", 4, _SETTINGS.size)
        self._ours = False

    def apply(self) -> Room:
        """Attaches the program if it is not there, and has it keep room in the queue that the port has now. Raises OSError: it
        can't be attached."""
        try:
            qdiscs = list(self._netlink.get_qdiscs(self.index))
            if why := without_egress(qdiscs):
                raise OSError(f"the port {why}")
            found = room(*_root(qdiscs))
            self._settings[bytes(4)] = _SETTINGS.pack(CONTROL_PRIORITY, found.most_bytes, found.most_packets, 0)
            if not (self._ours and attached(self._netlink, self.index)):
                self._object.attach_egress(PROGRAM, self.index, PREFERENCE, replace=True)
                self._ours = True
        except NetlinkError as error:
            raise OSError(error.code, str(error)) from None
        return found

    def remove(self) -> None:
        """Removes the program, and the hook if nobody else uses it. The interface may be gone."""
        with contextlib.suppress(NetlinkError):
            detach(self._netlink, self.index)
        self._object.close()


def attached(netlink: IPRoute, index: int) -> bool:
    """Whether our program is at an interface's egress."""
    options = (message.get_attr("TCA_OPTIONS") for message in netlink.get_filters(index, parent=EGRESS))
    return any(option is not None and (option.get_attr("TCA_BPF_NAME") or "").startswith(PROGRAM) for option in options)


def detach(netlink: IPRoute, index: int) -> None:
    """Removes our program from an interface's egress, if it is there. Raises NetlinkError: the interface is gone."""
    if attached(netlink, index):
        netlink.tc("del-filter", "bpf", index, parent=EGRESS, prio=PREFERENCE, protocol=ETH_P_ALL, handle=1)
        if not any(netlink.get_filters(index, parent=hook) for hook in (EGRESS, INGRESS)):
            netlink.tc("del", "clsact", index)


def _root(qdiscs: Iterable[Any]) -> tuple[str, int, Mapping[str, Any]]:
    """Kind, major number of the handle, and options of an interface's root queue."""
    for message in qdiscs:
        if message["parent"] == TC_H_ROOT:
            return message.get_attr("TCA_KIND"), message["handle"] >> 16, _options(message)
    return "noqueue", 0, {}


def _options(message: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- pyroute2 is untyped
    options = message.get_attr("TCA_OPTIONS")
    parameters = options.get_attr("TCA_TBF_PARMS") if hasattr(options, "get_attr") else None
    found = parameters if parameters is not None else options
    return found if isinstance(found, Mapping) else {}
