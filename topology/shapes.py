"""Builds fabrics of common shapes by name: `build("star", hosts=6, rate_bps="100Mbit")`.

Hosts are h1, h2, ... with the addresses 10.0.0.1, 10.0.0.2, ... (`vms` consecutive ones each) and the MAC
addresses 02:00:00:00:00:01, ...; switches have the datapath ids 1, 2, ...; ports are named as in Mininet:
`h1-eth0` at a host, `s1-eth1`, `s1-eth2`, ... at a switch. Core switches have a lower bridge priority, as an
operator would set it, so that one of them is the root of the spanning tree.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from types import MappingProxyType

from topology.fabric import DEFAULT_PRIORITY, Fabric, FabricBuilder
from topology.problems import FabricError, Problem
from topology.units import parse_rate

MEGABIT = 10**6
GIGABIT = 10**9
ROOT_PRIORITY = 0x1000
NEXT_PRIORITY = 0x2000
FIRST_ADDRESS = int(IPv4Address("10.0.0.1"))
MAX_ADDRESSES = 2**24 - 2  # of 10.0.0.0/8


def star(hosts: int = 6, rate_bps: int = 100 * MEGABIT, vms: int = 1) -> Fabric:
    """One switch with hosts: XCo's Figure 1(a), where all other hosts send to one."""
    plan = _Plan(vms)
    plan.hosts(hosts, plan.switch("s1"), rate_bps)
    return plan.fabric()


def dumbbell(
    left: int = 2,
    right: int = 2,
    rate_bps: int = 100 * MEGABIT,
    bottleneck_bps: int = 100 * MEGABIT,
    vms: int = 1,
) -> Fabric:
    """Two switches joined by a bottleneck: s1 with the `left` hosts and s2 with the `right` ones."""
    plan = _Plan(vms)
    one, other = plan.switch("s1"), plan.switch("s2")
    plan.link(one, other, bottleneck_bps)
    plan.hosts(left, one, rate_bps)
    plan.hosts(right, other, rate_bps)
    return plan.fabric()


def xco_racks(
    racks: int = 2,
    hosts_per_rack: int = 20,
    host_rate_bps: int = GIGABIT,
    uplink_rate_bps: int = 10 * GIGABIT,
    vms: int = 1,
) -> Fabric:
    """Racks under one core switch, with one oversubscribed level; XCo's Figure 27 has two (`xco_rows`)."""
    plan = _Plan(vms)
    plan.racks(racks, plan.switch("core", ROOT_PRIORITY), hosts_per_rack, host_rate_bps, uplink_rate_bps)
    return plan.fabric()


def xco_rows(
    rows: int = 2,
    racks_per_row: int = 10,
    hosts_per_rack: int = 20,
    host_rate_bps: int = GIGABIT,
    rack_uplink_rate_bps: int = 10 * GIGABIT,
    row_uplink_rate_bps: int = 10 * GIGABIT,
    vms: int = 1,
) -> Fabric:
    """XCo's Figure 27 (4 to 24 rows of 200 machines): racks under switches at the ends of rows, those under one core switch.

    Both levels are oversubscribed: 20 Gb/s of machines share a rack's uplink of 10, and the 100 of a row's racks its one of 10.
    """
    plan = _Plan(vms)
    core = plan.switch("core", ROOT_PRIORITY)
    for number in range(1, rows + 1):
        row = plan.switch(f"row{number}")
        plan.link(row, core, row_uplink_rate_bps)
        plan.racks(racks_per_row, row, hosts_per_rack, host_rate_bps, rack_uplink_rate_bps)
    return plan.fabric()


def leaf_spine(
    leaves: int = 4,
    spines: int = 2,
    hosts_per_leaf: int = 4,
    host_rate_bps: int = GIGABIT,
    uplink_rate_bps: int = 10 * GIGABIT,
    vms: int = 1,
) -> Fabric:
    """Every leaf joined to every spine; the tree keeps all links of one spine, and one link of each other spine."""
    plan = _Plan(vms)
    priorities = [ROOT_PRIORITY] + [NEXT_PRIORITY] * (spines - 1)
    above = [plan.switch(f"spine{at}", priority) for at, priority in enumerate(priorities, 1)]
    for number in range(1, leaves + 1):
        leaf = plan.switch(f"leaf{number}")
        for spine in above:
            plan.link(leaf, spine, uplink_rate_bps)
        plan.hosts(hosts_per_leaf, leaf, host_rate_bps)
    return plan.fabric()


