"""What max-min fairness gives each flow of a pattern, as the receiving application would count it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from emulation.traffic.experiment import Flow
from topology import max_min
from topology.fabric import DirectedLink, Fabric
from topology.paths import Routes
from topology.spanning_tree import compute

HEADER_BYTES = 14 + 20
"""Ethernet, without what links do not count, and IPv4."""
UDP_BYTES, TCP_BYTES = 8, 32
"""Their headers; TCP's with timestamps."""
PACKET_BYTES = 1500


def wire_bytes(flow: Flow) -> tuple[int, int]:
    """Of one message of a flow: the bytes that its receiver counts, and the bytes on a link."""
    if flow.kind != "udp":
        return PACKET_BYTES - 20 - TCP_BYTES, PACKET_BYTES + 14
    datagram = flow.size + UDP_BYTES
    fragments = -(-datagram // (PACKET_BYTES - 20))
    return flow.size, datagram + fragments * HEADER_BYTES


def paths(fabric: Fabric, flows: Sequence[Flow]) -> list[tuple[DirectedLink, ...]]:
    """The directed links that each flow crosses on the spanning tree that Baton computes."""
    routes = Routes(fabric, compute(fabric))
    return [routes.path(flow.source, flow.destination) for flow in flows]


def goodputs_bps(fabric: Fabric, flows: Sequence[Flow]) -> list[float]:
    """The goodput of each flow if all links were full and shared max-min fairly; acknowledgements take nothing."""
    ways = paths(fabric, flows)
    wanted = []
    for flow, path in zip(flows, ways, strict=True):
        useful, wire = wire_bytes(flow)
        wanted.append(max_min.Flow(path, flow.rate_bps * wire / useful) if flow.rate_bps else max_min.Flow(path))
    capacities = {link: float(fabric.capacity_bps(link)) for path in ways for link in path}
    shares = max_min.shares(capacities, wanted)
    return [share * useful / wire for share, (useful, wire) in zip(shares, map(wire_bytes, flows), strict=True)]
