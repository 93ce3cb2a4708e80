"""Compares the cables that LLDP shows with those of a fabric file. Pure.

LLDP supplies the port names that the file leaves out. Where both have a cable and differ, the operator gets a warning. A
system's name may have a domain: `s2.example.net` is the fabric's `s2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.spanning_tree.port_states import PortState
from topology.fabric import Fabric

_Ports = dict[tuple[str, str], list[str]]


def with_ports(fabric: Fabric, states: Iterable[PortState], before: Fabric | None = None) -> Fabric:
    """The file's fabric with port names from LLDP at links between two switches that have none there; no port stands twice.

    `before`: what the last call returned; a port that it has stays while LLDP shows neither another port for that link nor
    another switch at that port. It is returned itself if nothing has changed.
    """
    before = before or fabric
    confirmed, claimed = _choices(fabric, states)
    seen = {(a, port): b for a, port, b, _ in _cables(fabric, states)}
    known = {ends: port for ends in fabric.graph.edges if fabric.port(ends) is None and (port := before.port(ends)) is not None}
    learned = {(a, b): port for (a, b), port in known.items() if seen.get((a, port), b) == b}
    learned |= {ends: ports[0] for ends, ports in claimed.items() if len(ports) == 1}
    learned |= {ends: ports[-1] for ends, ports in confirmed.items()}
    taken = {(a, fabric.port((a, b))) for a, b in fabric.graph.edges}
    missing = {(a, b): port for (a, b), port in learned.items() if fabric.port((a, b)) is None and (a, port) not in taken}
    if missing == known:
        return before
    document = fabric.to_dict()
    for link in document["links"]:
        for a, b, field in ((link["a"], link["b"], "a_port"), (link["b"], link["a"], "b_port")):
            link[field] = link[field] or missing.get((a, b))
    return Fabric.from_dict(document)


def contradictions(fabric: Fabric, states: Iterable[PortState]) -> list[str]:
    """Where LLDP shows another cable than the file; a line each, with the remedy."""
    leads_to = {(a, port): b for a, b in fabric.graph.edges if (port := fabric.port((a, b))) is not None}
    lines = []
    for a, port, b, _ in _cables(fabric, states):
        if (written := leads_to.get((a, port))) is not None and written != b:
            lines.append(f"fabric: port {port} of {a} leads to {written}, but LLDP sees {b} there; mend the file or the cable")
        elif written is None and (other := fabric.port((a, b)) if fabric.graph.has_edge(a, b) else None) is not None:
            lines.append(f"fabric: {a} reaches {b} by port {other}, but LLDP sees it at {port}; mend the file or the cable")
    confirmed, claimed = _choices(fabric, states)
    for (a, b), ports in claimed.items():
        if len(ports) > 1 and (a, b) not in confirmed and fabric.port((a, b)) is None:
            shown = " and ".join(ports)
            lines.append(f"fabric: LLDP sees {b} at the ports {shown} of {a}, {b} confirms none; write the port in the file")
    return sorted(lines)


def _choices(fabric: Fabric, states: Iterable[PortState]) -> tuple[_Ports, _Ports]:
    """By link of the fabric, from each end: the ports there that the other end confirms, and all that LLDP shows. A host can
    send LLDP, too, so what both ends say comes first."""
    cables = list(_cables(fabric, states))
    said = set(cables)
    confirmed: _Ports = {}
    claimed: _Ports = {}
    for a, port, b, other in cables:
        if fabric.graph.has_edge(a, b):
            claimed.setdefault((a, b), []).append(port)
            if (b, other, a, port) in said:
                confirmed.setdefault((a, b), []).append(port)
    return confirmed, claimed


def _cables(fabric: Fabric, states: Iterable[PortState]) -> Iterator[tuple[str, str, str, str]]:
    """(switch, its port, switch at the other end, the port there), of both ends in the fabric."""
    for switch, port, _, neighbour in sorted(states, key=lambda state: state[:2]):
        if neighbour is None or switch not in fabric:
            continue
        names = (neighbour.system, neighbour.system.partition(".")[0])
        if (other := next((name for name in names if name in fabric.switches), None)) is not None and other != switch:
            yield switch, port, other, neighbour.port
