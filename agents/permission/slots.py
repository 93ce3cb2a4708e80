"""The slots that the coordinator granted to a host: which wait, which are open, and when each starts. Pure.

A slot is a lease (DESIGN, "Permission as a lease"): a dequeue condition bounded by its bytes, from a start until an end. The
table holds at most one open slot for a destination and any number of waiting ones. The gatekeeper changes the gates.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.permission.conditions import Condition
from protocol.messages import Grant


@dataclass(slots=True)
class OpenSlot:
    """A slot whose gate is open: the grant in local time, and the gate's counter at its opening."""

    slot: int
    destination: int
    end_ns: int
    bytes: int
    rate_bps: int
    passed_before: int
    """The gate's byte counter at the opening."""
    must_close: bool = False
    """The gate does not close by itself when the bytes are spent."""
    passed_at_check: int = -1
    """The counter at the last check: if it is the same at the next one, the queue is idle."""
    check_after_ns: int = 0
    """The least time before the next check."""


@dataclass(slots=True)
class SlotTable:
    """Waiting slots by number, as conditions, and open slots by destination."""

    waiting: dict[int, Condition] = field(default_factory=dict)
    open: dict[int, OpenSlot] = field(default_factory=dict)
    _starts: list[tuple[int, int]] = field(default_factory=list)

    def take(self, grant: Grant, start_ns: int, end_ns: int, now_ns: int) -> Condition | None:
        """Adds a grant, its times in local ns. Returns it if its slot has started; otherwise it waits.

        A grant replaces a waiting slot of the same number; a grant of neither bytes nor rate revokes it.
        """
        if not grant.bytes and not grant.rate_bps:
            self.waiting.pop(grant.slot, None)
            return None
        current = self.open.get(grant.destination)
        if current is not None and current.slot == grant.slot:
            return None  # a repeated directive for the open slot
        slot = Condition(grant.destination, grant.slot, start_ns, end_ns, grant.bytes, grant.rate_bps, now_ns)
        if start_ns > now_ns:
            self.waiting[grant.slot] = slot
            heapq.heappush(self._starts, (start_ns, grant.slot))
            return None
        self.waiting.pop(grant.slot, None)
        return slot if slot.is_met(now_ns) else None

    def due(self, now_ns: int) -> list[Condition]:
        """Removes and returns the waiting slots that have started, in order of start; drops those whose lease is over."""
        ready = []
        while self._starts and self._starts[0][0] <= now_ns:
            start_ns, number = heapq.heappop(self._starts)
            slot = self.waiting.get(number)
            if slot is None or slot.open_from_ns != start_ns:
                continue  # revoked, or replaced by one with another start
            del self.waiting[number]
            if slot.is_met(now_ns):
                ready.append(slot)
        return ready

    def next_start_ns(self) -> int | None:
        """When to call `due` next; None if no slot waits. A slot revoked meanwhile still counts."""
        return self._starts[0][0] if self._starts else None

    def replace_waiting(self, slots: Iterable[Condition]) -> None:
        """Replaces the waiting slots."""
        self.waiting = {slot.number: slot for slot in slots}
        self._starts = sorted((slot.open_from_ns, slot.number) for slot in self.waiting.values())

    def clear(self, destination: int | None = None) -> None:
        """Removes all slots, or all slots of one destination."""
        if destination is None:
            self.waiting.clear()
            self.open.clear()
            self._starts.clear()
            return
        self.open.pop(destination, None)
        for number in [n for n, slot in self.waiting.items() if slot.queue == destination]:
            del self.waiting[number]
