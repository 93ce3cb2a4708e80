"""The fabric: switches, hosts with the addresses of their VMs, and the directed links between them.

A `FabricBuilder` collects nodes and links and checks them; `build()` makes a `Fabric`, which is immutable,
so that threads can share it. Two fabrics with the same content are equal, in whatever order they were
built. To change a fabric, build a new one (`FabricBuilder.of(fabric)` starts from an old one).

A fabric can't have: a second link of a host (a host is not a bridge, and no path leads through it), a link
between two hosts, two links between the same two nodes (write a bond as one link with its total rate; of
parallel links the spanning tree would block all but one).

Names are text without white space and ">", which stands between the ends of a link. Rates are bit/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, NamedTuple, Self

import networkx as nx

from topology.pieces import PIECE, Pieces, finished
from topology.problems import FabricError, Problem
from topology.units import MAX_VALUE

IPAddress = IPv4Address | IPv6Address
DEFAULT_PRIORITY = 0x8000  # IEEE 802.1D-2004 table 17-2
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NAME = re.compile(r"[^\s>]{1,64}")


class DirectedLink(NamedTuple):
    """One direction of a link."""

    source: str
    target: str


class Link(NamedTuple):
    """A link without direction; `a` sorts before `b`."""

    a: str
    b: str

    @classmethod
    def between(cls, one: str, other: str) -> Self:
        """The link between two nodes, whichever is named first."""
        return cls(one, other) if one <= other else cls(other, one)

    @property
    def directions(self) -> tuple[DirectedLink, DirectedLink]:
        """Both directions, from `a` first."""
        return DirectedLink(self.a, self.b), DirectedLink(self.b, self.a)


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch; the one with the lowest `priority`, then the lowest datapath id, is the root of the spanning tree."""

    name: str
    dpid: int | None = None
    priority: int = DEFAULT_PRIORITY


@dataclass(frozen=True, slots=True)
class Host:
    """A host (a node of the schedule) with the addresses of its VMs, or its own."""

    name: str
    addresses: tuple[IPAddress, ...] = ()
    mac: str | None = None


def natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """A sort key that puts h2 before h10; different names have different keys."""
    parts = enumerate(re.split("([0-9]+)", name))
    return [(int(part), "") if at % 2 else (0, part) for at, part in parts], name


