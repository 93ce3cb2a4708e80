"""Versions of the wire: those that this Baton speaks, how two ends agree on one, and what to tell of an end that speaks none of
them. Pure.

Hosts of a fabric are upgraded one by one, so a version is spoken until the one after the next has come. CONTRIBUTING.md says
how to make another.
"""

from __future__ import annotations

from typing import NamedTuple

TOLD_NS = 60_000_000_000
"""How often an operator hears of a version that is not spoken."""


class Versions(NamedTuple):
    """The versions that one end speaks: these two, and all between."""

    lowest: int
    highest: int

    def speaks(self, version: int) -> bool:
        """Whether this version is one of them."""
        return self.lowest <= version <= self.highest

    def agreed(self, other: Versions) -> int | None:
        """The highest version that both ends speak; None if there is none."""
        version = min(self.highest, other.highest)
        return version if version >= max(self.lowest, other.lowest) else None

    def __str__(self) -> str:
        return str(self.highest) if self.lowest == self.highest else f"{self.lowest} to {self.highest}"


SPOKEN = Versions(2, 3)
"""What this Baton speaks: the newest version, and one back."""
NEWEST = SPOKEN.highest


class Unspoken:
    """The frames of versions that this end does not speak. Nobody can verify these: they inform operators, no more."""

    def __init__(self, this: str, other: str, ours: Versions = SPOKEN) -> None:
        """`this` and `other` are what an operator knows the two ends by: "this agent", "the leader"."""
        self._this, self._other, self._ours = this, other, ours
        self._last: dict[int, tuple[int, bytes]] = {}
        """By version: when (ns) the last frame came, and the address that it came from."""
        self._told_ns: dict[int, int] = {}

    def heard(self, version: int, source: bytes, now_ns: int) -> str:
        """Notes a frame from this address; returns a line for the log, once a minute for each version, else an empty one."""
        self._last[version] = now_ns, source
        if now_ns - self._told_ns.get(version, -TOLD_NS) < TOLD_NS:
            return ""
        self._told_ns[version] = now_ns
        return self._line(version, source)

    def forget(self, now_ns: int) -> None:
        """Drops what is older than a minute from the `warnings`."""
        self._last = {version: last for version, last in self._last.items() if now_ns - last[0] < TOLD_NS}

    def warnings(self) -> list[str]:
        """A line for each such version: what came, and what to upgrade."""
        return [self._line(version, source) for version, (_, source) in sorted(self._last.items())]

    def _line(self, version: int, source: bytes) -> str:
        behind = self._this if version > self._ours.highest else f"{self._other} there"
        return (
            f"frames of the wire's version {version} come from {source.hex(':')}, {self._this} speaks {self._ours}: "
            f"the two do not hear each other; upgrade {behind}"
        )
