"""Which addresses live at an interface's host, by what the kernel's tables say. Pure.

The interface's *carriers* are the interface itself, the bridge or bond that it is a port of, and those that send through a
carrier (VLANs, macvlans). The host's own addresses are those of its carriers. Behind a bridge live the stations at its ports
that are no carriers themselves; their addresses are those that the neighbour tables of the carriers have for their MAC
addresses. Packets' sources say nothing here: everyone can forge them.

Link-local addresses are left out: one and the same may exist on every link of the fabric, and the directory has one host for
each address.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from agents.addresses.tables import Address, Link, Tables, first

BROADCAST = IPv4Address("255.255.255.255")
BRIDGE = "bridge"
MASTERS = frozenset({BRIDGE, "bond", "team"})
"""Through these a port's host speaks; a VRF, say, only routes."""
UPPERS = frozenset({"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec"})
SHOWN = 8
MOST = 255
"""REGISTER counts addresses in a byte."""


@dataclass(frozen=True, slots=True)
class Found:
    """The addresses that live at a host, in the order of their importance."""

    own: tuple[Address, ...] = ()
    behind: tuple[Address, ...] = ()
    """Of stations behind the bridge."""
    unknown_stations: int = 0
    """Stations of which no neighbour table has an IP address."""
    bridges: tuple[str, ...] = ()
    """The names of the bridges that the interface is a port of."""
    ports: Mapping[Address, int] = field(default_factory=dict, compare=False)
    """The port of the bridge, by index, of each address behind it; without those that live at several."""
    carriers: frozenset[int] = field(default=frozenset(), compare=False)
    """The interfaces through which the host itself speaks to its guests and the fabric, by index."""


def search(tables: Tables, interface: int) -> Found:
    """The addresses of an interface, by its index."""
    carriers = _carriers(tables.links, interface)
    own = {address for index, address in tables.addresses if index in carriers and routable(address)}
    stations = defaultdict[bytes, set[int]](set)
    for (bridge, mac, _), port in tables.stations.items():
        if bridge in carriers and port not in carriers and port != bridge:
            stations[mac].add(port)
    behind, known = defaultdict[Address, set[int]](set), set[bytes]()
    for (index, address), mac in tables.neighbours.items():
        if index in carriers and mac in stations and routable(address):
            behind[address] |= stations[mac]
            known.add(mac)
    ports = {address: min(at) for address, at in behind.items() if address not in own and len(at) == 1}
    bridges = sorted(tables.links[index].name for index in carriers if _kind(tables.links, index) == BRIDGE)
    others = tuple(first(behind.keys() - own))
    return Found(tuple(first(own)), others, len(stations.keys() - known), tuple(bridges), ports, carriers)


def _carriers(links: dict[int, Link], interface: int) -> frozenset[int]:
    found = {interface}
    while True:
        more = {index for index, link in links.items() if link.kind in UPPERS and link.lower in found}
        masters = {links[index].master for index in found if index in links}
        more |= {index for index in masters if _kind(links, index) in MASTERS}
        if more <= found:
            return frozenset(found)
        found |= more


def _kind(links: dict[int, Link], index: int) -> str:
    return links[index].kind if index in links else ""


def routable(address: Address) -> bool:
    """Whether it can be the address of one host, for others to send to."""
    local = address.is_link_local or address.is_loopback
    return not (local or address.is_multicast or address.is_unspecified or address == BROADCAST)


def chosen(configured: Collection[Address], found: Found, room: int) -> tuple[tuple[Address, ...], int]:
    """The addresses to announce that fit into `room` bytes of a REGISTER, and how many are left out.

    Configured addresses come first, then the host's own, then those behind its bridge.
    """
    wanted = dict.fromkeys([*first(configured), *found.own, *found.behind])
    taken: list[Address] = []
    for address in wanted:
        room -= 1 + len(address.packed)
        if room < 0 or len(taken) == MOST:
            break
        taken.append(address)
    return tuple(first(taken)), len(wanted) - len(taken)


def described(configured: Collection[Address], found: Found) -> str:
    """The addresses with where each is from, for a line of the log."""
    told = set(configured)
    parts = [(first(told), "--address"), ([a for a in found.own if a not in told], "interface")]
    parts.append(([a for a in found.behind if a not in told], f"behind {', '.join(found.bridges)}"))
    texts = [f"{_listed(addresses)} ({source})" for addresses, source in parts if addresses]
    if found.unknown_stations:
        texts.append(f"{found.unknown_stations} stations behind {', '.join(found.bridges)} without a known IP address")
    return ", ".join(texts) or "no addresses"


def _listed(addresses: Sequence[Address]) -> str:
    more = f" and {len(addresses) - SHOWN} more" if len(addresses) > SHOWN else ""
    return " ".join(map(str, addresses[:SHOWN])) + more
