"""The fabrics and the traffic patterns of `baton bench fabrics`. Pure.

Hosts are taken by their place: rack by rack, so the same patterns run on every shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from emulation.traffic.experiment import Flow
from topology import shapes
from topology.fabric import Fabric

DATAGRAM_BYTES = 1400
"""Of the UDP flood: one frame each, as iperf3 sends with `-l 1400`."""
FLOOD, LITTLE = 0.95, 0.05
"""Of a host's rate: what a flood sends, and what a sender that wants little does."""


class Pattern(NamedTuple):
    """Flows that run together, and the two hosts of the pings."""

    flows: tuple[Flow, ...]
    ping: tuple[str, str]


class Traffic(NamedTuple):
    """What is the same for all flows of a pattern: a host's rate, TCP connections a flow, and how often they are sampled."""

    rate_bps: int
    connections: int = 1
    trace_ns: int = 0

    def tcp(self, source: str, destination: str) -> Flow:
        """A TCP flow that wants all that it can get."""
        return Flow("tcp", source, destination, size=1 << 16, count=self.connections, trace_ns=self.trace_ns)

    def udp(self, source: str, destination: str, part: float = FLOOD) -> Flow:
        """A UDP flow of a part of a host's rate."""
        return Flow("udp", source, destination, rate_bps=round(self.rate_bps * part), size=DATAGRAM_BYTES)


def racks(fabric: Fabric) -> list[list[str]]:
    """The hosts of each switch that has some, in natural order."""
    of_switch: dict[str, list[str]] = {}
    for host in fabric.hosts:
        of_switch.setdefault(str(fabric.attachment(host)), []).append(host)
    return list(of_switch.values())


def one_receiver(fabric: Fabric, traffic: Traffic) -> Pattern:
    """A UDP flood and TCP flows from all other hosts but one, which pings, to the last host."""
    found = racks(fabric)
    receiver, flooder, pinger = found[-1][-1], found[0][0], found[len(found) // 2][-1]
    others = [host for host in fabric.hosts if host not in (receiver, flooder, pinger)]
    flows = (traffic.udp(flooder, receiver), *(traffic.tcp(host, receiver) for host in others))
    return Pattern(flows, (pinger, receiver))


def several_bottlenecks(fabric: Fabric, traffic: Traffic) -> Pattern:
    """Flows over several contended links: out of the first rack, into the last one, and to both of its last hosts.

    One of them wants 5 % of a host's rate.
    """
    found = racks(fabric)
    first, middle, last = found[0], found[len(found) // 2], found[-1]
    flows = (
        traffic.tcp(first[0], last[-1]),
        traffic.tcp(first[1], last[0]),
        traffic.udp(middle[0], last[-1]),
        traffic.tcp(middle[-1], last[0]),
        traffic.tcp(last[0], last[-1]),
        traffic.udp(first[1], middle[0], LITTLE),
    )
    return Pattern(flows, (middle[-1], last[-1]))


PATTERNS: Mapping[str, Callable[[Fabric, Traffic], Pattern]] = {
    "one-receiver": one_receiver,
    "several-bottlenecks": several_bottlenecks,
}


def three_tier(rate_bps: int, above_bps: int | None) -> Fabric:
    """Two core, two aggregation and three rack switches, all redundantly joined, with two hosts a rack."""
    above = above_bps or rate_bps * 3 // 2
    return shapes.three_tier(host_rate_bps=rate_bps, aggregation_rate_bps=above, core_rate_bps=above_bps or rate_bps * 2)


def leaf_spine(rate_bps: int, above_bps: int | None) -> Fabric:
    """Three leaves with two hosts each, joined to both of two spines."""
    return shapes.leaf_spine(3, 2, 2, host_rate_bps=rate_bps, uplink_rate_bps=above_bps or rate_bps * 3 // 2)


def racks_of_four(rate_bps: int, above_bps: int | None) -> Fabric:
    """Three racks of four hosts under one core switch."""
    return shapes.xco_racks(3, 4, host_rate_bps=rate_bps, uplink_rate_bps=above_bps or rate_bps * 2)


SHAPES: Mapping[str, Callable[[int, int | None], Fabric]] = {
    "three-tier": three_tier,
    "leaf-spine": leaf_spine,
    "racks": racks_of_four,
}
"""By the name on the command line; made of a host's rate, and of the rate of all links between switches, if that is given."""
