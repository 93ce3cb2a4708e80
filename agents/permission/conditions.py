"""Dequeue conditions: when, and how fast, a queue may send; and the one place where they decide over a gate. Pure.

Source: "Fine-Grained End-Host Traffic Control", chapter 4 (SDD): the controller adds conditions to a queue and removes them,
and a queue without a condition that is met is not served. A slot of a directive is such a condition, bounded by its bytes too.

A queue is a destination node's gate, or one of the eight classes of IEEE 802.1Qbb, which stands for the destinations that are
mapped to it. Times are ns of this host's monotonic clock, rates bit/s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

SHUT = 0
"""As a rate: nothing may be sent."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Queue `queue` may send from `open_from_ns` until before `open_until_ns`, at `rate_bps` (0: as fast as the link).

    With `bytes` so many and no more. `number` tells the conditions of a queue apart; one with the number of another
    replaces it.
    """

    queue: int
    number: int
    open_from_ns: int
    open_until_ns: int
    bytes: int = 0
    rate_bps: int = 0
    received_ns: int = 0
    """When it was heard of."""

    def met(self, now_ns: int) -> bool:
        """Whether it lets the queue send now."""
        return self.open_from_ns <= now_ns < self.open_until_ns


class Step(NamedTuple):
    """What happens at an instant of the local clock (ns): these destinations are shut, those are opened."""

    at_ns: int
    shut: frozenset[int]
    open: frozenset[int]


class ConditionSet:
    """The full state of conditions that one authority has set; a queue that it does not mention is free."""

    def __init__(self) -> None:
        self._queues: dict[int, tuple[Condition, ...]] = {}

    def replace(self, conditions: Iterable[Condition]) -> None:
        """Takes the full state."""
        found: dict[int, list[Condition]] = {}
        for condition in conditions:
            found.setdefault(condition.queue, []).append(condition)
        self._queues = {queue: tuple(those) for queue, those in found.items()}

    def limits(self, now_ns: int) -> dict[int, int | None]:
        """What each queue that it mentions may send at: bit/s, `SHUT`, or None for as fast as the link."""
        return {queue: _limit(conditions, now_ns) for queue, conditions in self._queues.items()}

    def next_change_ns(self, now_ns: int) -> int | None:
        """When `limits` will next say something else; None: never by itself."""
        edges = (
            edge
            for conditions in self._queues.values()
            for condition in conditions
            for edge in (condition.open_from_ns, condition.open_until_ns)
        )
        return min((edge for edge in edges if edge > now_ns), default=None)


def _limit(conditions: Iterable[Condition], now_ns: int) -> int | None:
    rates = [condition.rate_bps for condition in conditions if condition.met(now_ns)]
    if not rates:
        return SHUT
    return None if 0 in rates else max(rates)






