"""What a destination may have sent by its rates, so that changing them gives nothing away. Pure.

A gate at a rate is a token bucket, and a changed bucket is full (agents/queues/gates.py). Where senders come and go, rates
change hundreds of times a second, and the full buckets add up to a large part of the link: more than its headroom, so switches
drop. So this account follows what the rates allow and what was sent. What a full bucket holds beyond that is taken off the rate
of the gate, spread over `REPAY_NS`. A rate that stays is set anew when it is renewed and half a bucket is saved up.

What a larger bucket holds more, and the first one, is not owed: before a rate rises its part of the link was idle for a while,
for another host gave it back, or has heard that it must.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.units import MILLISECOND_NS, SECOND_NS

REPAY_NS = 50 * MILLISECOND_NS
LEAST_PART = 8
"""A gate keeps this part of its rate, whatever is owed. And what was sent too much counts as `REPAY_NS` of the rate at most, so
a slow rate that changes all the time, each time with two packets, is soon whole again once it stays."""


@dataclass(slots=True)
class RateCredit:
    """The account of one destination, from its first rate to its last one in a row."""

    rate_bps: int
    """The one that the host was told."""
    bucket_bytes: int
    """What the gate's bucket holds at that rate."""
    _passed: int
    """The bytes that had passed when `_credit` was found."""
    _since_ns: int
    _credit: float = field(init=False)
    """What may be sent beyond the rate; below 0: what was sent too much."""
    owes: bool = False
    """Whether the gate is at less than `rate_bps`."""

    def __post_init__(self) -> None:
        self._credit = self.bucket_bytes

    def change(self, rate_bps: int, bucket_bytes: int, passed: int, now_ns: int) -> int | None:
        """Takes the rate that is told now; returns the gate's, or None if the gate is to stay as it is.

        Args:
            passed: the bytes that have passed since the gate was made.
        """
        allowed = self.rate_bps * (now_ns - self._since_ns) / 8 / SECOND_NS
        self._credit = min(self._credit + allowed - (passed - self._passed), self.bucket_bytes)
        self._credit = max(self._credit, -self.rate_bps * REPAY_NS / 8 / SECOND_NS)
        self._credit += max(0, bucket_bytes - self.bucket_bytes)
        self._passed, self._since_ns = passed, now_ns
        stays, self.rate_bps, self.bucket_bytes = rate_bps == self.rate_bps, rate_bps, bucket_bytes
        if stays and self._credit < bucket_bytes // 2:
            return None
        owed = max(0.0, self.bucket_bytes - self._credit)
        self.owes = owed > 0
        return max(1, self.rate_bps // LEAST_PART, self.rate_bps - round(owed * 8 * SECOND_NS / REPAY_NS))
