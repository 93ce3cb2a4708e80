"""What a destination may have sent by its rates, so that changing them gives nothing away. Pure.

A gate at a rate is a token bucket, and a changed bucket is full (agents/queues/gates.py). Where senders come and go, rates
change hundreds of times a second, and the full buckets add up to a large part of the link: more than its headroom, so switches
drop. So this account follows what the rates allow and what was sent. What a full bucket holds beyond that is taken off the
rate of the gate, spread over `REPAY_NS`. Soon after that a whole bucket is saved up, and the gate gets its rate in full
(`whole_ns`), or before, if the rate is renewed when half a bucket is saved up.

What all senders into a link owe together waits in its buffer. Where a rate changes each 5 ms that is 1.0 ms of the link's time,
less than 100 packets at 1 Gb/s; while it was spread over 50 ms it was 5 ms.

What a larger bucket holds more, and the first one, is not owed: before a rate rises its part of the link was idle for a while,
for another host gave it back, or has heard that it must.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.units import FRAME_BYTES, MILLISECOND_NS, SECOND_NS

REPAY_NS = 6 * MILLISECOND_NS
SLOW_BUCKETS = 4
"""A slow rate, whose bucket is two packets, has the time in which it passes so many buckets."""
LEAST_PART = 8
"""A gate keeps this part of its rate, whatever is owed. And what was sent too much counts as that time at the rate at most, so
a slow rate that changes all the time, each time with two packets, is soon whole again once it stays."""
AGAIN_NS = MILLISECOND_NS
"""The least time between two looks whether a gate may have its rate in full."""


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
    whole_ns: int | None = None
    """When to call `change` with the same rate, for the gate is at less than `rate_bps`; None: it has its rate in full."""
    _gate_bps: int = field(init=False)

    def __post_init__(self) -> None:
        self._credit = self.bucket_bytes
        self._gate_bps = self.rate_bps

    def change(self, rate_bps: int, bucket_bytes: int, passed: int, now_ns: int) -> int | None:
        """Takes the rate that is told now; returns the gate's, or None if the gate is to stay as it is.

        Args:
            passed: the bytes that have passed since the gate was made.
        """
        allowed = _bytes(self.rate_bps, now_ns - self._since_ns)
        self._credit = min(self._credit + allowed - (passed - self._passed), self.bucket_bytes)
        self._credit = max(self._credit, -_bytes(self.rate_bps, _repay_ns(self.rate_bps, self.bucket_bytes)))
        self._credit += max(0, bucket_bytes - self.bucket_bytes)
        self._passed, self._since_ns = passed, now_ns
        stays, self.rate_bps, self.bucket_bytes = rate_bps == self.rate_bps, rate_bps, bucket_bytes
        if stays and self._credit < bucket_bytes // 2:
            self._plan(bucket_bytes - self._credit, now_ns)
            return None
        owed = max(0.0, bucket_bytes - self._credit)
        repaid_bps = round(owed * 8 * SECOND_NS / _repay_ns(rate_bps, bucket_bytes))
        self._gate_bps = max(1, rate_bps // LEAST_PART, rate_bps - repaid_bps)
        self._plan(bucket_bytes + owed, now_ns)
        return self._gate_bps

    def _plan(self, missing: float, now_ns: int) -> None:
        """Sets `whole_ns` to when so many bytes, and a packet more, were saved up."""
        saved_bps = self.rate_bps - self._gate_bps
        if saved_bps > 0:
            self.whole_ns = now_ns + max(AGAIN_NS, round((missing + FRAME_BYTES) * 8 * SECOND_NS / saved_bps))
        else:
            self.whole_ns = None


def _bytes(rate_bps: int, time_ns: int) -> float:
    return rate_bps * time_ns / 8 / SECOND_NS


def _repay_ns(rate_bps: int, bucket_bytes: int) -> int:
    return max(REPAY_NS, SLOW_BUCKETS * bucket_bytes * 8 * SECOND_NS // rate_bps)
