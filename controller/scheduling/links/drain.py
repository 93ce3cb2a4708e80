"""Links whose buffers are to empty: for a moment members are granted less there than the links carry. Pure.

Before a link is found contended, everybody sends into it at will, and its buffer fills. What is granted afterwards leaves the
headroom free, which empties a full buffer in a second: until then packets wait, and are lost. So a link that was just found
contended is granted `1 - PART` of its capacity for `DRAIN_NS`. That empties a buffer of 25 ms, more than switches have for a
port. The same is done for a contended link that drops, at most once in `PAUSE_NS`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from protocol.units import MILLISECOND_NS, SECOND_NS

LinkT = TypeVar("LinkT", bound=Hashable)

PART = 0.25
DRAIN_NS = 100 * MILLISECOND_NS
PAUSE_NS = SECOND_NS
"""From one drain's begin to the next: the switches' counters tell of drops up to a reading later."""


class Drains(Generic[LinkT]):
    """Which links are granted less, and until when."""

    def __init__(self) -> None:
        self._begun_ns: dict[LinkT, int] = {}

    def begin(self, links: Iterable[LinkT], now_ns: int) -> frozenset[LinkT]:
        """Begins with those of the links that were not drained lately, and returns these."""
        self._begun_ns = {link: begun_ns for link, begun_ns in self._begun_ns.items() if now_ns - begun_ns < PAUSE_NS}
        new = frozenset(link for link in links if link not in self._begun_ns)
        self._begun_ns.update(dict.fromkeys(new, now_ns))
        return new

    def active(self, now_ns: int) -> frozenset[LinkT]:
        """The links that are granted less now."""
        return frozenset(link for link, begun_ns in self._begun_ns.items() if now_ns - begun_ns < DRAIN_NS)
