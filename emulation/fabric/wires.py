"""Wires that take time: every frame between a host and its switch is delayed, in both directions. An edge: namespaces, netlink.

    host's interface ---- wire's end at the host | wire's end at the switch ---- switch's port

A wire lies between the two, so the queues of either end are as they would be without it. Its two ends hand every frame to each
other by a redirection (`matchall`, `mirred`), and each delays what leaves by it (`netem`). Control frames wait as data does.

The kernel must have `netem`: that of virtual time does.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any, NamedTuple

from mininet.link import Link as VethLink
from mininet.util import makeIntfPair
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from emulation.fabric.filters import ARRIVAL_PREFERENCE, CLSACT_HANDLE, INGRESS
from emulation.fabric.naming import MAX_INTERFACE_NAME, EmulationError

LIMIT_PACKETS = 1_000_000
"""What one direction of a wire may hold: more than any link sends within a delay."""
JOIN_PREFERENCE = ARRIVAL_PREFERENCE + 8  # after the programs that receivers of the frame have there
NETEM_HANDLE = 0x10000


class Wire(NamedTuple):
    """The interfaces at both ends of a wire, in the namespace of the switches."""

    host_end: str
    switch_end: str


def wire_of(host_interface: str, switch_port: str) -> Wire:
    """The wire between a host's interface and a switch's port. Raises EmulationError: a name is too long."""
    for name in (host_interface, switch_port):
        if len(name) >= MAX_INTERFACE_NAME:
            most = MAX_INTERFACE_NAME - 1
            raise EmulationError(f"{name!r} is too long for a wire; give it a name of at most {most} characters")
    return Wire(f"{host_interface}~", f"{switch_port}~")


class WireLink(VethLink):  # type: ignore[misc]  # Mininet is untyped
    """A link of Mininet's whose two interfaces each lead to an end of a wire in place of each other."""

    @classmethod
    def makeIntfPair(
        cls,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,  # noqa: ANN401 -- Mininet is untyped
        node2: Any = None,  # noqa: ANN401 -- Mininet is untyped
        deleteIntfs: bool = True,
    ) -> None:
        for name, node in ((intfname1, node1), (intfname2, node2)):
            makeIntfPair(name, f"{name}~", None, None, node, None, deleteIntfs=deleteIntfs)


def join(wires: Iterable[Wire], delay_ns: int) -> None:
    """Makes frames pass through wires, `delay_ns` in each direction. Raises EmulationError: the kernel refuses."""
    with IPRoute() as netlink:
        for wire in wires:
            ends = [socket.if_nametoindex(name) for name in wire]
            try:
                for end, other in (ends, ends[::-1]):
                    _join(netlink, end, other, delay_ns)
            except NetlinkError as error:
                raise EmulationError(f"{wire.host_end}: no wire that takes time: {error}; the kernel needs sch_netem") from None


def _join(netlink: IPRoute, end: int, other: int, delay_ns: int) -> None:
    netlink.tc("add", "netem", end, NETEM_HANDLE, delay=delay_ns / 1e3, limit=LIMIT_PACKETS)
    if not any(queue["handle"] == CLSACT_HANDLE for queue in netlink.get_qdiscs(end)):
        netlink.tc("add", "clsact", end)
    action = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": other}
    netlink.tc("add-filter", "matchall", end, parent=INGRESS, prio=JOIN_PREFERENCE, action=action)
    netlink.link("set", index=end, state="up")
