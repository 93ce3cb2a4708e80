"""The rate limit: all pairs that wait send at once, each at a max-min fair share of the links it crosses. Pure.

XCo's simple version divides the bottleneck's capacity by the number of its senders: that is `fair_share` with one
bottleneck. Shares are of capacity x headroom, and a node's own rate is a link that all its pairs cross.

A rate is a lease, renewed when half of it is over. A new rate is for `lease_ns` mostly, so a host that missed it hears of it
again soon; each renewal is for twice as long, up to `LONGEST` times that, so rates that stay cost little. A plan renews
few at once, for thousands may be due together, and half of each is left. A pair is a *sender* from its first
backlog until it had none, and sent nothing, for `lease_ns`. Then its lease is revoked, and the others share what it had.

A host whose queue stays empty gives its rate back at once (agents/permission/rate_use.py), and the pair is a sender no more.

*Demand.* A sender wants all that it can get, until its queue stayed empty and it sent less than `USED` of its rate in
`PATIENCE` reports, one after the other: then it wants `MARGIN` times the most that it sent in them, and the others share the
rest. It wants everything again as soon as it used its rate in a report, or had a backlog at `PRESSED` reports, one after the
other: a queue that formed while a rate changed takes a while to empty, for the rate is hardly more than what comes.

When the senders change, shares are found anew, and only leases whose rate changes are granted again, each under a new
number, in place of the one before. Rates that fall do so at once. If none falls the others rise at once, else they rise when
the horizon of this `plan` is reached and the hosts have heard of the falls. So the rates in force never add up to more than a
link carries: until then every rate is within the old shares, from then on within the new ones. Where new shares are found
before that, a rise keeps its time as far as it was promised, and what it is to get more waits for the newer falls. If all of it
waited, a sender got nothing as long as shares changed more often than hosts hear of them.

To share out among thousands takes milliseconds, and to tell them more; and where thousands send, some begin or end at any time.
So after shares were found for more than `MANY` senders, or changed those of more, the next ones are found later: by `REST_NS`
for each sender beyond these, and by `TOLD_NS` for each that changed. And leases are longer in proportion, up to `MOST_TIMES`.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, Slot, SlotNumbers, Weights
from controller.policies.fair_share import max_min_fair

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
"""In one plan: leases that are renewed, rates that rise, and leases of which it is looked whether they are due. The next plan,
which is due at once, goes on."""
MANY, REST_NS, TOLD_NS, MOST_TIMES = 1_000, 2_000, 20_000, 4
"""A share-out takes some 0.4 us a sender in C; a changed rate takes a directive, an ACK, and some 8 us of the leader."""
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


class Rise(NamedTuple):
    """A rate that is to rise: as far as it was promised, and perhaps once more later. Bit/s."""

    due_ns: int
    to_bps: int
    then_ns: int = 0
    then_bps: int = 0
    """0: not once more."""


NOWHERE: frozenset[int] = frozenset()


class RateLimit(Policy):
    """Grants leases of max-min fair rates, and renews them."""

    def __init__(self, *, lease_ns: int = 100_000_000, headroom: float = 0.98) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        if lease_ns <= 0:
            raise ValueError("lease_ns must be positive")
        if not 0 < headroom <= 1:
            raise ValueError("headroom must be above 0 and at most 1")
        self.lease_ns = lease_ns
        self.headroom_ppm = round(headroom * PPM)
        self._network: Network | None = None
        self._regulated: Regulated = {}
        self._weights = Weights()
        self.numbers = SlotNumbers()
        self._backlogs: dict[int, frozenset[int]] = {}
        self._senders: dict[int, dict[int, Sender]] = {}
        """By node and destination."""
        self._leases: dict[Key, Slot] = {}
        self._rises: dict[Key, Rise] = {}
        self._heard_ns = 0
        """When the hosts have heard of the falls that were granted last."""
        self._due: list[tuple[int, int, Key]] = []
        """(when to look at a lease, its number, its pair): each half `lease_ns`."""
        self._revoked: list[Slot] = []
        self._stale = True
        self._rest_until_ns = 0
        """No shares are found before."""
        self._length_ns = lease_ns
        """Of the lease of a new rate."""
        self._waits = False
        """Whether a plan has left them to one that may."""
        self._lead_ns = 0

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """All shares are found anew."""
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
        lease = self._leases.get((node, destination))
        if lease is not None and (lease.slot == slot or (slot < lease.slot and not backlog_bytes)):
            self._forget((node, destination), revoke=lease.slot != slot)
        self._note(node, now_ns)

    def sent(self, node: int, rates_bps: Mapping[int, int], *, now_ns: int) -> None:
        """Learns how much of their rates the node's senders can use."""
        for destination, sender in self._senders.get(node, {}).items():
            lease, rate_bps = self._leases.get((node, destination)), rates_bps.get(destination, 0)
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
        self._lead_ns = horizon_ns - now_ns
        renewed = self._take_due(now_ns)
        grants: dict[Key, Slot] = {}
        self._waits = self._network is not None and self._stale and now_ns < self._rest_until_ns
        if self._network is not None and self._stale and not self._waits:
            self._stale = False
            grants = self._share_out(self._network, now_ns, horizon_ns)
        for key in [key for key, rise in self._rises.items() if rise.due_ns <= now_ns][:RISEN_AT_ONCE]:
            rise = self._rises[key]
            grants[key] = self._grant(key, rise.to_bps, now_ns)
            if rise.then_bps:
                self._rises[key] = Rise(rise.then_ns, rise.then_bps)
            else:
                del self._rises[key]
        for key in renewed:
            if key not in grants and (lease := self._leases.get(key)) is not None:
                longer = self._senders[key[0]][key[1]].idle_ns is None
                twice_ns = min(2 * (lease.end_ns - lease.start_ns), LONGEST * self._length_ns)
                length_ns = twice_ns if longer else self.lease_ns
                grants[key] = self._grant(key, lease.rate_bps, now_ns, length_ns)
        revoked, self._revoked = self._revoked, []
        return Plan(list(grants.values()), revoked)

    def next_event_ns(self) -> int | None:
        """When a lease is half over, a rate rises, or shares may be found again, plus the time that the caller plans ahead:
        nothing is foreseen here."""
        for _ in range(LOOKS_AT_ONCE):
            if not self._due or self._is_due(self._due[0]):
                break
            heapq.heappop(self._due)
        events = [rise.due_ns for rise in self._rises.values()]
        if self._due:
            events.append(self._due[0][0])
        if self._waits:
            events.append(self._rest_until_ns)
        return min(events) + self._lead_ns if events else None

    def _take_due(self, now_ns: int) -> list[Key]:
        """The senders to renew; forgets pairs that are senders no more."""
        renew: list[Key] = []
        for _ in range(LOOKS_AT_ONCE):
            if not self._due or self._due[0][0] > now_ns or len(renew) == RENEWED_AT_ONCE:
                break
            due = heapq.heappop(self._due)
            if not self._is_due(due):
                continue
            _, number, key = due
            lease, idle_ns = self._leases[key], self._senders[key[0]][key[1]].idle_ns
            half_ns = (lease.start_ns + lease.end_ns) // 2
            if idle_ns is not None and now_ns >= idle_ns + self.lease_ns:
                self._forget(key, revoke=now_ns < lease.end_ns)
            elif now_ns >= half_ns:
                renew.append(key)
            else:
                heapq.heappush(self._due, (min(now_ns + self.lease_ns // 2, half_ns), number, key))
        return renew

    def _is_due(self, due: tuple[int, int, Key]) -> bool:
        lease = self._leases.get(due[2])
        return lease is not None and lease.slot == due[1]

    def _share_out(self, network: Network, now_ns: int, horizon_ns: int) -> dict[Key, Slot]:
        """Grants the shares that fall, and notes the shares that rise, with the time at which they may."""
        shares = self._fair_shares(network)
        for key in [key for key in self._leases if key not in shares]:
            self._revoked.append(self._leases.pop(key))
        falls: dict[Key, int] = {}
        rises: dict[Key, tuple[int, int]] = {}
        for key, share in shares.items():
            lease = self._leases.get(key)
            rate_bps = lease.rate_bps if lease is not None and lease.end_ns > now_ns else 0
            if share < rate_bps:
                falls[key] = share
            elif share > rate_bps:
                rises[key] = rate_bps, share
        if falls:
            self._heard_ns = horizon_ns
        rest_ns = max(0, len(shares) - MANY) * REST_NS + max(0, len(falls) + len(rises) - MANY) * TOLD_NS
        self._rest_until_ns = now_ns + rest_ns
        self._length_ns = min(max(1, len(shares) // MANY), MOST_TIMES) * self.lease_ns
        before, self._rises = self._rises, {}
        heard_ns = max(now_ns, self._heard_ns)
        for key, (rate_bps, share) in rises.items():
            self._rises[key] = _rise(before.get(key), rate_bps, share, heard_ns)
        return {key: self._grant(key, share, now_ns) for key, share in falls.items()}

    def _fair_shares(self, network: Network) -> dict[Key, int]:
        paths: dict[Key, list[Hashable]] = {}
        capacities: dict[Hashable, int] = {}
        for node, destination in self._sender_keys():
            try:
                rate_bps = network.node_rate_bps(node)
            except KeyError:
                continue
            host = ("host", node)
            capacities[host] = rate_bps * self.headroom_ppm // PPM
            path: list[Hashable] = [host]
            for name in network.path(node, destination):
                link = ("link", name)
                if link not in capacities:
                    capacities[link] = network.capacity_bps(name) * self.headroom_ppm // PPM
                path.append(link)
            wants_bps = self._senders[node][destination].wants_bps
            if wants_bps is not None:
                demand = ("demand", node, destination)
                capacities[demand] = wants_bps
                path.append(demand)
            paths[node, destination] = path
        return max_min_fair(paths, capacities, {key: self._weights.of(*key) for key in paths})

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
                senders[destination] = Sender()
            else:
                sender.idle_ns = None
        for destination, sender in senders.items():
            if sender.idle_ns is None and destination not in waiting:
                sender.idle_ns = now_ns

    def _grant(self, key: Key, rate_bps: int, now_ns: int, length_ns: int | None = None) -> Slot:
        """Grants a lease, as long as that of a new rate unless it is told how long."""
        number, end_ns = self.numbers.take(now_ns), now_ns + (length_ns or self._length_ns)
        slot = self._leases[key] = Slot(number, *key, now_ns, end_ns, 0, rate_bps, rate_bps)
        heapq.heappush(self._due, (now_ns + self.lease_ns // 2, number, key))
        return slot

    def _forget(self, key: Key, *, revoke: bool) -> None:
        """Makes a pair no sender any more, and ends its lease."""
        self._senders[key[0]].pop(key[1], None)
        self._rises.pop(key, None)
        lease = self._leases.pop(key, None)
        if lease is not None and revoke:
            self._revoked.append(lease)
        self._stale = True


def _rise(before: Rise | None, rate_bps: int, share_bps: int, heard_ns: int) -> Rise:
    """How a rate rises to its new share. What was promised before is within the shares of then, and keeps its time; what is
    more waits until the falls of now have been heard."""
    if before is None or before.to_bps <= rate_bps:
        return Rise(heard_ns, share_bps)
    if share_bps <= before.to_bps:
        return Rise(before.due_ns, share_bps)
    return Rise(before.due_ns, before.to_bps, before.then_ns if share_bps <= before.then_bps else heard_ns, share_bps)
