"""Whether the coordinator is alive, by what it publishes. Pure."""

from __future__ import annotations

SILENT_NS = 750_000_000
"""A coordinator that has published nothing for this long is gone, if it publishes four times a second, as it says itself: one
that publishes more seldom is gone when it has missed three times."""
PUBLISHED_NS = 2_000_000_000
"""The same limit when this server has not looked lately, and must compare the clocks of two machines."""


class Liveness:
    """Tells whether the coordinator is alive, by the version of its status."""

    def __init__(self) -> None:
        self._version = 0
        self._changed_ns = self._looked_ns = 0

    def alive(self, version: int, age_ns: int, *, now_ns: int, period_ns: int = 0) -> bool:
        """Whether the coordinator is alive.

        Args:
            version: the version of its status; 0 if there is none.
            age_ns: the age of the status, by the clocks of the coordinator and of the store.
            period_ns: how often the coordinator says that it publishes its status.
        """
        silent_ns, published_ns = max(SILENT_NS, 3 * period_ns), max(PUBLISHED_NS, 3 * period_ns)
        unseen = self._version == 0 or now_ns - self._looked_ns > silent_ns
        self._looked_ns = now_ns
        if version != self._version:
            self._version = version
            self._changed_ns = now_ns - (silent_ns if unseen and age_ns > published_ns else 0)
        return version != 0 and now_ns - self._changed_ns < silent_ns
