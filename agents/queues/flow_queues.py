"""What stands behind a destination's gate: queues for its V2V flows, as messages that make them. Pure.

    gate N: -> 4000+N: htb -> a class with a pfifo for each V2V flow

Every class is never short of tokens, so HTB only orders them: by `prio`, and within one by equal quanta, in turn. Without
priorities all have the same. With them there is a class for each priority that a V2V flow was seen to use, and filters send
its packets there by their DSCP; first come, before these are made, as many shared classes as there are priorities. A packet of
another DSCP is of the lowest priority.
"""

from __future__ import annotations

from agents.kernel import qdiscs
from agents.kernel.qdiscs import Address

INNER = 0x4000
FREE_BPS = 100_000_000_000
FREE_BURST = 1 << 20
FLOW_PACKETS = 1000
DSCP_PREFERENCES = {4: 0xFFF0, 6: 0xFFF1}
"""Of the filters by DSCP alone, by IP version: after those of V2V flows, whose preference is their class' minor number."""

Flow = tuple[Address, Address, int]
"""A V2V flow (source, target) and a priority of it, 0 the highest."""


class FlowQueues:
    """The queues of one destination node. `dscp` has the codepoint of each priority; empty for none."""

    def __init__(self, ifindex: int, node: int, quantum: int, dscp: tuple[int, ...] = ()) -> None:
        self._ifindex = ifindex
        self._parent = node << 16 | 1
        self._quantum = quantum
        self._dscp = dscp
        self._shared = max(1, len(dscp))
        self._minors: dict[Flow, int] = {}
        self.major = (INNER | node) << 16

    @property
    def flows(self) -> list[Flow]:
        """Those that have a queue of their own."""
        return list(self._minors)

    def creation(self) -> list[bytes]:
        """Makes the HTB with its shared classes, under a gate that is there."""
        batch = [qdiscs.htb(self._ifindex, self.major, self._parent, self._shared)]
        for priority in range(self._shared):
            batch += self._class(priority + 1, priority)
        for priority, dscp in enumerate(self._dscp[:-1]):  # the last is the default
            batch += [
                qdiscs.dscp_filter(self._ifindex, self.major, preference, version, dscp, self.major | priority + 1)
                for version, preference in DSCP_PREFERENCES.items()
            ]
        return batch

    def add(self, source: Address, target: Address, dscp: int) -> list[bytes]:
        """Makes a queue for packets of a V2V flow with this DSCP; nothing if they have one, or a DSCP of no priority."""
        if self._dscp and dscp not in self._dscp:
            return []
        priority = self._dscp.index(dscp) if self._dscp else 0
        if (source, target, priority) in self._minors:
            return []
        minor = self._minors[source, target, priority] = self._shared + 1 + len(self._minors)
        classid = self.major | minor
        only = dscp if self._dscp else None
        return [
            *self._class(minor, priority),
            qdiscs.flow_filter(self._ifindex, self.major, minor, source, target, classid, dscp=only),
        ]

    def _class(self, minor: int, priority: int) -> list[bytes]:
        classid = self.major | minor
        return [
            qdiscs.htb_class(
                self._ifindex, classid, self.major,
                rate_bps=FREE_BPS, ceil_bps=FREE_BPS, prio=priority, quantum=self._quantum, burst=FREE_BURST,
            ),
            qdiscs.pfifo(self._ifindex, 0, classid, FLOW_PACKETS),
        ]  # fmt: skip

    def classes(self) -> dict[int, int]:
        """Priorities by class id, of all classes."""
        found = {self.major | priority + 1: priority for priority in range(self._shared)}
        return found | {self.major | minor: priority for (_, _, priority), minor in self._minors.items()}

    def filtered(self) -> list[int]:
        """The class id that each filter sends packets to."""
        shared = [minor for minor in range(1, len(self._dscp)) for _ in DSCP_PREFERENCES]
        return [self.major | minor for minor in (*shared, *self._minors.values())]
