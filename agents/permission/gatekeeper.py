"""Opens and closes gates: turns grants, leases, backlog and overrides into operations on the host's gates.

The agent's decisions, without its socket and clock: `now_ns` is an argument, the kernel is behind `GateControl`, and `send`
takes the messages to the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from contextlib import ExitStack

from agents.permission.conditions import Condition
from agents.permission.counters import Counters, keep_sample
from agents.permission.rate_gates import RateGates
from agents.permission.rate_use import RateUse
from agents.permission.rules import GateControl
from agents.permission.slots import OpenSlot, SlotTable
from protocol.messages import Ack, Backlog, Directive, Yield
from protocol.paging import paginate
from protocol.units import FRAME_BYTES

FIRST_CHECK_NS = 2_000_000
"""The least time before the first check of a slot whose destination used up the previous one, and has half of this one
waiting; or half of a shorter slot. It doubles at each check. The destination is likely to use up this slot too, and a check
costs a turn of the loop. If it does not, this time is lost once."""
USED_UP_FOR_NS = 250_000_000
"""For this time a destination counts as one that used up its slot."""


class Gatekeeper:
    """Enforces directives, voids leases that ended, yields unused credit, and reports the backlog."""

    def __init__(
        self,
        gates: GateControl,
        send: Callable[[Backlog | Yield | Ack], None],
        *,
        to_local: Callable[[int], int],
        to_coordinator: Callable[[int], int],
        hysteresis_ns: int = 300_000,
        clock: Callable[[], int],
        link_bps: int,
        gated: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        """Closes no gate before it is told what is regulated.

        Args:
            gated: the destinations that have a gate.
        """
        self._gated = gated
        self._gates = gates
        self._send = send
        self._to_local = to_local
        self._to_coordinator = to_coordinator
        self._clock = clock
        self._link_bps = link_bps
        self.hysteresis_ns = hysteresis_ns
        self.regulated: frozenset[int] = frozenset()
        """The destinations that need permission, as far as they have a gate."""
        self._needs: Container[int] = self.regulated
        """All of them."""
        self.enforcing = False
        self._awaiting_first_slot = False
        self.table = SlotTable()
        self.counters = Counters()
        self.waiting_bytes: dict[int, int] = {}
        self.urgent_bytes: dict[int, int] = {}
        """The part that belongs to flows with a deadline."""
        self.rates = RateGates(gates, clock)
        self.reported_ns: dict[int, int] = {}
        self.next_check_ns: dict[int, int] = {}
        self._rate_uses: dict[int, RateUse] = {}
        self.used_up: dict[int, int] = {}
        """Destinations that used up their last slot: until when that counts."""
        self.outstanding: dict[int, int] = {}
        """How many bytes a connection may have unacknowledged and still be freed of its packets at the gate: twice the largest
        slot since the destination was regulated, so that a slot's bytes may wait while another slot's are on their way."""
        self.report_version = 0
        """Of the last BACKLOG."""

    # -- regulation --------------------------------------------------------------------------------------------------

    def regulate(self, destinations: Container[int], now_ns: int) -> None:
        """Replaces the destinations that need permission: gates of added ones close, of removed ones open.

        Destinations that can only be asked one by one are looked at when they have a gate, or get one (`created`).
        """
        self._needs = destinations
        here = destinations if isinstance(destinations, frozenset) else frozenset(d for d in self._gated() if d in destinations)
        released = self.regulated - here
        added = here - self.regulated
        self.regulated = here
        if not self.enforcing:
            return
        for destination in released:
            self._forget(destination)
            self._gates.open_gate(destination)
        if released:
            self._gates.wake_queues()
        self._close_gates(added)

    def regulates(self, destination: int) -> bool:
        """Whether packets to a destination need permission now."""
        return self.enforcing and destination in self._needs

    def enforce(self, now_ns: int) -> None:
        """Membership begins, or the operator's override ends: regulated gates close."""
        if not self.enforcing:
            self.enforcing = self._awaiting_first_slot = True
            keep_sample(self.counters.obeyed_ns, now_ns)
            self._close_gates(self.regulated)

    def release(self) -> None:
        """Opens every gate at once: membership ended, the leader is silent, or the operator set the override. Raises what the
        kernel refused, once all the rest is done."""
        was_enforcing, self.enforcing = self.enforcing, False
        with ExitStack() as ending:
            for destination in self.regulated:
                ending.callback(self._forget, destination)
            if was_enforcing:
                ending.callback(lambda: keep_sample(self.counters.released_ns, self._clock()))
            with ExitStack() as opening:
                if self.regulated:
                    opening.callback(self._gates.wake_queues)
                for destination in self.regulated:
                    opening.callback(self._gates.open_gate, destination)

    def created(self, destination: int, now_ns: int) -> None:
        """Closes the new gate of a regulated destination; its queue was created just now."""
        if destination in self._needs:
            self.regulated |= {destination}
        if self.regulates(destination):
            self._close_gates([destination])

    def rebuilt(self, now_ns: int) -> None:
        """Closes the gates of regulated destinations after all queues were created again with open gates, some for the first
        time."""
        self.regulated |= {destination for destination in self._gated() if destination in self._needs}
        if self.enforcing:
            for destination in self.regulated:
                self._forget(destination)
            self._close_gates(self.regulated)

    def resume(self, destination: int) -> None:
        """Applies the current permission to a destination again, after its rules were removed or changed its rate."""
        if not self.regulates(destination):
            self._gates.open_gate(destination)
            return
        current = self.table.open.get(destination)
        passed, _ = self._gates.state(destination)
        if current is None:
            self._gates.close_gate(destination)
        elif current.rate_bps:
            self.rates.forget(destination)
            self.rates.set(destination, current.rate_bps)
        elif (unspent := current.bytes - (passed - current.passed_before)) >= FRAME_BYTES:
            hold_ns = self._gates.grant(destination, unspent)
            if hold_ns is not None:
                current.must_close = True
                current.end_ns = min(current.end_ns, self._clock() + hold_ns)
        else:
            self._gates.close_gate(destination)

    def _close_gates(self, destinations: Iterable[int]) -> None:
        found = False
        for destination in destinations:
            self._gates.close_gate(destination)
            _, backlog = self._gates.state(destination)
            if backlog:
                self._record_backlog(destination, backlog)
                found = True
            else:
                self._gates.arm(destination)
        if found:
            self.report()

    def _forget(self, destination: int) -> None:
        self.table.clear(destination)
        self._record_backlog(destination, 0)
        self.rates.forget(destination)
        self.next_check_ns.pop(destination, None)
        self.used_up.pop(destination, None)
        self._rate_uses.pop(destination, None)
        self._free_senders(destination, 0)

    def _free_senders(self, destination: int, outstanding_bytes: int) -> None:
        if outstanding_bytes != self.outstanding.get(destination, 0):
            self._gates.free_senders(destination, outstanding_bytes)
            self.outstanding[destination] = outstanding_bytes

    # -- backlog ------------------------------------------------------------------------------------------------------

    def backlogged(self, destination: int, now_ns: int, *, urgent: bool = False) -> bool:
        """Handles the first packet to an armed destination, or the first with a deadline; it may not be in its queue yet.

        Returns whether it was reported. If the path is free, the coordinator answers at once with a directive.
        """
        if not self.regulates(destination):
            return False
        if destination in self.table.open and destination in self.waiting_bytes:
            return False  # urgent packets leave first, and the slot's end reports the rest
        if destination not in self.waiting_bytes:
            self.reported_ns[destination] = now_ns
        _, backlog = self._gates.state(destination)
        self._record_backlog(destination, max(backlog, FRAME_BYTES))
        if urgent:
            self.urgent_bytes[destination] = max(self.urgent_bytes.get(destination, 0), FRAME_BYTES)
        self.report()
        return True

    def holds(self) -> bool:
        """Whether packets wait for a permission that they have not."""
        return self.enforcing and any(destination not in self.table.open for destination in self.waiting_bytes)

    def _record_backlog(self, destination: int, backlog: int) -> None:
        """Records the waiting bytes; if none of them is urgent, arms the gate for the first urgent packet."""
        if not backlog:
            self.waiting_bytes.pop(destination, None)
            self.urgent_bytes.pop(destination, None)
            return
        self.waiting_bytes[destination] = backlog
        urgent = self._gates.urgent(destination)
        if not urgent:
            self._gates.arm(destination, urgent=True)
            urgent = self._gates.urgent(destination)  # it may have arrived before the arming
        self.urgent_bytes[destination] = urgent

    def refresh(self, now_ns: int) -> None:
        """Reads the backlog of every destination again and reports it: cheap insurance against a lost BACKLOG or YIELD."""
        if not self.enforcing or not self.regulated:
            return
        for destination in self.regulated:
            _, backlog = self._gates.state(destination)
            slot = self.table.open.get(destination)
            if backlog:
                self._record_backlog(destination, backlog)
            elif destination in self.waiting_bytes and (slot is None or slot.rate_bps):
                self._record_backlog(destination, 0)
                if slot is None:
                    self._gates.arm(destination)
        self.report()

    def report(self) -> None:
        """Sends the whole backlog."""
        self.report_version += 1
        entries = tuple((node, size, self.urgent_bytes.get(node, 0)) for node, size in sorted(self.waiting_bytes.items()))
        for page in paginate(Backlog(self.report_version, 0, 1, entries)):
            self._send(page)

    # -- slots --------------------------------------------------------------------------------------------------------

    def directive(self, message: Directive, received_ns: int) -> None:
        """Takes a directive; opens slots that have started at once."""
        if not self.enforcing:
            return
        for grant in message.grants:
            if grant.destination not in self._needs:
                continue
            start_ns, end_ns = self._to_local(grant.start_ns), self._to_local(grant.end_ns)
            current = self.table.open.get(grant.destination)
            if current is not None and current.slot == grant.slot and not grant.bytes and not grant.rate_bps:
                self._revoke(current)
                continue
            reported_ns = self.reported_ns.pop(grant.destination, None)
            if reported_ns is not None:
                self.counters.answered(received_ns - reported_ns, received_ns)
            slot = self.table.take(grant, start_ns, end_ns, received_ns)
            if slot is not None:
                self._open(slot)
        self.advance(received_ns)

    def rehearse(self) -> None:
        """Reads from the kernel what opening a slot would read, so that this code is in the caches (see Agent._rehearse)."""
        for destination in self.waiting_bytes:
            self._gates.state(destination)

    def advance(self, now_ns: int) -> None:
        """Opens slots that have started, checks the use of open ones, and voids those whose lease is over."""
        for slot in self.table.due(now_ns):
            self._open(slot)
        for current in list(self.table.open.values()):
            if now_ns >= current.end_ns:
                self._end_slot(current, now_ns)
            elif now_ns >= self.next_check_ns.get(current.destination, current.end_ns):
                self._check_use(current, now_ns)
        self.rates.advance(now_ns)

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next."""
        times = [slot.end_ns for slot in self.table.open.values()]
        times += [self.next_check_ns[d] for d in self.table.open if d in self.next_check_ns]
        times += [due for due in (self.table.next_start_ns(), self.rates.next_due_ns()) if due is not None]
        return min(times, default=None)

    def _open(self, slot: Condition) -> None:
        destination = slot.queue
        hold_ns: int | None = None
        if slot.rate_bps:
            self.used_up.pop(destination, None)
            self._free_senders(destination, 0)
            self.rates.set(destination, slot.rate_bps)
        else:
            self.rates.forget(destination)
            hold_ns = self._gates.grant(destination, slot.bytes)
            if 2 * slot.bytes > self.outstanding.get(destination, 0):
                self._free_senders(destination, 2 * slot.bytes)
        opened_ns = self._clock()
        # Read after the urgent change: nothing passes the gate before the next packet, the Ack.
        passed, backlog = self._gates.state(destination)
        before = self.table.open.get(destination)
        if before is not None and not before.rate_bps and not slot.rate_bps and backlog:
            self.used_up[destination] = opened_ns + USED_UP_FOR_NS  # this slot takes the place of one that was in use until now
        end_ns = slot.open_until_ns if hold_ns is None else min(slot.open_until_ns, opened_ns + hold_ns)
        self.table.open[destination] = current = OpenSlot(
            slot.number, destination, end_ns, slot.bytes, slot.rate_bps, passed, must_close=hold_ns is not None
        )
        if slot.rate_bps:
            if before is None or not before.rate_bps:  # else the next look stays when it was
                use = self._rate_uses.setdefault(destination, RateUse())
                answer_ns = self.counters.usual_answer_ns()
                self.next_check_ns[destination] = use.began(passed, backlog, slot.rate_bps, opened_ns, answer_ns)
        else:
            if opened_ns < self.used_up.get(destination, 0):
                current.check_after_ns = self.hysteresis_ns // 2  # two looks in a row, and fewer from then on
                if 2 * backlog >= slot.bytes:
                    current.check_after_ns = min(FIRST_CHECK_NS, (slot.open_until_ns - slot.open_from_ns) // 2)
                    current.passed_at_check = passed
            self._schedule_check(current, backlog, opened_ns)
        # The Ack passes the interface's queues, and so wakes the gate that was just changed.
        self._send(Ack(slot.number, destination, self._to_coordinator(slot.received_ns), self._to_coordinator(opened_ns)))
        self.note_opened(opened_ns, slot.open_from_ns, slot.received_ns)

    def note_opened(self, opened_ns: int, start_ns: int, received_ns: int) -> None:
        """Counts a slot that was opened."""
        if self._awaiting_first_slot:
            self._awaiting_first_slot = False
            keep_sample(self.counters.first_slot_ns, opened_ns)
        self.counters.opened(opened_ns, start_ns, received_ns)

    def _revoke(self, current: OpenSlot) -> None:
        """Ends an open slot whose path is no longer free."""
        destination = current.destination
        del self.table.open[destination]
        self.next_check_ns.pop(destination, None)
        self.rates.forget(destination)
        self._close_gates([destination])

    def _check_use(self, current: OpenSlot, now_ns: int) -> None:
        passed, backlog = self._gates.state(current.destination)
        if current.rate_bps:
            look_ns = self._rate_uses[current.destination].looked(passed, backlog, current.rate_bps, now_ns)
            if look_ns is not None:
                self.next_check_ns[current.destination] = look_ns
                return
        elif backlog or passed != current.passed_at_check:
            current.passed_at_check = passed
            current.check_after_ns *= 2
            self._schedule_check(current, backlog, now_ns)
            return
        self.counters.yields += 1
        self._yield_slot(current, passed, 0)

    def _schedule_check(self, current: OpenSlot, backlog: int, now_ns: int) -> None:
        """Sets the next check: the queue cannot be empty before the link has carried its backlog.

        Who used up the last slot is not checked where less than half of this one could be given back: its end is soon.
        """
        quiet_ns = max(self.hysteresis_ns, backlog * 8 * 10**9 // self._link_bps, current.check_after_ns)
        half_ns = current.bytes * 4 * 10**9 // self._link_bps
        if now_ns < self.used_up.get(current.destination, 0) and now_ns + quiet_ns > current.end_ns - half_ns:
            self.next_check_ns.pop(current.destination, None)
        else:
            self.next_check_ns[current.destination] = now_ns + quiet_ns

    def _end_slot(self, current: OpenSlot, now_ns: int) -> None:
        passed, backlog = self._gates.state(current.destination)
        if current.rate_bps:
            del self.table.open[current.destination]
            self.rates.forget(current.destination)
            self.counters.expired += 1
            self._record_backlog(current.destination, 0)
            self._close_gates([current.destination])
        elif backlog:
            unspent = current.bytes - (passed - current.passed_before)
            self._remember_use(current, unspent, now_ns)
            if unspent >= FRAME_BYTES or current.must_close:
                self._gates.close_gate(current.destination)
                self.counters.voided_bytes += max(0, unspent)
            del self.table.open[current.destination]
            self.next_check_ns.pop(current.destination, None)
            self._record_backlog(current.destination, backlog)
            if self.urgent_bytes[current.destination]:
                self.report()
        else:
            self._yield_slot(current, passed, backlog)

    def _remember_use(self, current: OpenSlot, unspent: int, now_ns: int) -> None:
        if unspent < FRAME_BYTES and not current.rate_bps:
            self.used_up[current.destination] = now_ns + USED_UP_FOR_NS
        else:
            self.used_up.pop(current.destination, None)

    def _yield_slot(self, current: OpenSlot, passed: int, backlog: int) -> None:
        """Ends a slot whose queue is empty: voids its credit, and arms the gate for the next packet."""
        destination = current.destination
        del self.table.open[destination]
        self.next_check_ns.pop(destination, None)
        self.rates.forget(destination)
        self._record_backlog(destination, 0)
        self._gates.close_gate(destination)
        self._gates.arm(destination)
        unspent = max(0, current.bytes - (passed - current.passed_before))
        self._remember_use(current, unspent, self._clock())
        self.counters.voided_bytes += unspent
        _, arrived = self._gates.state(destination)
        self._record_backlog(destination, arrived)  # it may have arrived between the check and the arming
        self._send(Yield(destination, current.slot, unspent, arrived))
        if self.urgent_bytes.get(destination):
            self.report()
