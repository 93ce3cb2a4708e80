"""One share-out: the shares of all senders are found, rates fall, and rises are noted, step by step. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from controller.policies.base import Network, Weights
from controller.policies.rates.agenda import Key
from controller.policies.rates.fair_share import filling
from controller.policies.rates.leases import Leases, Sender

PPM = 1_000_000
FALL_STEPS = 8
"""As how many steps a rate that falls counts: it must be told."""
MANY, REST_NS, TOLD_NS, MOST_TIMES = 1_000, 2_000, 20_000, 4
"""A share-out takes some 0.2 us a sender in C; a changed rate takes a directive, an ACK, and some 8 us of the leader."""


class ShareOut:
    """A share-out of the senders that are there when it begins, without those that end before they are collected.

    Args:
        leases: grants what falls, and notes what rises.
        headroom_ppm: the millionths of capacities and of nodes' rates that are shared out.
    """

    def __init__(self, leases: Leases, network: Network, weights: Weights, headroom_ppm: int) -> None:
        self.network = network
        """May be replaced by one that differs in capacities alone."""
        self.rest_ns = 0
        """When it has ended: for how long no other should begin."""
        self._leases, self._weights, self._headroom_ppm = leases, weights, headroom_ppm
        self._begun = list(leases.begun.items())
        self._steps = self._all_steps()

    def go_on(self, most: int) -> bool:
        """Makes steps that count as `most` all together, or a few more; returns whether any may be left."""
        while most > 0:
            if (took := next(self._steps, None)) is None:
                return False
            most -= took
        return True

    def _all_steps(self) -> Iterator[int]:
        """Grants the shares that fall, and notes the shares that rise, with the time at which they may. Gives what each step
        counts."""
        leases = self._leases
        senders: dict[Key, Sender] = {}
        shares: dict[Key, int] = {}
        for _ in self._find_shares(senders, shares):
            yield 1
        leases.new_ns = min(max(1, len(shares) // MANY), MOST_TIMES) * leases.lease_ns
        falls = 0
        rising: list[Key] = []
        for key, share_bps in shares.items():
            sender = senders[key]
            if leases.begun.get(key) is not sender:
                yield 1
            elif share_bps < sender.rate_bps(leases.now_ns):
                falls += 1
                sender.rise = None
                leases.grant(key, sender, share_bps)
                yield FALL_STEPS
            else:
                if not sender.is_promised(share_bps, leases.now_ns):
                    rising.append(key)
                yield 1
        if falls:
            leases.heard_ns = leases.horizon_ns
        for key in rising:
            if leases.begun.get(key) is senders[key]:
                leases.note_rise(key, senders[key], shares[key])
            yield 1
        self.rest_ns = max(0, len(shares) - MANY) * REST_NS + max(0, falls + len(rising) - MANY) * TOLD_NS

    def _find_shares(self, senders: dict[Key, Sender], shares: dict[Key, int]) -> Iterator[None]:
        """Collects senders, revokes leases of those without a place, and finds the shares of the others, in steps."""
        paths: dict[Key, list[Hashable]] = {}
        capacities: dict[Hashable, int] = {}
        weights: dict[Key, float] = {}
        for key, sender in self._begun:
            if self._leases.begun.get(key) is not sender:
                continue
            if (path := self._path(key, sender, capacities)) is None:
                self._leases.withdraw(sender)
            else:
                senders[key], paths[key], weights[key] = sender, path, self._weights.of(*key)
            yield
        yield from filling(paths, capacities, weights, shares)

    def _path(self, key: Key, sender: Sender, capacities: dict[Hashable, int]) -> list[Hashable] | None:
        """The links that a sender crosses, its node and its demand among them, with what there is of each; None: it has no
        place."""
        network = self.network
        try:
            rate_bps = network.node_rate_bps(key[0])
        except KeyError:
            return None
        host = ("host", key[0])
        capacities.setdefault(host, rate_bps * self._headroom_ppm // PPM)
        path: list[Hashable] = [host]
        for name in network.path(*key):
            link = ("link", name)
            if link not in capacities:
                capacities[link] = network.capacity_bps(name) * self._headroom_ppm // PPM
            path.append(link)
        if sender.wants_bps is not None:
            demand = ("demand", *key)
            capacities[demand] = sender.wants_bps
            path.append(demand)
        return path
