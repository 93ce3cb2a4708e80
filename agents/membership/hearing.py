"""When the leader was heard last, and when to look for its heartbeats. Pure.

A host with slots wakes for those, hundreds of times a second; to wake for each heartbeat too would cost as much again, and all
hosts at the same moment. So heartbeats wait in the socket (`ControlSocket.patient`), each with the time at which it came, and
are looked for in passing. Before silence is believed they are looked for once more. One that says that every gate is to be
opened does not wait.
"""

from __future__ import annotations

from protocol.messages import Frame, Heartbeat

LOOK_NS, LATEST_NS = 10_000_000, 20_000_000
"""How often heartbeats are looked for while there are other things to wake up for, and if there are not."""


class Hearing:
    """Of one agent. Times are ns of its monotonic clock."""

    def __init__(self) -> None:
        self.heard_ns = 0
        self._looked_ns = 0
        self._newest = 0

    def due(self, now_ns: int) -> bool:
        """Whether to look, being awake."""
        return now_ns >= self._looked_ns + LOOK_NS

    def latest_ns(self) -> int:
        """When to wake up and look."""
        return self._looked_ns + LATEST_NS

    def looked(self, now_ns: int) -> int:
        """Everything that waited is taken now; how long it can have waited, whatever a wall clock says that was set."""
        before_ns, self._looked_ns = self._looked_ns, now_ns
        return now_ns - before_ns

    def heard(self, frame: Frame, came_ns: int) -> bool:
        """Takes down that a frame of the leader's came; False: it is a heartbeat older than the newest, and says nothing."""
        self.heard_ns = max(self.heard_ns, came_ns)
        if type(frame.message) is not Heartbeat:
            return True
        newer = frame.sequence > self._newest
        self._newest = max(self._newest, frame.sequence)
        return newer

    def new_leader(self) -> None:
        """Its sequence numbers are others."""
        self._newest = 0
