"""The fabric in the format of Ryu's rest_topology, so that scripts written for Ryu work. Pure.

Fields and their order are Ryu's: a port is {dpid, port_no, hw_addr, name}, with numbers in hexadecimal without 0x; a link is
one direction between switches; each host is identified by its MAC address. For switches that Baton does not control, missing
numbers are made up in a repeatable way: datapath ids count from 1 in the order of the names, and a port's number is the one at
the end of its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any, NamedTuple

from topology.fabric import Fabric, natural

UNKNOWN_MAC = "00:00:00:00:00:00"


class Topology(NamedTuple):
    """The three lists of /v1.0/topology."""

    switches: list[dict[str, Any]]
    links: list[dict[str, Any]]
    hosts: list[dict[str, Any]]


def topology(fabric: Fabric, document: Mapping[str, Any]) -> Topology:
    """The three lists for a fabric.

    Args:
        document: the store's document of the fabric, for facts that `fabric` does not hold: {"ports": {switch: [[number,
            name, hw_addr]]}, "hosts": [{"name", "macs"}]}; each of them may be missing.
    """
    dpids = _dpids(fabric)
    ports = {switch: _ports(fabric, switch, dpids[switch], document) for switch in fabric.switches}
    by_name = {switch: {port["name"]: port for port in found} for switch, found in ports.items()}

    def port(source: str, target: str) -> dict[str, Any]:
        """The port of a switch towards a neighbour."""
        return by_name[source][_port_name(fabric, source, target)]

    switches = [{"dpid": dpids[name], "ports": ports[name]} for name in fabric.switches]
    links = [
        {"src": port(a, b), "dst": port(b, a)}
        for link in sorted(fabric.links, key=lambda link: (natural(link.a), natural(link.b)))
        for a, b in link.directions
        if not (fabric.is_host(a) or fabric.is_host(b))
    ]
    macs = {host["name"]: host["macs"] for host in document.get("hosts", ())}
    hosts = []
    for name in fabric.hosts:
        switch = fabric.attachment(name)
        if switch is None:
            continue
        known = macs.get(name) or [fabric.mac(name) or UNKNOWN_MAC]
        for at, mac in enumerate(known):
            addresses = fabric.addresses(name) if at == 0 else ()
            versions: tuple[list[str], list[str]] = ([], [])
            for address in addresses:
                versions[not isinstance(address, IPv4Address)].append(str(address))
            hosts.append({"mac": mac, "ipv4": versions[0], "ipv6": versions[1], "port": port(switch, name)})
    return Topology(switches, links, hosts)


def _dpids(fabric: Fabric) -> dict[str, str]:
    known = {name: fabric.switch(name).dpid for name in fabric.switches}
    taken = set(known.values())
    free = (number for number in range(1, 2 * len(known) + 1) if number not in taken)
    return {name: f"{next(free) if dpid is None else dpid:016x}" for name, dpid in known.items()}


def _ports(fabric: Fabric, switch: str, dpid: str, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    told = {name: (number, mac) for number, name, mac in document.get("ports", {}).get(switch, ())}
    names = [_port_name(fabric, switch, near) for near in fabric.neighbours(switch)]
    taken = {number for number, _ in told.values()}
    for name in names:
        if name not in told:
            digits = re.search("([0-9]{1,6})$", name)
            number = int(digits[1]) if digits else 1
            while number in taken:
                number += 1
            taken.add(number)
            told[name] = number, UNKNOWN_MAC
    return [
        {"dpid": dpid, "port_no": f"{number:08x}", "hw_addr": mac, "name": name}
        for name, (number, mac) in sorted(told.items(), key=lambda item: item[1][0])
    ]


def _port_name(fabric: Fabric, switch: str, near: str) -> str:
    return fabric.port((switch, near)) or f"{switch}-{near}"
