"""The role of our controller at each switch: MASTER while it leads, SLAVE while it stands by (OpenFlow 1.3.4, 6.3.5). Pure.

The leader's epoch is the generation id: a switch refuses a claim older than the newest it has heard (OFPRRFC_STALE), so an old
leader's application can't take the switches back. A slave gets no frames and may not change anything; it only keeps its
connections. While no leader is known our controller claims no role, and every controller is EQUAL, which is OpenFlow's default.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Role(Enum):
    """The role of one controller at one switch; values are OpenFlow's words."""

    EQUAL = "equal"
    MASTER = "master"
    SLAVE = "slave"


class Claim(NamedTuple):
    """A role request to a switch: the role, and the generation id (the leader's epoch)."""

    role: Role
    generation: int


class Roles:
    """One application's role, and which switches have confirmed it."""

    def __init__(self, name: str | None, *, standby: bool = False) -> None:
        """`name`: of our controller; None where there is no election: we command the switches and claim no role. As long as no
        controller leads, each one does so but a `standby`."""
        self._name = name
        self._standby = standby
        self._claim: Claim | None = None
        self._asked: dict[int, Claim] = {}
        self.confirmed: dict[int, Claim] = {}

    @property
    def acts(self) -> bool:
        """Whether we may command switches and publish what they report."""
        if self._name is None or self._claim is None:
            return not self._standby
        return self._claim.role is Role.MASTER

    @property
    def claim(self) -> Claim | None:
        """The role that we claim at every switch; None while no leader is known."""
        return self._claim

    def leader(self, holder: str, epoch: int) -> bool:
        """The store names this leader; returns whether our role has changed, and the caller has to claim it at every switch. An
        epoch not above the last one is ignored."""
        if self._name is None or (self._claim is not None and epoch <= self._claim.generation):
            return False
        self._claim = Claim(Role.MASTER if holder == self._name else Role.SLAVE, epoch)
        self._asked.clear()
        return True

    def due(self, dpid: int) -> Claim | None:
        """The claim that has not been sent to this switch yet; None if it has. The caller sends it."""
        if self._claim is None or self._asked.get(dpid) == self._claim:
            return None
        self._asked[dpid] = self._claim
        return self._claim

    def replied(self, dpid: int, claim: Claim) -> None:
        """A switch has confirmed a role."""
        self.confirmed[dpid] = claim

    def refused(self, dpid: int) -> None:
        """A switch knows a newer generation than ours: we wait until the store names its leader."""
        self.confirmed.pop(dpid, None)

    def forget(self, dpid: int) -> None:
        """A switch has left."""
        self._asked.pop(dpid, None)
        self.confirmed.pop(dpid, None)
