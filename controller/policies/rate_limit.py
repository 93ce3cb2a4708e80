"""The rate limit: everybody who waits sends at once, at a max-min fair share of the links it crosses. Pure.

XCo's simple version divides the bottleneck's capacity by the number of its senders: that is the case of one bottleneck. In
general the shares are found by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): all rates grow together,
in proportion to their weights, until a link is full; those that cross it are fixed, and the others grow on.

A rate is a lease, renewed when half of it is over, for as long as the pair was backlogged within the last lease: a pair that
its rate suffices has an empty queue most of the time. When the set of senders changes, only rates that change are granted
again, under a new number. Those that become less begin now, those that become more (and new ones, where others had to give
way) when the horizon is reached: so that at no instant more is granted than a link carries, once the less is heard of.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from fractions import Fraction

from controller.policies.base import Network, Plan, Policy, Regulated, Slot, SlotNumbers, Weights

Key = tuple[int, int]
"""(node, destination)."""
PPM = 1_000_000


class RateLimit(Policy):
    """Leases of max-min fair rates. See the module's docstring."""

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
        self._numbers = SlotNumbers()
        self._backlogs: dict[int, frozenset[int]] = {}
        self._waited_ns: dict[Key, int] = {}
        """When each sender last had a backlog."""
        self._leases: dict[Key, Slot] = {}
        self._superseded: dict[Key, Slot] = {}
        """Leases that go on until one with a higher rate, not begun yet, takes over."""
        self._revoked: list[Slot] = []
        self._shares: dict[Key, int] = {}
        self._stale = True

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """All shares are found anew."""
        self._network = network
        self._stale = True

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Leases of pairs that are no longer regulated are revoked."""
        self._regulated = pairs
        self._drop({key for key in self._waited_ns if key[1] not in pairs.get(key[0], ())})
        self._note(now_ns)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Takes part in the shares from the next `plan` on."""
        self._weights.set(node, destination, weight)
        self._stale = True

    def backlog(self, node: int, backlog: Mapping[int, int], *, now_ns: int) -> None:
        """A destination that waits no more keeps its rate until the lease after."""
        self._note(now_ns)
        self._backlogs[node] = frozenset(destination for destination, size in backlog.items() if size > 0)
        self._note(now_ns)

    def yielded(self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0) -> None:
        """A rate given back ends at once, and the others have it."""
        lease = self._leases.get((node, destination))
        if lease is None or lease.slot != slot:
            return
        self._backlogs[node] = self._backlogs.get(node, frozenset()) - {destination}
        self._forget({(node, destination)})
        if backlog_bytes > 0:
            self._backlogs[node] |= {destination}
            self._note(now_ns)

    def left(self, node: int, *, now_ns: int) -> None:
        """Rates of and towards the node are revoked; the others have them."""
        self._backlogs.pop(node, None)
        for other, waiting in self._backlogs.items():
            self._backlogs[other] = waiting - {node}
        self._drop({key for key in self._waited_ns if node in key})

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Grants what changed, and renews what is half over by the horizon."""
        self._note(now_ns)
        ended = (key for key, lease in self._leases.items() if lease.end_ns <= now_ns)
        self._forget({key for key in ended if self._waited_ns[key] + self.lease_ns <= now_ns})
        revoked, self._revoked = self._revoked, []
        if self._network is None:
            return Plan([], revoked)
        if self._stale:
            self._stale = False
            self._shares = self._fair_shares(self._network)
        less: list[Slot] = []
        more: list[tuple[Key, int]] = []
        for key, share in self._shares.items():
            lease = self._leases.get(key)
            if lease is None or lease.end_ns <= now_ns or share > lease.reserved_bps:
                more.append((key, share))
            elif share < lease.reserved_bps:
                less.append(self._grant(key, share, now_ns, now_ns))
            elif self._renew_ns(lease) <= horizon_ns and self._waited_ns[key] + self.lease_ns > now_ns:
                less.append(self._grant(key, share, max(now_ns, lease.start_ns), now_ns))
        start_ns = now_ns
        if any(slot.reserved_bps < 0 for slot in less):
            start_ns = horizon_ns
        return Plan(less + [self._grant(key, share, start_ns, now_ns) for key, share in more], revoked)

    def next_event_ns(self) -> int | None:
        """When the next lease is half over, or over for one that is not renewed."""
        return min((self._due_ns(key, lease) for key, lease in self._leases.items()), default=None)
