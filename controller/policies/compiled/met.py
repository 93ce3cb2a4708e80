"""Which pairs a core has to know of: those that were backlogged once. Pure.

Groups of hosts say of any pair whether it is regulated, without a list of all pairs. A core wants a list; so it gets the pairs
that had something to send. A list costs Python 0.1 ms for each thousand of them whenever one more is met, so where there are
many those that have been idle are forgotten; a pair that waits is told again and again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from controller.policies.base import Regulated
from controller.policies.groups import Groups, Pairs
from protocol.bodies.nodes import Sides

MANY = 1 << 14
"""Idle pairs are looked for when there are so many more than were left the last time."""
LOOKED_AT = 512
"""So many pairs, or the pairs of one node, in one call."""


class Met:
    """The pairs that were backlogged once, by node, and the groups that say which of them are regulated."""

    def __init__(self) -> None:
        self._met: defaultdict[int, set[int]] = defaultdict(set)
        self._lately: defaultdict[int, set[int]] = defaultdict(set)
        """Those of them that were backlogged, or sent, since the last look for idle ones began."""
        self._before: defaultdict[int, set[int]] = defaultdict(set)
        """Those that were between the look before and this one."""
        self._to_look: list[int] = []
        """The nodes whose pairs this look has still to look at."""
        self._count, self._most = 0, MANY
        self._from: defaultdict[int, set[int]] = defaultdict(set)
        """The same by destination."""
        self._regulated: dict[int, set[int]] = {}
        """Of these, the regulated ones."""
        self._pairs: Pairs | None = None
        self._generation: int | None = None
        """Of the groups' network, when all pairs were looked at."""
        self._astray: set[tuple[int, int]] = set()
        """Those of which a node has no place in that network yet."""

    def regulated(self, pairs: Regulated) -> Regulated:
        """What a core has to know of these regulated pairs: all of a list; of groups, those that were met. Looks at those pairs
        alone of which something may be different since the last call."""
        before, self._pairs = self._pairs, pairs if isinstance(pairs, Pairs) else None
        if self._pairs is None:
            return pairs
        if (others := self._others(before)) is None:
            has, away = self._pairs.has, self._away
            found = ((node, {to for to in its if has(node, to)}) for node, its in self._met.items())
            self._regulated = {node: its for node, its in found if its}
            self._astray = {(node, to) for node, its in self._met.items() for to in its if away(node) or away(to)}
            return self._regulated
        for node, to in others:
            self._look(node, to)
        return self._regulated

    def backlogs(self, nodes: Iterable[int], offsets: Sequence[int], destinations: Sequence[int]) -> Regulated | None:
        """Meets the pairs of some backlogs; returns what the core has to know instead, None if that is as before."""
        found = False
        for one, node in enumerate(nodes):
            waiting = set(destinations[offsets[one] : offsets[one + 1]])
            self._lately[node] |= waiting
            for to in waiting - self._met[node]:
                self._met[node].add(to)
                self._from[to].add(node)
                self._count += 1
                found |= self._look(node, to)
        if self._count > self._most and not self._to_look:
            self._to_look, self._before, self._lately = list(self._met), self._lately, defaultdict(set)
        if self._to_look:
            self._forget_idle()
        return self._regulated if found else None

    def sent(self, node: int, destinations: Iterable[int]) -> None:
        """Learns that a node sends to these destinations: who has a rate may never wait."""
        if its := self._met.get(node):
            self._lately[node] |= its.intersection(destinations)

    def _forget_idle(self) -> None:
        """Forgets some of the pairs that neither waited nor sent since the look before."""
        looked = 0
        while self._to_look and looked < LOOKED_AT:
            node = self._to_look.pop()
            its = self._met.get(node, set())  # none: it left
            looked += 1 + len(its)
            for to in its - self._before[node] - self._lately[node]:
                its.discard(to)
                self._from[to].discard(node)
                self._astray.discard((node, to))
                self._drop(node, to)
                self._count -= 1
        if not self._to_look:
            self._before.clear()
            self._most = self._count + MANY

    def left(self, node: int) -> None:
        """Forgets a node."""
        for used in (self._lately, self._before):
            used.pop(node, None)
        for to in self._met.pop(node, ()):
            self._from[to].discard(node)
            self._count -= 1
        for other in self._from.pop(node, ()):
            for its in (self._met[other], self._lately[other], self._before[other]):
                its.discard(node)
            self._count -= 1
            self._drop(other, node)
        self._regulated.pop(node, None)
        self._astray = {pair for pair in self._astray if node not in pair}

    def _look(self, node: int, to: int) -> bool:
        """Sees whether a pair is regulated now, and returns it."""
        if self._away(node) or self._away(to):
            self._astray.add((node, to))
        if self._pairs is not None and self._pairs.has(node, to):
            self._regulated.setdefault(node, set()).add(to)
            return True
        self._drop(node, to)
        return False

    def _away(self, node: int) -> bool:
        """Whether a node has no place in the groups' network."""
        network = self._pairs.network if isinstance(self._pairs, Groups) else None
        return network is not None and node not in network.nodes

    def _drop(self, node: int, to: int) -> None:
        if (its := self._regulated.get(node)) is None:
            return
        its.discard(to)
        if not its:
            del self._regulated[node]

    def _others(self, before: Pairs | None) -> list[tuple[int, int]] | None:
        """The pairs across links that are contended now or were, and those that were astray; None: it may be any pair."""
        pairs = self._pairs
        network = pairs.network if isinstance(pairs, Groups) else None
        then, self._generation = self._generation, None if network is None else network.generation
        if network is None or then != self._generation or not isinstance(before, Groups) or before.network is not network:
            return None
        assert isinstance(pairs, Groups)
        if pairs.everyone or before.everyone:
            return None
        astray, self._astray = self._astray, set()
        return [*astray, *(pair for link in pairs.links ^ before.links for pair in self._across(network.sides(link)))]

    def _across(self, sides: Sides) -> Iterator[tuple[int, int]]:
        """The pairs that were met from nodes before a link to nodes behind it, found from the side that has fewer."""
        if len(sides.before) < len(sides.behind):
            for node in sides.before:
                yield from ((node, to) for to in self._met.get(node, ()) if to in sides.behind)
        else:
            for to in sides.behind:
                yield from ((node, to) for node in self._from.get(to, ()) if node in sides.before)
