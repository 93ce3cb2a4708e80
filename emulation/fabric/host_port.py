"""A host's network card: its interface sends at the link's rate. An edge: netlink.

The root queue is a TBF: a full socket buffer holds back a sender of UDP, as a real card's full ring does, and the sender's own
host drops nothing. An agent replaces the TBF with its own queues; `verify` restores it once the agent is gone.
"""

from __future__ import annotations

import contextlib

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from emulation.fabric.ports import BURST_BYTES, ROOT
from protocol.units import FRAME_BYTES

# More than the buffers of a few sockets (208 KiB each): the sockets block before the queue drops.
LIMIT_PACKETS = 4000
LIMIT_BYTES = LIMIT_PACKETS * FRAME_BYTES


class HostPort:
    """One host's interface; `netlink` is an IPRoute in the host's namespace."""

    def __init__(self, netlink: IPRoute, name: str, rate_bps: int) -> None:
        self.name = name
        self.rate_bps = rate_bps
        self.index: int = netlink.link_lookup(ifname=name)[0]
        self._netlink = netlink

    def shape(self) -> None:
        """Replaces the root queue of the interface by a TBF of the link's rate."""
        with contextlib.suppress(NetlinkError):  # there was none to delete
            self._netlink.tc("del", index=self.index, parent=0xFFFFFFFF)
        self._netlink.tc("add", "tbf", self.index, ROOT, rate=self.rate_bps // 8, burst=BURST_BYTES, limit=LIMIT_BYTES)

    def lend(self) -> None:
        """Tells that an agent may have its queues here until the next `verify`."""

    def close(self) -> None:
        """Frees what this process holds for the interface."""

    def drifts(self) -> list[str]:
        """What is no longer as `shape` set it, one line each."""
        roots = {message["parent"]: message for message in self._netlink.get_qdiscs(self.index)}
        root = roots.get(0xFFFFFFFF)
        kind = root.get_attr("TCA_KIND") if root is not None else None
        if root is None or kind != "tbf":
            return [f"{self.name}: the root queue is {kind}, not tbf"]
        rate = root.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")["rate"]
        return [] if rate == self.rate_bps // 8 else [f"{self.name}: the rate is {rate * 8} bit/s, not {self.rate_bps}"]

    def verify(self) -> list[str]:
        """Shapes the interface again if it has drifted; the drifts found."""
        if found := self.drifts():
            self.shape()
        return found
