"""Which controller a switch obeys: MASTER for the one that leads, SLAVE for those that stand by (OpenFlow 1.3.4, 6.3.5). Pure.

The leader's epoch is the generation id: a switch refuses a claim older than the newest it has heard (OFPRRFC_STALE), so an old
leader's application can't take the switches back. A slave sees no frames and may not change anything; it only keeps its
connections. While nothing is known of a leader nothing is claimed, and every controller is EQUAL as OpenFlow has it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Role(Enum):
    """Of one controller at one switch; values are OpenFlow's words."""

    EQUAL = "equal"
    MASTER = "master"
    SLAVE = "slave"


class Claim(NamedTuple):
    """What is asked of a switch."""

    role: Role
    generation: int


class Roles:
    """One application's role, and how far every switch has confirmed it."""

    def __init__(self, name: str | None, *, standby: bool = False) -> None:
        """`name`: of our controller; None where there is no election: switches are commanded without claims. So they are as
        long as nobody leads, but not by a `standby`."""
        self._name = name
        self._standby = standby
        self._claim: Claim | None = None
        self._asked: dict[int, Claim] = {}
        self.confirmed: dict[int, Claim] = {}

    @property
    def acts(self) -> bool:
        """Whether we may command switches and publish what they say."""
        if self._name is None or self._claim is None:
            return not self._standby
        return self._claim.role is Role.MASTER

    @property
    def claim(self) -> Claim | None:
        """What is claimed at every switch."""
        return self._claim

    def leader(self, holder: str, epoch: int) -> bool:
        """Who leads now, as the store says; returns whether it is other than before for us: claim anew, begin or end to act.
        An epoch lower than one heard of before is old news."""
        if self._name is None or (self._claim is not None and epoch <= self._claim.generation):
            return False
        self._claim = Claim(Role.MASTER if holder == self._name else Role.SLAVE, epoch)
        self._asked.clear()
        return True

    def due(self, dpid: int) -> Claim | None:
        """What to ask of a switch now; it counts as asked."""
        if self._claim is None or self._asked.get(dpid) == self._claim:
            return None
        self._asked[dpid] = self._claim
        return self._claim

    def replied(self, dpid: int, claim: Claim) -> None:
        """A switch has confirmed a role."""
        self.confirmed[dpid] = claim

    def refused(self, dpid: int) -> None:
        """A switch knows a newer generation than we: we wait for the store to tell us of it."""
        self.confirmed.pop(dpid, None)

    def forget(self, dpid: int) -> None:
        """A switch has left."""
        self._asked.pop(dpid, None)
        self.confirmed.pop(dpid, None)
