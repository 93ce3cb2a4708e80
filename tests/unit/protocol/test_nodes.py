"""Sets of node ids as intervals say the same as sets of ids."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from protocol.bodies.nodes import NOBODY, NodeSet

ids = st.sets(st.integers(0, 40))


class TestNodeSet:
    """It is a set, whatever it is made of."""

    @given(ids, st.integers(0, 41))
    def test_it_has_the_ids_that_it_was_made_of(self, nodes: set[int], node: int) -> None:
        made = NodeSet(nodes)
        assert list(made) == sorted(nodes) and len(made) == len(nodes) and bool(made) == bool(nodes)
        assert (node in made) == (node in nodes)
        assert made == nodes and made == frozenset(nodes) and nodes == made
        assert hash(made) == hash(NodeSet(sorted(nodes, reverse=True)))

    @given(ids, ids)
    def test_unions_and_differences_are_those_of_sets(self, one: set[int], other: set[int]) -> None:
        assert NodeSet.union([NodeSet(one), NodeSet(other)]) == one | other
        assert NodeSet(one).minus(NodeSet(other)) == one - other
        assert frozenset(one) & NodeSet(other) == one & other

    @given(ids)
    def test_no_two_intervals_touch(self, nodes: set[int]) -> None:
        made = NodeSet(nodes)
        found = made.intervals()
        assert all(a[1] + 1 < b[0] for a, b in pairwise(found))
        assert NodeSet.of(reversed(found)) == made

    def test_a_rack_is_one_interval_however_many_hosts_it_has(self) -> None:
        assert NodeSet(range(16, 4816)).intervals() == [(16, 4815)]
        assert NodeSet.of([(16, 4815)]).minus(NodeSet.of([(36, 55)])).intervals() == [(16, 35), (56, 4815)]
        assert not NOBODY.intervals()
