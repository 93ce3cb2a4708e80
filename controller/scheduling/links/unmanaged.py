"""What hosts without an agent put on links, and so what members cannot be granted there. Pure: readings in, bit/s out.

Of a directed link a reading of the switches' ports says what it carried (and dropped, where the switch counts that), what the
members before it sent, as their own ports counted, less what they report for destinations that are not behind it, and what the
ports of hosts without an agent before it received. With them:

* *Room left.* The link carried all that came: what did not come from members came from others.
* *Full.* What was dropped may not be counted anywhere. If the link then carried more than members sent into it, others do
  cross it, and may send as much as their ports received, of which at most half a link is believed: the members then leave room,
  and the next reading is exact.

So nothing is ever taken off a link before which every host is a member, and members' small flows, acknowledgements and control
frames, which their ports count, too, are never taken for others'. Others' traffic below `LEAST` of the link is left to the
policies' headroom.

*Smooth.* A single reading says little where several switches are read one after another: the less of two in a row counts. What
is taken is the most of the last second, rounded up to a hundredth of the link, and it falls by at least two hundredths at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from protocol.units import SECOND_NS

LinkT = TypeVar("LinkT", bound=Hashable)

LEAST = 0.02
FULL = 0.97
SIGN = 0.005
"""How much more than the members sent a full link carries, as a share of its capacity, if others cross it."""
STEPS = 100
FALL_STEPS = 2
MOST = 0.95
"""The share of a link that others may fill: the rest lets members show that they want more."""
HOLD_NS = SECOND_NS


class Reading(NamedTuple):
    """One link in one interval, in bit/s."""

    capacity_bps: int
    carried_bps: int
    """And dropped."""
    members_bps: int
    others_bps: int
    """What hosts without an agent before the link sent, wherever it went."""

    @property
    def estimate_bps(self) -> int:
        """What others put on the link."""
        more = max(0, self.carried_bps - self.members_bps)
        if self.carried_bps >= FULL * self.capacity_bps and more >= SIGN * self.capacity_bps:
            more = max(more, self.capacity_bps // 2)
        return min(more, self.others_bps)


@dataclass(slots=True)
class _Track:
    """What is known of one link."""

    capacity_bps: int = 1
    last_bps: int = 0
    levels: deque[tuple[int, int]] = field(default_factory=deque)
    """(when, the less of two readings in a row), of the last second."""
    taken_bps: int = 0

    def read(self, estimate_bps: int, now_ns: int) -> None:
        level, self.last_bps = min(estimate_bps, self.last_bps), estimate_bps
        self.levels.append((now_ns, level))
        while self.levels[0][0] < now_ns - HOLD_NS:
            self.levels.popleft()
        most_bps = max(bps for _, bps in self.levels)
        step_bps = max(1, self.capacity_bps // STEPS)
        if most_bps < LEAST * self.capacity_bps:
            self.taken_bps = 0
            return
        wanted_bps = min(-(-most_bps // step_bps) * step_bps, int(MOST * self.capacity_bps))
        if wanted_bps > self.taken_bps or wanted_bps <= self.taken_bps - FALL_STEPS * step_bps:
            self.taken_bps = wanted_bps

    @property
    def quiet(self) -> bool:
        return not self.last_bps and not any(bps for _, bps in self.levels)


class Unmanaged(Generic[LinkT]):
    """What others put on links, reading after reading."""

    def __init__(self) -> None:
        self.taken_bps: dict[LinkT, int] = {}
        """What is taken off, by link; a link of which nothing is taken is missing."""
        self._tracks: dict[LinkT, _Track] = {}

    def read(self, readings: Mapping[LinkT, Reading], now_ns: int) -> bool:
        """Takes the readings of one interval, in full: a link that is missing carries nothing of others. Returns whether what
        is taken has changed."""
        for link, reading in readings.items():
            if link in self._tracks or reading.estimate_bps:
                self._tracks.setdefault(link, _Track()).capacity_bps = reading.capacity_bps
        for link, track in list(self._tracks.items()):
            track.read(readings[link].estimate_bps if link in readings else 0, now_ns)
            if track.quiet:
                del self._tracks[link]
        before, self.taken_bps = self.taken_bps, {link: t.taken_bps for link, t in self._tracks.items() if t.taken_bps}
        return self.taken_bps != before
