"""The rate limit in C: the same plans as `controller.policies.rates.policy`, which is the reference."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Mapping
from typing import NamedTuple

from controller.policies.base import Network, Slot
from controller.policies.compiled import library as compiled
from controller.policies.compiled.batches import Compiled
from controller.policies.compiled.library import at
from controller.policies.compiled.places import MOST_BPS
from controller.policies.rates.policy import STEPS_AT_ONCE, RateLimit


class Sent(NamedTuple):
    """What a node sent, as the cores take it."""

    destinations: array[int]
    rates_bps: array[int]

    @classmethod
    def of(cls, rates_bps: Mapping[int, int]) -> Sent:
        """From bit/s by destination."""
        return cls(array("I", rates_bps), array("q", [min(MOST_BPS, rate) for rate in rates_bps.values()]))

    def columns(self) -> tuple[int, int, int]:
        """How many there are, and where the columns are. They hold as long as this."""
        return len(self.destinations), self.destinations.buffer_info()[0], self.rates_bps.buffer_info()[0]


class CompiledRateLimit(Compiled):
    """Grants leases of max-min fair rates, and renews them. A `BatchPolicy`."""

    def __init__(
        self,
        *,
        lease_ns: int = 100_000_000,
        headroom: float = 0.98,
        steps_at_once: int = STEPS_AT_ONCE,
        library: ctypes.CDLL | None = None,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name; BuildError, OSError: there is no library here.

        Args:
            library: a build of the library other than this machine's own.
        """
        terms = RateLimit(lease_ns=lease_ns, headroom=headroom, steps_at_once=steps_at_once)  # raises if they are none
        self.lease_ns, self.headroom_ppm = lease_ns, terms.headroom_ppm
        library = library or compiled.RATES.loaded()
        super().__init__(library, "rates", library.rates_new(lease_ns, self.headroom_ppm, steps_at_once))

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """All shares are found anew."""
        if (recharged := self._places.recharged(network)) is not None:
            links, capacities = recharged
            with self.lock:
                self._c.rates_recharge(self._core, self._latest_ns(now_ns), len(links), at(links), at(capacities))
            self._places.begin(network)
            return
        found = self._places.find(network)
        with self.lock:
            self._c.rates_rewire(self._core, self._latest_ns(now_ns))
        first = self._places.put_in_pieces(found)
        with self.lock:
            self._c.rates_settle(self._core)
        self._places.begin(network, found, first)

    def sent(self, node: int, rates_bps: Mapping[int, int], *, now_ns: int) -> None:
        """Learns how much of their rates the node's senders can use."""
        told = Sent.of(rates_bps)
        if self._met is not None:
            self._met.sent(node, rates_bps)
        with self.lock:
            self.take_sent(node, told, self._latest_ns(now_ns))

    def take_sent(self, node: int, told: Sent, now_ns: int) -> None:
        """The same with arrays. The caller holds the lock."""
        self._c.rates_sent(self._core, now_ns, node, *told.columns())

    def left(self, node: int, *, now_ns: int) -> None:
        """Revokes the rates of the node and towards it; the others share them."""
        if self._met is not None:
            self._met.left(node)
        with self.lock:
            self._c.rates_left(self._core, self._latest_ns(now_ns), node)

    def late_matters(self, slot: Slot) -> bool:
        """No: the rate before it is still in force."""
        return False