class Fabric:
    """An immutable fabric. Made by `FabricBuilder.build` or `from_dict`; unknown names raise KeyError."""

    def __init__(self, graph: nx.DiGraph[str]) -> None:
        self.graph: nx.DiGraph[str] = nx.freeze(graph)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fabric) and nx.utils.graphs_equal(self.graph, other.graph)

    def __hash__(self) -> int:
        return hash((self.switches, self.hosts, self.links))

    def __repr__(self) -> str:
        return f"<Fabric: {len(self.switches)} switches, {len(self.hosts)} hosts, {len(self.links)} links>"

    def __contains__(self, name: object) -> bool:
        return name in self.graph

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """The names of the switches, in natural order."""
        return self._named(Switch)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts, in natural order."""
        return self._named(Host)

    @cached_property
    def links(self) -> frozenset[Link]:
        """Every link, without direction."""
        return frozenset(Link(a, b) for a, b in self.graph.edges if a < b)

    def switch(self, name: str) -> Switch:
        """A switch by its name."""
        node = self.graph.nodes[name]["node"]
        if not isinstance(node, Switch):
            raise KeyError(f"{name} is not a switch")
        return node

    def host(self, name: str) -> Host:
        """A host by its name."""
        node = self.graph.nodes[name]["node"]
        if not isinstance(node, Host):
            raise KeyError(f"{name} is not a host")
        return node

    def is_host(self, name: str) -> bool:
        """Whether the node is a host."""
        return isinstance(self.graph.nodes[name]["node"], Host)

    def addresses(self, host: str) -> tuple[IPAddress, ...]:
        """The addresses of a host's VMs."""
        return self.host(host).addresses

    def mac(self, host: str) -> str | None:
        """A host's MAC address, lower-case with colons, if it is known."""
        return self.host(host).mac

    def attachment(self, host: str) -> str | None:
        """The switch that a host is attached to; None while the host has no link."""
        self.host(host)
        return next(iter(self.graph[host]), None)

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The nodes at the other ends of a node's links, in natural order."""
        return tuple(sorted(self.graph[name], key=natural))

    def capacity_bps(self, link: tuple[str, str]) -> int:
        """The capacity of one direction, given as (source, target)."""
        rate_bps: int = self.graph.edges[link]["rate_bps"]
        return rate_bps

    def port(self, link: tuple[str, str]) -> str | None:
        """The name of the source's port towards the target of (source, target), if it is known."""
        port: str | None = self.graph.edges[link]["port"]
        return port

    def parts(self) -> list[set[str]]:
        """The nodes of each connected component, the largest first: a single one if everything is connected."""
        return sorted(nx.weakly_connected_components(self.graph), key=lambda part: (-len(part), min(part)))

    def to_dict(self) -> dict[str, Any]:
        """The content as JSON values, in a fixed order; `from_dict` reads it."""
        return {
            "switches": [
                {"name": name, "dpid": self.switch(name).dpid, "priority": self.switch(name).priority} for name in self.switches
            ],
            "hosts": [
                {"name": name, "addresses": [str(one) for one in self.addresses(name)], "mac": self.mac(name)}
                for name in self.hosts
            ],
            "links": [
                {
                    "a": a,
                    "b": b,
                    "rate_bps": self.capacity_bps((a, b)),
                    "reverse_rate_bps": self.capacity_bps((b, a)),
                    "a_port": self.port((a, b)),
                    "b_port": self.port((b, a)),
                }
                for a, b in sorted(self.links, key=lambda link: (natural(link.a), natural(link.b)))
            ],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Fabric:
        """Reads what `to_dict` wrote.

        Raises:
            FabricError: the content is not such a dictionary, or the fabric is not valid.
        """
        return finished(cls.read(content))

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Pieces[Fabric]:
        """The same a piece at a time; the fabric that it returns has its lists of names and links already."""
        builder = FabricBuilder()
        try:
            for kind, add in (
                ("switches", builder.add_switch), ("hosts", builder.add_host), ("links", builder.add_link),
            ):  # fmt: skip
                for at, one in enumerate(content[kind], 1):
                    add(**one)
                    if not at % PIECE:
                        yield
        except (KeyError, TypeError, AttributeError) as error:
            text = f"is not as Fabric.to_dict writes it ({error}); write it with the same version of Baton"
            raise FabricError(Problem("fabric", text)) from None
        fabric = builder.finish()
        yield from fabric._list()
        return fabric

    def _list(self) -> Pieces[None]:
        """Makes the lists of names and links, which are made at once when they are asked for before."""
        keys: dict[type, list[tuple[Any, str]]] = {Switch: [], Host: []}
        sorted_already = True
        for at, name in enumerate(self.graph, 1):
            node = self.graph.nodes[name]["node"]
            found, key = keys[type(node)], (natural(name), name)
            sorted_already = sorted_already and (not found or found[-1] < key)
            found.append(key)
            if not at % PIECE:
                yield
        links: set[Link] = set()
        for at, edge in enumerate(self.graph.edges, 1):
            if edge[0] < edge[1]:
                links.add(Link(*edge))
            if not at % (4 * PIECE):
                yield
        for kind, field in ((Switch, "switches"), (Host, "hosts")):
            if not sorted_already:
                keys[kind].sort()
            self.__dict__[field] = tuple([name for _, name in keys[kind]])
        self.__dict__["links"] = frozenset(links)

    def _named(self, kind: type[Switch] | type[Host]) -> tuple[str, ...]:
        names = (name for name, node in self.graph.nodes(data="node") if isinstance(node, kind))
        return tuple(sorted(names, key=natural))


class FabricBuilder:
    """Collects the parts of a fabric. Each `add_...` adds all of its arguments, or raises FabricError and adds nothing.

    The fields of the problems are the names of the arguments.
    """

    def __init__(self) -> None:
        self._graph: nx.DiGraph[str] = nx.DiGraph()
        self._owners: dict[object, str] = {}  # of addresses, MACs and datapath ids
        self._ports: dict[tuple[str, str], str] = {}  # (node, port) -> the node at the other end

    @classmethod
    def of(cls, fabric: Fabric) -> Self:
        """A builder that starts with the content of a fabric."""
        builder = cls()
        for name in fabric.switches:
            switch = fabric.switch(name)
            builder.add_switch(name, dpid=switch.dpid, priority=switch.priority)
        for name in fabric.hosts:
            builder.add_host(name, fabric.addresses(name), fabric.mac(name))
        for a, b in fabric.links:
            rates = {"rate_bps": fabric.capacity_bps((a, b)), "reverse_rate_bps": fabric.capacity_bps((b, a))}
            builder.add_link(a, b, a_port=fabric.port((a, b)), b_port=fabric.port((b, a)), **rates)
        return builder

    def add_switch(self, name: str, *, dpid: int | None = None, priority: int = DEFAULT_PRIORITY) -> Self:
        """Adds a switch; `dpid` is its 64-bit OpenFlow datapath id."""
        problems = self._name_problems(name)
        if dpid is not None:
            if not 0 < dpid < 2**64:
                problems.append(Problem("dpid", f"{dpid} is no datapath id; write a number of 1 to 2^64 - 1"))
            problems += self._owner_problems("dpid", "datapath id", dpid)
        if not 0 <= priority <= 0xFFFF:
            problems.append(Problem("priority", f"{priority} is out of range; write a number of 0 to 65535"))
        _refuse(problems)
        self._graph.add_node(name, node=Switch(name, dpid, priority))
        if dpid is not None:
            self._owners[dpid] = name
        return self

    def add_host(self, name: str, addresses: Iterable[IPAddress | str] = (), mac: str | None = None) -> Self:
        """Adds a host with the addresses of its VMs."""
        problems = self._name_problems(name)
        own: list[IPAddress] = []
        for at, given in enumerate(addresses):
            try:
                address = ip_address(given)
                if isinstance(address, IPv6Address) and address.scope_id is not None:
                    raise ValueError("the same address without its zone would be another one's")
            except ValueError:
                text = f"{given!r} is not an IP address; write one such as 10.0.0.1"
                problems.append(Problem(f"addresses[{at}]", text))
                continue
            problems += self._owner_problems(f"addresses[{at}]", "address", address)
            if address in own:
                problems.append(Problem(f"addresses[{at}]", f"address {address} is listed twice; remove one"))
            own.append(address)
        if mac is not None:
            mac = mac.lower().replace("-", ":")
            if not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1:
                text = f"{mac!r} is not a unicast MAC address; write one such as 02:00:00:00:00:01"
                problems.append(Problem("mac", text))
            problems += self._owner_problems("mac", "MAC address", mac)
        _refuse(problems)
        self._graph.add_node(name, node=Host(name, tuple(own), mac))
        self._owners.update(dict.fromkeys(own, name))
        if mac is not None:
            self._owners[mac] = name
        return self

    def add_link(
        self,
        a: str,
        b: str,
        rate_bps: int,
        a_port: str | None = None,
        b_port: str | None = None,
        reverse_rate_bps: int | None = None,
    ) -> Self:
        """Adds a link with `rate_bps` from `a` to `b`, and the same rate back unless `reverse_rate_bps` is given."""
        back_bps = rate_bps if reverse_rate_bps is None else reverse_rate_bps
        problems = [
            Problem(field, f"no node is named {name!r}; name a switch or a host, or add it")
            for field, name in (("a", a), ("b", b))
            if name not in self._graph
        ]
        for field, rate in (("rate_bps", rate_bps), ("reverse_rate_bps", reverse_rate_bps)):
            if rate is not None and not 0 < rate <= MAX_VALUE:
                problems.append(Problem(field, f"{rate} is not a capacity; write a positive number of bit/s"))
        if a == b:
            problems.append(Problem("b", f"the link joins {a!r} to itself; name another node"))
        elif not problems:
            problems += self._end_problems(a, b)
        for field, node, port in (("a_port", a, a_port), ("b_port", b, b_port)):
            if port is not None and not port.isprintable():
                problems.append(Problem(field, f"{port!r} is not the name of a port; write it without control characters"))
            elif port is not None and (node, port) in self._ports:
                used = f"port {port!r} of {node!r} already leads to {self._ports[node, port]!r}"
                problems.append(Problem(field, f"{used}; give each link a port of its own"))
        _refuse(problems)
        self._graph.add_edge(a, b, rate_bps=rate_bps, port=a_port)
        self._graph.add_edge(b, a, rate_bps=back_bps, port=b_port)
        for node, port, peer in ((a, a_port, b), (b, b_port, a)):
            if port is not None:
                self._ports[node, port] = peer
        return self

    def build(self) -> Fabric:
        """The fabric as it is now; later additions do not change it."""
        return Fabric(self._graph.copy())

    def finish(self) -> Fabric:
        """The fabric as it is now, without a copy: the builder begins anew."""
        graph, self._graph = self._graph, nx.DiGraph()
        self._owners.clear()
        self._ports.clear()
        return Fabric(graph)

    def _name_problems(self, name: str) -> list[Problem]:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not name.isprintable():
            return [Problem("name", f"{name!r} is not a name; write 1 to 64 characters without white space and '>'")]
        if name in self._graph:
            return [Problem("name", f"there is a {name!r} already; give each node a name of its own")]
        return []

    def _owner_problems(self, field: str, kind: str, value: object) -> list[Problem]:
        if (owner := self._owners.get(value)) is None:
            return []
        return [Problem(field, f"{kind} {value} belongs to {owner!r} already; remove it from one of them")]

    def _end_problems(self, a: str, b: str) -> list[Problem]:
        if self._graph.has_edge(a, b):
            text = f"{a!r} and {b!r} are joined already; write one link with their joint rate"
            return [Problem("b", text)]
        ends = (("a", a), ("b", b))
        hosts = [(field, name) for field, name in ends if isinstance(self._graph.nodes[name]["node"], Host)]
        if len(hosts) == 2:
            return [Problem("b", f"{a!r} and {b!r} are both hosts; put a switch between them")]
        return [
            Problem(field, f"host {name!r} has a link already; a host has one: remove the other")
            for field, name in hosts
            if self._graph.degree(name)
        ]


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise FabricError(*problems)
