"""The queues behind a destination's gate, one for each V2V flow, as messages that make them. Pure.

    gate N: -> 4000+N: htb -> a class with a pfifo for each V2V flow

No class is ever short of tokens, so HTB only orders them: by `prio`, and within one priority by equal quanta, in turn.
Without priorities all classes have the same `prio`. With priorities, each one that a V2V flow uses has a class of its own, and
filters send the flow's packets there by their DSCP. Until these classes exist, packets use the shared classes, one for each
priority. A packet with another DSCP has the lowest priority.
"""

from __future__ import annotations

from agents.kernel import qdiscs
from agents.kernel.qdiscs import Address

INNER = 0x4000
FREE_BPS = 100_000_000_000
FREE_BURST = 1 << 20
FLOW_PACKETS = 1000
DSCP_PREFERENCES = {4: 0xFFF0, 6: 0xFFF1}
"""Preference, by IP version, of filters by DSCP alone: after those of V2V flows, which have their class' minor number."""

Flow = tuple[Address, Address, int]
"""A V2V flow (source, target) and a priority of it, 0 the highest."""


class FlowQueues:
    """The queues of one destination node. `dscp`: the codepoint of each priority, highest first; empty for no priorities."""

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
        """The flows that have a queue of their own."""
        return list(self._minors)

    def creation(self) -> list[bytes]:
        """Messages that make the HTB with its shared classes, under a gate that exists."""
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
        """Messages that make a queue for a V2V flow's packets with this DSCP; none if it has one or the DSCP is no priority."""
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
        """The priority of each class, by class id."""
        found = {self.major | priority + 1: priority for priority in range(self._shared)}
        return found | {self.major | minor: priority for (_, _, priority), minor in self._minors.items()}

    def filter_targets(self) -> list[int]:
        """The class id that each filter sends packets to, one entry for each filter."""
        shared = [minor for minor in range(1, len(self._dscp)) for _ in DSCP_PREFERENCES]
        return [self.major | minor for minor in (*shared, *self._minors.values())]
