"""The slots of the timeslice policy that are not over: booked, foreseen, brought forward, dropped, revoked. Pure.

It notes which resources that frees, and which pairs are to be tried again.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable
from dataclasses import replace

from controller.policies.base import Plan, Slot
from controller.policies.ledger import Booking, Resource
from controller.policies.order import park
from controller.policies.pairs import Pair

FORWARD_AT_ONCE, GRANTS_AT_ONCE, ATTEMPTS_AT_ONCE = 64, 192, 256
"""Slots that one plan tries to let begin earlier; slots, and attempts to grant one, after which it stops."""


class Slots:
    """The slots of all nodes, until they have ended or are dropped."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._held: dict[int, tuple[Booking[Pair], Slot]] = {}
        """By number."""
        self._ends: list[tuple[int, int, Booking[Pair]]] = []
        """(end, number, booking) of slots whose end is not foreseen. Outdated entries are skipped, here and below."""
        self._running: list[tuple[int, int, Booking[Pair]]] = []
        """The same for slots whose end is foreseen and not reached."""
        self.freed: dict[Resource[Pair], bool] = {}
        """The resources of which a booking ended since a selection looked last, or that carry more or less since; whether there
        is room before its time, so that slots may begin earlier."""
        self.new = Resource[Pair](sys.maxsize)
        """Where pairs wait that have just begun to, had a slot, or have another path: it has room for all."""
        self._granted: dict[int, Slot] = {}
        self._revoked: list[Slot] = []

    def of(self, number: int) -> tuple[Booking[Pair], Slot] | None:
        """A slot that is not over, with its booking."""
        return self._held.get(number)

    def all(self) -> list[tuple[Booking[Pair], Slot]]:
        """All of them."""
        return list(self._held.values())

    def take_plan(self) -> Plan:
        """What was granted and revoked since the last call."""
        plan = Plan(sorted(self._granted.values(), key=lambda slot: (slot.start_ns, slot.slot)), self._revoked)
        self._granted, self._revoked = {}, []
        return plan

    def grant(self, booking: Booking[Pair], slot: Slot) -> None:
        """Takes a slot that has room."""
        booking.book()
        booking.owner.booking = booking
        self._held[slot.slot] = booking, slot
        heapq.heappush(self._ends, (slot.end_ns, slot.slot, booking))
        self._granted[slot.slot] = slot

    def advance(self, now_ns: int) -> None:
        """Releases and clears away the slots that have ended by now."""
        self.now_ns = now_ns
        self.foresee(now_ns)
        while self._running and self._running[0][0] <= now_ns:
            _, number, booking = heapq.heappop(self._running)
            if self._held.pop(number, None) is not None:
                booking.remove()

    def next_end_ns(self) -> int | None:
        """The first end of a slot that is not foreseen yet."""
        ends = self._ends
        while ends and (ends[0][2].released or ends[0][2].end_ns != ends[0][0] or ends[0][1] not in self._held):
            heapq.heappop(ends)
        return ends[0][0] if ends else None

    def foresee(self, instant_ns: int) -> None:
        """Releases all slots that end until an instant together, so that their room can be given away in any way."""
        while (end_ns := self.next_end_ns()) is not None and end_ns <= instant_ns:
            _, number, booking = heapq.heappop(self._ends)
            booking.release()
            booking.owner.booking = None
            heapq.heappush(self._running, (end_ns, number, booking))
            self._free(booking, early=False)

    def bring_forward(self, now_ns: int) -> None:
        """Lets slots that have not begun begin earlier where there is room before its time, the earliest first,
        `FORWARD_AT_ONCE` at most."""
        ahead: list[tuple[int, int, Booking[Pair]]] = []
        seen: set[int] = set()

        def collect(resources: Iterable[Resource[Pair]]) -> None:
            for resource in resources:
                for booking in resource.bookings:
                    if booking.start_ns > now_ns and booking.number not in seen:
                        seen.add(booking.number)
                        heapq.heappush(ahead, (booking.start_ns, booking.number, booking))

        collect(resource for resource, early in self.freed.items() if early)
        tries = FORWARD_AT_ONCE
        while ahead and tries:
            tries -= 1
            start_ns, number, booking = heapq.heappop(ahead)
            booking.remove()
            soonest_ns = now_ns + booking.owner.host.delay_ns
            times = (at for at in booking.opportunities(soonest_ns) if at < start_ns and booking.fits(at))
            earlier_ns = next(times, start_ns)
            booking.end_ns += earlier_ns - start_ns
            booking.start_ns = earlier_ns
            booking.book()
            if earlier_ns < start_ns:
                slot = replace(self._held[number][1], start_ns=earlier_ns, end_ns=booking.end_ns)
                self._held[number] = booking, slot
                self._granted[slot.slot] = slot
                heap = self._running if booking.released else self._ends
                heapq.heappush(heap, (booking.end_ns, number, booking))
                collect(resource for resource, _ in booking.takes)

    def book_again(self, bookings: Iterable[Booking[Pair]]) -> None:
        """Books bookings again that hold nothing now, the earliest first, where there is room, and revokes the others."""
        for booking in sorted(bookings, key=lambda booking: (booking.start_ns, booking.number)):
            if booking.owner.placed and booking.fits(booking.start_ns):
                booking.book()
            else:
                self.revoke(booking)

    def drop(self, booking: Booking[Pair]) -> None:
        """Ends a booking now, whether it runs or has not begun."""
        booking.remove()
        pair = booking.owner
        if pair.booking is booking:
            pair.booking = None
        del self._held[booking.number]
        self._free(booking, early=True)

    def revoke(self, booking: Booking[Pair]) -> None:
        """Drops a booking, and has its slot revoked at the host."""
        self._revoked.append(self._held[booking.number][1])
        self.drop(booking)

    def _free(self, booking: Booking[Pair], *, early: bool) -> None:
        self.free((resource for resource, _ in booking.takes), early=early)
        pair = booking.owner
        if pair.last != pair.granted:
            pair.before = pair.last, pair.host.last
            pair.last = pair.host.last = pair.granted
        self.loosen(pair)

    def free(self, resources: Iterable[Resource[Pair]], *, early: bool) -> None:
        """Has those which wait for these resources tried at the next selection. `early`: there is room before its time."""
        for resource in resources:
            self.freed[resource] = early or self.freed.get(resource, False)

    def loosen(self, pair: Pair) -> None:
        """Has the pair tried at the next selection, unless it has a slot or a place in a line."""
        if pair.wanted and pair.placed and pair.booking is None and pair.entry is None:
            park(pair, self.new)
            self.free((self.new,), early=False)
