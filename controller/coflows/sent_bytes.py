"""What hosts have sent for coflows, by pair of hosts, from their reports. Pure.

A host's numbers, one for each node that it sends to, grow from when its tagger began: a smaller one means that it began anew,
and what it said before stays counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from protocol.units import COUNT_MAX

Pair = tuple[str, str]
"""Source and destination; the destination is empty for an address of no host with an agent."""
NONE: Mapping[Pair, int] = {}


class SentBytes:
    """The bytes of the open coflows, by coflow and pair of hosts."""

    def __init__(self) -> None:
        self._pairs: dict[int, dict[Pair, int]] = {}
        self._last: dict[int, dict[tuple[str, str | int], int]] = {}
        self._total: dict[int, int] = {}
        self._active_ns: dict[int, int] = {}

    def report(self, coflow: int, pair: Pair, size_bytes: int, now_ns: int, node: int = 0) -> None:
        """Takes what a host says that it has sent so far. `node`: to which node it counts this, 0 for addresses of none: a node
        that has left has no name, and two of them are one pair."""
        last = self._last.setdefault(coflow, {})
        of = (pair[0], node) if node else pair
        fresh = size_bytes - last.get(of, 0)
        if fresh < 0:
            fresh = size_bytes
        last[of] = size_bytes
        if fresh:
            pairs = self._pairs.setdefault(coflow, {})
            pairs[pair] = min(COUNT_MAX, pairs.get(pair, 0) + fresh)
            self._total[coflow] = min(COUNT_MAX, self._total.get(coflow, 0) + fresh)
            self._active_ns[coflow] = now_ns

    def total(self, coflow: int) -> int:
        """The bytes of all its flows so far."""
        return self._total.get(coflow, 0)

    def pairs(self, coflow: int) -> Mapping[Pair, int]:
        """The bytes by pair of hosts."""
        return self._pairs.get(coflow, NONE)

    def active_ns(self, coflow: int) -> int | None:
        """When its hosts last reported bytes that they had not sent before; None: never."""
        return self._active_ns.get(coflow)

    def keep(self, coflows: Collection[int]) -> None:
        """Forgets all others."""
        for known in (self._pairs, self._last, self._total, self._active_ns):
            for gone in known.keys() - coflows:
                del known[gone]
