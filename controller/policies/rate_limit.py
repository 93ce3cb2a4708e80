"""The rate limit: all pairs that wait send at once, each at a max-min fair share of the links it crosses. Pure.

XCo's simple version divides the bottleneck's capacity by the number of its senders: that is `fair_share` with one
bottleneck. Shares are of capacity x headroom, and a node's own rate is a link that all its pairs cross.

A rate is a lease, renewed when half of it is over. A new rate is for `lease_ns` mostly, so a host that missed it hears of it
again soon; each renewal is for twice as long, up to `LONGEST` times that, so rates that stay cost little. A plan renews
few at once, for thousands may be due together, and half of each is left. A pair is a *sender* from its first
backlog until it had none, and sent nothing, for `lease_ns`. Then its lease is revoked, and the others share what it had.
So a lease is looked at when half of it is over, and when its sender may have ended.

A host whose queue stays empty gives its rate back at once (agents/permission/rate_use.py), and the pair is a sender no more.

*Demand.* A sender wants all that it can get, until its queue stayed empty and it sent less than `USED` of its rate in
`PATIENCE` reports, one after the other: then it wants `MARGIN` times the most that it sent in them, and the others share the
rest. It wants everything again as soon as it used its rate in a report, or had a backlog at `PRESSED` reports, one after the
other: a queue that formed while a rate changed takes a while to empty, for the rate is hardly more than what comes.

When the senders change, shares are found anew (a *share-out*), and only leases whose rate changes are granted again, each
under a new number, in place of the one before. First rates fall. If none falls the others rise at once, else they rise when
the horizon of the `plan` with the last fall is reached and the hosts have heard of it. So the rates in force never add up to
more than a link carries: until then every rate is within the old shares, from then on within the new ones. Where new shares are
found before that, a rise keeps its time as far as it was promised, and what it is to get more waits for the newer falls. If all
of it waited, a sender got nothing as long as shares changed more often than hosts hear of them.

A share-out among thousands takes milliseconds, and the caller has other work. So one plan makes `STEPS_AT_ONCE` of its steps,
each of which takes about as long, and the next plan, which is due at once, goes on. Senders are collected, their shares found
(`filling`), then rates fall, then rises are noted. It is of the senders that were there when it began, without those that end
before they are collected; what changes meanwhile is for the next one. A new tree has it begin anew; other capacities do not,
for they may change more often than it ends. Some thirty senders are shared out to by one plan.

To tell thousands of hosts takes longer still; and where thousands send, some begin or end at any time.
So after shares were found for more than `MANY` senders, or changed those of more, the next ones are found later: by `REST_NS`
for each sender beyond these, and by `TOLD_NS` for each that changed. And leases are longer in proportion, up to `MOST_TIMES`.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, Slot, SlotNumbers, Weights
from controller.policies.fair_share import filling
from controller.policies.groups import Varied

Key = tuple[int, int]
"""(node, destination)."""
PPM = 1_000_000
USED, MARGIN = 0.97, 1.06
PRESSED = 2
PATIENCE = 3
"""Reports in which a sender leaves a part of its rate unused until that part is given to others."""
LONGEST = 8
"""How many times `lease_ns` the longest lease has."""
RENEWED_AT_ONCE, RISEN_AT_ONCE, LOOKS_AT_ONCE = 64, 256, 256
"""In one plan: leases that are renewed, rates of which it is seen whether they rise, and leases that are looked at. The next
plan, which is due at once, goes on."""
STEPS_AT_ONCE, FALL_STEPS = 512, 8
"""The steps of a share-out in one plan, some 0.05 us each in C; and as how many steps a rate that falls counts, which must be
told."""
MANY, REST_NS, TOLD_NS, MOST_TIMES = 1_000, 2_000, 20_000, 4
"""A share-out takes some 0.2 us a sender in C; a changed rate takes a directive, an ACK, and some 8 us of the leader."""
LEAST_DEMAND_PART = 100
"""A sender is left this part of its node's rate at least: with less it could not begin to grow."""


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


