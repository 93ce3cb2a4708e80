"""Limits how often something may be tried: token buckets by name, in bounded memory. Pure.

A bucket holds `burst` attempts and gains one each `refill_ns`. When there are more than `kept` buckets, the limiter drops the
fullest of the oldest 32, which limits least. So an attacker who tries many names never frees the name whose password is being
guessed.
"""

from __future__ import annotations

LOOKED_AT = 32


class Limiter:
    """The attempts left for each name (an address, a user)."""

    def __init__(self, *, burst: int, refill_ns: int, kept: int = 4096) -> None:
        """Raises ValueError: an argument that is not positive, by name."""
        for name, value in (("burst", burst), ("refill_ns", refill_ns), ("kept", kept)):
            if value <= 0:
                raise ValueError(f"{name} must be positive")
        self._full_ns = burst * refill_ns
        self._refill_ns = refill_ns
        self._kept = kept
        self._full_at_ns: dict[str, int] = {}
        """The time at which each bucket is full again. A name that is not here has a full bucket."""

    def wait_ns(self, name: str, *, now_ns: int) -> int:
        """Takes an attempt and returns 0; or, if none is left, returns how long to wait for one."""
        full_at_ns = max(self._full_at_ns.pop(name, now_ns), now_ns)
        full_at_ns = min(full_at_ns, now_ns + self._full_ns)  # the clock may have been set back: none is emptier than empty
        wait_ns = full_at_ns + self._refill_ns - now_ns - self._full_ns
        if wait_ns > 0:
            self._full_at_ns[name] = full_at_ns
            return wait_ns
        if len(self._full_at_ns) >= self._kept:
            first = [name for name, _ in zip(self._full_at_ns, range(LOOKED_AT), strict=False)]
            del self._full_at_ns[min(first, key=self._full_at_ns.__getitem__)]
        self._full_at_ns[name] = full_at_ns + self._refill_ns
        return 0

    def forgive(self, name: str) -> None:
        """Gives the name all its attempts back, after a correct login."""
        self._full_at_ns.pop(name, None)

    def __len__(self) -> int:
        return len(self._full_at_ns)
