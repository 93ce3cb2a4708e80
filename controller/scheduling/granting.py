"""The policy at work: what hosts say of their queues goes in, directives go out. Sends only through what it is given.

Which slots there are is the policy's decision; what became of them is counted here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from controller.config.settings import CoordinatorSettings
from controller.members.registry import Member, Members
from controller.policies import make_policy
from controller.policies.base import Plan, Policy, Slot
from controller.policies.weekly import Weekly, by_nodes
from controller.scheduling.network import FabricNetwork
from controller.scheduling.permitted import Permitted
from controller.scheduling.telemetry import Tallies, Telemetry
from protocol.bodies.host_control import Week
from protocol.messages import Ack, Backlog, Directive, Grant, Message, Yield
from protocol.paging import Reassembler

GRACE_PART = 10
"""The grace is at most this part of a slice: what is sent late waits in a buffer behind the next slot's frames."""
LATE_PART = 4
"""A slot whose gate opened later after its start than this part of a slice counts as late."""


class Granting:
    """Plans slots and directs hosts, from the moment there is a network, unless `suspended`."""

    def __init__(
        self, settings: CoordinatorSettings, members: Members, send: Callable[[Message, bytes], None], telemetry: Telemetry
    ) -> None:
        self.settings = settings
        self.policy: Policy = make_policy(settings)
        self.network: FabricNetwork | None = None
        self.tallies = Tallies()
        self.telemetry = telemetry
        self.permitted = Permitted()
        self.suspended = False
        self.due_ns: int | None = None
        """When to plan again, whatever happens; None while nothing waits for that."""
        self.on_week: Callable[[Member, Week, int], None] = lambda *_: None
        """Hears of every week that a member is told."""
        self._members = members
        self._send = send
        self._backlogs: dict[int, Reassembler[Backlog]] = defaultdict(Reassembler)
        self._not_believed: frozenset[int] = frozenset()

    # -- what hosts say of their queues ---------------------------------------------------------------------------------

    def on_backlog(self, member: Member, message: Backlog, now_ns: int) -> None:
        """Takes a page of a member's backlog."""
        pages = self._backlogs[member.node].add(message)
        if pages is None:
            return
        entries = [entry for page in pages for entry in page.entries]
        member.backlog = {destination: size for destination, size, _ in entries}
        self.telemetry.backlog(member.node, member.backlog, now_ns)
        if member.node not in self._not_believed:
            deadline = {destination: urgent for destination, _, urgent in entries if urgent}
            self.policy.backlog(member.node, member.backlog, now_ns=now_ns, deadline=deadline)
            self.plan(now_ns)

    def on_yield(self, member: Member, message: Yield, now_ns: int) -> None:
        """Takes back the rest of a slot."""
        member.yields += 1
        self.tallies.yields += 1
        self.telemetry.yielded(message.slot, message.backlog_bytes, now_ns)
        self.permitted.yielded(message.slot, message.unspent_bytes)
        if message.backlog_bytes:
            member.backlog[message.destination] = message.backlog_bytes
        else:
            member.backlog.pop(message.destination, None)
        left_bytes = 0 if member.node in self._not_believed else message.backlog_bytes
        self.policy.yielded(member.node, message.destination, message.slot, now_ns=now_ns, backlog_bytes=left_bytes)
        self.plan(now_ns)

    def on_ack(self, member: Member, message: Ack, _: int) -> None:
        """Counts a slot that began, and how late."""
        start_ns = self.tallies.acknowledged(message.slot)
        if start_ns is None:
            return
        lateness = message.opened_ns - start_ns
        member.acknowledged += 1
        member.lateness_ns += (lateness - member.lateness_ns) // 8
        # A rate that is renewed comes into force whenever it is heard of; only a slot can be late.
        late = self.settings.policy != "rate_limit" and lateness > self.settings.slice_ns // LATE_PART
        member.late += late
        self.tallies.late += late
        self.telemetry.opened(message.slot, message.opened_ns, late=late)

    def believe_not(self, nodes: frozenset[int], now_ns: int) -> None:
        """Takes what these nodes say to wait as nothing, until told otherwise."""
        changed, self._not_believed = nodes ^ self._not_believed, nodes
        for node in changed:
            if (member := self._members.get(node)) is not None:
                self.policy.backlog(node, {} if node in nodes else member.backlog, now_ns=now_ns)
        if changed:
            self.plan(now_ns)

    # -- what changes ---------------------------------------------------------------------------------------------------

    def joined(self, node: int) -> None:
        """A member begins anew: pages of before are void."""
        self._backlogs[node].clear()

    def left(self, node: int, now_ns: int) -> None:
        """Forgets a member."""
        self.policy.left(node, now_ns=now_ns)
        self.telemetry.left(node)

    def forget_lost(self, now_ns: int) -> None:
        """Counts the slots that nobody acknowledged in time."""
        self.telemetry.lost(self.tallies.forget_before(now_ns - self.settings.silence_ns))

    def set_network(self, network: FabricNetwork, now_ns: int) -> None:
        """Takes a changed fabric or membership, and the weights between its hosts."""
        self.network = network
        self.policy.set_network(network, now_ns=now_ns)
        nodes = {name: node for node, name in network.hosts.items()}
        if isinstance(self.policy, Weekly):
            self.policy.appoint(by_nodes(self.settings.weekly, nodes))
        for weight in self.settings.weights:
            if weight.source in nodes and (not weight.destination or weight.destination in nodes):
                self.policy.set_weight(nodes[weight.source], nodes.get(weight.destination), weight.weight)

    def renew(self, settings: CoordinatorSettings, now_ns: int) -> None:
        """A fresh policy under these settings; it knows nothing before `set_network` and `inform`."""
        self._carry_out(self.policy.retire(now_ns=now_ns), now_ns)
        self.settings = settings
        self.policy = make_policy(settings)

    def inform(self, regulated: Mapping[int, frozenset[int]], now_ns: int) -> None:
        """Tells a fresh policy who is regulated and what waits, and plans."""
        self.policy.set_regulated(regulated, now_ns=now_ns)
        for member in self._members.present():
            if member.node not in self._not_believed:
                self.policy.backlog(member.node, member.backlog, now_ns=now_ns)
        self.plan(now_ns)

    # -- granting -------------------------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> None:
        """Directs hosts for what is due within `lead_ns`."""
        if self.suspended or self.network is None:
            self.due_ns = None
            return
        self._carry_out(self.policy.plan(now_ns=now_ns, horizon_ns=now_ns + self.settings.lead_ns), now_ns)
        event = self.policy.next_event_ns()
        self.due_ns = None if event is None else max(event - self.settings.lead_ns, now_ns + 1)

    def _carry_out(self, plan: Plan, now_ns: int) -> None:
        for slot in plan.revokes:
            self._direct(slot, now_ns, revoked=True)
        for slot in plan.grants:
            self._direct(slot, now_ns)
        for node, week in plan.weeks:
            if (member := self._members.get(node)) is not None:
                self._send(week, member.mac)
                self.on_week(member, week, now_ns)

    def _direct(self, slot: Slot, now_ns: int, revoked: bool = False) -> None:
        member = self._members.get(slot.node)
        if member is None:
            return
        if revoked:
            grant = Grant(slot.destination, slot.slot, slot.start_ns, slot.end_ns, 0, 0)
            self.tallies.revoked(slot.slot)
            self.telemetry.revoked(slot.slot, now_ns)
            self.permitted.revoked(slot.slot, now_ns)
        else:
            end_ns = slot.end_ns + (0 if slot.rate_bps else min(self.settings.grace_ns, self.settings.slice_ns // GRACE_PART))
            grant = Grant(slot.destination, slot.slot, slot.start_ns, end_ns, slot.bytes, slot.rate_bps)
            member.slots += 1
            self.tallies.granted(slot.slot, slot.start_ns)
            self.telemetry.granted(slot, end_ns, now_ns)
            self.permitted.granted(slot, now_ns)
        self._send(Directive((grant,)), member.mac)
