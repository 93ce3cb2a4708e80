"""Computes every switch's flow table from a view: forwarding along the active tree, strict rules for the control EtherType.

Pure. Three tables on every switch:

* CLASSIFY: which frames may enter. LLDP goes to the controller. Frames of the control EtherType (0x88B5, IEEE Std 802 local
  experimental) pass only from a host port towards the coordinator and from the coordinator to hosts; frames with the
  coordinator's source MAC enter only by its port, or by the tree port towards it. Frames on ports off the tree stop here.
* LEARN: the sources at host ports. Frames of a known source pass. Frames of an unknown source pass too, and the controller gets
  a copy of their first bytes; likewise ARP with a sender address that is not known for its MAC, and a source's first control
  frame. From a muted port it gets none; of a host that may have moved it gets all.
* DELIVER: each tree has a root, its switch of the lowest datapath id. A destination below a switch, away from the root, leaves
  by the port towards it. So a host has one rule on each switch on its way to the root, not one on every switch.
* ORIGIN: all other destinations. A frame from a known source at its place goes up. If the root does not know its destination
  either, it floods the frame, also back to where it came from; there the source's own switch leaves out the source's port. All
  other frames flood along the tree: broadcasts, frames of unknown sources, and what came down.

Flooding is one group of type ALL per switch; OpenFlow does not send a frame back out of the port that it came in by, unless it
is told to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.tables.flowtable import IN_PORT, NO_LIMIT, Cause, Flow, Match, Ports, Table
from controller.openflow.view import Link, Switch, View, told_name
from controller.switch_queues.control_room import CONTROL_QUEUE

CLASSIFY, LEARN, DELIVER, ORIGIN = 0, 1, 2, 3
FLOOD_GROUP = 1
ALL_BUT_GROUPS = 0x10000
"""And the number of a port: the group that floods by all ports but this one."""
LEARN_COPY_BYTES = 64  # an ARP message or an IPv4 header, with VLAN tags
PORTS_NAMED = 16
"""How many ports of a switch are named to whoever asked for another."""
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

LLDP_FLOW = Flow(CLASSIFY, 65000, Match(eth_type=ETH_LLDP), copy_bytes=NO_LIMIT)
"""The one entry that a switch needs before it takes part: without it, discovery finds none of its links. No LLDP is forwarded,
whatever its destination: not even what we send to seek loops."""


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
        return cls(switch, told_name(port), mac.lower() if mac else None)

    def locate(self, view: View) -> PortRef | None:
        """The port in this view, or None while its switch is not there."""
        for switch in self._switches(view):
            for port in switch.ports.values():
                if self.port in (port.name, str(port.number)):
                    return PortRef(switch.dpid, port.number)
        return None

    def fault(self, view: View) -> str:
        """What is wrong with it, for who has written it; empty while its switch is not there, or has its port."""
        if self.locate(view) is not None:
            return ""
        for switch in self._switches(view):
            names = [port.name for _, port in sorted(switch.ports.items())]
            more = f" and {len(names) - PORTS_NAMED} more" if len(names) > PORTS_NAMED else ""
            has = ", ".join(names[:PORTS_NAMED]) + more
            return f"coordinator.attachment: {switch.name} has no port {self.port}; it has {has or 'none'}"
        return ""

    def _switches(self, view: View) -> list[Switch]:
        return [one for one in view.switches.values() if self.switch in (one.name, str(one.dpid), f"{one.dpid:016x}")]


class Way(NamedTuple):
    """The way from a switch to the next one towards the root: by its port `port`, to the switch `above`, whose port it is."""

    port: int
    above: int
    its_port: int


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

    def port_towards(self, dpid: int, at: PortRef) -> int | None:
        """The port of a switch towards a port of the fabric: this port itself at its own switch."""
        return at.number if at.dpid == dpid else self.towards(at.dpid).get(dpid)

    def up(self, switches: Iterable[int]) -> dict[int, Way | None]:
        """The way of each switch towards the root of its tree, the switch of the lowest datapath id; None at the root."""
        found: dict[int, Way | None] = {}
        for root in sorted(switches):
            if root in found:
                continue
            found[root] = None
            queue = deque([root])
            while queue:
                here = queue.popleft()
                for number, neighbour, its_port in self._neighbours.get(here, ()):
                    if neighbour not in found:
                        found[neighbour] = Way(its_port, here, number)
                        queue.append(neighbour)
        return found


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


@dataclass(frozen=True, slots=True)
class _Part:
    """All that one switch's table depends on. `up`: its port towards the root; None at the root. `coordinators`: the address of
    each, and the only port by which its frames may enter. `below`: the port of each address away from
    the root; those at ports of `edges` are at this switch. `hosts`: those at this switch."""

    edges: Ports
    trunks: Ports
    muted: Ports
    deaf: Ports
    up: int | None
    coordinators: tuple[tuple[str, int | None], ...]
    queue: int | None
    hosts: tuple[Host, ...]
    below: Mapping[str, int]

    def table(self) -> Table:
        """The switch's table."""
        made = Table()
        made.groups[FLOOD_GROUP] = self.edges | self.trunks
        _classify(made, self.edges, self.trunks)
        for mac, trusted in self.coordinators:
            _admit(made, self.edges, self.trunks, mac, trusted, self.queue)
        _learn(made)
        for port in self.muted:
            made.add(Flow(LEARN, 10, Match(in_port=port), goto=DELIVER))
        for port in self.deaf:
            made.add(Flow(CLASSIFY, 65001, Match(in_port=port, eth_type=ETH_LLDP)))
        for host in self.hosts:
            _source(made, host, host.at.number in self.muted)
        made.add(
            Flow(DELIVER, 200, Match(eth_dst=ASKING_MAC)),
            Flow(DELIVER, 150, Match(eth_dst=GROUP_BIT), group=FLOOD_GROUP),
            Flow(DELIVER, 0, Match(), goto=ORIGIN),
            Flow(ORIGIN, 0, Match(), group=FLOOD_GROUP),
        )
        for mac, port in self.below.items():
            made.add(Flow(DELIVER, 100, Match(eth_dst=mac), output=port))
            self._origin(made, mac, port)
        return made

    def _origin(self, made: Table, mac: str, port: int) -> None:
        """The way of a known source's frames to destinations that are not below."""
        here = Match(in_port=port, eth_src=mac)
        if self.up is None:
            if port not in self.edges:
                made.add(Flow(ORIGIN, 50, here, output=IN_PORT, group=FLOOD_GROUP))
            return
        made.add(Flow(ORIGIN, 50, here, output=self.up))
        if port in self.edges:
            made.groups[ALL_BUT_GROUPS + port] = made.groups[FLOOD_GROUP] - {port}
            made.add(Flow(ORIGIN, 50, Match(in_port=self.up, eth_src=mac), group=ALL_BUT_GROUPS + port))


