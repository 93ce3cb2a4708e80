"""Pairs that send, their leases, and the rates that were promised to them. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from controller.policies.base import Plan, Slot, SlotNumbers
from controller.policies.rates.agenda import Agenda, Key

LONGEST = 8
"""How many times `lease_ns` the longest lease has."""
RENEWED_AT_ONCE, RISEN_AT_ONCE, LOOKS_AT_ONCE = 64, 256, 256
"""In one plan: leases that are renewed, rates of which it is seen whether they rise, and leases that are looked at. The next
plan, which is due at once, goes on."""


@dataclass(slots=True)
class Sender:
    """What is known of a pair that sends."""

    idle_ns: int | None = None
    """Since when it has no backlog and sends nothing; None while it does."""
    wants_bps: int | None = None
    """What it can use; None: all that it can get."""
    pressed: int = 0
    """At how many reports it had a backlog, up to the last one."""
    unused: list[int] = field(default_factory=list)
    """What it sent by the last reports, all of which said that it left a part of its rate unused."""
    lease: Slot | None = None
    look_ns: int = 0
    """When its lease is looked at next."""
    rise: Rise | None = None

    def rate_bps(self, now_ns: int) -> int:
        """Its rate in force."""
        return self.lease.rate_bps if self.lease is not None and self.lease.end_ns > now_ns else 0

    def is_promised(self, share_bps: int, now_ns: int) -> bool:
        """Whether its rate, or what was promised to it, is this share, at least after what is more was taken off the promise.
        What was promised is within the shares of then, and keeps its time."""
        rise, rate_bps = self.rise, self.rate_bps(now_ns)
        if share_bps <= rate_bps:
            self.rise = None
        elif rise is None or rise.to_bps <= rate_bps:
            return False
        elif share_bps <= rise.to_bps:
            rise.to_bps, rise.then_bps = share_bps, 0
        elif share_bps <= rise.then_bps:
            rise.then_bps = share_bps
        else:
            return False
        return True


@dataclass(slots=True)
class Rise:
    """A rate that is to rise: as far as it was promised, and perhaps once more later. Bit/s."""

    number: int
    """Of its entry in the agenda."""
    to_bps: int
    then_ns: int = 0
    then_bps: int = 0
    """0: not once more."""


class Leases:
    """The senders with their leases, and what the plan that is made grants and revokes.

    Args:
        lease_ns: how long a lease lasts at least.
    """

    def __init__(self, lease_ns: int) -> None:
        self.lease_ns = lease_ns
        self.new_ns = lease_ns
        """How long the lease of a new rate lasts."""
        self.numbers = SlotNumbers()
        self.begun: dict[Key, Sender] = {}
        """In the order in which they began."""
        self.now_ns = self.horizon_ns = 0
        """Of the last plan."""
        self.heard_ns = 0
        """When the hosts have heard of the falls that were granted last."""
        self._of_node: dict[int, dict[int, Sender]] = {}
        """The senders by node and destination."""
        self._looks = Agenda(self._is_look)
        self._rises = Agenda(self._is_rise)
        self._rise_number = 0
        self._granted: dict[Key, Slot] = {}
        self._revoked: list[Slot] = []

    # -- senders ------------------------------------------------------------------------------------------------------

    def of_node(self, node: int) -> dict[int, Sender]:
        """A node's senders by destination."""
        return self._of_node.get(node, {})

    def pairs(self) -> list[Key]:
        """All senders, node by node."""
        return [(node, destination) for node, senders in self._of_node.items() for destination in senders]

    def note(self, node: int, waiting: Collection[int], now_ns: int) -> bool:
        """Brings the senders in line with the destinations for which bytes of a node wait. Returns whether one began."""
        senders, began = self._of_node.setdefault(node, {}), False
        for destination in sorted(waiting):  # so that senders are in an order that both kinds know
            if (sender := senders.get(destination)) is None:
                began = True
                senders[destination] = self.begun[node, destination] = Sender()
            else:
                sender.idle_ns = None
        for destination, sender in senders.items():
            if sender.idle_ns is None and destination not in waiting:
                sender.idle_ns = now_ns
                if sender.lease is not None and now_ns + self.lease_ns < sender.look_ns:
                    self._look_later((node, destination), sender)
        return began

    def forget(self, key: Key, *, revoke: bool) -> None:
        """Makes a pair no sender any more, and ends its lease."""
        self._of_node[key[0]].pop(key[1], None)
        sender = self.begun.pop(key, None)
        if sender is not None and sender.lease is not None and revoke:
            self._revoked.append(sender.lease)

    def left(self, node: int) -> bool:
        """Revokes the rates of a node and towards it. Returns whether there was a sender."""
        gone = [key for key in self.pairs() if node in key]
        for key in gone:
            self.forget(key, revoke=True)
        self._of_node.pop(node, None)
        return bool(gone)

    # -- leases -------------------------------------------------------------------------------------------------------

    def grant(self, key: Key, sender: Sender, rate_bps: int, length_ns: int | None = None) -> None:
        """Grants a lease, as long as that of a new rate unless it is told how long."""
        number, end_ns = self.numbers.take(self.now_ns), self.now_ns + (length_ns or self.new_ns)
        sender.lease = self._granted[key] = Slot(number, *key, self.now_ns, end_ns, 0, rate_bps, rate_bps)
        self._look_later(key, sender)

    def withdraw(self, sender: Sender) -> None:
        """Takes a sender's rate and promise back. It stays a sender."""
        if sender.lease is not None:
            self._revoked.append(sender.lease)
        sender.lease = sender.rise = None

    def take_due(self) -> tuple[list[Key], bool]:
        """The senders whose leases are to be renewed; forgets pairs that are senders no more, and returns whether there were
        any."""
        renew: list[Key] = []
        forgot = False
        for key in self._looks.take(self.now_ns, LOOKS_AT_ONCE):
            sender = self.begun[key]
            lease = sender.lease
            assert lease is not None, "it is due"
            if sender.idle_ns is not None and self.now_ns >= sender.idle_ns + self.lease_ns:
                self.forget(key, revoke=self.now_ns < lease.end_ns)
                forgot = True
            elif self.now_ns >= (lease.start_ns + lease.end_ns) // 2:
                renew.append(key)
            else:
                self._look_later(key, sender)
            if len(renew) == RENEWED_AT_ONCE:
                break
        return renew, forgot

    def renew(self, keys: list[Key]) -> None:
        """Grants leases at their rates again, for twice as long, unless the plan has granted them already."""
        for key in keys:
            if key not in self._granted and (sender := self.begun.get(key)) is not None and sender.lease is not None:
                lease = sender.lease
                twice_ns = min(2 * (lease.end_ns - lease.start_ns), LONGEST * self.new_ns)
                self.grant(key, sender, lease.rate_bps, twice_ns if sender.idle_ns is None else self.lease_ns)

    def take_plan(self) -> Plan:
        """What was granted and revoked since the last call."""
        plan = Plan(list(self._granted.values()), self._revoked)
        self._granted, self._revoked = {}, []
        return plan

    def next_ns(self) -> int | None:
        """When a lease is to be looked at, or a rate rises."""
        times = (agenda.next_ns(LOOKS_AT_ONCE) for agenda in (self._looks, self._rises))
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def _look_later(self, key: Key, sender: Sender) -> None:
        """Has a lease looked at when half of it is over, or its sender may have ended."""
        lease = sender.lease
        assert lease is not None, "only leases are looked at"
        sender.look_ns = (lease.start_ns + lease.end_ns) // 2
        if sender.idle_ns is not None:
            sender.look_ns = min(sender.look_ns, sender.idle_ns + self.lease_ns)
        self._looks.add(sender.look_ns, lease.slot, key)

    def _is_look(self, when_ns: int, slot: int, key: Key) -> bool:
        sender = self.begun.get(key)
        return sender is not None and sender.lease is not None and (sender.look_ns, sender.lease.slot) == (when_ns, slot)

    # -- rises --------------------------------------------------------------------------------------------------------

    def rise(self) -> None:
        """Grants the rates that may rise by now."""
        for key in self._rises.take(self.now_ns, RISEN_AT_ONCE):
            sender = self.begun[key]
            rise = sender.rise
            assert rise is not None, "it is one"
            at_once = rise.then_bps > 0 and rise.then_ns <= self.now_ns
            self.grant(key, sender, rise.then_bps if at_once else rise.to_bps)
            sender.rise = None
            if rise.then_bps and not at_once:
                self._promise(key, sender, rise.then_ns, rise.then_bps)

    def note_rise(self, key: Key, sender: Sender, share_bps: int) -> None:
        """Notes a rise that is more than what was promised: it waits until the last falls have been heard."""
        heard_ns = max(self.now_ns, self.heard_ns)
        if sender.is_promised(share_bps, self.now_ns):
            return
        if sender.rise is None or sender.rise.to_bps <= sender.rate_bps(self.now_ns):
            self._promise(key, sender, heard_ns, share_bps)
        else:
            sender.rise.then_ns, sender.rise.then_bps = heard_ns, share_bps

    def _promise(self, key: Key, sender: Sender, due_ns: int, to_bps: int) -> None:
        self._rise_number += 1
        sender.rise = Rise(self._rise_number, to_bps)
        self._rises.add(due_ns, self._rise_number, key)

    def _is_rise(self, _: int, number: int, key: Key) -> bool:
        sender = self.begun.get(key)
        return sender is not None and sender.rise is not None and sender.rise.number == number
