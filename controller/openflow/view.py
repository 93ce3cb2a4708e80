"""What is known of the network at one moment: switches, ports, links, hosts. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.openflow.intake.hosts import Host, PortRef
from protocol.bodies.text import printable


def told_name(text: str) -> str:
    """What a switch calls itself or a port, as a fabric can have it: printable, "?" in place of white space and ">"."""
    return "".join("?" if one.isspace() or one == ">" else one for one in printable(text))


@dataclass(frozen=True, slots=True)
class Port:
    """A switch port as the switch describes it; `rate_bps` is 0 if the switch does not say. In a `View` no other port of the
    switch has its name."""

    number: int
    name: str
    up: bool
    rate_bps: int = 0
    mac: str = ""


@dataclass(frozen=True, slots=True)
class Switch:
    """A connected switch: bridge name and ports by number."""

    dpid: int
    name: str
    ports: Mapping[int, Port]


class Link(NamedTuple):
    """An inter-switch link on which LLDP passed both ways; `a` is the lower end."""

    a: PortRef
    b: PortRef


@dataclass(frozen=True, slots=True)
class View:
    """The network as forwarding may use it: only switches that take part, links between them, edges open to hosts. The switches
    pass on no frames of `muted` ports, and no LLDP of `deaf` ones."""

    switches: Mapping[int, Switch]
    links: tuple[Link, ...]
    edges: frozenset[PortRef]
    hosts: Mapping[str, Host]
    muted: frozenset[PortRef] = frozenset()
    deaf: frozenset[PortRef] = frozenset()

    def is_up(self, ref: PortRef) -> bool:
        """Whether this port exists and its link is up."""
        switch = self.switches.get(ref.dpid)
        port = switch.ports.get(ref.number) if switch else None
        return port is not None and port.up


class Note(NamedTuple):
    """An event for operators: kind, severity ("info" or "warning"), text, fields."""

    kind: str
    severity: str
    text: str
    fields: dict[str, str]
