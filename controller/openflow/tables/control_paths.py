"""The paths of control frames through each switch, exact in port, source and destination. Pure.

They say for known hosts what the tables of `controller.openflow.tables.forwarding` say, in a form that a program in the
kernel can follow (controller/switch_queues/control_keeper.py): where a switch runs in userspace, its control frames need not
pass its sockets and queues. A frame that is on none of these paths is the switch's own business: its table admits it, or
drops and counts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.tables.forwarding import (
    HEARTBEAT_MAC,
    ControlAttachment,
    CoordinatorPort,
    Routes,
    coordinator_port,
)
from controller.openflow.view import Link, View


class ControlPath(NamedTuple):
    """Frames from `source` to `target` that enter by `port` leave by `out`; None: by all other ports that frames leave by."""

    port: int
    source: str
    target: str
    out: int | None


def control_paths(
    view: View,
    active: frozenset[Link],
    attachment: ControlAttachment | None = None,
    standbys: Iterable[ControlAttachment] = (),
    dpids: Iterable[int] | None = None,
) -> dict[int, tuple[ControlPath, ...]]:
    """The paths through these switches, or every one, by datapath id; other arguments as of `forwarding.tables`."""
    routes = Routes(active)
    attached = (coordinator_port(view, each) for each in (attachment, *standbys))
    coordinators = [each for each in attached if each is not None]
    macs = {each.mac for each in coordinators}
    hosts = [host for host in view.hosts.values() if host.speaks_control and host.mac not in macs]
    return {
        dpid: tuple(path for each in coordinators for path in _through(dpid, each, hosts, routes))
        for dpid in (view.switches if dpids is None else dpids)
    }


def flooded(view: View, active: frozenset[Link], dpid: int) -> frozenset[int]:
    """The ports of a switch by which heartbeats leave: those of hosts, and those of the tree."""
    edges = {ref.number for ref in view.edges if ref.dpid == dpid}
    trunks = Routes(active).trunks.get(dpid, set())
    return frozenset(edges | {number for number in trunks if view.is_up(PortRef(dpid, number))})


def _through(dpid: int, coordinator: CoordinatorPort, hosts: Iterable[Host], routes: Routes) -> Iterator[ControlPath]:
    trusted = routes.port_towards(dpid, coordinator.at)
    if trusted is None:
        return
    yield ControlPath(trusted, coordinator.mac, HEARTBEAT_MAC, None)
    for host in hosts:
        port = routes.port_towards(dpid, host.at)
        if port is not None and port != trusted:
            yield ControlPath(trusted, coordinator.mac, host.mac, port)
            yield ControlPath(port, host.mac, coordinator.mac, trusted)
