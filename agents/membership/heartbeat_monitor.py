"""When the agent last heard the leader, and when it must read the waiting heartbeats. Pure.

A host with slots wakes for those, hundreds of times a second. To wake for each heartbeat too would cost as much again, and all
hosts would do so at the same moment. So heartbeats wait in the socket (`ControlSocket.deferred_frames`), each with the time at
which it came, and the agent reads them when it is awake for something else. Before it takes the leader for silent, it reads
them once more. A heartbeat that opens every gate (the operator's override) does not wait.
"""

from __future__ import annotations

from protocol.messages import HEARTBEAT_MAC, Frame, Heartbeat

LATEST_NS = 20_000_000
"""After how long an agent wakes up to read the waiting heartbeats. One that is awake reads them after half of that."""
MOST_NS, HEARTBEATS, PARTS = 1_000_000_000, 4, 5
"""Where the leader may be silent for longer, it wakes up after two of so many parts of that time, but within a second, or so
many heartbeats if these take longer."""


class HeartbeatMonitor:
    """Of one agent. Times are ns of its monotonic clock."""

    def __init__(self) -> None:
        self.last_heartbeat_ns = 0
        """When the newest frame of the leader's came: every verified one, not only a HEARTBEAT, shows that it is alive."""
        self.last_answer_ns = 0
        """When the newest one came that went to this host alone."""
        self.looked_ns = 0
        self.within_ns = LATEST_NS
        self._newest = 0

    def due(self, now_ns: int) -> bool:
        """Whether an agent that is awake is to read the waiting heartbeats now."""
        return now_ns >= self.looked_ns + self.within_ns // 2

    def latest_ns(self) -> int:
        """When the agent must wake up to read them."""
        return self.looked_ns + self.within_ns

    def patience(self, fail_open_ns: int, heartbeat_ns: int) -> None:
        """How long the leader may be silent, and how often it speaks: the less often an agent wakes up to read what waits."""
        most_ns = max(MOST_NS, HEARTBEATS * heartbeat_ns)
        self.within_ns = max(LATEST_NS, min(most_ns, 2 * fail_open_ns // PARTS))

    def looked(self, now_ns: int) -> int:
        """Notes that the agent reads all that waited; returns since when (ns) a frame can have waited at most: the last look.

        The time at which a frame came is the wall clock's, which may have been set meanwhile: this bounds it.
        """
        before_ns, self.looked_ns = self.looked_ns, now_ns
        return before_ns

    def heard(self, frame: Frame, came_ns: int) -> bool:
        """Notes a verified frame of the leader's; False: it is a heartbeat older than the newest one, and must be ignored."""
        self.last_heartbeat_ns = max(self.last_heartbeat_ns, came_ns)
        if type(frame.message) is not Heartbeat:
            if frame.destination != HEARTBEAT_MAC:
                self.last_answer_ns = came_ns
            return True
        newer = frame.sequence > self._newest
        self._newest = max(self._newest, frame.sequence)
        return newer

    def answered(self, came_ns: int) -> None:
        """Notes verified frames of the leader's to this host alone, the newest of which came at `came_ns`."""
        self.last_heartbeat_ns = max(self.last_heartbeat_ns, came_ns)
        self.last_answer_ns = came_ns

    def new_leader(self) -> None:
        """Forgets the newest sequence number: another leader has its own."""
        self._newest = 0