class Forwarding:
    """Makes the switches' tables, and only those again that change: a table that stays is the same object as before."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[_Part, Table]] = {}

    def tables(
        self,
        view: View,
        active: frozenset[Link],
        attachment: ControlAttachment | None = None,
        standbys: Iterable[ControlAttachment] = (),
        queued: Container[int] = (),
        rest: Callable[[], None] = lambda: None,
    ) -> dict[int, Table]:
        """The table of every switch in the view. `active`: the links of the tree, a subset of `view.links`. `standbys`: the
        switch ports of other controllers' coordinators: any of them may lead, so the frames of all of them pass. `queued`: the
        switches (datapath ids) whose ports have the queue CONTROL_QUEUE. `rest` is called between two tables that are made:
        hundreds take long."""
        made: dict[int, tuple[_Part, Table]] = {}
        for dpid, part in _parts(view, active, (attachment, *standbys), queued).items():
            known = self._made.get(dpid)
            if known is None or known[0] != part:
                rest()
                known = part, part.table()
            made[dpid] = known
        self._made = made
        return {dpid: table for dpid, (_, table) in made.items()}


def _parts(
    view: View, active: frozenset[Link], attached: Iterable[ControlAttachment | None], queued: Container[int]
) -> dict[int, _Part]:
    routes = Routes(active)
    found = (coordinator_port(view, each) for each in attached)
    coordinators = {each.mac: each for each in found if each is not None}
    places = {mac: host.at for mac, host in view.hosts.items()}
    places.update((mac, coordinator.at) for mac, coordinator in coordinators.items())
    edges, muted, deaf = _by_switch(view.edges), _by_switch(view.muted), _by_switch(view.deaf)
    hosts: dict[int, list[Host]] = {}
    for host in view.hosts.values():
        if places[host.mac] == host.at:
            hosts.setdefault(host.at.dpid, []).append(host)
    up = routes.up(view.switches)
    below: dict[int, dict[str, int]] = {dpid: {} for dpid in view.switches}
    for mac, at in places.items():
        below[at.dpid][mac] = at.number
        way = up[at.dpid]
        while way is not None:
            below[way.above][mac] = way.its_port
            way = up[way.above]
    return {
        dpid: _Part(
            edges.get(dpid, frozenset()),
            frozenset(number for number in routes.trunks.get(dpid, ()) if view.is_up(PortRef(dpid, number))),
            muted.get(dpid, frozenset()),
            deaf.get(dpid, frozenset()),
            None if (way := up[dpid]) is None else way.port,
            tuple((mac, routes.port_towards(dpid, each.at)) for mac, each in coordinators.items()),
            CONTROL_QUEUE if dpid in queued else None,
            tuple(hosts.get(dpid, ())),
            below[dpid],
        )
        for dpid in view.switches
    }


def _by_switch(refs: Iterable[PortRef]) -> dict[int, Ports]:
    found: dict[int, set[int]] = {}
    for ref in refs:
        found.setdefault(ref.dpid, set()).add(ref.number)
    return {dpid: frozenset(numbers) for dpid, numbers in found.items()}


def _classify(table: Table, edges: Ports, trunks: Ports) -> None:
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


def _admit(table: Table, edges: Ports, trunks: Ports, mac: str, trusted: int | None, queue: int | None) -> None:
    """Admits a coordinator's control frames only by its own port or the tree port towards it, and those of hosts to it; all of
    them leave by this queue."""
    table.add(Flow(CLASSIFY, 200, Match(eth_src=mac), cause=Cause.FORGED_COORDINATOR))
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
