"""The timeslice policy: XCo's Algorithm 1, event-driven, in simulated time ahead of the hosts. Pure.

Words of the design, and what they are here: the backlog group B_x of a node x is its pairs that are `wanted`; a pair (x, y)
is in the contention group beta_ij of every link of its path (`Pair.links`); the active group alpha_ij is `Resource.bookings`.
A pair is feasible when on every link the reserved rates of alpha_ij and its own stay within C_ij, and its node is idle.

*Selection.* At every instant at which something ends, those who wait are tried, least recently served first (a pair that
was never served before all others; then the pair of the node served less recently; then the one known longer). Whoever fits
is granted one slice. Only pairs that wait *for what ended* are tried: a pair that does not fit is parked at one resource
that is full for it (a link, or its busy node), and can't fit before that resource has room. So the work of an event does
not grow with the number of nodes that wait at a full link.

*Rate.* A slot reserves min(node's rate, least capacity of its path): a node faster than its bottleneck takes all of the
bottleneck, and is never starved. With `minimum_fraction` below 1 (the hybrid policy) a pair fits as soon as that fraction of
this rate is left on every link, and reserves what is left. A pair without any link on its path is bounded by its node alone.

*Bytes.* reserved rate x slice x headroom / 8, rounded down to whole packets; the remainder, less than a packet, is carried
to the node's next credit, so the bytes of many slots converge to rate x headroom exactly. A slot that is reserved less
than its node sends at (min of node's rate and first link) would leave as a burst: when more than `burst_bytes` of it would
have to wait in the bottleneck's buffer, the slot is bounded by its rate (reserved rate x headroom) in place of a credit.

*Length.* slice x weight, at least the minimum active time and at least one packet's time. A slot is never pre-empted for
another node: it ends when it has run its length, when its host yields it, or when its node or destination left, its pair
is no longer regulated, or a changed fabric has no room for it. So the minimum active time, which is the slot's length unless
a weight makes it shorter, is always kept.

*Ahead.* `plan` works off every end until the horizon, so successors are granted before their predecessors end. When a slot
ends early, those which wait to begin are brought forward where they fit: granted again under the same number, of the same
length, with an earlier start. Then the rest of the room goes to those who wait.

*Maximality.* When `plan` returns, no wanted pair of an idle node would fit on all of its links from now on for one slice,
unless the room is held by a slot booked ahead for a pair that was passed over (next paragraph).

*No starvation.* Greedy packing can starve a pair that needs two links which are never free together, or more than a link
has ever free at once. When something booked on a resource ends and the oldest pair that is parked there does not get a slot,
it was *passed over*; at the `patience`-th time it is booked ahead, at the earliest time at which it fits beside all that is
booked. Others are granted only what fits beside that. The bound: let a pair X wait while at most N other pairs are wanted.
1. A *turn* is an end of something booked on the resource at which X is parked (it is full for X, so there is one). Those
   parked there are tried in their order while there is room, so if anybody gets a slot before X is tried it is the oldest,
   or the oldest is passed over. Say Z is the oldest: X, or older than X. If Z gets a slot and is not X, it is younger than X
   from there on: at most N turns. If it does not it is passed over: at most `patience` turns for each of N + 1 pairs, then
   it is booked. So X is granted a slot within N + patience (N + 1) < (patience + 1)(N + 1) turns.
2. A slot booked ahead begins when something ends, which began when something ended, and so on back to a slot that runs; the
   slots between were booked ahead, each for another pair. So with Q <= N pairs booked ahead the next turn comes, and a
   granted slot begins, within Q + 1 longest slots.
So X begins within `turn_bound(N)` = ((patience + 1)(N + 1) + 1)(N + 1) longest slots. With equal rates, one bottleneck and one
destination a node nobody is ever passed over, and X begins within N + 1 slots.

What a backlog amounts to is not used: TCP refills its queue from the acknowledgements of the slot itself, so a slot cut to
the bytes last reported would be short. A pair stays wanted until a report or a yield says that its queue is empty.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from controller.policies.base import (
    BILLION,
    PACKET_BYTES,
    Network,
    Plan,
    Policy,
    Regulated,
    Slot,
    SlotNumbers,
    Weights,
)
from controller.policies.ledger import Booking, Entry, Resource, opportunities

PPM = 1_000_000
BYTE = 8 * BILLION * PPM
"""One byte in the unit of a carry: bit/s x ns x millionths."""
NOWHERE: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Host:
    """A sending node: it is a resource of one slot at a time."""

    resource: Resource[Pair]
    last: int = 0
    """Number of its last grant."""
    carry: int = 0
    """What its last credits fell short of their due, in 1 / BYTE bytes; at least 0 and less than a packet."""


@dataclass(slots=True, eq=False)
class Pair:
    """Large flows from one node to one destination."""

    node: int
    destination: int
    number: int
    host: Host
    links: tuple[Resource[Pair], ...] = ()
    placed: bool = False
    full_bps: int = 0
    need_bps: int = 0
    burst_bps: int = 0
    length_ns: int = 0
    wanted: bool = False
    """Backlogged and regulated."""
    last: int = 0
    passed_over: int = 0
    booking: Booking[Pair] | None = None
    """The booking whose end is not foreseen yet."""
    entry: Entry[Pair] | None = None
    """Its place in a line, while it has one."""


class Timeslice(Policy):
    """One destination a node, one slice at a time, as many nodes as the links carry. See the module's docstring."""

    def __init__(
        self,
        *,
        slice_ns: int = 2_000_000,
        minimum_active_ns: int = 0,
        headroom: float = 0.98,
        packet_bytes: int = PACKET_BYTES,
        burst_bytes: int = 32 * PACKET_BYTES,
        minimum_fraction: float = 1.0,
        patience: int = 2,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        for name, good, wanted in (
            ("slice_ns", slice_ns > 0, "positive"),
            ("minimum_active_ns", minimum_active_ns >= 0, "at least 0"),
            ("headroom", 0 < headroom <= 1, "above 0 and at most 1"),
            ("packet_bytes", packet_bytes > 0, "positive"),
            ("burst_bytes", burst_bytes >= 0, "at least 0"),
            ("minimum_fraction", 0 < minimum_fraction <= 1, "above 0 and at most 1"),
            ("patience", patience >= 1, "at least 1"),
        ):
            if not good:
                raise ValueError(f"{name} must be {wanted}")
        self.slice_ns = slice_ns
        self.minimum_active_ns = minimum_active_ns
        self.headroom_ppm = round(headroom * PPM)
        self.packet_bytes = packet_bytes
        self.burst_bytes = burst_bytes
        self.minimum_ppm = round(minimum_fraction * PPM)
        self.patience = patience
        self._network: Network | None = None
        self._regulated: Regulated = {}
        self._weights = Weights()
        self._numbers = SlotNumbers()
        self._links: dict[Hashable, Resource[Pair]] = {}
        self._hosts: dict[int, Host] = {}
        self._pairs: dict[int, dict[int, Pair]] = {}
        self._backlogs: dict[int, frozenset[int]] = {}
        self._slots: dict[int, tuple[Booking[Pair], Slot]] = {}
        self._ends: list[tuple[int, int, Booking[Pair]]] = []
        self._running: list[tuple[int, int, Booking[Pair]]] = []
        self._freed: dict[Resource[Pair], None] = {}
        self._loose: dict[Pair, None] = {}
        self._granted: dict[int, Slot] = {}
        self._revoked: list[Slot] = []
        self._now_ns = 0
        self._pair_number = 0
        self._turn = 0

    def turn_bound(self, others: int) -> int:
        """How many longest slots a wanted pair waits at most when `others` are wanted beside it. Proof: the module's docstring."""
        return ((self.patience + 1) * (others + 1) + 1) * (others + 1)

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Takes the new paths at once. A slot is kept, as it is, where its new path has room for it; others are revoked, those
        that start last first."""
        self._advance(now_ns)
        self._network = network
        self._links = {}
        self._freed.clear()
        for host in self._hosts.values():
            host.resource = Resource(1)
        for pairs in self._pairs.values():
            for pair in pairs.values():
                pair.entry = None
                self._place(pair)
                self._loosen(pair)
        for booking, slot in sorted(self._slots.values(), key=lambda held: (held[1].start_ns, held[1].slot)):
            pair = booking.owner
            booking.takes = self._takes(pair, slot.reserved_bps)
            if pair.placed and booking.fits(booking.start_ns):
                booking.book()
            else:
                self._drop(booking)
                self._revoked.append(slot)

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Slots of pairs that are no longer regulated are revoked."""
        self._advance(now_ns)
        self._regulated = pairs
        for booking, slot in list(self._slots.values()):
            if slot.destination not in pairs.get(slot.node, NOWHERE):
                self._drop(booking)
                self._revoked.append(slot)
        for node in self._backlogs:
            self._want(node)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Lengthens or shortens the slots of a pair from its next one on."""
        self._weights.set(node, destination, weight)
        for pairs in self._pairs.values():
            for pair in pairs.values():
                self._measure(pair)

    def backlog(self, node: int, backlog: Mapping[int, int], *, now_ns: int) -> None:
        """Slots of a destination that waits no more are revoked if they have not begun; one that runs may be used up."""
        self._advance(now_ns)
        waiting = frozenset(destination for destination, size in backlog.items() if size > 0)
        before = self._backlogs.get(node, NOWHERE)
        if waiting == before:
            return
        self._backlogs[node] = waiting
        if gone := before - waiting:
            self._cancel_ahead(node, gone, now_ns)
        self._want(node)

    def yielded(self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0) -> None:
        """The rest of the slot is free from now on."""
        self._advance(now_ns)
        waiting = self._backlogs.get(node, NOWHERE)
        if backlog_bytes > 0:
            self._backlogs[node] = waiting | {destination}
        elif destination in waiting:
            self._backlogs[node] = waiting - {destination}
            self._cancel_ahead(node, {destination}, now_ns)
        held = self._slots.get(slot)
        if held is not None and (held[1].node, held[1].destination) == (node, destination):
            self._drop(held[0])
        self._want(node)

    def left(self, node: int, *, now_ns: int) -> None:
        """Slots towards the node are revoked, and its own: their links are free from now on."""
        self._advance(now_ns)
        for booking, slot in list(self._slots.values()):
            if node in (slot.node, slot.destination):
                self._drop(booking)
                self._revoked.append(slot)
        gone = list(self._pairs.pop(node, {}).values())
        gone += [pairs.pop(node) for pairs in self._pairs.values() if node in pairs]
        for pair in gone:
            pair.wanted, pair.entry = False, None
            self._loose.pop(pair, None)
        self._backlogs.pop(node, None)
        self._hosts.pop(node, None)
        for other, waiting in self._backlogs.items():
            if node in waiting:
                self._backlogs[other] = waiting - {node}

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Grants from now on, and what follows every end until the horizon."""
        self._advance(now_ns)
        self._bring_forward(now_ns)
        instant_ns = now_ns
        while True:
            self._foresee(instant_ns)
            self._select(instant_ns)
            end_ns = self.next_event_ns()
            if end_ns is None or end_ns > horizon_ns:
                break
            instant_ns = end_ns
        plan = Plan(sorted(self._granted.values(), key=lambda slot: (slot.start_ns, slot.slot)), self._revoked)
        self._granted, self._revoked = {}, []
        return plan

    def next_event_ns(self) -> int | None:
        """The first end of a slot that is not foreseen yet."""
        ends = self._ends
        while ends and (ends[0][2].released or ends[0][2].end_ns != ends[0][0] or ends[0][1] not in self._slots):
            heapq.heappop(ends)
        return ends[0][0] if ends else None

    def _foresee(self, instant_ns: int) -> None:
        """Releases what ends until an instant, all together: what ends at once can be given away in any way."""
        while (end_ns := self.next_event_ns()) is not None and end_ns <= instant_ns:
            _, number, booking = heapq.heappop(self._ends)
            booking.release()
            booking.owner.booking = None
            heapq.heappush(self._running, (end_ns, number, booking))
            self._free(booking)

    def _select(self, instant_ns: int) -> None:
        """Tries those who wait for what was freed, and those who are new, in their order."""
        turn: list[tuple[Entry[Pair], Resource[Pair] | None, int]] = []
        oldest: dict[Pair, None] = {}
        for resource in self._freed:
            heads = []
            for need, line in resource.waiting.items():
                if (head := _head(line)) is not None:
                    heads.append(head)
                    if resource.reserved + need <= resource.capacity:
                        turn.append((head, resource, need))
            if heads:
                oldest[min(heads)[3]] = None
        self._freed.clear()
        for pair in self._loose:
            turn.append((_entry(pair), None, 0))
        self._loose.clear()
        heapq.heapify(turn)
        while turn:
            entry, at, need = heapq.heappop(turn)
            if at is not None:
                if at.reserved + need > at.capacity:
                    continue
                line = at.waiting[need]
                heapq.heappop(line)
                self._try(entry, instant_ns)
                if (head := _head(line)) is not None:
                    heapq.heappush(turn, (head, at, need))
            else:
                self._try(entry, instant_ns)
        for pair in oldest:
            if pair.booking is None:
                pair.passed_over += 1
                if pair.passed_over >= self.patience:
                    self._book_ahead(pair, instant_ns)

    def _try(self, entry: Entry[Pair], instant_ns: int) -> None:
        """Grants a slot from the instant on, or as soon as what was given away before ends; or parks the pair."""
        pair = entry[3]
        pair.entry = None
        blocker = self._blocker(pair, instant_ns)
        if blocker is None:
            self._grant(pair, instant_ns)
            return
        if blocker.settled_ns > instant_ns:
            resources = (*pair.links, pair.host.resource)
            running = {b.end_ns for r in resources for b in r.bookings if b.released and b.end_ns > instant_ns}
            for start_ns in sorted(running):
                blocker = self._blocker(pair, start_ns)
                if blocker is None:
                    self._grant(pair, start_ns)
                    return
        pair.entry = entry
        blocker.park(1 if blocker is pair.host.resource else pair.need_bps, entry)

    def _blocker(self, pair: Pair, start_ns: int) -> Resource[Pair] | None:
        """The resource that has no room for the pair from a start on; not to be asked of starts beyond the frontier."""
        need, end_ns = pair.need_bps, start_ns + pair.length_ns
        for resource in pair.links:
            if resource.load(start_ns, end_ns) + need > resource.capacity:
                return resource
        return pair.host.resource if pair.host.resource.load(start_ns, end_ns) else None

    def _book_ahead(self, pair: Pair, instant_ns: int) -> None:
        takes = self._takes(pair, pair.need_bps)
        wish = Booking(0, pair, instant_ns, instant_ns + pair.length_ns, takes)
        starts = opportunities((resource for resource, _ in takes), instant_ns)
        self._grant(pair, next(start_ns for start_ns in starts if wish.fits(start_ns)))

    def _grant(self, pair: Pair, start_ns: int) -> None:
        end_ns = start_ns + pair.length_ns
        reserved_bps = pair.full_bps
        if pair.need_bps < reserved_bps:
            for link in pair.links:
                reserved_bps = min(reserved_bps, link.capacity - link.peak(start_ns, end_ns))
        self._turn += 1
        pair.last = pair.host.last = self._turn
        pair.passed_over = 0
        pair.entry = None
        number = self._numbers.take(self._now_ns)
        size, rate_bps = self._amount(pair, reserved_bps)
        slot = Slot(number, pair.node, pair.destination, start_ns, end_ns, size, rate_bps, reserved_bps)
        booking = Booking(number, pair, start_ns, end_ns, self._takes(pair, reserved_bps))
        booking.book()
        pair.booking = booking
        self._slots[number] = booking, slot
        heapq.heappush(self._ends, (end_ns, number, booking))
        self._granted[slot.slot] = slot

    def _amount(self, pair: Pair, reserved_bps: int) -> tuple[int, int]:
        """(credit in bytes, 0), or (0, rate in bit/s)."""
        due = reserved_bps * pair.length_ns * self.headroom_ppm
        excess = due * max(0, pair.burst_bps - reserved_bps) // pair.burst_bps // BYTE
        if excess > self.burst_bytes:
            return 0, reserved_bps * self.headroom_ppm // PPM
        due += pair.host.carry
        size = due // (self.packet_bytes * BYTE) * self.packet_bytes
        pair.host.carry = due - size * BYTE
        return size, 0

    def _bring_forward(self, now_ns: int) -> None:
        """Lets slots that have not begun begin earlier where something was freed, the first of them first."""
        ahead: list[tuple[int, int, Booking[Pair]]] = []
        seen: set[int] = set()

        def collect(resources: Iterable[Resource[Pair]]) -> None:
            for resource in resources:
                for booking in resource.bookings:
                    if booking.start_ns > now_ns and booking.number not in seen:
                        seen.add(booking.number)
                        heapq.heappush(ahead, (booking.start_ns, booking.number, booking))

        collect(self._freed)
        while ahead:
            start_ns, number, booking = heapq.heappop(ahead)
            booking.remove()
            times = (at for at in booking.opportunities(now_ns) if at < start_ns and booking.fits(at))
            earlier_ns = next(times, start_ns)
            booking.end_ns += earlier_ns - start_ns
            booking.start_ns = earlier_ns
            booking.book()
            if earlier_ns < start_ns:
                slot = replace(self._slots[number][1], start_ns=earlier_ns, end_ns=booking.end_ns)
                self._slots[number] = booking, slot
                self._granted[slot.slot] = slot
                heap = self._running if booking.released else self._ends
                heapq.heappush(heap, (booking.end_ns, number, booking))
                collect(resource for resource, _ in booking.takes)

    # -- what is known ------------------------------------------------------------------------------------------------

    def _want(self, node: int) -> None:
        """Brings the node's pairs in line with its backlog and with what is regulated."""
        wanted = self._backlogs.get(node, NOWHERE) & self._regulated.get(node, NOWHERE)
        pairs = self._pairs.setdefault(node, {})
        for pair in pairs.values():
            if pair.wanted and pair.destination not in wanted:
                pair.wanted = False
                self._loose.pop(pair, None)
        for destination in wanted:
            pair = pairs.get(destination) or self._new_pair(node, destination)
            if not pair.wanted:
                pair.wanted = True
                self._loosen(pair)

    def _new_pair(self, node: int, destination: int) -> Pair:
        host = self._hosts.get(node)
        if host is None:
            host = self._hosts[node] = Host(Resource(1))
        self._pair_number += 1
        pair = self._pairs[node][destination] = Pair(node, destination, self._pair_number, host)
        self._place(pair)
        return pair

    def _place(self, pair: Pair) -> None:
        """Finds the pair's links and rates in the network; without a known node it stays unplaced, and is never granted."""
        pair.placed, pair.links = False, ()
        if self._network is None:
            return
        try:
            rate_bps = self._network.node_rate_bps(pair.node)
        except KeyError:
            return
        links = []
        for name in self._network.path(pair.node, pair.destination):
            link = self._links.get(name)
            if link is None:
                link = self._links[name] = Resource(self._network.capacity_bps(name))
            links.append(link)
        pair.links = tuple(links)
        pair.full_bps = min([rate_bps, *(link.capacity for link in links)])
        pair.placed = pair.full_bps > 0
        pair.need_bps = max(1, pair.full_bps * self.minimum_ppm // PPM)
        pair.burst_bps = min(rate_bps, links[0].capacity) if links else rate_bps
        self._measure(pair)

    def _measure(self, pair: Pair) -> None:
        """The length of the pair's slots: never so short that a credit holds no packet."""
        if pair.placed:
            packet_ns = -(-self.packet_bytes * BYTE // (pair.need_bps * self.headroom_ppm))
            length_ns = int(self.slice_ns * self._weights.of(pair.node, pair.destination))
            pair.length_ns = max(length_ns, self.minimum_active_ns, packet_ns)

    def _takes(self, pair: Pair, reserved_bps: int) -> tuple[tuple[Resource[Pair], int], ...]:
        return (*((link, reserved_bps) for link in pair.links), (pair.host.resource, 1))

    # -- giving back --------------------------------------------------------------------------------------------------

    def _free(self, booking: Booking[Pair]) -> None:
        for resource, _ in booking.takes:
            self._freed[resource] = None
        self._loosen(booking.owner)

    def _loosen(self, pair: Pair) -> None:
        """Has the pair tried at the next selection, unless it has a slot or a place in a line."""
        if pair.wanted and pair.placed and pair.booking is None and pair.entry is None:
            self._loose[pair] = None

    def _drop(self, booking: Booking[Pair]) -> None:
        """Ends a booking now, whether it runs or has not begun."""
        booking.remove()
        if booking.owner.booking is booking:
            booking.owner.booking = None
        del self._slots[booking.number]
        self._free(booking)

    def _cancel_ahead(self, node: int, destinations: Iterable[int], now_ns: int) -> None:
        host = self._hosts.get(node)
        for booking in list(host.resource.bookings) if host is not None else ():
            if booking.start_ns > now_ns and booking.owner.destination in destinations:
                slot = self._slots[booking.number][1]
                self._drop(booking)
                self._revoked.append(slot)

    def _advance(self, now_ns: int) -> None:
        """Releases and clears away what has ended by now."""
        self._now_ns = now_ns
        self._foresee(now_ns)
        running = self._running
        while running and running[0][0] <= now_ns:
            _, number, booking = heapq.heappop(running)
            held = self._slots.get(number)
            if held is not None and held[0] is booking:
                booking.remove()
                del self._slots[number]


def _entry(pair: Pair) -> Entry[Pair]:
    return pair.last, pair.host.last, pair.number, pair


def _head(line: list[Entry[Pair]]) -> Entry[Pair] | None:
    """The first of a line that still waits in it."""
    while line:
        entry = line[0]
        pair = entry[3]
        if pair.entry is entry:
            if pair.wanted:
                return entry
            pair.entry = None
        heapq.heappop(line)
    return None
