"""Computes every switch's flow table from a view: forwarding along the active tree, strict rules for the control EtherType.

Pure. Three tables on every switch:

* CLASSIFY: which frames may enter. LLDP goes to the controller. Frames of the control EtherType (0x88B5, IEEE Std 802 local
  experimental) pass only from a host port towards the coordinator and from the coordinator to hosts; frames with the
  coordinator's source MAC enter only by its port, or by the tree port towards it. Frames on ports off the tree stop here.
* LEARN: the sources at host ports. Frames of a known source pass. Frames of an unknown source pass too, and the controller gets
  a copy of their first bytes; likewise ARP with a sender address that is not known for its MAC, and a source's first control
  frame. From a muted port it gets none; of a host that may have moved it gets all.
* DELIVER: a known destination leaves by the tree's port towards it, all others flood along the tree.

Flooding is one group of type ALL per switch; OpenFlow does not send a frame back out of the port that it came in by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from controller.openflow.flowtable import (
    NO_LIMIT,
    Cause,
    Change,
    Flow,
    Match,
    Table,
    diff,
    without_ports,
)
from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.view import Link, View
from controller.switch_queues.control_room import CONTROL_QUEUE

CLASSIFY, LEARN, DELIVER = 0, 1, 2
FLOOD_GROUP = 1
LEARN_COPY_BYTES = 64  # an ARP message or an IPv4 header, with VLAN tags
HOST_IDLE_S = 300  # ageing time, IEEE 802.1D table 7-5

ETH_ARP = 0x0806
ETH_LLDP = 0x88CC
ETH_CONTROL = 0x88B5
ASKING_MAC = "02:42:41:54:4f:4e"
"""The sender of our ARP requests; nobody has this address, and answers to it end at the first switch."""
HEARTBEAT_MAC = "03:42:41:54:4f:4e"  # protocol/PROTOCOL.md
LLDP_MAC = "01:80:c2:00:00:0e"
LINK_LOCAL = "01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0"  # never forwarded by a bridge, IEEE 802.1Q table 8-1
GROUP_BIT = "01:00:00:00:00:00/01:00:00:00:00:00"

LLDP_FLOW = Flow(CLASSIFY, 65000, Match(eth_type=ETH_LLDP, eth_dst=LLDP_MAC), copy_bytes=NO_LIMIT)
"""The one entry that a switch needs before it takes part: without it, discovery finds none of its links."""


@dataclass(frozen=True, slots=True)
class ControlAttachment:
    """The switch port of the coordinator: configured, never learned.

    `switch` is a bridge name or a datapath id, `port` a port name or number (as text); `mac` may be None
    until the coordinator has announced it, and until then no control frame passes.
    """

    switch: str
    port: str
    mac: str | None = None

    @classmethod
    def parse(cls, text: str, mac: str | None = None) -> ControlAttachment:
        """From "switch:port", e.g. "s1:s1-eth6"; ValueError if it is not of that form."""
        switch, _, port = text.partition(":")
        if not switch or not port:
            raise ValueError(f"control port {text!r}: write it as SWITCH:PORT, e.g. s1:s1-eth6")
        return cls(switch, port, mac.lower() if mac else None)

    def locate(self, view: View) -> PortRef | None:
        """The port in this view, or None while its switch is not there."""
        for switch in view.switches.values():
            if self.switch in (switch.name, str(switch.dpid), f"{switch.dpid:016x}"):
                for port in switch.ports.values():
                    if self.port in (port.name, str(port.number)):
                        return PortRef(switch.dpid, port.number)
        return None


class Routes:
    """Next hops on the tree: for each switch, the port towards another switch."""

    def __init__(self, links: Iterable[Link]) -> None:
        self._neighbours: dict[int, list[tuple[int, int, int]]] = {}
        self.trunks: dict[int, set[int]] = {}
        for link in links:
            for here, there in ((link.a, link.b), (link.b, link.a)):
                self._neighbours.setdefault(here.dpid, []).append((here.number, there.dpid, there.number))
                self.trunks.setdefault(here.dpid, set()).add(here.number)
        self._towards: dict[int, dict[int, int]] = {}

    def towards(self, target: int) -> Mapping[int, int]:
        """For every switch that reaches `target` on the tree, except `target` itself: its port towards it."""
        known = self._towards.get(target)
        if known is None:
            known = self._towards[target] = {}
            queue = deque([target])
            while queue:
                for _, neighbour, its_port in self._neighbours.get(queue.popleft(), ()):
                    if neighbour != target and neighbour not in known:
                        known[neighbour] = its_port
                        queue.append(neighbour)
        return known


@dataclass(frozen=True, slots=True)
class CoordinatorPort:
    """The coordinator's port and MAC, both known."""

    at: PortRef
    mac: str