def three_tier(
    racks: int = 3,
    hosts_per_rack: int = 2,
    host_rate_bps: int = GIGABIT,
    aggregation_rate_bps: int = 10 * GIGABIT,
    core_rate_bps: int = 10 * GIGABIT,
    vms: int = 1,
) -> Fabric:
    """Racks t1, t2, ... each joined to both aggregation switches, a1 and a2; those to both core switches, c1 and c2."""
    plan = _Plan(vms)
    core = plan.switch("c1", ROOT_PRIORITY), plan.switch("c2", NEXT_PRIORITY)
    plan.link(core[0], core[1], core_rate_bps)
    middle = [plan.switch(name) for name in ("a1", "a2")]
    for above in core:
        for switch in middle:
            plan.link(above, switch, core_rate_bps)
    for number in range(1, racks + 1):
        rack = plan.switch(f"t{number}")
        for switch in middle:
            plan.link(switch, rack, aggregation_rate_bps)
        plan.hosts(hosts_per_rack, rack, host_rate_bps)
    return plan.fabric()


def ring(
    switches: int = 3,
    hosts_per_switch: int = 1,
    rate_bps: int = 100 * MEGABIT,
    ring_rate_bps: int | None = None,
    vms: int = 1,
) -> Fabric:
    """A ring of at least three switches, each with hosts; one link of the ring is blocked."""
    if switches < 3:
        raise FabricError(Problem("switches", f"{switches} switches make no ring; write 3 or more"))
    plan = _Plan(vms)
    names = [plan.switch(f"s{number}") for number in range(1, switches + 1)]
    for at, name in enumerate(names):
        plan.link(name, names[(at + 1) % switches], ring_rate_bps or rate_bps)
    for name in names:
        plan.hosts(hosts_per_switch, name, rate_bps)
    return plan.fabric()


SHAPES: Mapping[str, Callable[..., Fabric]] = MappingProxyType(
    {shape.__name__: shape for shape in (star, dumbbell, xco_racks, xco_rows, leaf_spine, three_tier, ring)}
)


def parameters(shape: str) -> dict[str, object]:
    """A shape's parameters with their defaults."""
    return {name: one.default for name, one in inspect.signature(_shape(shape)).parameters.items()}


def build(shape: str, **given: int | str) -> Fabric:
    """A fabric of a shape; counts are numbers, and rates are numbers or texts such as "10G".

    Raises:
        FabricError: the shape or a parameter is unknown, or a value is not allowed; lists all problems.
    """
    maker, known = _shape(shape), parameters(shape)
    problems, values = [], {}
    for name, value in given.items():
        try:
            if name not in known:
                raise ValueError(f"is not a parameter of {shape}; choose from {', '.join(known)}")
            values[name] = parse_rate(value) if name.endswith("_bps") else _count(value)
        except ValueError as error:
            problems.append(Problem(name, str(error)))
    if problems:
        raise FabricError(*problems)
    return maker(**values)


def _shape(name: str) -> Callable[..., Fabric]:
    if name not in SHAPES:
        raise FabricError(Problem("shape", f"{name!r} is unknown; choose from {', '.join(SHAPES)}"))
    return SHAPES[name]


def _count(value: int | str) -> int:
    if not str(value).isdecimal() or int(value) == 0:
        raise ValueError(f"{value!r} is not a count; write 1 or more")
    return int(value)


class _Plan:
    """Builds a fabric, numbering switches, hosts and ports."""

    def __init__(self, vms: int) -> None:
        self._builder = FabricBuilder()
        self._vms = vms
        self._switches = 0
        self._racks = 0
        self._hosts = 0
        self._ports: Counter[str] = Counter()

    def switch(self, name: str, priority: int = DEFAULT_PRIORITY) -> str:
        self._switches += 1
        self._builder.add_switch(name, dpid=self._switches, priority=priority)
        return name

    def racks(self, count: int, above: str, hosts: int, host_rate_bps: int, uplink_rate_bps: int) -> None:
        for _ in range(count):
            self._racks += 1
            rack = self.switch(f"rack{self._racks}")
            self.link(rack, above, uplink_rate_bps)
            self.hosts(hosts, rack, host_rate_bps)

    def hosts(self, count: int, switch: str, rate_bps: int) -> None:
        for _ in range(count):
            first = FIRST_ADDRESS + self._hosts * self._vms
            self._hosts += 1
            if self._hosts * self._vms > MAX_ADDRESSES:
                raise FabricError(Problem("hosts", "need more addresses than 10.0.0.0/8 has; ask for fewer"))
            name = f"h{self._hosts}"
            mac = (0x02 << 40 | self._hosts).to_bytes(6, "big").hex(":")
            self._builder.add_host(name, [IPv4Address(first + vm) for vm in range(self._vms)], mac)
            self._builder.add_link(name, switch, rate_bps, f"{name}-eth0", self._port(switch))

    def link(self, a: str, b: str, rate_bps: int) -> None:
        self._builder.add_link(a, b, rate_bps, self._port(a), self._port(b))

    def fabric(self) -> Fabric:
        return self._builder.build()

    def _port(self, switch: str) -> str:
        self._ports[switch] += 1
        return f"{switch}-eth{self._ports[switch]}"
