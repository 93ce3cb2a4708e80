"""How many bytes were permitted: the credits and rates of slots, by sender and destination, from one reading to the next. Pure.

A credit counts when its slot begins, less what is yielded. A rate counts while it is in force: until its end, or until the next
rate of its pair begins, since a rate is renewed before it ends. Times are integer nanoseconds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import NamedTuple

from controller.policies.base import Slot
from controller.slots.slot_events import Pair, SlotListener
from protocol.units import SECOND_NS

KEPT_NS = 500_000_000
"""How long after its end a slot may still be yielded."""


class Bytes(NamedTuple):
    """Permitted bytes by (sender, destination)."""

    credits: dict[Pair, int]
    rates: dict[Pair, int]
    """As many as the rates would have let pass."""


@dataclass(slots=True)
class _Open:
    slot: Slot
    counted_ns: int
    """Of a rate: the time until which it was counted. Of a credit: after the slot's start once it was counted."""


class Permitted(SlotListener):
    """Sums up slots; two dictionary operations a slot, the rest once a reading."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._rates: dict[Pair, int] = {}
        """The number of the slot by which each pair was granted a rate last."""
        self._credit_sums: dict[Pair, int] = defaultdict(int)
        self._rate_sums: dict[Pair, int] = defaultdict(int)

    def granted(self, slot: Slot, end_ns: int, now_ns: int) -> None:
        before = self._open.get(slot.slot)
        if before is not None:
            self._count(before, now_ns)
            if not slot.rate_bps and before.slot.start_ns <= now_ns:
                return  # it has begun, and its credit is counted
        if slot.rate_bps:
            self._take_over(slot, now_ns)
        continued = before is not None and slot.rate_bps
        self._open[slot.slot] = _Open(slot, max(slot.start_ns, before.counted_ns) if before and continued else slot.start_ns)

    def yielded(self, slot: int, pair: Pair, unspent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        if (held := self._open.get(slot)) is None or pair != (held.slot.node, held.slot.destination):
            return
        given = self._open.pop(slot).slot
        if given.rate_bps:
            self._count(held, now_ns)
        else:
            counted = held.counted_ns > given.start_ns
            unspent_bytes = min(unspent_bytes, given.bytes) if now_ns <= given.end_ns + KEPT_NS else 0
            self._credit_sums[pair] += -unspent_bytes if counted else given.bytes - unspent_bytes

    def revoked(self, slot: int, now_ns: int) -> None:
        if (held := self._open.pop(slot, None)) is not None:
            self._count(held, now_ns)

    def left(self, node: int) -> None:
        """Forgets a member."""
        self._open = {number: held for number, held in self._open.items() if held.slot.node != node}
        for sums in (self._credit_sums, self._rate_sums, self._rates):
            for pair in [pair for pair in sums if pair[0] == node]:
                del sums[pair]

    def take(self, now_ns: int) -> Bytes:
        """The bytes permitted since the last call."""
        for number, held in list(self._open.items()):
            self._count(held, now_ns)
            if held.slot.end_ns + KEPT_NS < now_ns:
                del self._open[number]
        credit_sums, self._credit_sums = self._credit_sums, defaultdict(int)
        rate_sums, self._rate_sums = self._rate_sums, defaultdict(int)
        return Bytes({pair: max(0, size) for pair, size in credit_sums.items()}, dict(rate_sums))

    def _take_over(self, slot: Slot, now_ns: int) -> None:
        """Ends the rate of the pair that was in force before when this one begins."""
        pair = slot.node, slot.destination
        last, self._rates[pair] = self._rates.get(pair), slot.slot
        if last is not None and last != slot.slot and (held := self._open.get(last)) is not None:
            held.slot = replace(held.slot, end_ns=min(held.slot.end_ns, max(slot.start_ns, held.counted_ns)))
            self._count(held, now_ns)

    def _count(self, held: _Open, now_ns: int) -> None:
        slot = held.slot
        pair = slot.node, slot.destination
        if slot.rate_bps:
            until_ns = min(now_ns, slot.end_ns)
            if until_ns > held.counted_ns:
                self._rate_sums[pair] += slot.rate_bps * (until_ns - held.counted_ns) // (8 * SECOND_NS)
                held.counted_ns = until_ns
        elif held.counted_ns == slot.start_ns and slot.start_ns <= now_ns:
            self._credit_sums[pair] += slot.bytes
            held.counted_ns = slot.start_ns + 1
