"""Paths on the active tree."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.topology.topology_strategies import PROPERTY, fabrics
from topology import shapes
from topology.fabric import DirectedLink, Fabric, Link
from topology.paths import NoPathError, Routes
from topology.spanning_tree import compute


def routes(fabric: Fabric) -> Routes:
    return Routes(fabric, compute(fabric))


@st.composite
def fabrics_with_two_nodes(draw: st.DrawFn) -> tuple[Fabric, str, str]:
    fabric = draw(fabrics())
    nodes = st.sampled_from([*fabric.switches, *fabric.hosts])
    return fabric, draw(nodes), draw(nodes)


@PROPERTY
@given(fabrics_with_two_nodes())
def test_a_path_is_simple_leads_there_and_uses_the_tree_alone(case: tuple[Fabric, str, str]) -> None:
    fabric, one, other = case
    path = routes(fabric).path(one, other)
    nodes = [one, *(link.target for link in path)]
    assert nodes[-1] == other
    assert [tuple(link) for link in path] == list(pairwise(nodes))
    assert len(set(nodes)) == len(nodes)
    assert {Link.between(*link) for link in path} <= compute(fabric).forwarding


@PROPERTY
@given(fabrics_with_two_nodes())
def test_the_way_back_is_the_way_there_reversed(case: tuple[Fabric, str, str]) -> None:
    fabric, one, other = case
    there, back = routes(fabric).path(one, other), routes(fabric).path(other, one)
    assert back == tuple(DirectedLink(link.target, link.source) for link in reversed(there))


def test_the_path_from_a_node_to_itself_is_empty() -> None:
    assert routes(shapes.star()).path("h1", "h1") == ()


def test_nodes_that_no_link_joins_have_no_path() -> None:
    fabric = shapes.ring(switches=3)
    cut = Routes(fabric, compute(fabric, [("h1", "s1")]))
    for pair in (("h1", "h2"), ("h2", "h1"), ("h2", "nobody")):
        with pytest.raises(NoPathError):
            cut.path(*pair)
    assert cut.path("h2", "h3")


def test_the_links_are_both_directions_of_the_tree_with_their_capacities() -> None:
    found = routes(shapes.dumbbell(left=1, right=1, bottleneck_bps=10**7))
    assert found.links() == {
        DirectedLink(*ends) for a, b in (("h1", "s1"), ("s1", "s2"), ("h2", "s2")) for ends in ((a, b), (b, a))
    }
    assert found.capacity_bps(DirectedLink("s1", "s2")) == 10**7


class CountedLookups(dict[str, str]):
    """A tree's parents, counting how often one is asked for."""

    count = 0

    def get(self, *arguments: str) -> str | None:  # type: ignore[override]  # as it is called
        self.count += 1
        return super().get(*arguments)


def test_a_path_costs_the_depth_of_the_tree_and_not_the_size_of_the_fabric() -> None:
    fabric = shapes.xco_racks(racks=250)
    tree = compute(fabric)
    parents = CountedLookups(tree.parent)
    found = Routes(fabric, replace(tree, parent=parents))
    assert parents.count == 0  # nothing is computed for the 25 million pairs that never talk
    for at in range(1, 5_000):
        assert len(found.path(f"h{at}", "h5000")) in (2, 4)
    assert parents.count <= 5_000 * 2 * 3
    asked = parents.count
    found.path("h1", "h5000")
    assert parents.count == asked
