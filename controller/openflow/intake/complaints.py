"""What is wrong with switches, told so that one whose table is full fills no log. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.units import MILLISECOND_NS

TELL_AGAIN_NS = 60_000 * MILLISECOND_NS
"""After which the same of the same switch is told again, with the number of times."""
KINDS_MAX = 64
"""Different complaints of one switch that are told; further ones are not."""


@dataclass(slots=True)
class _Told:
    at_ns: int
    since: int = 0
    """How often it was heard, or how many were dropped, since it was told."""


class Complaints:
    """What was told of each switch (by datapath id), by their texts. Times are monotonic nanoseconds."""

    def __init__(self) -> None:
        self._told: dict[int, dict[str, _Told]] = {}

    def heard(self, dpid: int, text: str, now_ns: int) -> str | None:
        """Something is wrong with a switch, in words; what to tell of it: nothing, if the same was told lately."""
        told = self._told.setdefault(dpid, {})
        if (before := told.get(text)) is None:
            if len(told) >= KINDS_MAX:
                return None
            told[text] = _Told(now_ns)
            return text
        before.since += 1
        if now_ns - before.at_ns < TELL_AGAIN_NS:
            return None
        times, before.at_ns, before.since = before.since, now_ns, 0
        return text if times == 1 else f"{text} ({times} times)"

    def forget(self, dpid: int) -> None:
        """A switch has left."""
        self._told.pop(dpid, None)


class Drops:
    """Frames that switches dropped by a rule (whatever names it), told at once and then once in TELL_AGAIN_NS."""

    def __init__(self) -> None:
        self._told: dict[int, dict[object, _Told]] = {}

    def dropped(self, dpid: int, cause: object, count: int, now_ns: int) -> int:
        """A switch dropped so many more; how many to tell of now: none, if some were told of lately."""
        told = self._told.setdefault(dpid, {})
        if (before := told.get(cause)) is None:
            told[cause] = _Told(now_ns)
            return count
        before.since += count
        if now_ns - before.at_ns < TELL_AGAIN_NS:
            return 0
        count, before.at_ns, before.since = before.since, now_ns, 0
        return count

    def forget(self, dpid: int) -> None:
        """A switch has left."""
        self._told.pop(dpid, None)
