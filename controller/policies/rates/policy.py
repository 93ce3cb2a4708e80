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

from collections.abc import Mapping

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, Slot, SlotNumbers, Weights
from controller.policies.groups import Varied
from controller.policies.rates.leases import Leases, Sender
from controller.policies.rates.share_out import PPM, ShareOut

USED, MARGIN = 0.97, 1.06
PRESSED = 2
PATIENCE = 3
"""Reports in which a sender leaves a part of its rate unused until that part is given to others."""
STEPS_AT_ONCE = 512
"""The steps of a share-out in one plan, each of which takes 0.05 us in C, and up to 1.8 from cold caches."""
LEAST_DEMAND_PART = 100
"""A sender is left this part of its node's rate at least: with less it could not begin to grow."""
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
        self._backlogs: dict[int, frozenset[int]] = {}
        self._leases = Leases(lease_ns)
        self._stale = True
        """Whether shares are others since the last share-out began."""
        self._share_out: ShareOut | None = None
        """The one that was begun and has not ended."""
        self._rest_until_ns = 0
        """No shares are found before."""
        self._waits = False
        """Whether a plan has left them to one that may."""

    @property
    def numbers(self) -> SlotNumbers:
        """Of the leases."""
        return self._leases.numbers

    @numbers.setter
    def numbers(self, numbers: SlotNumbers) -> None:
        self._leases.numbers = numbers

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """All shares are found anew."""
        before = self._network
        if not isinstance(network, Varied) or before is None or network.differs(before) is None:
            self._share_out = None
        if self._share_out is not None:
            self._share_out.network = network
        self._network = network
        self._stale = True

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Revokes leases of pairs that are no longer regulated."""
        self._regulated = pairs
        for node, destination in self._leases.pairs():
            if destination not in pairs.get(node, NOWHERE):
                self._leases.forget((node, destination), revoke=True)
                self._stale = True
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
        sender = self._leases.begun.get((node, destination))
        lease = None if sender is None else sender.lease
        if lease is not None and (lease.slot == slot or (slot < lease.slot and not backlog_bytes)):
            self._leases.forget((node, destination), revoke=lease.slot != slot)
            self._stale = True
        self._note(node, now_ns)

    def sent(self, node: int, rates_bps: Mapping[int, int], *, now_ns: int) -> None:
        """Learns how much of their rates the node's senders can use."""
        for destination, sender in self._leases.of_node(node).items():
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

    def left(self, node: int, *, now_ns: int) -> None:
        """Revokes the rates of the node and towards it; the others share them."""
        self._backlogs.pop(node, None)
        for other, waiting in self._backlogs.items():
            if node in waiting:
                self._backlogs[other] = waiting - {node}
        self._stale |= self._leases.left(node)

    def late_matters(self, slot: Slot) -> bool:
        """No: the rate before it is still in force."""
        return False

    def _note(self, node: int, now_ns: int) -> None:
        """Brings the senders in line with a node's backlog."""
        self._stale |= self._leases.note(node, self._backlogs[node] & self._regulated.get(node, NOWHERE), now_ns)

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

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Grants the rates that change, first the ones that fall, and renews leases that are half over."""
        leases = self._leases
        leases.now_ns, leases.horizon_ns = now_ns, horizon_ns
        renewed, forgot = leases.take_due()
        self._stale |= forgot
        if self._network is not None and self._stale and self._share_out is None and now_ns >= self._rest_until_ns:
            self._stale = False
            self._share_out = ShareOut(leases, self._network, self._weights, self.headroom_ppm)
        if self._share_out is not None and not self._share_out.go_on(self.steps_at_once):
            self._rest_until_ns = now_ns + self._share_out.rest_ns
            self._share_out = None
        self._waits = self._network is not None and self._stale and self._share_out is None
        leases.rise()
        leases.renew(renewed)
        return leases.take_plan()

    def next_event_ns(self) -> int | None:
        """The time of the last plan, if it left something to do. Else when a lease is to be looked at, a rate rises, or shares
        may be found again, plus the time that the caller plans ahead: nothing is foreseen here."""
        leases = self._leases
        event_ns = leases.next_ns()
        if self._waits:
            event_ns = self._rest_until_ns if event_ns is None else min(event_ns, self._rest_until_ns)
        if self._share_out is not None or (event_ns is not None and event_ns <= leases.now_ns):
            return leases.now_ns
        return None if event_ns is None else event_ns + leases.horizon_ns - leases.now_ns
