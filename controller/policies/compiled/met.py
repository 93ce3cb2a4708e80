"""Which pairs a core has to know of: those that were backlogged once. Pure.

Groups of hosts say of any pair whether it is regulated, without a list of all pairs. A core wants a list; so it gets the pairs
that ever had something to send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.policies.base import Regulated
from controller.policies.groups import Pairs


class Met:
    """The pairs that were backlogged once, by node, and the groups that say which of them are regulated."""

    def __init__(self) -> None:
        self._met: dict[int, set[int]] = {}
        self._regulated: dict[int, set[int]] = {}
        """Of these, the regulated ones."""
        self._pairs: Pairs | None = None

    def regulated(self, pairs: Regulated) -> Regulated:
        """What a core has to know of these regulated pairs: all of a list; of groups, those that were met."""
        self._pairs = pairs if isinstance(pairs, Pairs) else None
        if self._pairs is None:
            return pairs
        has = self._pairs.has
        found = ((node, {to for to in met if has(node, to)}) for node, met in self._met.items())
        self._regulated = {node: its for node, its in found if its}
        return self._regulated

    def backlogs(self, nodes: Iterable[int], offsets: Sequence[int], destinations: Sequence[int]) -> Regulated | None:
        """Meets the pairs of some backlogs; returns what the core has to know instead, None if that is as before."""
        found, pairs = False, self._pairs
        for one, node in enumerate(nodes):
            met = self._met.setdefault(node, set())
            if new := set(destinations[offsets[one] : offsets[one + 1]]) - met:
                met |= new
                if pairs is not None and (its := {to for to in new if pairs.has(node, to)}):
                    self._regulated.setdefault(node, set()).update(its)
                    found = True
        return self._regulated if found else None

    def left(self, node: int) -> None:
        """Forgets a node."""
        for pairs in (self._met, self._regulated):
            pairs.pop(node, None)
            for its in pairs.values():
                its.discard(node)