@dataclass(slots=True)
class Rise:
    """A rate that is to rise: as far as it was promised, and perhaps once more later. Bit/s."""

    number: int
    """Of its time in `RateLimit._rises`."""
    due_ns: int
    to_bps: int
    then_ns: int = 0
    then_bps: int = 0
    """0: not once more."""


NOWHERE: frozenset[int] = frozenset()


class RateLimit(Policy):
    """Grants leases of max-min fair rates, and renews them."""

    def __init__(
        self, *, lease_ns: int = 100_000_000, headroom: float = 0.98, steps_at_once: int = STEPS_AT_ONCE
    ) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        if lease_ns <= 0:
            raise ValueError("lease_ns must be positive")
        if not 0 < headroom <= 1:
            raise ValueError("headroom must be above 0 and at most 1")
        if steps_at_once <= 0:
            raise ValueError("steps_at_once must be positive")
        self.lease_ns = lease_ns
        self.headroom_ppm = round(headroom * PPM)
        self.steps_at_once = steps_at_once
        self._network: Network | None = None
        self._regulated: Regulated = {}
        self._weights = Weights()
        self.numbers = SlotNumbers()
        self._backlogs: dict[int, frozenset[int]] = {}
        self._senders: dict[int, dict[int, Sender]] = {}
        """By node and destination."""
        self._begun: dict[Key, Sender] = {}
        """The same, in the order in which they began."""
        self._rises: list[tuple[int, int, Key]] = []
        """(when a rate rises, the number of the rise, the pair)."""
        self._rise_number = 0
        self._heard_ns = 0
        """When the hosts have heard of the falls that were granted last."""
        self._due: list[tuple[int, int, Key]] = []
        """(when to look at a lease, its number, its pair)."""
        self._granted: dict[Key, Slot] = {}
        self._revoked: list[Slot] = []
        """By the plan that is made, or since the last one."""
        self._stale = True
        self._share_out: Iterator[int] | None = None
        """The rest of the one that was begun: the steps as they are made, each with what it counts."""
        self._rest_until_ns = 0
        """No shares are found before."""
        self._length_ns = lease_ns
        """Of the lease of a new rate."""
        self._waits = False
        """Whether a plan has left them to one that may."""
        self._now_ns = self._horizon_ns = 0
        """Of the last plan."""

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """All shares are found anew."""
        before = self._network
        if not isinstance(network, Varied) or before is None or network.differs(before) is None:
            self._share_out = None
        self._network = network
        self._stale = True

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Revokes leases of pairs that are no longer regulated."""
        self._regulated = pairs
        for node, destination in self._sender_keys():
            if destination not in pairs.get(node, NOWHERE):
                self._forget((node, destination), revoke=True)
        for node in self._backlogs:
            self._note(node, now_ns)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Changes the shares from the next `plan` on."""
        self._weights.set(node, destination, weight)
        self._stale = True

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Keeps a pair whose backlog is gone a sender for the length of a lease."""
        self._backlogs[node] = frozenset(destination for destination, size in backlog.items() if size > 0)
        self._note(node, now_ns)

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """Frees a rate that is given back at once. If the host did not know its newest rate yet, that one is revoked: the queue
        is empty, and where rates change all the time it is nearly always so."""
        waiting = self._backlogs.get(node, NOWHERE)
        self._backlogs[node] = waiting | {destination} if backlog_bytes > 0 else waiting - {destination}
        sender = self._begun.get((node, destination))
        lease = None if sender is None else sender.lease
        if lease is not None and (lease.slot == slot or (slot < lease.slot and not backlog_bytes)):
            self._forget((node, destination), revoke=lease.slot != slot)
        self._note(node, now_ns)

    def sent(self, node: int, rates_bps: Mapping[int, int], *, now_ns: int) -> None:
        """Learns how much of their rates the node's senders can use."""
        for destination, sender in self._senders.get(node, {}).items():
            lease, rate_bps = sender.lease, rates_bps.get(destination, 0)
            if rate_bps and sender.idle_ns is not None:
                sender.idle_ns = now_ns
            if lease is None or lease.end_ns <= now_ns:
                continue
            waits = destination in self._backlogs.get(node, NOWHERE)
            sender.pressed = sender.pressed + 1 if waits else 0
            if waits or rate_bps >= USED * lease.rate_bps:
                sender.unused.clear()
                if sender.wants_bps is not None and (sender.pressed >= PRESSED or rate_bps >= USED * lease.rate_bps):
                    sender.wants_bps = None
                    self._stale = True
                continue
            sender.unused.append(rate_bps)
            if len(sender.unused) >= PATIENCE:
                self._want(node, sender, int(MARGIN * max(sender.unused)))
                sender.unused.clear()

    def _want(self, node: int, sender: Sender, wants_bps: int) -> None:
        """Takes a demand that differs enough from the one before to be worth new shares."""
        assert self._network is not None, "it has a lease"
        try:
            wants_bps = max(wants_bps, self._network.node_rate_bps(node) // LEAST_DEMAND_PART)
        except KeyError:
            return  # it has no place any more
        before = sender.wants_bps
        if before is None or abs(wants_bps - before) > before // 10:
            sender.wants_bps = wants_bps
            self._stale = True

    def left(self, node: int, *, now_ns: int) -> None:
        """Revokes the rates of the node and towards it; the others share them."""
        self._backlogs.pop(node, None)
        for other, waiting in self._backlogs.items():
            if node in waiting:
                self._backlogs[other] = waiting - {node}
        for key in self._sender_keys():
            if node in key:
                self._forget(key, revoke=True)
        self._senders.pop(node, None)

    def late_matters(self, slot: Slot) -> bool:
        """No: the rate before it is still in force."""
        return False

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Grants the rates that change, first the ones that fall, and renews leases that are half over."""
        self._now_ns, self._horizon_ns = now_ns, horizon_ns
        renewed = self._take_due(now_ns)
        if self._network is not None and self._stale and self._share_out is None and now_ns >= self._rest_until_ns:
            self._stale = False
            self._share_out = self._steps()
        self._go_on()
        self._waits = self._network is not None and self._stale and self._share_out is None
        self._rise(now_ns)
        for key in renewed:
            if key not in self._granted and (sender := self._begun.get(key)) is not None and sender.lease is not None:
                lease = sender.lease
                twice_ns = min(2 * (lease.end_ns - lease.start_ns), LONGEST * self._length_ns)
                self._grant(key, sender, lease.rate_bps, twice_ns if sender.idle_ns is None else self.lease_ns)
        plan = Plan(list(self._granted.values()), self._revoked)
        self._granted, self._revoked = {}, []
        return plan

    def next_event_ns(self) -> int | None:
        """The time of the last plan, if it left something to do. Else when a lease is to be looked at, a rate rises, or shares
        may be found again, plus the time that the caller plans ahead: nothing is foreseen here."""
        for heap, counts in ((self._due, self._is_due), (self._rises, self._is_rise)):
            for _ in range(LOOKS_AT_ONCE):
                if not heap or counts(heap[0]):
                    break
                heapq.heappop(heap)
        events = [heap[0][0] for heap in (self._due, self._rises) if heap]
        if self._waits:
            events.append(self._rest_until_ns)
        if self._share_out is not None or (events and min(events) <= self._now_ns):
            return self._now_ns
        return min(events) + self._horizon_ns - self._now_ns if events else None

    def _take_due(self, now_ns: int) -> list[Key]:
        """The senders to renew; forgets pairs that are senders no more."""
        renew: list[Key] = []
        for _ in range(LOOKS_AT_ONCE):
            if not self._due or self._due[0][0] > now_ns or len(renew) == RENEWED_AT_ONCE:
                break
            due = heapq.heappop(self._due)
            if not self._is_due(due):
                continue
            key, sender = due[2], self._begun[due[2]]
            lease = sender.lease
            assert lease is not None, "it is due"
            if sender.idle_ns is not None and now_ns >= sender.idle_ns + self.lease_ns:
                self._forget(key, revoke=now_ns < lease.end_ns)
            elif now_ns >= (lease.start_ns + lease.end_ns) // 2:
                renew.append(key)
            else:
                self._look_later(key, sender)
        return renew

    def _is_due(self, due: tuple[int, int, Key]) -> bool:
        sender = self._begun.get(due[2])
        return sender is not None and sender.lease is not None and (sender.look_ns, sender.lease.slot) == due[:2]

    def _look_later(self, key: Key, sender: Sender) -> None:
        """Has a lease looked at when half of it is over, or its sender may have ended."""
        lease = sender.lease
        assert lease is not None, "only leases are looked at"
        sender.look_ns = (lease.start_ns + lease.end_ns) // 2
        if sender.idle_ns is not None:
            sender.look_ns = min(sender.look_ns, sender.idle_ns + self.lease_ns)
        heapq.heappush(self._due, (sender.look_ns, lease.slot, key))

    # -- rises --------------------------------------------------------------------------------------------------------

    def _rise(self, now_ns: int) -> None:
        """Grants the rates that may rise by now."""
        for _ in range(RISEN_AT_ONCE):
            if not self._rises or self._rises[0][0] > now_ns:
                break
            due = heapq.heappop(self._rises)
            if not self._is_rise(due):
                continue
            key, sender = due[2], self._begun[due[2]]
            rise = sender.rise
            assert rise is not None, "it is one"
            at_once = rise.then_bps > 0 and rise.then_ns <= now_ns
            self._grant(key, sender, rise.then_bps if at_once else rise.to_bps)
            sender.rise = None
            if rise.then_bps and not at_once:
                self._promise(key, sender, rise.then_ns, rise.then_bps)

    def _is_rise(self, due: tuple[int, int, Key]) -> bool:
        sender = self._begun.get(due[2])
        return sender is not None and sender.rise is not None and sender.rise.number == due[1]

    def _promise(self, key: Key, sender: Sender, due_ns: int, to_bps: int) -> None:
        self._rise_number += 1
        sender.rise = Rise(self._rise_number, due_ns, to_bps)
        heapq.heappush(self._rises, (due_ns, self._rise_number, key))

    # -- a share-out --------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Makes some steps of the share-out that was begun."""
        steps = self.steps_at_once
        while self._share_out is not None and steps > 0:
            took = next(self._share_out, None)
            if took is None:
                self._share_out = None
            else:
                steps -= took

    def _steps(self) -> Iterator[int]:
        """Grants the shares that fall, and notes the shares that rise, with the time at which they may."""
        senders: dict[Key, Sender] = {}
        shares: dict[Key, int] = {}
        for _ in self._find_shares(list(self._begun.items()), senders, shares):
            yield 1
        self._length_ns = min(max(1, len(shares) // MANY), MOST_TIMES) * self.lease_ns
        falls = 0
        rising: list[Key] = []
        for key, share_bps in shares.items():
            sender = senders[key]
            rate_bps = sender.rate_bps(self._now_ns)
            if self._begun.get(key) is not sender:
                yield 1
            elif share_bps < rate_bps:
                falls += 1
                sender.rise = None
                self._grant(key, sender, share_bps)
                yield FALL_STEPS
            else:
                if not _is_promised(sender, rate_bps, share_bps):
                    rising.append(key)
                yield 1
        if falls:
            self._heard_ns = self._horizon_ns
        for key in rising:
            if self._begun.get(key) is senders[key]:
                self._note_rise(key, senders[key], shares[key])
            yield 1
        rest_ns = max(0, len(shares) - MANY) * REST_NS + max(0, falls + len(rising) - MANY) * TOLD_NS
        self._rest_until_ns = self._now_ns + rest_ns

    def _find_shares(
        self, begun: list[tuple[Key, Sender]], senders: dict[Key, Sender], shares: dict[Key, int]
    ) -> Iterator[None]:
        """Collects senders, revokes leases of those without a place, and finds the shares of the others, in steps."""
        paths: dict[Key, list[Hashable]] = {}
        capacities: dict[Hashable, int] = {}
        weights: dict[Key, float] = {}
        for key, sender in begun:
            if self._begun.get(key) is not sender:
                continue
            if (path := self._path(key, sender, capacities)) is None:
                if sender.lease is not None:
                    self._revoked.append(sender.lease)
                sender.lease = sender.rise = None
            else:
                senders[key], paths[key], weights[key] = sender, path, self._weights.of(*key)
            yield
        yield from filling(paths, capacities, weights, shares)

    def _path(self, key: Key, sender: Sender, capacities: dict[Hashable, int]) -> list[Hashable] | None:
        """The links that a sender crosses, its node and its demand among them, with what there is of each; None: it has no
        place."""
        network = self._network
        assert network is not None, "shares are of a network"
        try:
            rate_bps = network.node_rate_bps(key[0])
        except KeyError:
            return None
        host = ("host", key[0])
        capacities.setdefault(host, rate_bps * self.headroom_ppm // PPM)
        path: list[Hashable] = [host]
        for name in network.path(*key):
            link = ("link", name)
            if link not in capacities:
                capacities[link] = network.capacity_bps(name) * self.headroom_ppm // PPM
            path.append(link)
        if sender.wants_bps is not None:
            demand = ("demand", *key)
            capacities[demand] = sender.wants_bps
            path.append(demand)
        return path

    def _note_rise(self, key: Key, sender: Sender, share_bps: int) -> None:
        """Notes a rise that is more than what was promised: it waits until the last falls have been heard."""
        rate_bps, heard_ns = sender.rate_bps(self._now_ns), max(self._now_ns, self._heard_ns)
        if _is_promised(sender, rate_bps, share_bps):
            return
        if sender.rise is None or sender.rise.to_bps <= rate_bps:
            self._promise(key, sender, heard_ns, share_bps)
        else:
            sender.rise.then_ns, sender.rise.then_bps = heard_ns, share_bps

    # -- senders and leases -------------------------------------------------------------------------------------------

    def _sender_keys(self) -> list[Key]:
        return [(node, destination) for node, senders in self._senders.items() for destination in senders]

    def _note(self, node: int, now_ns: int) -> None:
        """Brings the senders in line with a node's backlog."""
        waiting = self._backlogs[node] & self._regulated.get(node, NOWHERE)
        senders = self._senders.setdefault(node, {})
        for destination in sorted(waiting):  # so that senders are in an order that both kinds know
            if (sender := senders.get(destination)) is None:
                self._stale = True
                senders[destination] = self._begun[node, destination] = Sender()
            else:
                sender.idle_ns = None
        for destination, sender in senders.items():
            if sender.idle_ns is None and destination not in waiting:
                sender.idle_ns = now_ns
                if sender.lease is not None and now_ns + self.lease_ns < sender.look_ns:
                    self._look_later((node, destination), sender)

    def _grant(self, key: Key, sender: Sender, rate_bps: int, length_ns: int | None = None) -> None:
        """Grants a lease, as long as that of a new rate unless it is told how long."""
        number, end_ns = self.numbers.take(self._now_ns), self._now_ns + (length_ns or self._length_ns)
        sender.lease = self._granted[key] = Slot(number, *key, self._now_ns, end_ns, 0, rate_bps, rate_bps)
        self._look_later(key, sender)

    def _forget(self, key: Key, *, revoke: bool) -> None:
        """Makes a pair no sender any more, and ends its lease."""
        self._senders[key[0]].pop(key[1], None)
        sender = self._begun.pop(key, None)
        if sender is not None and sender.lease is not None and revoke:
            self._revoked.append(sender.lease)
        self._stale = True


def _is_promised(sender: Sender, rate_bps: int, share_bps: int) -> bool:
    """Whether a sender's rate, or what was promised to it, is its share, at least after what is more was taken off the promise.
    What was promised is within the shares of then, and keeps its time."""
    rise = sender.rise
    if share_bps <= rate_bps:
        sender.rise = None
    elif rise is None or rise.to_bps <= rate_bps:
        return False
    elif share_bps <= rise.to_bps:
        rise.to_bps, rise.then_bps = share_bps, 0
    elif share_bps <= rise.then_bps:
        rise.then_bps = share_bps
    else:
        return False
    return True
