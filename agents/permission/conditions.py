"""Dequeue conditions: when, and how fast, a queue may send. Pure.

Source: "Fine-Grained End-Host Traffic Control", chapter 4 (SDD): the controller adds conditions to a queue and removes them,
and a queue that has conditions, none of which is met, is not served. A slot of a directive is a condition too, bounded by its
bytes as well.

A queue is a destination node's gate, or one of the eight classes of IEEE 802.1Qbb; a class stands for the destinations that are
mapped to it. Times are ns of this host's monotonic clock, rates bit/s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

BLOCKED = 0
"""As a rate: the queue may send nothing."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Queue `queue` may send from `open_from_ns` until before `open_until_ns`, at `rate_bps` (0: as fast as the link).

    `bytes` limits how much it may send; 0 for no limit. `number` identifies the condition within its queue: a condition with
    the same number replaces it.
    """

    queue: int
    number: int
    open_from_ns: int
    open_until_ns: int
    bytes: int = 0
    rate_bps: int = 0
    received_ns: int = 0
    """When its message arrived."""

    def is_met(self, now_ns: int) -> bool:
        """Whether the condition lets the queue send now."""
        return self.open_from_ns <= now_ns < self.open_until_ns


class Step(NamedTuple):
    """The gates that close and the gates that open at one instant of the local clock (ns), by destination."""

    at_ns: int
    closing: frozenset[int]
    opening: frozenset[int]


class ConditionSet:
    """All conditions that one source has set. A queue without conditions is not limited."""

    def __init__(self) -> None:
        self._queues: dict[int, tuple[Condition, ...]] = {}

    def replace(self, conditions: Iterable[Condition]) -> None:
        """Replaces all conditions."""
        found: dict[int, list[Condition]] = {}
        for condition in conditions:
            found.setdefault(condition.queue, []).append(condition)
        self._queues = {queue: tuple(its) for queue, its in found.items()}

    def limits(self, now_ns: int) -> dict[int, int | None]:
        """The rate of each queue that has conditions: bit/s, `BLOCKED`, or None for as fast as the link."""
        return {queue: _limit(conditions, now_ns) for queue, conditions in self._queues.items()}

    def next_change_ns(self, now_ns: int) -> int | None:
        """When the result of `limits` next changes; None if time alone never changes it."""
        edges = (
            edge
            for conditions in self._queues.values()
            for condition in conditions
            for edge in (condition.open_from_ns, condition.open_until_ns)
        )
        return min((edge for edge in edges if edge > now_ns), default=None)


def _limit(conditions: Iterable[Condition], now_ns: int) -> int | None:
    rates = [condition.rate_bps for condition in conditions if condition.is_met(now_ns)]
    if not rates:
        return BLOCKED
    return None if 0 in rates else max(rates)
