"""A document in parts is the same document, and any changes since any state lead to the same parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.store.parts import Change, applied, difference, join, split
from tests.unit.protocol.protocol_strategies import PROPERTY

NODES = st.sampled_from(["s1", "s2", "s10", "h1", "h2", "s1:p 1", "grün"])
SMALL = st.integers(0, 3)


def rows(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.fixed_dictionaries({**fields, "rate": SMALL}), max_size=4)


PAIRS = st.lists(st.lists(NODES, min_size=2, max_size=2), max_size=4)
FABRICS = st.fixed_dictionaries({
    "fabric": st.one_of(SMALL, st.fixed_dictionaries({
        "switches": rows(name=NODES), "hosts": rows(name=NODES), "links": rows(a=NODES, b=NODES),
    })),
    "blocked": PAIRS,
    "ports": st.one_of(st.dictionaries(NODES, PAIRS, max_size=3), st.none()),
    "links": st.one_of(rows(source=NODES, target=NODES), st.lists(SMALL, max_size=3)),
    "version": SMALL,
}, optional={"hosts": rows(name=NODES), "not_found": PAIRS, "sources": st.lists(NODES)})  # fmt: skip
"""Fabric documents, also such as nobody writes: rows that share a name, lists of something else."""


def normal(value: Any) -> Any:  # noqa: ANN401 -- JSON
    """The value without the order of its long lists."""
    if isinstance(value, dict):
        return {name: normal(its) for name, its in value.items()}
    return sorted(map(repr, value)) if isinstance(value, list) else value


@given(FABRICS)
@PROPERTY
def test_the_parts_of_a_document_make_the_document(document: dict[str, Any]) -> None:
    parts = split("fabric", document)
    assert normal(join(parts)) == normal(document)
    assert split("fabric", join(parts)) == parts


@given(st.lists(FABRICS, min_size=2, max_size=8), st.data())
@PROPERTY
def test_who_reads_all_at_any_time_and_then_the_changes_has_the_whole(documents: list[Any], data: st.DataObject) -> None:
    states = [split("fabric", document) for document in documents]
    changes = [difference(old, new) for old, new in pairwise(states)]
    lost = data.draw(st.integers(0, len(changes)))
    parts = dict(states[lost])
    for change in changes[lost:]:
        for piece in change.pieces(data.draw(st.integers(1, 5))):
            parts = applied(parts, piece)
    assert parts == states[-1] and join(parts) == join(states[-1])


@given(FABRICS, FABRICS)
@PROPERTY
def test_a_change_names_no_part_that_stays(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = split("fabric", old), split("fabric", new)
    change = difference(before, after)
    assert all(name not in before or before[name] != value for name, value in change.put.items())
    assert set(change.gone) == before.keys() - after.keys()


def test_nothing_is_a_change_of_one_empty_piece() -> None:
    assert list(difference({"a": 1}, {"a": 1}).pieces(3)) == [Change({})]


def test_a_row_that_changes_is_one_part() -> None:
    links = [{"source": f"h{at}", "target": "s1", "load_bps": at} for at in range(100)]
    before = split("ports", {"links": links})
    links = [*links[:7], links[7] | {"load_bps": 0}, *links[8:]]
    assert difference(before, split("ports", {"links": links})) == Change({"links h7 s1": links[7]})
