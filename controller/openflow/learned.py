"""Makes of a view the fabric that the coordinator schedules: names, hosts, capacities, the active tree.

Pure, but for `FabricLearner.from_settings`, which reads a file. A host of the fabric is an edge port with all the
MAC and IP addresses seen there: the machine and its VMs share that access link. Names come from a fabric file,
where there is one (matched by port, then MAC, then IP address). A capacity is the least of the port's speed and
the file's rate; the coordinator, which knows the members, takes their rates into account (controller/scheduling/network.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from controller.config.settings import OpenFlowSettings
from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.metering import Load, SteadyLoads
from controller.openflow.view import Link, View, told_name
from controller.store.parts import join, row_name, split
from topology import capacity, spanning_tree
from topology import fabric as topology
from topology.capacity import Capacity
from topology.problems import FabricError, Problem

DEFAULT_RATE_BPS = 1_000_000_000  # of a port whose switch does not tell its speed
Nodes = tuple[str, str]


class _Described(NamedTuple):
    """What is told of the hosts at a port: made of what, their name, their link, their addresses, and the parts."""

    source: tuple[object, ...]
    name: str
    link: topology.Link
    owned: tuple[str, ...]
    parts: Mapping[str, Any]


class FabricLearner:
    """Makes fabrics of views. `known`: a fabric from a file, which may be partial, for names and capacities; or None."""

    def __init__(self, known: topology.Fabric | None = None) -> None:
        self._known = known
        self._port_hosts: dict[tuple[str, str], str] = {}
        self._owners: dict[object, str] = {}
        if known is not None:
            for name in known.hosts:
                switch = known.attachment(name)
                port = known.port((switch, name)) if switch else None
                if switch and port:
                    self._port_hosts[switch, told_name(port)] = name
                self._owners.update(dict.fromkeys(map(str, known.addresses(name)), name))
                if mac := known.mac(name):
                    self._owners[mac] = name
        self._loads = SteadyLoads()
        self._described: dict[PortRef, _Described] = {}
        self._tree: tuple[topology.Fabric, spanning_tree.Tree] | None = None

    @property
    def host_ports(self) -> frozenset[tuple[str, str]]:
        """The switches and ports that the file gives to hosts."""
        return frozenset(self._port_hosts)

    @classmethod
    def from_settings(cls, settings: OpenFlowSettings) -> FabricLearner:
        """A learner with the fabric file of the settings, if they name one."""
        if settings.fabric_file is None:
            return cls()
        from topology import files  # pydantic and YAML take half a second to import; most have no such file

        return cls(files.load(settings.fabric_file, partial=True))

    def active(self, view: View) -> frozenset[Link]:
        """The links that forward. Of several links between two switches one takes part: the one of the highest rate, then of
        the lowest ports."""
        best = self._best(view)
        tree = self._spanning(self._trunks(view, best)[0].build())
        return frozenset(link for ends, link in best.items() if topology.Link.between(*ends) in tree.forwarding)

    def document(self, view: View) -> dict[str, Any]:
        """The document for the store, {"fabric": Fabric.to_dict(), "blocked": [[a, b]], "hosts": [...], "ports": {...},
        "links": [...], "not_found": [[a, b]]}.

        Each of "hosts" is {name, switch, port, macs, addresses}; "ports" has of each switch [number, name, MAC address];
        "links" says where each capacity comes from (topology/capacity.py); "not_found" are links of the file that the fabric
        lacks.
        """
        return join(self.parts(view))

    def parts(self, view: View) -> dict[str, Any]:
        """The parts of `document` (controller/store/parts.py). What is told of a host that is as it was is the same objects as
        the last time: so one change among thousands of hosts takes milliseconds.

        Raises:
            FabricError: a switch or a host has a name or an address that a fabric can't have.
        """
        best = self._best(view)
        builder, capacities = self._trunks(view, best)
        trunks = builder.build()
        tree = self._spanning(trunks)
        made: dict[PortRef, _Described] = {}
        owners: dict[str, str] = {}
        for at, name, found in self._named(view):
            made[at] = described = self._describe(view, at, name, found)
            for address in described.owned:
                if owners.setdefault(address, described.name) != described.name:
                    text = f"{address} belongs to {owners[address]!r} and to {described.name!r}; remove it from one of them"
                    raise FabricError(Problem("addresses", text))
        self._described = made
        told = self._known.links if self._known is not None else frozenset()
        lacking = told and told - trunks.links - {described.link for described in made.values()}
        parts = split("fabric", {
            "fabric": trunks.to_dict(),
            "blocked": sorted(list(link) for link in tree.blocked),
            "hosts": [],
            "ports": {
                switch.name: [[port.number, port.name, port.mac] for _, port in sorted(switch.ports.items())]
                for switch in view.switches.values()
            },
            "links": capacity.rows(capacities),
            "not_found": sorted(list(link) for link in lacking),
        })  # fmt: skip
        for described in made.values():
            parts.update(described.parts)
        return parts

    def port_parts(self, view: View, loads: Mapping[PortRef, Load], refused: Mapping[str, int]) -> dict[str, Any]:
        """The parts of `ports_document`, with loads as `SteadyLoads` tells them."""
        switches = view.switches
        loads = {at: load for at, load in loads.items() if at.dpid in switches and at.number in switches[at.dpid].ports}
        loads = self._loads.told(loads)
        return split("ports", self.ports_document(view, loads, refused))

    def _trunks(
        self, view: View, best: Mapping[tuple[str, str], Link]
    ) -> tuple[topology.FabricBuilder, dict[topology.DirectedLink, Capacity]]:
        """The fabric's switches with the links between them, and where the capacities of these come from."""
        builder = topology.FabricBuilder()
        for switch in view.switches.values():
            builder.add_switch(switch.name, dpid=switch.dpid or None)
        capacities: dict[topology.DirectedLink, Capacity] = {}
        for (a, b), link in best.items():
            there, back = self._trunk(view, a, b, link)
            ports = {"a_port": _port_name(view, link.a), "b_port": _port_name(view, link.b)}
            builder.add_link(a, b, there.bps, reverse_rate_bps=back.bps, **ports)
            capacities |= {topology.DirectedLink(a, b): there, topology.DirectedLink(b, a): back}
        return builder, capacities

    def _spanning(self, trunks: topology.Fabric) -> spanning_tree.Tree:
        """The spanning tree, computed again only if the switches or the links between them have changed. Two threads may ask:
        what it keeps is set at once."""
        kept = self._tree
        if kept is None or kept[0] != trunks:
            self._tree = kept = trunks, spanning_tree.compute(trunks)
        return kept[1]

    def ports_document(
        self, view: View, loads: Mapping[PortRef, Load], refused: Mapping[str, int]
    ) -> dict[str, Any]:
        """{"ports": {"switch:port": load}, "links": [load by direction], "refused": {cause: frames}}.

        Each of "links" is {source, target, rate_bps, load_bps, dropped}: every direction of every link of
        the fabric whose sending or (at a host) receiving switch port has been read. Drops are those of the
        interval.
        """
        ports: dict[str, Any] = {}
        links: list[dict[str, Any]] = []
        trunks: dict[PortRef, tuple[str, str, int]] = {}
        for (a, b), link in self._best(view).items():
            there, back = self._trunk(view, a, b, link)
            trunks[link.a], trunks[link.b] = (a, b, there.bps), (b, a, back.bps)
        hosts = {at: name for at, name, _ in self._named(view)}
        for at, load in sorted(loads.items()):
            if at.dpid not in view.switches or at.number not in view.switches[at.dpid].ports:
                continue
            switch = view.switches[at.dpid]
            ports[f"{switch.name}:{_port_name(view, at)}"] = load._asdict()
            if at in trunks:
                links.append(_direction(*trunks[at], load.tx_bps, load.tx_dropped))
            elif at in hosts:
                down, up = self._access(view, at, hosts[at])
                links.append(_direction(switch.name, hosts[at], down.bps, load.tx_bps, load.tx_dropped))
                links.append(_direction(hosts[at], switch.name, up.bps, load.rx_bps, 0))
        return {
            "ports": ports,
            "links": links,
            "refused": dict(refused),
        }

    def _best(self, view: View) -> dict[tuple[str, str], Link]:
        """One link for each pair of switches, by their names; `a` of the pair is where the link's `a` is."""
        best: dict[tuple[str, str], Link] = {}
        for link in view.links:
            ends = view.switches[link.a.dpid].name, view.switches[link.b.dpid].name
            rival = best.get(ends)
            if rival is None or _speed(view, *link).bps > _speed(view, *rival).bps:
                best[ends] = link
        return best

    def _trunk(self, view: View, a: str, b: str, link: Link) -> tuple[Capacity, Capacity]:
        """The capacities of a link between two switches, from `a` to `b` and back."""
        speed = _speed(view, *link)
        return self._with_file((a, b), speed), self._with_file((b, a), speed)

    def _access(self, view: View, at: PortRef, host: str) -> tuple[Capacity, Capacity]:
        """The capacities of a host's link, to the host and from it."""
        switch, speed = view.switches[at.dpid].name, _speed(view, at)
        return self._with_file((switch, host), speed), self._with_file((host, switch), speed)

    def _with_file(self, direction: Nodes, speed: Capacity) -> Capacity:
        if self._known is None or not self._known.graph.has_edge(*direction):
            return speed
        return capacity.least(Capacity(self._known.capacity_bps(direction), capacity.FABRIC_FILE), speed)

    def _named(self, view: View) -> Iterator[tuple[PortRef, str, list[Host]]]:
        """The hosts of each port under a name that no other node of the fabric has. A machine that the file has once and that
        was seen at two ports has its name at the first of them."""
        taken = {switch.name for switch in view.switches.values()}
        for at, found in _by_port(view.hosts.values()):
            name = self._host_name(view, at, found)
            if name in taken:
                name = f"{view.switches[at.dpid].name}:{_port_name(view, at)}"
            while name in taken:
                name += "#"
            taken.add(name)
            yield at, name, found

    def _host_name(self, view: View, at: PortRef, found: Iterable[Host]) -> str:
        switch, port = view.switches[at.dpid].name, _port_name(view, at)
        names = [self._port_hosts.get((switch, port))]
        names += [self._owners.get(host.mac) for host in found]
        names += [self._owners.get(address) for host in found for address in host.addresses]
        return next((name for name in names if name is not None), f"{switch}:{port}")

    def _describe(self, view: View, at: PortRef, name: str, found: list[Host]) -> _Described:
        """What is told of the hosts at a port, made anew if they or the port have changed."""
        switch, port = view.switches[at.dpid].name, view.switches[at.dpid].ports[at.number]
        source = (name, switch, port, tuple(found))
        known = self._described.get(at)
        if known is not None and known.source == source:
            return known
        addresses = [address for host in found for address in host.addresses]
        builder = topology.FabricBuilder().add_switch(switch)
        builder.add_host(name, addresses, next((h.mac for h in found if h.speaks_control), found[0].mac))
        down, up = self._access(view, at, name)
        builder.add_link(switch, name, down.bps, a_port=port.name, reverse_rate_bps=up.bps)
        fabric = builder.build()
        told = fabric.to_dict()
        capacities = {topology.DirectedLink(switch, name): down, topology.DirectedLink(name, switch): up}
        macs = [host.mac for host in found]
        row = {"name": name, "switch": switch, "port": port.name, "macs": macs, "addresses": addresses}
        parts = {row_name("fabric.hosts", host): host for host in told["hosts"]}
        parts |= {row_name("fabric.links", link): link for link in told["links"]}
        parts |= {row_name("links", link): link for link in capacity.rows(capacities)}
        parts[row_name("hosts", row)] = row
        owned = (*map(str, fabric.addresses(name)), *filter(None, [fabric.mac(name)]))
        return _Described(source, name, next(iter(fabric.links)), owned, parts)


