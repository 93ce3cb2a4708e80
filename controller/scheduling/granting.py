"""The policy at work: what hosts say of their queues goes in, directives go out. Sends only through what it is given.

The policy decides which slots there are; this module and controller/scheduling/directing.py tell all listeners (`slot_events`)
what becomes of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

from controller.config.settings import CoordinatorSettings
from controller.frames.frames import Batch, Lock
from controller.frames.told import Planned
from controller.members.part import SWEEP_NS, Part
from controller.members.registry import Member, Members
from controller.policies import make_policy
from controller.policies.base import Policy, Regulated, Slot
from controller.policies.compiled.batches import Batched, BatchPolicy, still_waiting
from controller.scheduling.batch_notes import Opened, note
from controller.scheduling.directing import Directing, Exchange
from controller.scheduling.foresight import Foresight
from controller.scheduling.network import FabricNetwork
from controller.scheduling.telemetry import Telemetry
from controller.slots.directive_delays import DirectiveDelays
from controller.slots.permitted import Permitted
from controller.slots.slot_events import SlotListener, Tallies
from protocol.bodies.host_control import Week
from protocol.messages import Ack, Backlog, Message, Yield
from protocol.paging import Reassemblers

GRACE_PART = 10
"""The grace is at most this part of a slice: what is sent late waits in a buffer behind the next slot's frames."""
LATE_PART = 4
"""A slot whose gate opened later after its start than this part of a slice counts as late."""
INFORMED_AT_ONCE = 256
"""A fresh policy is told the backlogs of so many members by one call."""


class Loop(Protocol):
    """What plans and sends by itself (controller/frames/loop.py)."""

    lock: Lock

    def adopt(self, policy: Batched | None, now_ns: int) -> None: ...

    def steer(self, *, lead_ns: int, slice_ns: int, plans: bool) -> None: ...

    def look(self, review_ns: int | None, watched: int) -> None: ...

    def latest_ns(self, now_ns: int) -> int: ...


