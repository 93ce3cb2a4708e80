"""What became of every slot, and how long hosts waited for permission: gathered beside the schedule, for the dashboard. Pure.

A slot costs an append or two here; nothing is written before `flush`, and then `room` rows at most. Rows beyond that, and
rows that the store bridge has no room for, are dropped and counted: the schedule never waits for its picture.

Events are rows [kind, slot, node, destination, start_us, end_us, bytes], times in microseconds of the coordinator's clock. A
later row of a slot replaces the fields in which it differs from the earlier one: SLOT when the slot is granted, LATE when its
gate opened late (start_us says when), YIELD when it was given back or revoked (end_us says when), LOST when it was never
acknowledged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from controller.members.part import SUMMARY_NS, Part
from controller.policies.base import Slot
from controller.slots.slot_events import Pair, SlotListener
from controller.store.layout import FLUSH_NS
from protocol.units import COUNT_MAX

EVENTS_MAX = 128
"""Rows of one batch, which takes 0.1 ms of the coordinator's loop: 5,333 rows a second."""
MANY_MEMBERS, EVENTS_OF_MANY = 1_000, 32
"""Of a fabric with so many members a batch has so many rows, 1,333 a second: no page shows more, and to follow a slot until it
is over takes some 14 us of Python among 3,200 hosts."""
OVER_NS = 1_000_000_000
"""How long after its end a slot may still be acknowledged, yielded or lost."""
SLOT, LATE, YIELD, LOST = "slot", "late", "yield", "lost"
BOUNDS_US = (50, 100, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000)
"""Upper bounds of the histograms' buckets; one more bucket holds all longer durations."""


