"""The active tree: that it is one, and which one."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.topology.topology_strategies import PROPERTY, Step, assemble, fabric_steps, fabrics
from topology import shapes
from topology.fabric import Fabric, FabricBuilder, Link
from topology.problems import FabricError
from topology.spanning_tree import Tree, compute


def graph(fabric: Fabric, links: frozenset[Link]) -> nx.Graph:
    plain = nx.Graph()
    plain.add_nodes_from([*fabric.switches, *fabric.hosts])
    plain.add_edges_from(links)
    return plain


@st.composite
def fabrics_with_down_links(draw: st.DrawFn) -> tuple[Fabric, frozenset[Link]]:
    fabric = draw(fabrics(connected=False))
    return fabric, frozenset(link for link in sorted(fabric.links) if draw(st.booleans()))


@PROPERTY
@given(fabrics_with_down_links())
def test_the_tree_has_no_cycle_and_joins_all_that_the_links_join(case: tuple[Fabric, frozenset[Link]]) -> None:
    fabric, down = case
    tree = compute(fabric, down)
    forest = graph(fabric, tree.forwarding)
    assert len(forest) == 0 or nx.is_forest(forest)
    reachable = {frozenset(part) for part in nx.connected_components(graph(fabric, fabric.links - down))}
    assert {frozenset(part) for part in nx.connected_components(forest)} == reachable
    assert tree.forwarding | tree.blocked == fabric.links
    assert not tree.forwarding & (tree.blocked | down)


@PROPERTY
@given(fabric_steps(), st.randoms())
def test_the_tree_does_not_depend_on_the_order_of_building(
    steps: tuple[list[Step], list[Step]],
    random: "random.Random",  # noqa: F821 -- hypothesis gives it
) -> None:
    nodes, links = steps
    tree = compute(assemble(nodes, links))
    random.shuffle(nodes)
    random.shuffle(links)
    again = compute(assemble(nodes, links))
    assert again == tree
    assert again.parent == tree.parent


@PROPERTY
@given(fabrics())
def test_every_switch_is_at_the_least_cost_from_the_root(fabric: Fabric) -> None:
    tree = compute(fabric)
    bridges = nx.Graph()
    bridges.add_nodes_from(fabric.switches)
    for link in fabric.links:
        if not any(fabric.is_host(end) for end in link):
            slower_bps = min(fabric.capacity_bps(direction) for direction in link.directions)
            bridges.add_edge(*link, weight=min(200_000_000, max(1, 20 * 10**12 // slower_bps)))
    (root,) = (name for name in fabric.switches if name not in tree.parent)
    on_tree = bridges.edge_subgraph([link for link in tree.forwarding if bridges.has_edge(*link)])
    least = nx.single_source_dijkstra_path_length(bridges, root)
    taken = nx.single_source_dijkstra_path_length(on_tree, root) if len(fabric.switches) > 1 else {root: 0}
    assert least == taken


def test_the_root_is_the_lowest_priority_then_the_lowest_datapath_id_then_the_first_name() -> None:
    def root(*switches: tuple[str, int | None, int]) -> str:
        builder = FabricBuilder()
        for name, dpid, priority in switches:
            builder.add_switch(name, dpid=dpid, priority=priority)
        for name, _, _ in switches[1:]:
            builder.add_link(switches[0][0], name, 10**9)
        tree = compute(builder.build())
        return next(name for name, _, _ in switches if name not in tree.parent)

    assert root(("a", 1, 32768), ("b", 2, 4096)) == "b"
    assert root(("a", 3, 32768), ("b", 2, 32768)) == "b"
    assert root(("a", None, 32768), ("b", 2, 32768)) == "b"
    assert root(("s10", None, 32768), ("s9", None, 32768)) == "s9"


def test_a_ring_blocks_the_link_farthest_from_the_root_and_uses_it_when_another_is_down() -> None:
    fabric = shapes.ring(switches=3)
    assert compute(fabric).blocked == {Link("s2", "s3")}
    assert compute(fabric, [("s2", "s1")]).blocked == {Link("s1", "s2")}


def test_a_slow_direct_link_is_blocked_for_a_fast_detour() -> None:
    builder = FabricBuilder().add_switch("s1").add_switch("s2").add_switch("s3")
    builder.add_link("s1", "s3", 10**8).add_link("s1", "s2", 10**10).add_link("s2", "s3", 10**10)
    assert compute(builder.build()).blocked == {Link("s1", "s3")}


def test_of_two_ways_at_the_same_cost_the_one_by_the_lower_bridge_is_taken() -> None:
    builder = FabricBuilder()
    for name, dpid in (("root", 1), ("a", 3), ("z", 2), ("leaf", 4)):
        builder.add_switch(name, dpid=dpid)
    for end in ("root", "leaf"):
        builder.add_link(end, "a", 10**9).add_link(end, "z", 10**9)
    assert compute(builder.build()).blocked == {Link("a", "leaf")}


@PROPERTY
@given(fabrics_with_down_links())
def test_a_tree_is_rebuilt_from_its_blocked_links(case: tuple[Fabric, frozenset[Link]]) -> None:
    fabric, down = case
    tree = compute(fabric, down)
    again = Tree.from_blocked(fabric, [list(reversed(link)) for link in tree.blocked])
    assert again == tree


def test_links_that_forward_in_a_loop_are_refused_and_named() -> None:
    with pytest.raises(FabricError, match=r"s2 - s3.*read again"):
        Tree.from_blocked(shapes.ring(switches=3), [])


def test_blocked_links_that_the_fabric_does_not_have_are_no_matter() -> None:
    fabric = shapes.star()
    assert Tree.from_blocked(fabric, [("s1", "gone")]) == compute(fabric)
