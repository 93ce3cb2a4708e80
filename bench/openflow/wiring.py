"""The fabric of a swarm: which port leads where. Pure.

XCo's Figure 27: racks of hosts below rows, rows below one core switch; besides, each row is joined to the next, so that another
tree exists when a row loses its uplink. Ports have numbers from 1; datapath ids are 1 (core), then the rows, then the racks.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.openflow.intake.hosts import PortRef

RACKS_PER_ROW = 10
GIGABIT = 10**9


@dataclass(frozen=True, slots=True)
class SwarmHost:
    """A host and its switch port."""

    mac: str
    address: str
    at: PortRef


@dataclass(frozen=True, slots=True)
class Wiring:
    """`names` of the switches by datapath id; `ports`: each one's ports with their rates in bit/s; `far`: the other end of each
    port that leads to a switch; `rows`: the datapath ids of the rows."""

    names: dict[int, str]
    ports: dict[int, dict[int, int]]
    far: dict[PortRef, PortRef]
    hosts: tuple[SwarmHost, ...]
    rows: tuple[int, ...]


def wire(switches: int, hosts: int) -> Wiring:
    """A fabric of so many switches and hosts.

    Raises:
        ValueError: too few of them for a core, two rows and their racks.
    """
    rows = (switches - 1) // (RACKS_PER_ROW + 1)
    racks = switches - 1 - rows
    if rows < 2 or hosts < racks:
        raise ValueError(f"{switches} switches and {hosts} hosts: write 23 switches or more, and a host for each rack at least")
    names = {1: "core", **{2 + at: f"row{at + 1}" for at in range(rows)}}
    names |= {2 + rows + at: f"rack{at + 1}" for at in range(racks)}
    ports: dict[int, dict[int, int]] = {dpid: {} for dpid in names}
    far: dict[PortRef, PortRef] = {}

    def port(dpid: int, rate_bps: int) -> PortRef:
        number = len(ports[dpid]) + 1
        ports[dpid][number] = rate_bps
        return PortRef(dpid, number)

    def link(one: int, other: int) -> None:
        a, b = port(one, 10 * GIGABIT), port(other, 10 * GIGABIT)
        far[a], far[b] = b, a

    row_ids = tuple(range(2, 2 + rows))
    for row in row_ids:
        link(1, row)
    for row, following in zip(row_ids, (*row_ids[1:], row_ids[0]), strict=True):
        if rows > 2 or row < following:
            link(row, following)
    for at in range(racks):
        link(row_ids[at % rows], 2 + rows + at)
    found = []
    for number in range(hosts):
        address = ".".join(map(str, (10, *(number + 1).to_bytes(3))))
        place = port(2 + rows + number % racks, GIGABIT)
        found.append(SwarmHost((0x02 << 40 | number + 1).to_bytes(6).hex(":"), address, place))
    return Wiring(names, ports, far, tuple(found), row_ids)
