"""Small fabrics for the policies' tests: trees over networkx, drawn by hypothesis or made by shape. Rates are bit/s."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import networkx as nx
from hypothesis import strategies as st

from controller.policies.rates.fair_share import filling
from protocol.bodies.nodes import NodeSet, Sides

MBIT = 1_000_000
GBIT = 1_000 * MBIT
FIRST = 16
Link = tuple[str | int, str | int]
Flow = TypeVar("Flow", bound=Hashable)


def max_min_fair(
    paths: Mapping[Flow, Sequence[Hashable]], capacities_bps: Mapping[Hashable, int], weights: Mapping[Flow, float]
) -> dict[Flow, int]:
    """All steps of `filling`: the rate of every flow."""
    rates: dict[Flow, int] = {}
    for _ in filling(paths, capacities_bps, weights, rates):
        pass
    return rates


class TreeNetwork:
    """A tree of switches (str) and hosts (int, the node ids), each edge with a capacity for each direction."""

    def __init__(self, tree: nx.Graph[str | int], capacities: dict[Link, int], rates: dict[int, int]) -> None:
        assert nx.is_tree(tree)
        self._tree = tree
        self._capacities = capacities
        self._rates = rates
        self._paths: dict[tuple[int, int], tuple[Link, ...]] = {}

    @property
    def nodes(self) -> list[int]:
        return sorted(self._rates)

    def times(self, factors: dict[Link, float]) -> TreeNetwork:
        """The same network with other capacities of some links."""
        capacities = {link: max(1, int(bps * factors.get(link, 1))) for link, bps in self._capacities.items()}
        return TreeNetwork(self._tree, capacities, self._rates)

    def differs(self, before: object) -> set[Link] | None:
        """The links whose capacities are others than in the network before; None: rates or paths may be others as well."""
        if not isinstance(before, TreeNetwork) or before._tree is not self._tree or before._rates is not self._rates:
            return None
        return {link for link, bps in self._capacities.items() if before._capacities[link] != bps}

    @property
    def links(self) -> list[Link]:
        return list(self._capacities)

    def set_rate(self, node: int, rate_bps: int) -> None:
        """What a node says of its interface, which need not be what its link carries."""
        self._rates[node] = rate_bps

    def remove(self, node: int) -> None:
        """A host's agent has left."""
        del self._rates[node]

    def path(self, source: int, destination: int) -> tuple[Link, ...]:
        if source not in self._rates or destination not in self._rates:
            return ()
        known = self._paths.get((source, destination))
        if known is None:
            hops = nx.shortest_path(self._tree, source, destination)
            known = self._paths[source, destination] = tuple(pairwise(hops))
        return known

    @property
    def generation(self) -> int:
        return len(self._rates)

    def forwards(self, link: Link) -> bool:
        return self._tree.has_edge(*link)

    def sides(self, link: Link) -> Sides:
        """Who is before and behind a link, by looking at who hangs on it when it is cut."""
        cut = self._tree.copy()
        cut.remove_edge(*link)
        before = nx.node_connected_component(cut, link[0])
        return Sides(NodeSet(node for node in self.nodes if node in before), NodeSet(n for n in self.nodes if n not in before))

    def capacity_bps(self, link: Link) -> int:
        return self._capacities[link]

    def node_rate_bps(self, node: int) -> int:
        return self._rates[node]


def star(hosts: int, rate_bps: int = 100 * MBIT, rates: dict[int, int] | None = None) -> TreeNetwork:
    """Hosts FIRST, FIRST + 1, ... at one switch; `rates` are the capacities (and node rates) of some that differ."""
    own = {node: (rates or {}).get(node, rate_bps) for node in range(FIRST, FIRST + hosts)}
    tree: nx.Graph[str | int] = nx.Graph()
    capacities: dict[Link, int] = {}
    for node, rate in own.items():
        tree.add_edge(node, "s")
        capacities[node, "s"] = capacities["s", node] = rate
    return TreeNetwork(tree, capacities, own)


def racks(count: int, hosts: int, rate_bps: int = GBIT, uplink_bps: int = 10 * GBIT) -> TreeNetwork:
    """Racks of hosts under one core switch."""
    tree: nx.Graph[str | int] = nx.Graph()
    capacities: dict[Link, int] = {}
    rates: dict[int, int] = {}
    for rack in range(count):
        switch = f"r{rack}"
        tree.add_edge(switch, "core")
        capacities[switch, "core"] = capacities["core", switch] = uplink_bps
        for host in range(hosts):
            node = FIRST + rack * hosts + host
            tree.add_edge(node, switch)
            capacities[node, switch] = capacities[switch, node] = rate_bps
            rates[node] = rate_bps
    return TreeNetwork(tree, capacities, rates)


@st.composite
def trees(draw: st.DrawFn, most_hosts: int = 6) -> TreeNetwork:
    """A random tree of one to four switches, two to `most_hosts` hosts, and a capacity of its own for every direction."""
    rate = st.sampled_from([10 * MBIT, 25 * MBIT, 40 * MBIT, 100 * MBIT, 250 * MBIT])
    tree: nx.Graph[str | int] = nx.Graph()
    tree.add_node("s0")
    for number in range(1, draw(st.integers(1, 4))):
        tree.add_edge(f"s{number}", f"s{draw(st.integers(0, number - 1))}")
    switches = sorted(str(switch) for switch in tree)
    rates: dict[int, int] = {}
    for node in range(FIRST, FIRST + draw(st.integers(2, most_hosts))):
        tree.add_edge(node, draw(st.sampled_from(switches)))
        rates[node] = draw(rate)
    capacities: dict[Link, int] = {}
    for a, b in tree.edges:
        capacities[a, b], capacities[b, a] = draw(rate), draw(rate)
    return TreeNetwork(tree, capacities, rates)
