"""Which gate is open and why: turns grants, leases, backlog and overrides into actions on the host's gates.

The decisions of the agent, without its socket and clock: `now_ns` is an argument, the kernel is behind `Gates`, and what is
to be said to the coordinator is handed to `send`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agents.permission.conditions import Condition
from agents.permission.counters import Counters, keep_sample
from agents.permission.rules import Gates
from agents.permission.slots import OpenSlot, SlotTable
from protocol.messages import Ack, Backlog, Directive, Yield
from protocol.paging import paginate
from protocol.units import FRAME_BYTES

FIRST_LOOK_NS = 2_000_000
"""How long a slot is left alone before the first look, at least, whose destination used up the one before; then twice as long
each time. It is likely to use this one up too, and a look takes a turn of the loop. What is lost when not, is lost once."""
USED_UP_FOR_NS = 250_000_000
"""How long a destination counts as one that did: what trickles through a shut gate meanwhile (gates.IDLE_RATE_BPS) is less
than a packet."""
"""A full Ethernet frame: what a gate passes at least, and what a queue just heard of holds at least."""




LATE_NS = 500_000
"""A slot whose gate was opened later than this after its start counts as late."""


class Gatekeeper:
    """Obeys directives, voids leases, yields what is not used, and reports who waits."""

    def __init__(
        self,
        gates: Gates,
        send: Callable[[Backlog | Yield | Ack], None],
        *,
        to_local: Callable[[int], int],
        to_coordinator: Callable[[int], int],
        hysteresis_ns: int = 300_000,
        clock: Callable[[], int],
        link_bps: int,
    ) -> None:
        self._gates = gates
        self._send = send
        self._to_local = to_local
        self._to_coordinator = to_coordinator
        self._clock = clock
        self._link_bps = link_bps
        self.hysteresis_ns = hysteresis_ns
        self.regulated: frozenset[int] = frozenset()
        self.obeying = False
        self._fresh = False
        self.table = SlotTable()
        self.counters = Counters()
        self._waiting_bytes: dict[int, int] = {}
        self._urgent_bytes: dict[int, int] = {}
        """How many of them are of flows with a deadline."""
        self._rates: dict[int, int] = {}
        self._reported_ns: dict[int, int] = {}
        self._next_look_ns: dict[int, int] = {}
        self._used_up: dict[int, tuple[int, int]] = {}
        """Destinations whose last slot was sent to the last packet: until when that counts, and what their gates had passed."""
        self._report = 0

    # -- who is regulated -------------------------------------------------------------------------------------------

    def regulate(self, destinations: frozenset[int], now_ns: int) -> None:
        """Takes the full set of destinations that need permission: the gates of new ones close, of others open."""
        released = self.regulated - destinations
        added = destinations - self.regulated
        self.regulated = destinations
        if not self.obeying:
            return
        for destination in released:
            self._forget(destination)
            self._gates.open(destination)
        if released:
            self._gates.kick()
        self._shut(added)

    def obey(self, now_ns: int) -> None:
        """Membership begins, or the operator's override ends: regulated gates close."""
        if not self.obeying:
            self.obeying = self._fresh = True
            keep_sample(self.counters.obeyed_ns, now_ns)
            self._shut(self.regulated)

    def release(self) -> None:
        """Membership ends, the leader is silent or the operator says so: every gate opens, at once."""
        was_obeying, self.obeying = self.obeying, False
        for destination in self.regulated:
            self._gates.open(destination)
        if self.regulated:
            self._gates.kick()
        if was_obeying:
            keep_sample(self.counters.released_ns, self._clock())
        for destination in list(self.regulated):
            self._forget(destination)

    def created(self, destination: int, now_ns: int) -> None:
        """The queue of a destination was made just now; its gate is open."""
        if self.obeying and destination in self.regulated:
            self._shut([destination])

    def rebuilt(self, now_ns: int) -> None:
        """The queues were made anew, with every gate open: regulated ones are shut again."""
        if self.obeying:
            for destination in self.regulated:
                self._forget(destination)
            self._shut(self.regulated)

    def resume(self, destination: int) -> None:
        """No rule is against a destination any more, or it has another rate: does anew what is in force there."""
        if not self.obeying or destination not in self.regulated:
            self._gates.open(destination)
            return
        current = self.table.open.get(destination)
        passed, _ = self._gates.state(destination)
        if current is None:
            self._gates.close_gate(destination)
        elif current.rate_bps:
            self._gates.rate(destination, current.rate_bps)
        elif (unspent := current.bytes - (passed - current.passed_before)) >= FRAME_BYTES:
            hold_ns = self._gates.grant(destination, unspent)
            if hold_ns is not None:
                current.must_close = True
                current.end_ns = min(current.end_ns, self._clock() + hold_ns)
        else:
            self._gates.close_gate(destination)

    def _shut(self, destinations: Iterable[int]) -> None:
        found = False
        for destination in destinations:
            self._gates.close_gate(destination)
            _, backlog = self._gates.state(destination)
            if backlog:
                self._note(destination, backlog)
                found = True
            else:
                self._gates.arm(destination)
        if found:
            self.report()

    def _forget(self, destination: int) -> None:
        self.table.clear(destination)
        self._note(destination, 0)
        self._rates.pop(destination, None)
        self._next_look_ns.pop(destination, None)
        self._used_up.pop(destination, None)

    # -- backlog ------------------------------------------------------------------------------------------------------

    def backlogged(self, destination: int, now_ns: int, *, urgent: bool = False) -> bool:
        """The first packet for an armed destination came by (it may not be in its queue yet), or the first with a deadline.

        Returns whether it was reported: the answer, if the way is free, is a directive at once.
        """
        if not self.obeying or destination not in self.regulated:
            return False
        if destination in self.table.open and destination in self._waiting_bytes:
            return False  # what is urgent leaves first, and at the slot's end what is left is reported
        if destination not in self._waiting_bytes:
            self._reported_ns[destination] = now_ns
        _, backlog = self._gates.state(destination)
        self._note(destination, max(backlog, FRAME_BYTES))
        if urgent:
            self._urgent_bytes[destination] = max(self._urgent_bytes.get(destination, 0), FRAME_BYTES)
        self.report()
        return True

    def _note(self, destination: int, backlog: int) -> None:
        """Takes down what waits; while nothing urgent does, we are to be told of the first that comes."""
        if not backlog:
            self._waiting_bytes.pop(destination, None)
            self._urgent_bytes.pop(destination, None)
            return
        self._waiting_bytes[destination] = backlog
        urgent = self._gates.urgent(destination)
        if not urgent:
            self._gates.arm(destination, urgent=True)
            urgent = self._gates.urgent(destination)  # it may have come before the arming
        self._urgent_bytes[destination] = urgent

    def refresh(self, now_ns: int) -> None:
        """Reads again what waits everywhere, and reports it: cheap insurance against a lost BACKLOG or YIELD."""
        if not self.obeying or not self.regulated:
            return
        for destination in self.regulated:
            _, backlog = self._gates.state(destination)
            if backlog:
                self._note(destination, backlog)
            elif destination in self._waiting_bytes and destination not in self.table.open:
                self._note(destination, 0)
                self._gates.arm(destination)
        self.report()

    def report(self) -> None:
        """Sends the full state of what waits."""
        self._report += 1
        entries = tuple((node, size, self._urgent_bytes.get(node, 0)) for node, size in self._waiting_bytes.items())
        for page in paginate(Backlog(self._report, 0, 1, entries)):
            self._send(page)

    # -- slots --------------------------------------------------------------------------------------------------------

    def directive(self, message: Directive, received_ns: int) -> None:
        """Takes a directive; what is due already is opened at once."""
        if not self.obeying:
            return
        for grant in message.grants:
            if grant.destination not in self.regulated:
                continue
            start_ns, end_ns = self._to_local(grant.start_ns), self._to_local(grant.end_ns)
            current = self.table.open.get(grant.destination)
            if current is not None and current.slot == grant.slot and not grant.bytes and not grant.rate_bps:
                self._revoke(current)
                continue
            slot = self.table.take(grant, start_ns, end_ns, received_ns)
            if slot is not None:
                self._open(slot)
            reported_ns = self._reported_ns.pop(grant.destination, None)
            if reported_ns is not None:
                keep_sample(self.counters.backlog_to_directive_ns, received_ns - reported_ns)
        self.advance(received_ns)

    def rehearse(self) -> None:
        """Asks the kernel what a slot's opening would ask it; see Agent._rehearse."""
        for destination in self._waiting_bytes:
            self._gates.state(destination)

    def advance(self, now_ns: int) -> None:
        """Does what is due: opens slots, looks whether open ones are used, voids those whose lease is over."""
        for slot in self.table.due(now_ns):
            self._open(slot)
        for current in list(self.table.open.values()):
            if now_ns >= current.end_ns:
                self._end(current, now_ns)
            elif now_ns >= self._next_look_ns.get(current.destination, current.end_ns):
                self._look(current, now_ns)

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next."""
        times = [slot.end_ns for slot in self.table.open.values()]
        times += [self._next_look_ns[d] for d in self.table.open if d in self._next_look_ns]
        start = self.table.next_start_ns()
        if start is not None:
            times.append(start)
        return min(times, default=None)

    def _open(self, slot: Condition) -> None:
        destination = slot.queue
        hold_ns: int | None = None
        if slot.rate_bps:
            self._next_look_ns.pop(destination, None)  # of a slot that this one takes the place of
            self._used_up.pop(destination, None)
            if self._rates.get(destination) != slot.rate_bps:
                self._gates.rate(destination, slot.rate_bps)
                self._rates[destination] = slot.rate_bps
        else:
            self._rates.pop(destination, None)
            hold_ns = self._gates.grant(destination, slot.bytes)
        opened_ns = self._clock()
        until_ns, passed = self._used_up.get(destination, (0, 0))
        trusted = opened_ns < until_ns and not slot.rate_bps
        backlog = 0
        if not trusted:  # after the gate, which is urgent: nothing passes it before the next packet, our acknowledgement
            passed, backlog = self._gates.state(destination)
        end_ns = slot.open_until_ns if hold_ns is None else min(slot.open_until_ns, opened_ns + hold_ns)
        self.table.open[destination] = current = OpenSlot(
            slot.number, destination, end_ns, slot.bytes, slot.rate_bps, passed, must_close=hold_ns is not None
        )
        if not slot.rate_bps:
            current.patience_ns = FIRST_LOOK_NS if trusted else 0
            self._leave_alone(current, backlog, opened_ns)
        # The acknowledgement goes through the interface's queues, and so wakes the gate that was just changed.
        self._send(Ack(slot.number, destination, self._to_coordinator(slot.received_ns), self._to_coordinator(opened_ns)))
        counters = self.counters
        counters.slots += 1
        if self._fresh:
            self._fresh = False
            keep_sample(counters.first_slot_ns, opened_ns)
        lateness = opened_ns - slot.open_from_ns
        counters.late += lateness > LATE_NS
        keep_sample(counters.lateness_ns, lateness)
        keep_sample(counters.ahead_ns, slot.open_from_ns - slot.received_ns)
        if slot.open_from_ns <= slot.received_ns:
            keep_sample(counters.directive_to_gate_ns, opened_ns - slot.received_ns)

    def _revoke(self, current: OpenSlot) -> None:
        """Ends a slot that runs: its path is no longer free."""
        destination = current.destination
        del self.table.open[destination]
        self._next_look_ns.pop(destination, None)
        self._rates.pop(destination, None)
        self._shut([destination])

    def _look(self, current: OpenSlot, now_ns: int) -> None:
        passed, backlog = self._gates.state(current.destination)
        if backlog or passed != current.passed_at_look:
            current.passed_at_look = passed
            current.patience_ns *= 2
            self._leave_alone(current, backlog, now_ns)
            return
        self.counters.yields += 1
        self._give_back(current, passed, 0)

    def _leave_alone(self, current: OpenSlot, backlog: int, now_ns: int) -> None:
        """Sets when to look next: the queue cannot be empty before the link has carried what waits in it."""
        quiet_ns = max(self.hysteresis_ns, backlog * 8 * 10**9 // self._link_bps, current.patience_ns)
        self._next_look_ns[current.destination] = now_ns + quiet_ns

    def _end(self, current: OpenSlot, now_ns: int) -> None:
        passed, backlog = self._gates.state(current.destination)
        if current.rate_bps:
            del self.table.open[current.destination]
            self._rates.pop(current.destination, None)
            self._gates.close_gate(current.destination)
            self.counters.expired += 1
        elif backlog:
            unspent = current.bytes - (passed - current.passed_before)
            self._remember_use(current, unspent, passed, now_ns)
            if unspent >= FRAME_BYTES or current.must_close:
                self._gates.close_gate(current.destination)
                self.counters.voided_bytes += max(0, unspent)
            del self.table.open[current.destination]
            self._next_look_ns.pop(current.destination, None)
            self._note(current.destination, backlog)
            if self._urgent_bytes[current.destination]:
                self.report()
        else:
            self._give_back(current, passed, backlog)

    def _remember_use(self, current: OpenSlot, unspent: int, passed: int, now_ns: int) -> None:
        if unspent < FRAME_BYTES:
            self._used_up[current.destination] = now_ns + USED_UP_FOR_NS, passed
        else:
            self._used_up.pop(current.destination, None)

    def _give_back(self, current: OpenSlot, passed: int, backlog: int) -> None:
        """Ends a slot whose queue is empty: its credit is voided, and the next packet will be reported."""
        destination = current.destination
        del self.table.open[destination]
        self._next_look_ns.pop(destination, None)
        self._note(destination, 0)
        self._gates.close_gate(destination)
        self._gates.arm(destination)
        unspent = max(0, current.bytes - (passed - current.passed_before))
        self._remember_use(current, unspent, passed, self._clock())
        self.counters.voided_bytes += unspent
        _, arrived = self._gates.state(destination)
        self._note(destination, arrived)  # between the look and the arming
        self._send(Yield(destination, current.slot, unspent, arrived))
        if self._urgent_bytes.get(destination):
            self.report()


