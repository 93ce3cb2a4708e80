"""The timeslice policy: XCo's Algorithm 1, event-driven, in simulated time ahead of the hosts. Pure.

Words of the design, and what they are here: the backlog group B_x of a node x is its pairs that are `wanted`; a pair (x, y)
is in the contention group beta_ij of every link of its path (`Pair.links`); the active group alpha_ij is
`Resource.bookings`. A pair is feasible when on every link the reserved rates of alpha_ij and its own stay within C_ij, and
its node is idle.

*Selection.* At every instant at which a slot ends, the policy tries the waiting pairs, least recently served first
(`order`), pairs with a deadline before the others. A pair that fits is granted one slice. Only pairs that wait *for what
ended* are tried: a pair that does not fit is parked at one resource that is full for it (a link, or its busy node), and
can't fit before that resource has room. So the work of an event does not grow with the number of nodes that wait at a full
link.

*Deadlines.* A pair has one while bytes of flows with a deadline wait: as many as were reported, less what it was granted
since; its host reports anew what is left when a slot ends. Deadlines change the order in which waiting pairs are tried, and
nothing else: no slot is cut short for them, and all that follows holds whatever is reported. A pair is tried before the
others for `HURRIED_TURNS` at most; then it is served in the order once before its deadlines count again. So a host that calls
all its bytes urgent gets three turns while each other gets one. And the oldest pair that waits at a link, deadline or not, is
passed over (below) `patience` times at most.

*Convergence.* In one selection no pair is tried twice while nothing else ends, since a pair that does not fit is parked at a
resource without room for it, and nobody is tried there. Every selection of a `plan` is for a later end, of which there are
finitely many before the horizon.

*Rate.* A slot reserves min(node's rate, least capacity of its path): a node faster than its bottleneck takes all of the
bottleneck, and is never starved. With `minimum_fraction` below 1 (the hybrid policy) a pair fits as soon as that fraction of
this rate is left on every link, and reserves what is left. A pair without any link on its path is bounded by its node alone.

*Bytes.* reserved rate x slice x headroom / 8, rounded down to whole packets; the remainder, less than a packet, is carried
to the node's next credit, so the bytes of many slots converge to rate x headroom exactly. A slot that is reserved less than
its node sends at (min of node's rate and first link) would leave as a burst: when more than `burst_bytes` of it would have
to wait in the bottleneck's buffer, the slot is bounded by its rate (reserved rate x headroom) in place of a credit. So is one
of more than `MOST_CREDIT` bytes.

*Length.* A turn is slice x weight, at least the minimum active time, and at least one packet's time if that is no more than
`PACKET_SLICES` slices: a slot that holds less than a packet is bounded by its rate, too. So nobody's low rate keeps the others
from a link for long. A slot is a whole turn, unless its host gave bytes back: then the next one is as long as what was used,
and a little longer, and half as long again each time that one is used up. A pair whose host used an eighth of a turn or more
keeps the rest of its turn, and with it its place in the order: a TCP flow that sends its window and waits for answers is
served as often as it answers, until it had as much as the others. A pair that comes back after `FORGOTTEN_TURNS` begins with
half a turn. A slot is never pre-empted for another node: it ends when it has run its length, when its host yields it, or when
its node or destination left, its pair is no longer regulated, or a changed fabric has no room for it. So the minimum active
time, which is the turn's length unless a weight makes it shorter, is always kept for who can use it. No slot begins before a
directive can be at its host (`set_delay`).

*Ahead.* `plan` works off every end until the horizon, so successors are granted before their predecessors end. When a slot
ends early, those which wait to begin are brought forward where they fit: granted again under the same number, of the same
length, with an earlier start. One plan tries `FORWARD_AT_ONCE` of them, the earliest; where thousands wait to begin, each end
would have all of them told again. Then the rest of the room goes to waiting pairs.

*Pieces.* A plan stops after `at_once` slots or `ATTEMPTS_AT_ONCE` attempts, so that nobody waits for it for long. It may stop
in the middle of a selection: the next plan, which is due at once, goes on with it, and with what was freed meanwhile. So what a
plan does is bounded by these numbers and by what was freed since the last one, also where plans fall behind. Who was passed
over is seen at a selection's end, and each slice if it lasts longer.

*Maximality.* When `plan` returns, and no other is due at once, no wanted pair of an idle node would fit on all of its links
from now on for one slice, unless the room is held by a slot booked ahead for a pair that was passed over (next paragraph).
Pairs that have just begun to wait, or have a new path, wait at a resource of their own, which has room for all (`Slots.new`).

*No starvation.* Greedy packing can starve a pair that needs two links which are never free together, or more than a link has
ever free at once. When something booked on a resource ends, or a link carries more or less, and the oldest pair that is parked
there does not get a slot, it was *passed over*; at the `patience`-th time it is booked ahead, at the earliest time at which it
fits beside all that is booked. Others are granted only what fits beside that. The bound: let a pair X wait while N other pairs,
all in all, are wanted (one whose node left and came back counts again), and the fabric stays as it is.
1. A *turn* is here the end of a booking of the resource at which X is parked (it is full for X, so there is one). The pairs
   that are parked there are tried in their order while there is room, so if a pair gets a slot before X is tried it is the
   oldest, or older and on its way back, or the oldest is passed over (for a pair with a deadline, too). Say Z is the oldest:
   X, or older than X. If Z or one on its way back gets a slot and is not X, it is younger than X after at most `VISITS`
   slots: at most 2 VISITS N turns. Else Z is passed over: at most `patience` turns for each of N + 1 pairs, then it is
   booked. So X is granted a slot within 2 VISITS N + patience (N + 1) < (patience + 2 VISITS)(N + 1) turns.
2. A slot booked ahead begins when something ends, which began when something ended, and so on back to a slot that runs; the
   slots between were booked ahead, each for another pair. So with Q <= N pairs booked ahead the next turn comes, and a
   granted slot begins, within Q + 1 longest slots.
So X begins within `turn_bound(N)` = ((patience + 2 VISITS)(N + 1) + 1)(N + 1) longest slots. With equal rates, one
bottleneck, one destination a node and no deadlines no pair is ever passed over, and X begins within N + 1 slots.

What a backlog amounts to is not used: TCP refills its queue from the acknowledgements of the slot itself, so a slot cut to
the bytes last reported would be short. A pair stays wanted until a report or a yield says that its queue is empty.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Set
from itertools import count

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, Slot, SlotNumbers
from controller.policies.ledger import Booking, Entry, Resource, opportunities
from controller.policies.order import ORDINARY, entry_of, forget_line, hasten, head, line_of, lines, park
from controller.policies.pairs import FORGOTTEN_TURNS, NOWHERE, VISITS, Pair, Roster, Terms, turn_bound
from controller.policies.slots import ATTEMPTS_AT_ONCE, GRANTS_AT_ONCE, Slots
from protocol.units import FRAME_BYTES, SECOND_NS

Attempt = tuple[int, Entry[Pair], int, Resource[Pair], int]
"""(class, the first of a line, a number of its own, the line's resource, what each in it needs)."""


class Timeslice(Policy):
    """Grants each node one destination at a time, for one slice, and as many nodes at once as the links carry."""

    def __init__(
        self,
        *,
        slice_ns: int = 2_000_000,
        minimum_active_ns: int = 0,
        headroom: float = 0.98,
        minimum_fraction: float = 1.0,
        burst_bytes: int = 32 * FRAME_BYTES,
        patience: int = 4,
        at_once: int = GRANTS_AT_ONCE,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        if patience < 1 or at_once < 1:
            raise ValueError("patience and at_once must be at least 1")
        self.patience, self._at_once = patience, at_once
        self.terms = Terms(
            slice_ns=slice_ns,
            minimum_active_ns=minimum_active_ns,
            headroom=headroom,
            minimum_fraction=minimum_fraction,
            burst_bytes=burst_bytes,
        )
        self._roster = Roster(self.terms)
        self.numbers = SlotNumbers()
        self._slots = Slots()
        self._tries, self._left = ATTEMPTS_AT_ONCE, at_once
        """Attempts, and grants, that are left in this plan."""
        self._begun_ns = self._instant_ns = 0
        self._attempts: list[Attempt] = []
        self._first: dict[tuple[Resource[Pair], int, int], Entry[Pair]] = {}
        """Of a selection that is not over: its instant, whom it tries next, and which of these is for each line; others that
        are for the same line are out of date."""
        self._oldest: dict[Pair, None] = {}
        self._asked: set[Resource[Pair]] = set()
        self._served: Entry[Pair] | None = None
        """Since `_begun_ns`: who waited longest for what was freed, of which resources that is known, and the first in the
        order of the new pairs that got a slot."""
        self._count = count()
        self._turn = 0
        """How many slots were granted; `last` of nodes and pairs are values of it."""

    def turn_bound(self, others: int) -> int:
        """How many longest slots a wanted pair waits at most, when `others` are wanted beside it; proof in the module's
        docstring."""
        return turn_bound(self.patience, others)

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Takes the new paths at once. Keeps a slot, as it is, where its new path has room for it; where there is no room for
        all, revokes the slots that start last. Where links carry more or less and nothing else is different, only what crosses
        these is looked at: a pair that waits keeps its place in line, unless it needs more or less now."""
        self._slots.advance(now_ns)
        if (names := self._roster.recharged(network)) is not None:
            self._recharge(network, names)
            return
        self._end_selection()
        self._roster.set_network(network)
        self._slots.new.waiting.clear()
        self._slots.new.urgent.clear()
        for pair in self._roster.pairs():
            self._slots.loosen(pair)
        for booking, slot in self._slots.all():
            booking.takes = booking.owner.takes(slot.reserved_bps)
        self._slots.book_again(booking for booking, _ in self._slots.all())

    def _recharge(self, network: Network, names: Set[Hashable]) -> None:
        changed, fewer, others = self._roster.recharge(network, names)
        for pair in others:
            self._slots.loosen(pair)
        held = {booking: None for link in fewer for booking in link.bookings}
        for booking in held:
            booking.remove()
        self._slots.book_again(held)
        self._slots.free(changed, early=True)

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Revokes slots of pairs that are no longer regulated."""
        self._slots.advance(now_ns)
        self._roster.regulated = pairs
        for booking, slot in self._slots.all():
            if slot.destination not in pairs.get(slot.node, NOWHERE):
                self._slots.revoke(booking)
        for node in self._roster.backlogs:
            self._want(node)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Lengthens or shortens the slots of a pair from its next one on."""
        self._roster.weights.set(node, destination, weight)
        self._roster.weigh()

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Slots of a destination that waits no more are revoked if they have not begun; one that runs may be used up."""
        self._slots.advance(now_ns)
        self._set_backlog(node, frozenset(destination for destination, size in backlog.items() if size > 0))
        for pair in self._roster.pairs_of(node):
            pair.deadline_bytes = deadline.get(pair.destination, 0) if pair.wanted else 0
            hasten(pair)
            if pair.urgent and pair.entry is not None and pair.line is self._slots.new:
                self._slots.free((self._slots.new,), early=False)

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """The rest of the slot is free from now on, and belongs to the pair's turn."""
        self._slots.advance(now_ns)
        held = self._slots.of(slot)
        if held is not None and (held[1].node, held[1].destination) == (node, destination):
            self._slots.drop(held[0])
        self._learn_use(node, destination, slot, unspent_bytes)
        waiting = self._roster.backlogs.get(node, NOWHERE)
        self._set_backlog(node, waiting | {destination} if backlog_bytes > 0 else waiting - {destination})

    def set_delay(self, node: int, delay_ns: int) -> None:
        """Slots of the node begin no sooner than a directive reaches it."""
        self._roster.delays[node] = delay_ns
        if (host := self._roster.hosts.get(node)) is not None:
            host.delay_ns = delay_ns

    def delay_ns(self, node: int) -> int | None:
        """What `set_delay` said of the node; None: nothing yet."""
        return self._roster.delays.get(node)

    def left(self, node: int, *, now_ns: int) -> None:
        """Slots towards the node are revoked, and its own: their links are free from now on."""
        self._slots.advance(now_ns)
        for booking, slot in self._slots.all():
            if node in (slot.node, slot.destination):
                self._slots.revoke(booking)
        self._roster.forget(node)

    def _set_backlog(self, node: int, waiting: frozenset[int]) -> None:
        before = self._roster.backlogs.get(node, NOWHERE)
        if waiting == before:
            return
        self._roster.backlogs[node] = waiting
        host = self._roster.hosts.get(node)
        if host is not None and not before <= waiting:
            for booking in list(host.resource.bookings):
                if booking.start_ns > self._slots.now_ns and booking.owner.destination not in waiting:
                    self._slots.revoke(booking)
        self._want(node)

    def _want(self, node: int) -> None:
        new, gone = self._roster.want(node)
        for pair in gone:
            pair.gone_ns = self._slots.now_ns
        for pair in new:
            away_ns = 0 if pair.gone_ns is None else self._slots.now_ns - pair.gone_ns
            if pair.placed and away_ns > FORGOTTEN_TURNS * pair.turn_ns:
                self._begin(pair)
            self._slots.loosen(pair)

    def _begin(self, pair: Pair) -> None:
        """Half a slot is the first turn of a pair that comes back: what others have left is sent the sooner."""
        pair.length_ns = max(self.terms.least_ns(pair).length, pair.turn_ns // 2)
        pair.used_ns = pair.hurried_ns = 0

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Grants from now on, and what follows every end until the horizon."""
        self._tries, self._left = ATTEMPTS_AT_ONCE, self._at_once
        self._slots.advance(now_ns)
        instant_ns = now_ns
        self._slots.bring_forward(now_ns)
        if not self._slots.freed and (self._attempts or self._oldest):
            instant_ns = max(now_ns, self._instant_ns)
        while True:
            self._slots.foresee(instant_ns)
            self._select(instant_ns)
            end_ns = self._slots.next_end_ns()
            if end_ns is None or end_ns > horizon_ns or self._stopped:
                break
            instant_ns = end_ns
        return self._slots.take_plan()

    @property
    def _stopped(self) -> bool:
        """The plan has made as many attempts, or granted as many slots, as one may."""
        return self._left <= 0 or self._tries <= 0

    def next_event_ns(self) -> int | None:
        """The first end of a slot that is not foreseen yet. What the last plan has left is due at once."""
        return self._slots.now_ns if self._slots.new in self._slots.freed or self._stopped else self._slots.next_end_ns()

    def _select(self, instant_ns: int) -> None:
        """Tries those that wait for what was freed, and new pairs, in their order, until all were tried or the plan stops."""
        self._instant_ns = instant_ns
        self._take_freed()
        if self._slots.now_ns - self._begun_ns >= self.terms.slice_ns:
            self._pass_over(instant_ns)
        while self._attempts and not self._stopped:
            of, entry, _, resource, need = heapq.heappop(self._attempts)
            if self._first.get((resource, of, need)) is not entry:
                continue
            del self._first[resource, of, need]
            pair = entry[3]
            if pair.entry is entry and pair.wanted and resource.reserved + need <= resource.capacity:
                self._try(pair, instant_ns)
                if resource is self._slots.new and of == ORDINARY and pair.booking is not None:
                    self._served = min(self._served or entry, entry)
            self._queue(resource, of, need)
        if not self._attempts:
            self._pass_over(instant_ns)

    def _take_freed(self) -> None:
        """Has the first of each line tried that has room now, and notes who waited longest for each resource that was freed."""
        if self._slots.freed and not self._oldest:
            self._begun_ns = self._slots.now_ns
        for resource in self._slots.freed:
            heads: list[Entry[Pair]] = []
            for of, need, line in list(lines(resource)):
                if (first := head(line, of)) is not None:
                    if of == ORDINARY:
                        heads.append(first)
                    self._queue(resource, of, need)
                elif (resource, of, need) not in self._first:
                    forget_line(resource, of, need)
            if heads and resource is not self._slots.new and resource not in self._asked:
                self._asked.add(resource)
                self._oldest[min(heads)[3]] = None
        self._slots.freed.clear()

    def _queue(self, resource: Resource[Pair], of: int, need: int) -> None:
        """Has the first of a line tried, if the resource has room for it."""
        first, key = head(line_of(resource, of, need), of), (resource, of, need)
        if first is not None and resource.reserved + need <= resource.capacity and self._first.get(key) is not first:
            self._first[key] = first
            heapq.heappush(self._attempts, (of, first, next(self._count), resource, need))

    def _pass_over(self, instant_ns: int) -> None:
        """Notes who waited longest for what was freed and got no slot, and books slots ahead for those it happened to often;
        no more than the plan may grant."""
        while self._oldest and self._left > 0:
            pair = next(iter(self._oldest))
            del self._oldest[pair]
            waits = pair.entry is not None and pair.wanted and pair.line is not self._slots.new
            if waits and (self._served is None or entry_of(pair) < self._served):
                pair.passed_over += 1
                if pair.passed_over >= self.patience:
                    self._book_ahead(pair, instant_ns)
        if not self._oldest:
            self._asked.clear()
            self._served = None

    def _end_selection(self) -> None:
        self._slots.freed.clear()
        self._attempts.clear()
        self._first.clear()
        self._oldest.clear()
        self._asked.clear()
        self._served = None

    def _try(self, pair: Pair, instant_ns: int) -> None:
        """Grants a slot from the instant on, or from the end of a slot that was granted before; or parks the pair."""
        self._tries -= 1
        pair.entry = None
        instant_ns = max(instant_ns, self._slots.now_ns + pair.host.delay_ns)
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
        park(pair, blocker)

    def _blocker(self, pair: Pair, start_ns: int) -> Resource[Pair] | None:
        """A resource that has no room for the pair from a start on; do not ask of starts beyond the frontier."""
        need, end_ns = pair.need_bps, start_ns + pair.length_ns
        for resource in pair.links:
            if resource.load(start_ns, end_ns) + need > resource.capacity:
                return resource
        return pair.host.resource if pair.host.resource.load(start_ns, end_ns) else None

    def _book_ahead(self, pair: Pair, instant_ns: int) -> None:
        takes = pair.takes(pair.need_bps)
        instant_ns = max(instant_ns, self._slots.now_ns + pair.host.delay_ns)
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
        self._left -= 1
        pair.granted = self._turn
        pair.hurried_ns = pair.hurried_ns + pair.length_ns if pair.urgent else 0
        pair.passed_over = 0
        pair.entry = None
        number = self.numbers.take(self._slots.now_ns)
        size, rate_bps = self.terms.amount(pair, reserved_bps)
        passing = size or rate_bps * pair.length_ns // (8 * SECOND_NS)
        pair.deadline_bytes = max(0, pair.deadline_bytes - passing)
        slot = Slot(number, pair.node, pair.destination, start_ns, end_ns, size, rate_bps, reserved_bps)
        if pair.newest is not None:  # nothing of the slot before was given back
            pair.used_ns = 0
        pair.newest = slot
        pair.length_ns = min(pair.turn_ns, pair.length_ns * 3 // 2)
        self._slots.grant(Booking(number, pair, start_ns, end_ns, pair.takes(reserved_bps)), slot)

    # -- giving back --------------------------------------------------------------------------------------------------

    def _learn_use(self, node: int, destination: int, number: int, unspent_bytes: int) -> None:
        """Hears how much of a pair's newest slot was used; that slot may be over. The next one is that long, and an eighth
        longer, or two packets. A pair that used enough of it to be worth a visit has its place back, until its turn is used
        up."""
        pair = self._roster.pair(node, destination)
        if pair is None or (slot := pair.newest) is None or slot.slot != number:
            return
        pair.newest = None
        if not slot.bytes or not unspent_bytes or not pair.placed:
            pair.used_ns = 0
            return
        least_ns, length_ns = self.terms.least_ns(pair), slot.end_ns - slot.start_ns
        used_ns = length_ns * max(0, slot.bytes - unspent_bytes) // slot.bytes
        pair.hurried_ns = max(0, pair.hurried_ns - (length_ns - used_ns))
        pair.length_ns = min(pair.turn_ns, max(least_ns.length, used_ns + max(used_ns // 8, least_ns.margin)))
        pair.used_ns += used_ns
        if used_ns >= pair.turn_ns // VISITS and pair.turn_ns - pair.used_ns >= least_ns.length:
            if pair.host.last == pair.last:
                pair.host.last = pair.before[1]
            pair.last = pair.before[0]
            if pair.entry is not None and pair.line is self._slots.new:
                pair.entry = None
                self._slots.loosen(pair)
        else:
            pair.used_ns = 0
