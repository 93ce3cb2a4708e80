"""Sets of node ids as intervals: the hosts behind a switch are one interval, or a few. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from itertools import chain, pairwise
from typing import NamedTuple

Interval = tuple[int, int]
"""(first, last) node id; both belong to it."""


class NodeSet(Set[int]):
    """An immutable set of node ids. To look for an id takes the logarithm of the number of intervals, a union or a difference
    as long as the intervals are many, never as long as the ids are."""

    __slots__ = ("_bounds",)

    def __init__(self, nodes: Iterable[int] = ()) -> None:
        self._bounds = _merged([(node, node + 1) for node in sorted(nodes)])

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> NodeSet:
        """The ids of intervals in any order, which may overlap."""
        return cls._made(_merged(sorted((first, last + 1) for first, last in intervals)))

    @classmethod
    def union(cls, sets: Iterable[NodeSet]) -> NodeSet:
        """The ids that are in any of the sets."""
        return cls._made(_merged(sorted(chain.from_iterable(one._ranges() for one in sets))))

    @classmethod
    def _made(cls, bounds: tuple[int, ...]) -> NodeSet:
        made = cls.__new__(cls)
        made._bounds = bounds
        return made

    @classmethod
    def _from_iterable(cls, it: Iterable[int]) -> NodeSet:  # type: ignore[override]
        return cls(it)

    def intervals(self) -> list[Interval]:
        """The intervals, in order; no two of them touch."""
        return [(first, end - 1) for first, end in self._ranges()]

    def minus(self, other: NodeSet) -> NodeSet:
        """The ids that are in this set and not in the other."""
        found: list[tuple[int, int]] = []
        for first, end in self._ranges():
            at = bisect_right(other._bounds, first)
            if not at & 1 and (at == len(other._bounds) or other._bounds[at] >= end):
                found.append((first, end))
                continue
            if at & 1:
                first, at = other._bounds[at], at + 1
            while first < end:
                stop = min(end, other._bounds[at]) if at < len(other._bounds) else end
                if first < stop:
                    found.append((first, stop))
                first, at = (other._bounds[at + 1] if at < len(other._bounds) else end), at + 2
        return self._made(tuple(chain.from_iterable(found)))

    def __contains__(self, node: object) -> bool:
        return isinstance(node, int) and bool(bisect_right(self._bounds, node) & 1)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(first, end) for first, end in self._ranges())

    def __len__(self) -> int:
        return sum(self._bounds[1::2]) - sum(self._bounds[::2])

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return self._bounds == other._bounds if isinstance(other, NodeSet) else super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash()

    def __repr__(self) -> str:
        return f"NodeSet.of({self.intervals()})"

    def _ranges(self) -> Iterator[tuple[int, int]]:
        bounds = iter(self._bounds)
        return zip(bounds, bounds, strict=True)


class Sides(NamedTuple):
    """The nodes on both sides of a directed link. Ids that no member has may be among them."""

    before: NodeSet
    behind: NodeSet


class Cut(NamedTuple):
    """How a directed link divides the part of the fabric that the tree joins."""

    root: str
    """The part's name."""
    up: bool
    """Whether `nodes` send across the link; else it leads to them."""
    nodes: NodeSet
    """Those farther from the root. The others of the part are on the other side."""


def _merged(ranges: list[tuple[int, int]]) -> tuple[int, ...]:
    """The bounds of sorted ranges, those joined that touch."""
    if all(before[1] < after[0] for before, after in pairwise(ranges)):
        return tuple(chain.from_iterable(ranges))
    bounds: list[int] = []
    for first, end in ranges:
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += (first, end)
    return tuple(bounds)


NOBODY = NodeSet()