def coordinator_port(view: View, attachment: ControlAttachment | None) -> CoordinatorPort | None:
    """The coordinator, once its port is up in this view and its MAC is known."""
    if attachment is None or attachment.mac is None:
        return None
    at = attachment.locate(view)
    return CoordinatorPort(at, attachment.mac) if at in view.edges and at is not None else None


def tables(
    view: View,
    active: frozenset[Link],
    attachment: ControlAttachment | None = None,
    standbys: Iterable[ControlAttachment] = (),
    queued: Container[int] = (),
) -> dict[int, Table]:
    """The table of every switch in the view. `active`: the links of the tree, a subset of `view.links`. `standbys`: the
    switch ports of other controllers' coordinators: any of them may lead, so the frames of all of them pass. `queued`: the
    switches (datapath ids) whose ports have the queue CONTROL_QUEUE."""
    routes = Routes(active)
    attached = (coordinator_port(view, each) for each in (attachment, *standbys))
    coordinators = {each.mac: each for each in attached if each is not None}
    places = {mac: host.at for mac, host in view.hosts.items()}
    places.update((mac, coordinator.at) for mac, coordinator in coordinators.items())
    edges: dict[int, set[int]] = {dpid: set() for dpid in view.switches}
    for ref in view.edges:
        edges[ref.dpid].add(ref.number)

    result: dict[int, Table] = {}
    for dpid in view.switches:
        table = result[dpid] = Table()
        trunks = {number for number in routes.trunks.get(dpid, ()) if view.is_up(PortRef(dpid, number))}
        table.groups[FLOOD_GROUP] = frozenset(edges[dpid] | trunks)
        _classify(table, edges[dpid], trunks)
        for coordinator in coordinators.values():
            _admit(table, dpid, edges[dpid], trunks, coordinator, routes, CONTROL_QUEUE if dpid in queued else None)
        _learn(table)
        for ref in view.muted:
            if ref.dpid == dpid:
                _mute(table, ref.number)
        table.add(Flow(DELIVER, 200, Match(eth_dst=ASKING_MAC)), Flow(DELIVER, 0, Match(), group=FLOOD_GROUP))
    for host in view.hosts.values():
        if places[host.mac] == host.at:
            _source(result[host.at.dpid], host, host.at in view.muted)
    for mac, at in places.items():
        _deliver(result[at.dpid], mac, at.number)
        for dpid, port in routes.towards(at.dpid).items():
            _deliver(result[dpid], mac, port)
    return result


def _classify(table: Table, edges: set[int], trunks: set[int]) -> None:
    table.add(
        LLDP_FLOW,
        Flow(CLASSIFY, 64000, Match(eth_dst=LINK_LOCAL)),
        Flow(CLASSIFY, 100, Match(eth_type=ETH_CONTROL), cause=Cause.CONTROL_OFF_PATH),
        Flow(CLASSIFY, 0, Match(), cause=Cause.BLOCKED_PORT),
    )
    for port in edges:
        table.add(Flow(CLASSIFY, 10, Match(in_port=port), goto=LEARN))
    for port in trunks:
        table.add(Flow(CLASSIFY, 10, Match(in_port=port), goto=DELIVER))