class Granting(Part):
    """Plans slots and directs hosts, from the moment there is a network, unless `suspended`.

    Args:
        on_week: called with every week that a member is sent, and the time (ns).
        exchange: sends directives in batches, and keeps account of slots; None: all by `send`, one by one.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        send: Callable[[Message, bytes], None],
        telemetry: Telemetry,
        on_week: Callable[[Member, Week, int], None] = lambda *_: None,
        exchange: Exchange | None = None,
    ) -> None:
        self.handlers = {Backlog: self.on_backlog, Yield: self.on_yield, Ack: self.on_ack}
        self.periodic = ((SWEEP_NS, self._forget_lost),)
        self._exchange = exchange
        self._loop: Loop | None = None
        self._looped: Batched | None = None
        """The policy that plans in the loop."""
        self._informed_ns = 0
        """Until when it was told of backlogs here: what the loop told it before that does not count."""
        self._foresight = Foresight()
        self.network: FabricNetwork | None = None
        self.tallies = Tallies() if exchange is None else exchange.book
        self.permitted = Permitted() if exchange is None else exchange.book
        self.suspended = False
        self.due_ns: int | None = None
        """When to plan again even if no message comes; None while only a message can change anything."""
        self._telemetry = telemetry
        self._listeners: tuple[SlotListener, ...] = (self.tallies, telemetry)
        self._listeners += (self.permitted,) if exchange is None else ()
        self._members = members
        self._directing = Directing(members, send, telemetry, self._listeners, exchange, on_week)
        self._backlogs: Reassemblers[Backlog] = Reassemblers()
        self._distrusted: frozenset[int] = frozenset()
        self.delays = DirectiveDelays(lambda node, delay_ns: self.policy.set_delay(node, delay_ns))
        self._follow(settings, make_policy(settings))

    def _follow(self, settings: CoordinatorSettings, policy: Policy) -> None:
        """Puts a policy that was made of these settings in force."""
        self.settings = settings
        self.policy = policy
        self._weighted: set[tuple[int, int | None]] = set()
        """The pairs of nodes that were ever given weights of the settings in the policy."""
        self._in_batches = self.policy if isinstance(self.policy, BatchPolicy) else None
        self._directing.grace_ns = grace_ns = min(settings.grace_ns, settings.slice_ns // GRACE_PART)
        if self._exchange is not None:
            self._exchange.set_terms(grace_ns, settings.slice_ns // LATE_PART)
        if self._loop is not None:
            self._hand_over(self._loop, 0)

    def begin_loop(self, loop: Loop, now_ns: int) -> None:
        """From now on this loop takes backlogs and yields, plans, and sends, if it can with the policy; it tells what it did by
        `take`, `planned` and `attend`."""
        self._loop = loop
        self._hand_over(loop, now_ns)
        self.plan(now_ns)

    def _hand_over(self, loop: Loop, now_ns: int) -> None:
        self._looped = self.policy if isinstance(self.policy, Batched) else None
        if self._looped is not None:
            self._looped.share(loop.lock, loop.latest_ns, loop.lock.lend)
            self.due_ns = None
        loop.adopt(self._looped, now_ns)

    # -- what hosts say of their queues ---------------------------------------------------------------------------------

    def on_backlog(self, member: Member, message: Backlog, now_ns: int) -> None:
        """Takes a page of a member's backlog. Of a destination that it names twice the last entry counts."""
        pages = self._backlogs.add(member.node, message)
        if pages is None:
            return
        here = self._members.get
        entries = [entry for page in pages for entry in page.entries if here(entry[0]) is not None]
        sizes = {destination: size for destination, size, _ in entries}
        member.backlog = {destination: size for destination, size in sizes.items() if size}
        self._telemetry.backlog(member.node, member.backlog, now_ns)
        if member.node not in self._distrusted:
            deadline = {destination: urgent for destination, _, urgent in entries if urgent and destination in member.backlog}
            self.policy.backlog(member.node, member.backlog, now_ns=now_ns, deadline=deadline)
            self.plan(now_ns)

    def on_yield(self, member: Member, message: Yield, now_ns: int) -> None:
        """Takes back the rest of a slot."""
        member.figures.yields += 1
        pair = member.node, message.destination
        for listener in self._listeners:
            listener.yielded(message.slot, pair, message.unspent_bytes, message.backlog_bytes, now_ns)
        left_bytes = 0 if self._members.get(message.destination) is None else message.backlog_bytes
        if left_bytes:
            member.backlog[message.destination] = left_bytes
        else:
            member.backlog.pop(message.destination, None)
        if member.node in self._distrusted:
            left_bytes = 0
        self.policy.yielded(
            member.node,
            message.destination,
            message.slot,
            now_ns=now_ns,
            backlog_bytes=left_bytes,
            unspent_bytes=message.unspent_bytes,
        )
        self.plan(now_ns)

    def on_ack(self, member: Member, message: Ack, _: int) -> None:
        """Counts a slot that began, and how late it began."""
        awaited = self.tallies.awaited(message.slot)
        if awaited is None:
            return
        slot, sent_ns = awaited
        if (slot.node, slot.destination) != (member.node, message.destination):
            return  # hosts can guess the numbers of others' slots
        self.delays.took(member, message.received_ns - sent_ns)
        lateness, figures = message.opened_ns - slot.start_ns, member.figures
        figures.acknowledged += 1
        figures.lateness_ns += (lateness - figures.lateness_ns) // 8
        late = lateness > self.settings.slice_ns // LATE_PART and self.policy.late_matters(slot)
        figures.late += late
        for listener in self._listeners:
            listener.opened(message.slot, message.opened_ns, late=late)

    def sent(self, member: Member, now_ns: int) -> None:
        """Tells the policy what a member's large flows sent, as its report says."""
        if member.node not in self._distrusted:
            self.policy.sent(member.node, member.sent_bps, now_ns=now_ns)

    def distrust(self, nodes: frozenset[int], now_ns: int) -> None:
        """Ignores the backlogs that these nodes report, until the next call; believes all others."""
        changed, self._distrusted = nodes ^ self._distrusted, nodes
        for node in changed:
            if self._exchange is not None:
                self._exchange.forget(node)
            if (member := self._members.get(node)) is not None:
                self.policy.backlog(node, {} if node in nodes else member.backlog, now_ns=now_ns)
        if changed:
            self.plan(now_ns)

    def trusts(self, node: int) -> bool:
        """Whether the backlogs that this node reports are believed."""
        return node not in self._distrusted

    # -- the same, in batches -------------------------------------------------------------------------------------------

    def take(self, batch: Batch, now_ns: int) -> None:
        """Takes what members said, in the order of the arrays, and plans once for all of it. A loop has done both already."""
        for node in batch.delayed.tolist():
            if (member := self._members.get(node)) is not None:
                self.delays.tell(node, member.figures.told_ns)
        opened: Opened = {}
        for *fields, opened_ns, node, late in batch.opened.tolist():
            slot = Slot(*fields)
            if late := late and self.policy.late_matters(slot):
                self._count_late(node)
            opened.setdefault(slot.node, deque()).append((slot.slot, opened_ns, bool(late)))
        note(batch, opened, self._members, self._telemetry)
        if self._looped is not None and self._loop is not None:
            if min((*batch.yielded_ns, *batch.backlog_ns), default=now_ns) <= self._informed_ns:
                with self._loop.lock:
                    self._inform(self._untold(batch), now_ns)
            if len(batch.yields):
                self._looped.meet(*still_waiting(batch.yields))
            if len(batch.nodes):
                self._looped.meet(batch.nodes, batch.offsets, batch.destinations)
        elif len(batch.yields) or len(batch.nodes):
            self._inform(batch, now_ns)
            self.plan(now_ns)

    def planned(self, plan: Planned, now_ns: int) -> None:
        """Takes what the loop tells of a plan that it has carried out; sends what it has left over."""
        self._directing.carried_out(plan, now_ns)

    def attend(self, now_ns: int) -> None:
        """Does for the loop what it cannot do itself, and has it plan."""
        loop, policy = self._loop, self._looped
        if loop is None:
            return
        review_ns = None
        if policy is not None:
            review_ns = policy.attend(now_ns=now_ns)
        loop.look(review_ns, max(0, self._telemetry.room()))
        if policy is not None:
            self.plan(now_ns)

    def _count_late(self, node: int) -> None:
        if self._exchange is not None:
            self._exchange.book.count_late()
        if (member := self._members.get(node)) is not None:
            member.figures.late += 1

    def _untold(self, batch: Batch) -> Batch:
        """What the loop has told the policy before this one of a batch, but for yields and backlogs of those of whom it has
        heard a later backlog since."""
        until_ns, exchange = self._informed_ns, self._exchange

        def counts(node: int, then_ns: int) -> bool:
            return then_ns <= until_ns and not (exchange is not None and exchange.has_later(node, then_ns))

        givers = zip(batch.yields["node"].tolist(), batch.yielded_ns, strict=True)
        given = [at for at, (node, then_ns) in enumerate(givers) if counts(node, then_ns)]
        kept = [at for at, pair in enumerate(zip(batch.nodes.tolist(), batch.backlog_ns, strict=True)) if counts(*pair)]
        rows = [batch.destinations[batch.offsets[at] : batch.offsets[at + 1]] for at in kept]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.uint32)
        return batch._replace(
            yields=batch.yields[given], nodes=batch.nodes[kept], offsets=offsets,
            destinations=np.concatenate([batch.destinations[:0], *rows]),
        )  # fmt: skip

    def _inform(self, batch: Batch, now_ns: int) -> None:
        """Tells the policy what members said."""
        here, policy = self._members.get, self.policy
        if self._in_batches is not None:
            if len(batch.yields):
                self._in_batches.give_back(batch.yields, now_ns=now_ns)
            if len(batch.nodes):
                self._in_batches.backlogs(batch.nodes, batch.offsets, batch.destinations, now_ns=now_ns)
            return
        for slot, node, destination, unspent, size in batch.yields.tolist():
            if here(node) is not None:
                policy.yielded(node, destination, slot, now_ns=now_ns, backlog_bytes=size, unspent_bytes=unspent)
        for node in batch.nodes.tolist():
            if (member := here(node)) is not None:
                policy.backlog(node, member.backlog, now_ns=now_ns)

    # -- what changes ---------------------------------------------------------------------------------------------------

    def joined(self, node: int) -> None:
        """Drops the pages of a backlog that the member sent before it registered anew."""
        self._backlogs.clear(node)

    def left(self, node: int, now_ns: int) -> None:
        """Forgets a member, and gives its room on the links to others."""
        self._backlogs.clear(node)
        self.delays.forget(node)
        self.policy.left(node, now_ns=now_ns)
        self.plan(now_ns)

    def set_network(self, network: FabricNetwork, now_ns: int) -> None:
        """Takes a changed fabric or membership, and what the settings say of its hosts."""
        self.network = network
        self.policy.set_network(network, now_ns=now_ns)
        self._tell_hosts(network)

    def placed(self, network: FabricNetwork, node: int) -> None:
        """Takes a member that has a place in the network now, which stays as it is otherwise."""
        host = network.hosts.get(node)
        weighed = any(host in (weight.source, weight.destination) for weight in self.settings.weights)
        if self.policy.has_own_schedule or weighed or any(node in pair for pair in self._weighted):
            self._tell_hosts(network)

    def _tell_hosts(self, network: FabricNetwork) -> None:
        if not self.policy.has_own_schedule and not self.settings.weights:
            return
        self.policy.set_hosts({name: node for node, name in network.hosts.items()})
        nodes: dict[str, list[int]] = {}
        for node, name in network.hosts.items():
            nodes.setdefault(name, []).append(node)
        weights = {
            (node, destination): weight.weight
            for weight in self.settings.weights
            for node in nodes.get(weight.source, ())
            for destination in (nodes.get(weight.destination, ()) if weight.destination else (None,))
        }
        self._weighted |= weights.keys()
        for node, destination in self._weighted:  # a node may be another host by now, whose own weight counts for each pair
            own = weights.get((node, None), 1.0)
            self.policy.set_weight(node, destination, weights.get((node, destination), own))

    def renew(self, settings: CoordinatorSettings, now_ns: int) -> None:
        """Puts a fresh policy under these settings in force; it knows nothing before `set_network` and `inform`.

        Raises ValueError: no policy can be made of these settings; the one before stays in force.
        """
        policy = make_policy(settings)
        if self._loop is not None:
            self._loop.adopt(None, now_ns)
        before = self.policy
        self._directing.carry_out(before.retire(now_ns=now_ns), now_ns)
        self._follow(settings, policy)
        del before  # its cores are there until the loop has others
        self.delays.tell_again()

    def inform(
        self, regulated: Regulated, contended: frozenset[Hashable], now_ns: int, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Gives a fresh policy the contended links, the regulated pairs and the backlogs, and plans. With thousands of members
        that takes tenths of a second; `meanwhile` is called again and again."""
        self.policy.set_contended(contended)
        self.policy.set_regulated(regulated, now_ns=now_ns)
        members = [member for member in self._members.present() if member.node not in self._distrusted]
        for first in range(0, len(members), INFORMED_AT_ONCE):
            self._tell_backlogs(members[first : first + INFORMED_AT_ONCE], now_ns)
            meanwhile()
        if self._loop is not None:
            self._informed_ns = self._loop.latest_ns(now_ns)
        self.plan(now_ns)

    def _tell_backlogs(self, members: Sequence[Member], now_ns: int) -> None:
        """Tells the policy what waits at some members: together, if it can, as it may look at all pairs in each call."""
        if self._in_batches is None:
            for member in members:
                self.policy.backlog(member.node, member.backlog, now_ns=now_ns)
            return
        waiting = [[destination for destination, size in member.backlog.items() if size > 0] for member in members]
        nodes = np.array([member.node for member in members], np.uint32)
        offsets = np.cumsum([0, *map(len, waiting)], dtype=np.uint32)
        self._in_batches.backlogs(nodes, offsets, np.array(list(chain(*waiting)), np.uint32), now_ns=now_ns)

    def status(self) -> dict[str, Any]:
        """Counts of slots, of pages that were not kept, and the members that have no place in the fabric."""
        tallies = self.tallies
        return {
            "slots": tallies.slots,
            "acknowledged": tallies.acks,
            "late_slots": tallies.late,
            "lost": tallies.lost_slots,
            "yields": tallies.yields,
            "dropped_pages": self._backlogs.dropped,
            "choices": self.policy.choices(),
            "unplaced": self.network.unplaced if self.network else [],
        }

    def _forget_lost(self, now_ns: int) -> None:
        """Counts the slots that were not acknowledged in time as lost."""
        if late := self.tallies.overdue(now_ns - self.settings.silence_ns):
            for listener in self._listeners:
                listener.lost(late)

    # -- granting -------------------------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> None:
        """Grants all that begins within `lead_ns` of the time at which directives are there, or later (Foresight)."""
        if self._loop is not None and self._looped is not None:
            self._loop.steer(
                lead_ns=self.settings.lead_ns + self.delays.longest_ns, slice_ns=self.settings.slice_ns,
                plans=not self.suspended and self.network is not None,
            )  # fmt: skip
            return
        if self.suspended or self.network is None:
            self.due_ns = None
            return
        lead_ns = self.settings.lead_ns + self.delays.longest_ns
        tallies = self.tallies
        horizon_ns = self._foresight.horizon_ns(
            now_ns + lead_ns, self.settings.slice_ns, slots=tallies.slots, yields=tallies.yields
        )
        if self._exchange is not None and self._in_batches is not None:
            granted, revoked = self._in_batches.plan_arrays(now_ns=now_ns, horizon_ns=horizon_ns)
            self._directing.direct(self._exchange, revoked, granted, now_ns)
        else:
            self._directing.carry_out(self.policy.plan(now_ns=now_ns, horizon_ns=horizon_ns), now_ns)
        event = self.policy.next_event_ns()
        self.due_ns = None if event is None else max(event - lead_ns, now_ns + 1)