class Histogram:
    """Durations by bucket, and their sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_US) + 1)
        self.sum_ns = 0

    def add(self, duration_ns: int) -> None:
        """Counts a duration; a negative one counts as 0."""
        duration_ns = max(0, duration_ns)
        self.counts[bisect_left(BOUNDS_US, duration_ns / 1000)] += 1
        self.sum_ns = min(COUNT_MAX, self.sum_ns + duration_ns)

    def to_dict(self) -> dict[str, Any]:
        """{"bounds_us", "counts", "sum_us"}; a count is of its bucket alone."""
        return {"bounds_us": BOUNDS_US, "counts": self.counts, "sum_us": self.sum_ns // 1000}


class Telemetry(Part, SlotListener):
    """The rows and histograms of one coordinator.

    Args:
        write: takes lines for the store bridge, and says whether it had room.
        at: has a call made at a time (ns): the rows of `FLUSH_NS` leave together, and while there are none nothing wakes.
        members: how many there are.
    """

    def __init__(
        self,
        write: Callable[[dict[str, Any]], bool],
        at: Callable[[int, Callable[[int], None]], None] = lambda *_: None,
        members: Callable[[], int] = lambda: 0,
    ) -> None:
        self.periodic = ((SUMMARY_NS, self.summary),)
        self._write = write
        self._at = at
        self._members = members
        self._flushed_ns = 0
        self._rows: list[tuple[str, int, int, int, int, int, int]] = []
        self._open: OrderedDict[int, tuple[int, int, int, int, int, int]] = OrderedDict()  # the first is found at once
        """Slots granted and not over: node, destination, start, end, bytes, and when the directive had to be in force."""
        self._since: dict[int, dict[int, int]] = {}
        """By node and destination: since when bytes wait there without a slot."""
        self.waiting_us: dict[int, dict[int, int]] = {}
        """By node and destination: how long bytes waited for a slot lately, smoothed."""
        self.latency = Histogram()
        """From when a directive had to be in force (its slot's start, or its sending if later) until the gate opened."""
        self.waiting = Histogram()
        """From when bytes began to wait for a slot until its gate opened."""
        self.regulated_bytes = self.free_bytes = 0
        """Sent by large flows to destinations that needed permission, and to others, as the agents report."""
        self.dropped = 0

    # -- what happens ---------------------------------------------------------------------------------------------------

    def granted(self, slot: Slot, end_ns: int, now_ns: int) -> None:
        node, destination = slot.node, slot.destination
        self._open[slot.slot] = node, destination, slot.start_ns, end_ns, slot.bytes, max(slot.start_ns, now_ns)
        self._row(SLOT, slot.slot, node, destination, slot.start_ns, end_ns, slot.bytes)

    def revoked(self, slot: int, now_ns: int) -> None:
        self._ended(slot, now_ns)

    def yielded(self, slot: int, pair: Pair, unspent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        if (known := self._open.get(slot)) is None or known[:2] != pair:
            return
        self._ended(slot, now_ns)
        node, destination = pair
        waits = self._since.setdefault(node, {})
        if backlog_bytes:
            waits[destination] = now_ns
        else:
            waits.pop(destination, None)

    def opened(self, slot: int, opened_ns: int, *, late: bool) -> None:
        if (known := self._open.get(slot)) is None:
            return
        node, destination, _, end_ns, size, from_ns = known
        self.latency.add(opened_ns - from_ns)
        if late:
            self._row(LATE, slot, node, destination, opened_ns, end_ns, size)
        waits = self._since.get(node, {})
        since_ns = waits.get(destination)
        if since_ns is not None:
            waited_ns = max(0, opened_ns - since_ns)
            waits[destination] = end_ns  # what this slot leaves waits from its end
            self.waiting.add(waited_ns)
            of_node = self.waiting_us.setdefault(node, {})
            before_us = of_node.get(destination, waited_ns // 1000)
            of_node[destination] = before_us + (waited_ns // 1000 - before_us) // 4

    def lost(self, slots: Sequence[int]) -> None:
        for slot in slots:
            if (known := self._open.pop(slot, None)) is not None:
                self._row(LOST, slot, *known[:5])

    def backlog(self, node: int, waiting: Mapping[int, int], now_ns: int) -> None:
        """Takes what waits at a node, in full: {destination: bytes}."""
        before = self._since.get(node, {})
        self._since[node] = {destination: before.get(destination, now_ns) for destination in waiting}

    def reported(self, node: int, sent: Mapping[int, int], regulated: Set[int]) -> None:
        for destination, size in sent.items():
            if destination in regulated:
                self.regulated_bytes = min(COUNT_MAX, self.regulated_bytes + size)
            else:
                self.free_bytes = min(COUNT_MAX, self.free_bytes + size)

    def room(self) -> int:
        """For how many more slots there is room before the next `flush`; others need not be told."""
        return (EVENTS_MAX if self._members() < MANY_MEMBERS else EVENTS_OF_MANY) - len(self._rows)

    def leave_out(self, slots: int) -> None:
        """So many slots are granted for which there was no room."""
        self.dropped += slots

    def leave_waiting(self, node: int) -> None:
        """It is not known any more since when bytes wait at a node: there was no time to note it."""
        self._since.pop(node, None)

    def left(self, node: int, now_ns: int) -> None:
        """Forgets a member, and what waited for it elsewhere: ids are given to one host after the other."""
        for of_nodes in (self._since, self.waiting_us):
            of_nodes.pop(node, None)
            for of_node in of_nodes.values():
                of_node.pop(node, None)

    # -- for the store --------------------------------------------------------------------------------------------------

    def of_member(self, node: int) -> dict[str, Any]:
        return {"waiting_us": self.waiting_us.get(node, {})}

    def flush(self, now_ns: int) -> None:
        """Writes the rows since the last call, {"slots": {"now_us", "rows"}}, and forgets slots that are over."""
        self._flushed_ns = now_ns
        while self._open and self._open[first := next(iter(self._open))][3] <= now_ns - OVER_NS:
            del self._open[first]
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        if not self._write({"slots": {"now_us": now_ns // 1000, "rows": rows}}):
            self.dropped += len(rows)

    def summary(self, now_ns: int) -> None:
        """Writes the histograms and counts: {"telemetry": ...}."""
        self._write(
            {
                "telemetry": {
                    "directive_latency": self.latency.to_dict(),
                    "waiting": self.waiting.to_dict(),
                    "regulated_bytes": self.regulated_bytes,
                    "free_bytes": self.free_bytes,
                    "dropped_events": self.dropped,
                }
            }
        )

    def _ended(self, slot: int, now_ns: int) -> None:
        """Adds a row for a slot that ended before its lease, if it is known."""
        if (known := self._open.pop(slot, None)) is None:
            return
        node, destination, start_ns, end_ns, size, _ = known
        self._row(YIELD, slot, node, destination, start_ns, max(start_ns, min(now_ns, end_ns)), size)

    def _row(self, kind: str, slot: int, node: int, destination: int, start_ns: int, end_ns: int, size: int) -> None:
        if self.room() <= 0:
            self.dropped += 1
            return
        if not self._rows:
            self._at(self._flushed_ns + FLUSH_NS, self.flush)
        self._rows.append((kind, slot, node, destination, start_ns // 1000, end_ns // 1000, size))