def _admit(
    table: Table,
    dpid: int,
    edges: set[int],
    trunks: set[int],
    coordinator: CoordinatorPort,
    routes: Routes,
    queue: int | None,
) -> None:
    """Admits a coordinator's control frames only by its own port or the tree port towards it, and those of hosts to it; all of
    them leave by this queue."""
    mac = coordinator.mac
    table.add(Flow(CLASSIFY, 200, Match(eth_src=mac), cause=Cause.FORGED_COORDINATOR))
    if coordinator.at.dpid == dpid:
        trusted: int | None = coordinator.at.number
    else:
        trusted = routes.towards(coordinator.at.dpid).get(dpid)
    for port in edges | trunks:
        onward = LEARN if port in edges else DELIVER
        if port != trusted:
            to_coordinator = Match(in_port=port, eth_type=ETH_CONTROL, eth_dst=mac)
            table.add(Flow(CLASSIFY, 150, to_coordinator, goto=onward, queue=queue))
            continue
        heartbeat = Match(port, ETH_CONTROL, mac, HEARTBEAT_MAC)
        other_group = Match(port, ETH_CONTROL, mac, GROUP_BIT)
        table.add(
            Flow(CLASSIFY, 320, heartbeat, goto=onward, queue=queue),
            Flow(CLASSIFY, 310, other_group, cause=Cause.CONTROL_OFF_PATH),
            Flow(CLASSIFY, 300, Match(in_port=port, eth_src=mac), goto=onward),
        )
        if queue is not None:
            table.add(Flow(CLASSIFY, 305, Match(port, ETH_CONTROL, mac), goto=onward, queue=queue))


def _learn(table: Table) -> None:
    table.add(
        Flow(LEARN, 130, Match(eth_src=GROUP_BIT)),  # a group address is no source
        Flow(LEARN, 0, Match(), copy_bytes=LEARN_COPY_BYTES, goto=DELIVER),
    )


def _mute(table: Table, port: int) -> None:
    table.add(
        Flow(CLASSIFY, 65001, Match(in_port=port, eth_type=ETH_LLDP, eth_dst=LLDP_MAC)),
        Flow(LEARN, 10, Match(in_port=port), goto=DELIVER),
    )


def _source(table: Table, host: Host, muted: bool) -> None:
    port, mac = host.at.number, host.mac
    known = LEARN_COPY_BYTES if host.asked else None
    news = known if muted else LEARN_COPY_BYTES
    table.add(
        Flow(LEARN, 100, Match(in_port=port, eth_src=mac), copy_bytes=known, goto=DELIVER, idle_s=HOST_IDLE_S),
        Flow(LEARN, 110, Match(port, ETH_ARP, mac), copy_bytes=news, goto=DELIVER),
        Flow(LEARN, 120, Match(port, ETH_ARP, mac, arp_spa="0.0.0.0"), copy_bytes=known, goto=DELIVER),  # a probe, RFC 5227
    )
    if not host.speaks_control:
        table.add(Flow(LEARN, 110, Match(port, ETH_CONTROL, mac), copy_bytes=news, goto=DELIVER))
    for address in host.addresses:
        table.add(Flow(LEARN, 120, Match(port, ETH_ARP, mac, arp_spa=address), copy_bytes=known, goto=DELIVER))


def _deliver(table: Table, mac: str, port: int) -> None:
    table.add(Flow(DELIVER, 100, Match(eth_dst=mac), output=port))


@dataclass(frozen=True, slots=True)
class Transition:
    """How to get from the installed tables to new ones: send `close`, wait for barriers, then send `open`.

    `close` is empty when no port with a working link leaves the tree: then there is nothing to wait for.
    """

    close: Mapping[int, Change]
    open: Mapping[int, Change]


def transition(installed: Mapping[int, Table], wanted: Mapping[int, Table], view: View) -> Transition:
    """The changes from the installed tables to the wanted ones. Ports leave the tree on every switch before others join it, so
    that no loop exists even for a moment."""
    close: dict[int, Change] = {}
    then: dict[int, Change] = {}
    for dpid, new in wanted.items():
        old = installed.get(dpid, Table())
        leaving = {
            number
            for number in old.groups.get(FLOOD_GROUP, frozenset()) - new.groups[FLOOD_GROUP]
            if view.is_up(PortRef(dpid, number))
        }
        if leaving:
            closed = without_ports(old, leaving)
            close[dpid] = diff(old, closed)
            old = closed
        if change := diff(old, new):
            then[dpid] = change
    return Transition(close, then)
