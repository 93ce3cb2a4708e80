"""The swarm's shared copy of the groups, against an agent's own copy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.permission.regulated import GroupsCopy
from bench.swarm.groups import SharedGroups
from protocol.bodies.groups import GroupRow, GroupsChange, Way

NODES = range(16, 32)
interval = st.tuples(st.integers(16, 31), st.integers(0, 6))


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[GroupRow, ...]]:
    parts = tuple(GroupRow(0, part, Way.PART, 16 + 8 * part, 23 + 8 * part) for part in (0, 1))
    found = [parts]
    for _ in range(draw(st.integers(0, 4))):
        rows: list[GroupRow] = []
        for link in draw(st.sets(st.integers(1, 5), min_size=1)):
            way = draw(st.sampled_from([Way.NONE, Way.BEFORE, Way.BEHIND, Way.ALL]))
            part = link % 2
            first, more = draw(interval)
            first = 16 + 8 * part + (first - 16) % 8
            rows.append(GroupRow(link, part, way, first, min(first + more, 23 + 8 * part)))
        found.append(tuple(rows))
    return found


@given(told=changes(), look=st.integers(1, 3))
def test_the_same_pairs_are_regulated_as_every_agent_finds_by_itself(told: list[tuple[GroupRow, ...]], look: int) -> None:
    pairs = [(one, other) for one in NODES for other in NODES if one != other]
    nodes, destinations = (np.array([pair[at] for pair in pairs]) for at in (0, 1))
    shared, copies = SharedGroups(), {node: GroupsCopy() for node in NODES}
    for node, copy in copies.items():
        copy.set_node(node)
    for version, rows in enumerate(told, 1):
        message = GroupsChange(version - 1, version, 0, 1, rows)
        assert shared.take(message)
        for copy in copies.values():
            copy.take(message)
        if version % look == 0 or version == len(told):
            found = shared.regulated(nodes, destinations)
            assert found.tolist() == [other in copies[one] for one, other in pairs]


def test_nodes_that_are_members_no_more_need_no_permission() -> None:
    shared = SharedGroups()
    shared.take(GroupsChange(0, 1, 0, 1, (GroupRow(0, 0, Way.PART, 16, 31), GroupRow(1, 0, Way.BEFORE, 16, 23))))
    destinations = np.array([24, 30])
    assert shared.regulated(np.array([16, 17]), destinations).tolist() == [True, True]
    assert shared.regulated(np.array([0, 17]), destinations).tolist() == [False, True]


def test_a_change_that_begins_after_our_version_is_left_out() -> None:
    shared = SharedGroups()
    assert not shared.take(GroupsChange(3, 4, 0, 1, ()))
    assert shared.take(GroupsChange(0, 4, 0, 1, ()))
    assert not shared.take(GroupsChange(0, 4, 0, 2, ())) and not shared.whole
    assert not shared.take(GroupsChange(0, 4, 1, 2, ())) and shared.whole, "who missed it before has it now"
    assert not shared.take(GroupsChange(0, 4, 0, 1, ()))
