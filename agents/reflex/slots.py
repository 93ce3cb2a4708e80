"""The reflex for slots: obeys the leader's directives in C while the agent's Python sleeps. An edge: ctypes.

An agent that sends all the time wakes up twice for each slot, and each turn of its Python takes a third of a millisecond with
cold caches. So where a turn would decide nothing but what agents/permission/gatekeeper.py says of slots of bytes, the C code
(agents/reflex/slots.c) does it. Before a wait the agent lends it what the gatekeeper, the guard and the clock know; after the
wait it takes that back, and what became of the slots. `ready` says when it may: a member at TBF gates, without priorities, that
no pause, week or condition restricts, under the version of the wire that it speaks. The C code hands on what it does not know.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import time
from collections.abc import Sequence
from typing import Any

from agents.kernel.netlink import Netlink, NetlinkError, unacknowledged
from agents.permission.conditions import Condition
from agents.permission.slots import OpenSlot
from agents.queues.classifier import EVENTS_BYTES
from agents.queues.gates import TbfGate
from agents.queues.host import Host
from agents.reflex.lender import Lender
from agents.reflex.reflex import Reflex
from agents.reflex.slot_state import DESTINATIONS, FAR_NS, LIBRARY, NEVER_NS, WAITING, WIRE, State
from protocol.auth import ReplayWindow
from protocol.key import PERSON
from protocol.keys.hosts import Credentials


class SlotReflex:
    """The reflex for slots of one agent."""

    def __init__(self, agent: Lender, host: Host, reflex: Reflex | None = None) -> None:
        """`reflex` obeys pauses, weeks and conditions; while it has to, slots are Python's.

        Raises:
            BuildError, OSError: the C library cannot be built or loaded here. The agent then does all by itself.
        """
        self._library = LIBRARY.loaded()
        self._agent, self._host, self._reflex = agent, host, reflex
        self._netlink = Netlink()
        self.state = State()
        terms = self.state.terms
        terms.link_fd, terms.netlink_fd, terms.events_fd = host.link.fileno(), self._netlink.fileno(), host.flows.fileno()
        terms.tag_bytes = len(host.link.tag)
        if host.link.tag:
            terms.tag[:] = host.link.tag
        self._ring(host)
        self._keys: Credentials | None = None
        self._known: tuple[object, ...] = ()
        self._places: dict[int, int] = {}
        """The place of each destination in the state."""
        self._nodes: list[int] = []
        self._lent: set[int] = set()
        """The destinations of which the state says more than that nothing is known."""
        self._lent_at_ns = 0
        """When the state was lent to the C code last, by the local clock."""
        self._outstanding: dict[int, int] | None = None
        """What the state says of it; None: it is to be written anew."""
        self._kept: list[Any] = []
        """What the gates in the state point to."""
        self._epolls: dict[tuple[int, ...], select.epoll] = {}
        """One for each set of descriptors: the kernel need not be told of them for each wait."""

    def _ring(self, host: Host) -> None:
        ring = self.state.ring
        ring.consumed, ring.produced = host.flows.ring
        ring.records, ring.bytes = ring.produced + mmap.PAGESIZE, EVENTS_BYTES

    def close(self) -> None:
        """Closes what this made, and lets go of the classifier's table."""
        for epoll in self._epolls.values():
            epoll.close()
        self._netlink.close()
        self._kept.clear()

    # -- when -----------------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether the next wait can be this reflex's: nothing but slots of bytes is known, at gates that only slots change."""
        agent = self._agent
        keeper, guard, clock = agent.keeper, agent.guard, agent.clock
        return (
            agent.member
            and keeper.enforcing
            and bool(keeper.regulated)
            and not keeper.rates
            and not agent.rules.holds()
            and guard.agreed == WIRE
            and guard.newest(agent.leader_mac) >= 0
            and isinstance(guard.ring.sending, Credentials)
            and clock.synchronised
            and -FAR_NS < clock.offset_ns < FAR_NS
            and (self._reflex is None or not self._reflex.busy())
            and self._all_plain()
        )

    def _all_plain(self) -> bool:
        keeper, queues = self._agent.keeper, self._host.queues
        known = (queues.version, keeper.regulated)
        if known != self._known:
            self._known = known
            self._prepare()
        places, outstanding, table = self._places, keeper.outstanding, keeper.table
        if not places or len(table.waiting) > WAITING:
            return False
        for slot in table.waiting.values():
            if slot.queue not in places or slot.rate_bps or 2 * slot.bytes > outstanding.get(slot.queue, 0):
                return False
            if not (-FAR_NS < slot.open_from_ns < FAR_NS and -FAR_NS < slot.open_until_ns < FAR_NS):
                return False
        for node, current in table.open.items():
            if node not in places or current.rate_bps or current.must_close or not -FAR_NS < current.end_ns < FAR_NS:
                return False
        return all(node in places for node in keeper.waiting_bytes)

    def _prepare(self) -> None:
        """Numbers the destinations anew, and points to their gates' messages."""
        queues, flows = self._host.queues, self._host.flows
        self._places, self._nodes, self._kept, self._lent = {}, [], [], set()
        if queues.gate_kind != "tbf" or queues.dscp:
            return
        found = {node: queues.gate_of(node) for node in sorted(self._agent.keeper.regulated)}
        gates = {node: gate for node, gate in found.items() if isinstance(gate, TbfGate)}
        if len(gates) > DESTINATIONS:
            return
        for at, (node, gate) in enumerate(gates.items()):
            messages, shut = unacknowledged(bytes(gate.change)) + gate.query, unacknowledged(gate.shut_message)
            grant = ctypes.create_string_buffer(messages, len(messages))
            armed = flows.armed_word(node)
            self._kept += [grant, shut, armed]
            there = self.state.gate[at]
            there.grant, there.grant_bytes = ctypes.addressof(grant), len(gate.change)
            there.query_bytes = len(gate.query)
            there.shut, there.shut_bytes = _address(shut), len(shut)
            there.armed = ctypes.addressof(armed)
            there.burst_at, there.ticks_at, there.node = gate.burst_at, gate.ticks_at, node
            there.packet_bytes = gate.packet_bytes
        self._nodes = list(gates)
        self._places = {node: at for at, node in enumerate(gates)}
        self._lent, self._outstanding = set(gates), None
        self.state.destination_count = len(gates)

    # -- lending and taking back ----------------------------------------------------------------------------------------

    def lend(self) -> None:
        """Gives what the C code needs to its state; `ready` was true just now."""
        agent, state = self._agent, self.state
        terms, guard, membership = state.terms, agent.guard, agent.membership
        keys: Credentials = guard.ring.sending
        if keys is not self._keys:
            self._keys = keys
            to_leader = keys.to_leader
            self._library.slots_keys(ctypes.byref(state), keys.from_leader.secret, to_leader.secret, PERSON)
            terms.enrolment[:] = to_leader.enrolment
            terms.address[:] = self._host.link.address
        window = guard.leader_window(agent.leader_mac)
        assert window is not None
        terms.highest, terms.seen = window.highest, window.seen
        terms.leader[:] = agent.leader_mac
        terms.unwanted = agent.unwanted
        terms.epoch, terms.node, terms.sequence = guard.epoch, membership.node, agent.sequence
        terms.offset_ns, terms.taken_ns, terms.drift_ppb = agent.clock.line
        terms.hysteresis_ns, terms.link_bps = agent.keeper.hysteresis_ns, agent.config.rate_bps
        terms.fail_open_ns = membership.fail_open_ns
        terms.question_ns = membership.question_ns
        heartbeats = membership.heartbeats
        terms.answered_ns, terms.heard_ns = heartbeats.last_answer_ns, heartbeats.last_heartbeat_ns
        terms.looked_ns, terms.within_ns = heartbeats.looked_ns, heartbeats.within_ns
        terms.free_ns, terms.asked_ns = membership.answers.free_ns, membership.answers.asked_ns
        terms.poll_until_ns, terms.poll_ns = agent.poll_until_ns, agent.poll_ns
        terms.report = agent.keeper.report_version
        state.accepted = state.reported = state.yields = state.opened_count = state.answer_count = 0
        state.raw_bytes = state.directive_bytes = state.refused_errno = state.voided_bytes = 0
        self._lent_at_ns = time.monotonic_ns()
        self._lend_slots()

    def _lend_slots(self) -> None:
        keeper, state, places = self._agent.keeper, self.state, self._places
        if self._outstanding != keeper.outstanding:
            self._outstanding = dict(keeper.outstanding)
            for node, at in places.items():
                state.destination[at].outstanding = keeper.outstanding.get(node, 0)
        known = {*keeper.waiting_bytes, *keeper.reported_ns, *keeper.next_check_ns, *keeper.used_up, *keeper.table.open}
        known &= places.keys()
        for node in self._lent | known:
            there = state.destination[places[node]]
            there.waiting_bytes = keeper.waiting_bytes.get(node, 0)
            there.reported_ns = keeper.reported_ns.get(node, NEVER_NS)
            there.next_check_ns = keeper.next_check_ns.get(node, NEVER_NS)
            there.used_up_until_ns = keeper.used_up.get(node, 0)
            there.named = False
            current = keeper.table.open.get(node)
            there.open = current is not None
            if current is not None:
                there.slot, there.end_ns, there.bytes = current.slot, current.end_ns, current.bytes
                there.passed_before, there.passed_at_check = current.passed_before, current.passed_at_check
                there.check_after_ns = current.check_after_ns
        self._lent = known
        state.waiting_count = len(keeper.table.waiting)
        for at, slot in enumerate(keeper.table.waiting.values()):
            its = state.waiting[at]
            its.number, its.start_ns, its.end_ns = slot.number, slot.open_from_ns, slot.open_until_ns
            its.bytes, its.received_ns, its.at = slot.bytes, slot.received_ns, places[slot.queue]

    def take_back(self) -> None:
        """Gives back to the agent what the C code knows now, and what became of the slots."""
        agent, state = self._agent, self.state
        terms, guard, membership = state.terms, agent.guard, agent.membership
        agent.sequence, agent.poll_until_ns = terms.sequence, terms.poll_until_ns
        agent.keeper.report_version = terms.report
        membership.answers.freed(terms.free_ns)
        if state.accepted:
            guard.replace_leader_window(agent.leader_mac, ReplayWindow(terms.highest, terms.seen))
            guard.accepted += state.accepted
            membership.heartbeats.answered(terms.answered_ns)
        if state.directive_bytes:
            agent.obeyed(ctypes.string_at(ctypes.addressof(state.directive), state.directive_bytes))
        self._take_back_slots()
        counters = agent.keeper.counters
        for opened in state.opened[: state.opened_count]:
            agent.keeper.note_opened(opened.opened_ns, opened.start_ns, opened.received_ns)
        for answer_ns in state.answer_ns[: state.answer_count]:
            counters.answered(answer_ns, self._lent_at_ns)
        counters.yields += state.yields
        counters.voided_bytes += state.voided_bytes

    def _take_back_slots(self) -> None:
        keeper, state = self._agent.keeper, self.state
        opened = keeper.table.open
        if state.accepted or state.reported:
            self._lent |= {node for node, at in self._places.items() if state.destination[at].named}
        for node in self._lent | {slot.queue for slot in keeper.table.waiting.values()}:
            there = state.destination[self._places[node]]
            _put(keeper.waiting_bytes, node, there.waiting_bytes or None)
            _put(keeper.urgent_bytes, node, 0 if there.waiting_bytes else None)
            _put(keeper.reported_ns, node, None if there.reported_ns == NEVER_NS else there.reported_ns)
            _put(keeper.next_check_ns, node, None if there.next_check_ns == NEVER_NS else there.next_check_ns)
            _put(keeper.used_up, node, there.used_up_until_ns or None)
            current = None
            if there.open:
                current = OpenSlot(there.slot, node, there.end_ns, there.bytes, 0, there.passed_before)
                current.passed_at_check, current.check_after_ns = there.passed_at_check, there.check_after_ns
            _put(opened, node, current)
        nodes = self._nodes
        keeper.table.replace_waiting(
            Condition(nodes[its.at], its.number, its.start_ns, its.end_ns, its.bytes, 0, its.received_ns)
            for its in state.waiting[: state.waiting_count]
        )

    # -- waiting --------------------------------------------------------------------------------------------------------

    def wait(self, descriptors: Sequence[int], due_ns: int) -> list[int]:
        """Obeys slots until another of the descriptors is readable, `due_ns` has come, or a frame came that is the agent's:
        `frame` has it. Returns the readable ones, and the first one if there is a frame.

        Args:
            descriptors: the control socket's first; among the others that of the classifier's events.

        Raises:
            OSError: a descriptor is not open.
        """
        self.lend()
        state, epoll = self.state, self._epoll(descriptors)
        ready = self._library.slots_wait(ctypes.byref(state), epoll.fileno(), due_ns)
        self.take_back()
        if ready < 0:
            raise OSError(-ready, os.strerror(-ready))
        found = state.ready_fd[:ready]
        return [descriptors[0], *found] if state.raw_bytes else found

    def frame(self) -> bytes | None:
        """The frame that ended the last wait, once; None: there was none."""
        state = self.state
        size, state.raw_bytes = state.raw_bytes, 0
        return ctypes.string_at(ctypes.addressof(state.raw), size) if size else None

    def check(self) -> None:
        """Raises NetlinkError, once: the kernel refused a change of a gate in the last wait."""
        refused, self.state.refused_errno = self.state.refused_errno, 0
        if refused:
            raise NetlinkError(refused, os.strerror(refused))

    def _epoll(self, descriptors: Sequence[int]) -> select.epoll:
        wanted = tuple(descriptors)
        if (found := self._epolls.get(wanted)) is None:
            found = self._epolls[wanted] = select.epoll()
            for descriptor in (self._netlink.fileno(), *wanted):
                found.register(descriptor, select.EPOLLIN)
        return found


def _put(values: dict[int, Any], node: int, value: object) -> None:
    if value is None:
        values.pop(node, None)
    else:
        values[node] = value


def _address(data: bytes) -> int:
    """Where the bytes are; the caller keeps them."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
