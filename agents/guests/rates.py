"""How many requests each guest may make: a token bucket for each port of the bridge. Pure."""

from __future__ import annotations

from protocol.units import SECOND_NS

PER_SECOND, BURST = 20, 40
MOST_BUCKETS = 4096
_FULL_NS = BURST * SECOND_NS // PER_SECOND


class Rates:
    """A bucket for each key, in virtual-scheduling form (ITU-T I.371, annex A): when the bucket would be full again."""

    def __init__(self) -> None:
        self._full_ns: dict[int, int] = {}

    def take(self, key: int, now_ns: int) -> bool:
        """Takes a token; returns False if there is none."""
        full_ns = max(self._full_ns.get(key, 0), now_ns) + SECOND_NS // PER_SECOND
        if full_ns - now_ns > _FULL_NS:
            return False
        if key not in self._full_ns and len(self._full_ns) >= MOST_BUCKETS:
            self._full_ns = {one: when for one, when in self._full_ns.items() if when > now_ns}
            if len(self._full_ns) >= MOST_BUCKETS:
                return False
        self._full_ns[key] = full_ns
        return True
