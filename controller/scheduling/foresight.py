"""How far ahead slots are planned, beyond what directives take to be there. Pure.

Each plan until a nearer time makes a directive for nearly every slot. Where there are many slots and few are given back, plans
reach some slices farther, and a directive carries a host's next several slots. Who begins to want something then waits for as
much longer; and what is planned for a slot that is given back must be told anew. So slots are planned no farther ahead than
necessary where there are few, or where hosts give many back.
"""

from __future__ import annotations

from protocol.units import MILLISECOND_NS, SECOND_NS

LOOK_NS = 100 * MILLISECOND_NS
MANY = 10_000
"""Slots a second, from which on directives for each take a tenth of a processor or more."""
GIVEN_BACK = 1 / 16
"""At most this part of the slots is given back where demand is steady."""
SLICES = 2
LONGEST_NS = 40 * MILLISECOND_NS


class Foresight:
    """Looks at the counts of slots every `LOOK_NS`."""

    def __init__(self) -> None:
        self._looked_ns = 0
        self._slots = self._yields = 0
        self._steady = False
        self._until_ns = 0

    def horizon_ns(self, reach_ns: int, slice_ns: int, *, slots: int, yields: int) -> int:
        """Until when to plan (ns).

        Args:
            reach_ns: the first start that must be told now.
            slots, yields: how many were granted and given back, since the coordinator's start.
        """
        passed_ns = reach_ns - self._looked_ns
        if passed_ns >= LOOK_NS:
            granted, returned = slots - self._slots, yields - self._yields
            self._steady = granted * SECOND_NS > MANY * passed_ns and returned <= GIVEN_BACK * granted
            self._looked_ns, self._slots, self._yields = reach_ns, slots, yields
        if reach_ns >= self._until_ns:
            self._until_ns = reach_ns + (min(SLICES * slice_ns, LONGEST_NS) if self._steady else 0)
        return self._until_ns
