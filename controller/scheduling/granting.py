"""The policy at work: what hosts say of their queues goes in, directives go out. Sends only through what it is given.

The policy decides which slots there are; this module tells all listeners (`slot_events`) what becomes of each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import SWEEP_NS, Part
from controller.members.registry import Member, Members
from controller.policies import make_policy
from controller.policies.base import Plan, Policy, Slot
from controller.scheduling.network import FabricNetwork
from controller.scheduling.permitted import Permitted
from controller.scheduling.slot_events import SlotListener, Tallies
from controller.scheduling.telemetry import Telemetry
from protocol.bodies.host_control import Week
from protocol.messages import Ack, Backlog, Directive, Grant, Message, Yield
from protocol.paging import Reassemblers

GRACE_PART = 10
"""The grace is at most this part of a slice: what is sent late waits in a buffer behind the next slot's frames."""
DELAY_STEP_NS = 50_000
"""Changes of a member's delay below this are noise to a policy: about what an agent's timers are late by."""
MAX_DELAY_NS = 20_000_000
"""What lies above counts as this much: one host far away must not have all slots planned long ahead."""
LATE_PART = 4
"""A slot whose gate opened later after its start than this part of a slice counts as late."""


class Granting(Part):
    """Plans slots and directs hosts, from the moment there is a network, unless `suspended`.

    Args:
        on_week: called with every week that a member is sent, and the time (ns).
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        send: Callable[[Message, bytes], None],
        telemetry: Telemetry,
        on_week: Callable[[Member, Week, int], None] = lambda *_: None,
    ) -> None:
        self.handlers = {Backlog: self.on_backlog, Yield: self.on_yield, Ack: self.on_ack}
        self.periodic = ((SWEEP_NS, self._forget_lost),)
        self.settings = settings
        self.policy: Policy = make_policy(settings)
        self.network: FabricNetwork | None = None
        self.tallies = Tallies()
        self.permitted = Permitted()
        self.suspended = False
        self.due_ns: int | None = None
        """When to plan again even if no message comes; None while only a message can change anything."""
        self._telemetry = telemetry
        self._listeners: tuple[SlotListener, ...] = (self.tallies, telemetry, self.permitted)
        self._on_week = on_week
        self._members = members
        self._send = send
        self._backlogs: Reassemblers[Backlog] = Reassemblers()
        self._distrusted: frozenset[int] = frozenset()
        self._told_delays: dict[int, int] = {}
        """By node: the delay that the policy knows."""
        self._longest_delay_ns = 0

    # -- what hosts say of their queues ---------------------------------------------------------------------------------

    def on_backlog(self, member: Member, message: Backlog, now_ns: int) -> None:
        """Takes a page of a member's backlog."""
        pages = self._backlogs.add(member.node, message)
        if pages is None:
            return
        here = self._members.get
        entries = [entry for page in pages for entry in page.entries if here(entry[0]) is not None]
        member.backlog = {destination: size for destination, size, _ in entries}
        self._telemetry.backlog(member.node, member.backlog, now_ns)
        if member.node not in self._distrusted:
            deadline = {destination: urgent for destination, _, urgent in entries if urgent}
            self.policy.backlog(member.node, member.backlog, now_ns=now_ns, deadline=deadline)
            self.plan(now_ns)

    def on_yield(self, member: Member, message: Yield, now_ns: int) -> None:
        """Takes back the rest of a slot."""
        member.yields += 1
        for listener in self._listeners:
            listener.yielded(message.slot, message.unspent_bytes, message.backlog_bytes, now_ns)
        if message.backlog_bytes and self._members.get(message.destination) is not None:
            member.backlog[message.destination] = message.backlog_bytes
        else:
            member.backlog.pop(message.destination, None)
        left_bytes = 0 if member.node in self._distrusted else message.backlog_bytes
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
        self._learn_delay(member, message.received_ns - sent_ns)
        lateness = message.opened_ns - slot.start_ns
        member.acknowledged += 1
        member.lateness_ns += (lateness - member.lateness_ns) // 8
        late = lateness > self.settings.slice_ns // LATE_PART and self.policy.late_matters(slot)
        member.late += late
        for listener in self._listeners:
            listener.opened(message.slot, message.opened_ns, late=late)

    def sent(self, member: Member, now_ns: int) -> None:
        """Tells the policy what a member's large flows sent, as its report says."""
        if member.node not in self._distrusted:
            self.policy.sent(member.node, member.sent_bps, now_ns=now_ns)

    def _learn_delay(self, member: Member, delay_ns: int) -> None:
        """Smooths how long directives take to a member, and tells the policy of a change that matters."""
        delay_ns = min(max(0, delay_ns), MAX_DELAY_NS)
        told_ns = self._told_delays.get(member.node)
        member.delay_ns += (delay_ns - member.delay_ns) // (1 if told_ns is None else 8)
        if told_ns is None or abs(member.delay_ns - told_ns) > max(DELAY_STEP_NS, told_ns // 8):
            self._told_delays[member.node] = member.delay_ns
            self._longest_delay_ns = max(self._told_delays.values())
            self.policy.set_delay(member.node, member.delay_ns)

    def distrust(self, nodes: frozenset[int], now_ns: int) -> None:
        """Ignores the backlogs that these nodes report, until the next call; believes all others."""
        changed, self._distrusted = nodes ^ self._distrusted, nodes
        for node in changed:
            if (member := self._members.get(node)) is not None:
                self.policy.backlog(node, {} if node in nodes else member.backlog, now_ns=now_ns)
        if changed:
            self.plan(now_ns)

    # -- what changes ---------------------------------------------------------------------------------------------------

    def joined(self, node: int) -> None:
        """Drops the pages of a backlog that the member sent before it registered anew."""
        self._backlogs.clear(node)

    def left(self, node: int, now_ns: int) -> None:
        """Forgets a member, and gives its room on the links to others."""
        self._backlogs.clear(node)
        self._told_delays.pop(node, None)
        self._longest_delay_ns = max(self._told_delays.values(), default=0)
        self.policy.left(node, now_ns=now_ns)
        self.plan(now_ns)

    def set_network(self, network: FabricNetwork, now_ns: int) -> None:
        """Takes a changed fabric or membership, and what the settings say of its hosts."""
        self.network = network
        self.policy.set_network(network, now_ns=now_ns)
        nodes = {name: node for node, name in network.hosts.items()}
        self.policy.set_hosts(nodes)
        for weight in self.settings.weights:
            if weight.source in nodes and (not weight.destination or weight.destination in nodes):
                self.policy.set_weight(nodes[weight.source], nodes.get(weight.destination), weight.weight)

    def renew(self, settings: CoordinatorSettings, now_ns: int) -> None:
        """Puts a fresh policy under these settings in force; it knows nothing before `set_network` and `inform`."""
        self._carry_out(self.policy.retire(now_ns=now_ns), now_ns)
        self.settings = settings
        self.policy = make_policy(settings)
        for node, delay_ns in self._told_delays.items():
            self.policy.set_delay(node, delay_ns)

    def inform(
        self, regulated: Mapping[int, frozenset[int]], contended: frozenset[Hashable], now_ns: int
    ) -> None:
        """Gives a fresh policy the contended links, the regulated pairs and the backlogs, and plans."""
        self.policy.set_contended(contended)
        self.policy.set_regulated(regulated, now_ns=now_ns)
        for member in self._members.present():
            if member.node not in self._distrusted:
                self.policy.backlog(member.node, member.backlog, now_ns=now_ns)
        self.plan(now_ns)

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
        """Directs hosts for all that begins within `lead_ns` of the time at which directives are there."""
        if self.suspended or self.network is None:
            self.due_ns = None
            return
        lead_ns = self.settings.lead_ns + self._longest_delay_ns
        self._carry_out(self.policy.plan(now_ns=now_ns, horizon_ns=now_ns + lead_ns), now_ns)
        event = self.policy.next_event_ns()
        self.due_ns = None if event is None else max(event - lead_ns, now_ns + 1)

    def _carry_out(self, plan: Plan, now_ns: int) -> None:
        for slot in plan.revokes:
            self._revoke(slot, now_ns)
        for slot in plan.grants:
            self._grant(slot, now_ns)
        for node, week in plan.weeks:
            if (member := self._members.get(node)) is not None:
                self._send(week, member.mac)
                self._on_week(member, week, now_ns)

    def _revoke(self, slot: Slot, now_ns: int) -> None:
        member = self._members.get(slot.node)
        if member is None:
            return
        for listener in self._listeners:
            listener.revoked(slot.slot, now_ns)
        self._send(Directive((Grant(slot.destination, slot.slot, slot.start_ns, slot.end_ns, 0, 0),)), member.mac)

    def _grant(self, slot: Slot, now_ns: int) -> None:
        member = self._members.get(slot.node)
        if member is None:
            return
        end_ns = slot.end_ns + (0 if slot.rate_bps else min(self.settings.grace_ns, self.settings.slice_ns // GRACE_PART))
        member.slots += 1
        for listener in self._listeners:
            listener.granted(slot, end_ns, now_ns)
        grant = Grant(slot.destination, slot.slot, slot.start_ns, end_ns, slot.bytes, slot.rate_bps)
        self._send(Directive((grant,)), member.mac)
