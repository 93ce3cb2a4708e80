"""How often something may happen: so many times at once, and so many times a second in the long run. Pure."""

from __future__ import annotations

SECOND_NS = 1_000_000_000


class Budget:
    """A token bucket, full at first. Times are integer nanoseconds of one clock."""

    __slots__ = ("_at_ns", "_burst_ns", "_each_ns", "_saved_ns")

    def __init__(self, per_s: int, burst: int) -> None:
        self._each_ns = SECOND_NS // per_s
        self._burst_ns = self._saved_ns = burst * self._each_ns
        self._at_ns: int | None = None

    def take(self, now_ns: int, times: int = 1) -> bool:
        """Whether it may happen now, so many times at once; if so it is counted."""
        if self._at_ns is not None:
            self._saved_ns = min(self._burst_ns, self._saved_ns + max(0, now_ns - self._at_ns))
        self._at_ns = now_ns
        if self._saved_ns < times * self._each_ns:
            return False
        self._saved_ns -= times * self._each_ns
        return True