def _port_name(view: View, at: PortRef) -> str:
    return view.switches[at.dpid].ports[at.number].name


def _speed(view: View, *ends: PortRef) -> Capacity:
    """The speed of the slower of a link's ends; one whose switch tells none counts as the other."""
    told_bps = [speed_bps for at in ends if (speed_bps := view.switches[at.dpid].ports[at.number].rate_bps)]
    return Capacity(min(told_bps), capacity.PORT_SPEED) if told_bps else Capacity(DEFAULT_RATE_BPS, capacity.ASSUMED)


def _by_port(hosts: Iterable[Host]) -> list[tuple[PortRef, list[Host]]]:
    grouped: dict[PortRef, list[Host]] = {}
    for host in hosts:
        grouped.setdefault(host.at, []).append(host)
    return sorted(grouped.items())


def _direction(source: str, target: str, rate_bps: int, load_bps: int, dropped: int) -> dict[str, Any]:
    return {
        "source": source,
        "target": target,
        "rate_bps": rate_bps,
        "load_bps": load_bps,
        "dropped": dropped,
    }


class Inherited(NamedTuple):
    """A host at a port; the address is None where several machines at the port share the known addresses."""

    at: PortRef
    mac: str
    address: str | None


def inherited_hosts(document: Mapping[str, Any] | None, view: View) -> Iterator[Inherited]:
    """The hosts of a fabric document that an earlier application published (see `FabricLearner.learn`), at ports that this view
    has."""
    ports = {
        (switch.name, port.name): PortRef(switch.dpid, port.number)
        for switch in view.switches.values()
        for port in switch.ports.values()
    }
    for host in (document or {}).get("hosts", ()):
        at = ports.get((host["switch"], host["port"]))
        if at is None:
            continue
        for mac in host["macs"]:
            addresses = host["addresses"] if len(host["macs"]) == 1 else ()
            for address in addresses or (None,):
                yield Inherited(at, mac, address)
