"""How many of the frames that switches pass on are read: a budget for each port, and what each switch can pass on. Pure.

A port that passes on more than its budget is *muted* for MUTE_NS: its frames are forwarded, but the controller gets none.
`controller.openflow.discovery` mutes it, unless it is a link's, or a host there is in question.
"""

from __future__ import annotations

from controller.openflow.intake.budget import Budget
from controller.openflow.intake.hosts import PortRef
from protocol.units import MILLISECOND_NS

FRAMES_PER_S, FRAMES_AT_ONCE = 100, 500  # of unknown sources by one port; a new host sends many before its flow is there
LLDP_PER_S, LLDP_AT_ONCE = 20, 40  # by one port; we send 10 a second at most
MUTE_NS = 5_000 * MILLISECOND_NS
CROWDED_PER_S, CROWDED_PER_PORT, CROWDED_AT_ONCE = 300, 3, 75
"""Three quarters of what a switch's meter lets pass (codec.METERED_PER_S): beyond this rate it may have dropped frames."""


class FrameBudgets:
    """Counts the frames of switches and ports; `muted`: the ports of which switches pass on none, and until when (ns); `deaf`:
    those of which they pass on no LLDP. It counts for itself: a loop floods a port, and LLDP shows where it is."""

    def __init__(self) -> None:
        self.muted: dict[PortRef, int] = {}
        self.deaf: dict[PortRef, int] = {}
        self._switches: dict[int, Budget] = {}
        self._frames: dict[PortRef, Budget] = {}
        self._lldp: dict[PortRef, Budget] = {}

    def switch_has_room(self, dpid: int, ports: int, now_ns: int) -> bool:
        """Counts a frame of a switch with so many ports; returns False when its meter may have dropped some."""
        if dpid not in self._switches:
            self._switches[dpid] = Budget(CROWDED_PER_S + CROWDED_PER_PORT * ports, CROWDED_AT_ONCE)
        return self._switches[dpid].take(now_ns)

    def port_has_room(self, at: PortRef, lldp: bool, now_ns: int) -> bool:
        """Counts a frame by a port, if it is within the port's budget; returns whether it is."""
        budgets = self._lldp if lldp else self._frames
        if at not in budgets:
            budgets[at] = Budget(LLDP_PER_S, LLDP_AT_ONCE) if lldp else Budget(FRAMES_PER_S, FRAMES_AT_ONCE)
        return budgets[at].take(now_ns)

    def is_muted(self, at: PortRef, lldp: bool) -> bool:
        """Whether nothing of a port is read, or none of its LLDP."""
        return at in (self.deaf if lldp else self.muted)

    def mute(self, at: PortRef, lldp: bool, now_ns: int) -> None:
        """Mutes a port for MUTE_NS, for its LLDP or for all else."""
        (self.deaf if lldp else self.muted)[at] = now_ns + MUTE_NS

    def unmute_due(self, now_ns: int) -> int:
        """Ends what is muted long enough; returns how many ports that is."""
        count = 0
        for table in (self.muted, self.deaf):
            due = [at for at, until_ns in table.items() if now_ns >= until_ns]
            for at in due:
                del table[at]
            count += len(due)
        return count

    def port_down(self, at: PortRef) -> None:
        """Listens to a port again once it is up; its budget stays what it is."""
        self.muted.pop(at, None)
        self.deaf.pop(at, None)

    def forget_port(self, at: PortRef) -> None:
        """Forgets a port that is not there any more."""
        for table in (self.muted, self.deaf, self._frames, self._lldp):
            table.pop(at, None)

    def forget_switch(self, dpid: int) -> None:
        """Forgets a switch that has left; its ports are forgotten one by one."""
        self._switches.pop(dpid, None)
