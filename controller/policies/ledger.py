"""The bookings of links and hosts on a common timeline: which slot has how much of each, and until when. Pure.

A resource is a directed link (capacity and amounts in bit/s) or a host (capacity 1, every slot takes 1, as a node sends to one
destination at a time). A booking takes an amount of several resources over [start, end).

Slots are planned ahead, so a resource holds bookings that still run although their successors are booked already, and
bookings that have not begun. `reserved` is the load at the frontier: after every end that was foreseen (`release`), with
everything that was booked. It is the exact load from `settled_ns` on; before that, `peak` looks at the bookings one by one.

Feasibility: a booking is made only where `peak` leaves room over all of its interval, and a booking only ever gets shorter,
leaves, or moves to where `peak` leaves room: so at no instant is more booked than the capacity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")
Entry = tuple[int, int, int, T]
"""(the pair's last turn, its node's last turn, the pair's number, the pair): smaller is served first."""


class Booking(Generic[T]):
    """A granted slot on the timeline. `takes` are its resources with the amount of each."""

    __slots__ = ("end_ns", "number", "owner", "released", "start_ns", "takes")

    def __init__(
        self, number: int, owner: T, start_ns: int, end_ns: int, takes: tuple[tuple[Resource[T], int], ...]
    ) -> None:
        self.number = number
        self.owner = owner
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.takes = takes
        self.released = False
        """Its end was foreseen: its amount may be booked by others from `end_ns` on."""

    def book(self) -> None:
        """Takes its amounts."""
        for resource, amount in self.takes:
            resource.bookings[self] = amount
            if self.released:
                resource.settled_ns = max(resource.settled_ns, self.start_ns, self.end_ns)
            else:
                resource.reserved += amount
                if self.start_ns > resource.settled_ns:
                    resource.settled_ns = self.start_ns

    def release(self) -> None:
        """Foresees its end."""
        self.released = True
        for resource, amount in self.takes:
            resource.reserved -= amount
            if self.end_ns > resource.settled_ns:
                resource.settled_ns = self.end_ns

    def remove(self) -> None:
        """Gives its amounts back, whether or not they were used."""
        for resource, amount in self.takes:
            if resource.bookings.pop(self, None) is not None and not self.released:
                resource.reserved -= amount

    def fits(self, start_ns: int) -> bool:
        """Whether it could be booked from `start_ns` on, with its present length. Do not ask while it is booked."""
        end_ns = start_ns + self.end_ns - self.start_ns
        return all(
            resource.peak(start_ns, end_ns) + amount <= resource.capacity for resource, amount in self.takes
        )

    def opportunities(self, now_ns: int) -> list[int]:
        """The times from `now_ns` on at which it may begin to fit: now, and whenever a booking in its way ends."""
        return opportunities((resource for resource, _ in self.takes), now_ns)


class Resource(Generic[T]):
    """A directed link or a host: its bookings, and the line of the pairs that wait for it."""

    __slots__ = ("bookings", "capacity", "reserved", "settled_ns", "urgent", "waiting")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.reserved = 0
        self.settled_ns = 0
        self.bookings: dict[Booking[T], int] = {}
        self.waiting: dict[int, list[Entry[T]]] = {}
        """Heaps of waiting pairs by the amount they need: when the first of a heap does not fit, none of it does."""
        self.urgent: dict[int, list[Entry[T]]] = {}
        """The waiting pairs with a deadline, once more."""

    def load(self, start_ns: int, end_ns: int) -> int:
        """The same as `peak`, without looking at the bookings where the start is at or after the frontier."""
        return self.reserved if start_ns >= self.settled_ns else self.peak(start_ns, end_ns)

    def peak(self, start_ns: int, end_ns: int) -> int:
        """The most that is booked at any instant of [start, end)."""
        load = rising = 0
        changes: list[tuple[int, int]] = []
        for booking, amount in self.bookings.items():
            if booking.end_ns > start_ns and booking.start_ns < end_ns:
                changes.append((booking.end_ns, -amount))  # sorts before what begins at the same time
                if booking.start_ns > start_ns:
                    changes.append((booking.start_ns, amount))
                    rising += 1
                else:
                    load += amount
        if not rising:
            return load
        changes.sort()
        peak = load
        for _, change in changes:
            load += change
            if load > peak:
                peak = load
        return peak


def opportunities(resources: Iterable[Resource[T]], now_ns: int) -> list[int]:
    """`now_ns` and every later end of a booking of the resources, in time order. After the last, all of them are idle."""
    ends = {b.end_ns for resource in resources for b in resource.bookings if b.end_ns > now_ns}
    return [now_ns, *sorted(ends)]
