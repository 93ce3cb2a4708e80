"""The gates that are at a rate: sets them without giving away what a changed gate lets pass at once.

The kernel is behind `GateControl`; what is decided is in rate_credit.py.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.permission.rate_credit import RateCredit
from agents.permission.rules import GateControl


class RateGates:
    """An account for each destination whose gate is at a rate.

    Args:
        clock: the host's, in ns.
    """

    def __init__(self, gates: GateControl, clock: Callable[[], int]) -> None:
        self._gates = gates
        self._clock = clock
        self.accounts: dict[int, RateCredit] = {}

    def __bool__(self) -> bool:
        """Whether any gate is at a rate."""
        return bool(self.accounts)

    def set(self, destination: int, rate_bps: int) -> None:
        """Sets a gate to a rate, or leaves it as it is."""
        account = self.accounts.get(destination)
        if account is not None and account.rate_bps == rate_bps and account.whole_ns is None:
            return
        bucket_bytes = self._gates.bucket_bytes(destination, rate_bps)
        passed, _ = self._gates.state(destination)
        if account is None:
            self.accounts[destination] = RateCredit(rate_bps, bucket_bytes, passed, self._clock())
            gate_bps: int | None = rate_bps
        else:
            gate_bps = account.change(rate_bps, bucket_bytes, passed, self._clock())
        if gate_bps is not None:
            self._gates.rate(destination, gate_bps)

    def forget(self, destination: int) -> None:
        """The gate is at no rate any more; what was owed counts no more."""
        self.accounts.pop(destination, None)

    def advance(self, now_ns: int) -> None:
        """Gives the gates their rates in full that have repaid what they owed."""
        for destination, account in self.accounts.items():
            if account.whole_ns is not None and now_ns >= account.whole_ns:
                self.set(destination, account.rate_bps)
                self._gates.wake_queues()

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next; None: no gate owes anything."""
        return min((account.whole_ns for account in self.accounts.values() if account.whole_ns is not None), default=None)
