"""Hypothesis strategies for fabrics: connected ones with loops, unequal rates, and whatever names people use."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

from hypothesis import settings
from hypothesis import strategies as st

from topology.fabric import Fabric, FabricBuilder

PROPERTY = settings(deadline=None)  # the machine may be busy
RATES_BPS = st.sampled_from([10**7, 10**8, 10**9, 10**10, 123_456_789, 1])
CHARACTERS = st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters=">")
NAMES = st.text(CHARACTERS, min_size=1, max_size=12) | st.sampled_from(
    ["no", "null", "~", "1e3", "0x10", "12:30:45", "#x", "a:b", "&a", "*a", "!t", "%", "{", "'", '"', "@"]
)

Step = Callable[[FabricBuilder], object]


@st.composite
def fabric_steps(draw: st.DrawFn, connected: bool = True) -> tuple[list[Step], list[Step]]:
    """How to build a fabric: steps that add nodes, and steps that add links; any order within each gives the same one."""
    names = draw(st.lists(NAMES, min_size=1, max_size=14, unique=True))
    count = draw(st.integers(1, len(names)))
    switches, hosts = names[:count], names[count:]
    pairs = [(one, draw(st.sampled_from(switches[:at]))) for at, one in enumerate(switches) if at]
    if not connected:
        pairs = [pair for pair in pairs if draw(st.booleans())]
    extra = st.tuples(st.sampled_from(switches), st.sampled_from(switches)).filter(lambda ends: ends[0] != ends[1])
    if len(switches) > 1:
        pairs += draw(st.lists(extra, max_size=8))
    pairs += [(host, draw(st.sampled_from(switches))) for host in hosts]
    pairs = list({frozenset(pair): pair for pair in pairs}.values())
    dpids = draw(st.lists(st.none() | st.integers(1, 2**64 - 1), min_size=count, max_size=count))
    addresses = draw(st.lists(st.builds(IPv4Address, st.integers(2**24, 2**31)) | _ipv6(), max_size=20, unique=True))
    nodes: list[Step] = []
    for at, name in enumerate(switches):
        dpid = dpids[at] if dpids.index(dpids[at]) == at else None
        nodes.append(_switch(name, dpid, draw(st.sampled_from([0, 4096, 32768]))))
    for at, name in enumerate(hosts):
        mac = draw(st.sampled_from([None, f"02:00:00:00:00:{at:02x}"]))
        nodes.append(_host(name, addresses[at :: len(hosts)], mac))
    links = [
        _link(a, b, draw(RATES_BPS), draw(st.none() | RATES_BPS), f"p{at}" if draw(st.booleans()) else None)
        for at, (a, b) in enumerate(pairs)
    ]
    return nodes, links


def assemble(nodes: list[Step], links: list[Step]) -> Fabric:
    """Takes the steps."""
    builder = FabricBuilder()
    for step in [*nodes, *links]:
        step(builder)
    return builder.build()


def fabrics(connected: bool = True) -> st.SearchStrategy[Fabric]:
    """Fabrics of up to 14 nodes."""
    return fabric_steps(connected).map(lambda steps: assemble(*steps))


def _ipv6() -> st.SearchStrategy[IPv6Address]:
    return st.builds(IPv6Address, st.integers(0x20 << 120, 0x3F << 120))


def _switch(name: str, dpid: int | None, priority: int) -> Step:
    return lambda builder: builder.add_switch(name, dpid=dpid, priority=priority)


def _host(name: str, addresses: list[IPv4Address | IPv6Address], mac: str | None) -> Step:
    return lambda builder: builder.add_host(name, addresses, mac)


def _link(a: str, b: str, rate_bps: int, back_bps: int | None, port: str | None) -> Step:
    return lambda builder: builder.add_link(a, b, rate_bps, port, port, back_bps)
