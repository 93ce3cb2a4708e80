"""The queues behind a destination's gate, one for each V2V flow, as messages that make them. Pure.

    gate N: -> 4000+N: htb -> a class with a pfifo for each V2V flow

No class is ever short of tokens, so HTB only orders them: by `prio`, and within one priority by equal quanta, in turn.
Without priorities all classes have the same `prio`. With priorities, each one that a V2V flow uses has a class of its own, and
filters send the flow's packets there by their DSCP. Until these classes exist, packets use the shared classes, one for each
priority. A packet with another DSCP has the lowest priority.

A tenant can make up as many sources as there are addresses. So there are MOST_FLOWS queues at most; the packets of further
flows stay in the shared classes, and queues through which nothing passes make room.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from agents.kernel import qdiscs
from agents.kernel.qdiscs import Address

INNER = 0x4000
FREE_BPS = 100_000_000_000
FREE_BURST = 1 << 20
FLOW_PACKETS = 1000
MOST_FLOWS = 512
"""Of one destination; for further flows, `MOST_LEFT_OUT` of which are remembered, there is no queue. The kernel has 2,047
numbers for the u32 filters of a qdisc that have preferences of their own (net/sched/cls_u32.c), and refuses more."""
MOST_LEFT_OUT = 512
LOOKED_AT = 32
"""So many queues are looked at in turn for idleness, once a look at the destination."""
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
        self._free: list[int] = []
        self._left_out: dict[tuple[Address, Address], None] = {}
        self.crowded = False
        """Whether further flows found no room and were not remembered, either: none of them asks for a queue again."""
        self._seen: dict[Flow, tuple[int, int]] = {}
        """How many bytes had passed when the queue was last looked at and something had passed, and when that was (ns)."""
        self._turn: list[Flow] = []
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
        """Messages that make a queue for a V2V flow's packets with this DSCP; none if it has one, the DSCP is no priority, or
        there are MOST_FLOWS."""
        if self._dscp and dscp not in self._dscp:
            return []
        priority = self._dscp.index(dscp) if self._dscp else 0
        if (source, target, priority) in self._minors:
            return []
        if len(self._minors) >= MOST_FLOWS:
            if len(self._left_out) < MOST_LEFT_OUT:
                self._left_out[source, target] = None
            else:
                self.crowded = True
            return []
        minor = heapq.heappop(self._free) if self._free else self._shared + 1 + len(self._minors)
        self._minors[source, target, priority] = minor
        classid = self.major | minor
        only = dscp if self._dscp else None
        return [
            *self._class(minor, priority),
            qdiscs.flow_filter(self._ifindex, self.major, minor, source, target, classid, dscp=only),
        ]

    def to_look_at(self) -> Iterator[tuple[Flow, int]]:
        """The next `LOOKED_AT` flows in turn, with the class id of each; none while less than half of the room is taken."""
        if len(self._minors) < MOST_FLOWS // 2:
            return
        self._turn = self._turn or list(self._minors)
        now, self._turn = self._turn[:LOOKED_AT], self._turn[LOOKED_AT:]
        for flow in now:
            if flow in self._minors:
                yield flow, self.major | self._minors[flow]

    def idle(self, flow: Flow, passed: int, waiting: int, now_ns: int, idle_ns: int) -> bool:
        """Whether nothing has passed a flow's queue for `idle_ns`, and nothing waits there."""
        before = self._seen.get(flow)
        if before is None or waiting or passed != before[0]:
            self._seen[flow] = passed, now_ns
            return False
        return now_ns - before[1] >= idle_ns

    def remove(self, flow: Flow) -> list[bytes]:
        """Messages that remove a flow's queue."""
        minor = self._minors.pop(flow)
        self._seen.pop(flow, None)
        heapq.heappush(self._free, minor)
        return [
            qdiscs.no_u32(self._ifindex, self.major, minor, flow[1].version),
            qdiscs.no_class(self._ifindex, self.major, self.major | minor),
        ]

    def welcome_back(self) -> list[tuple[Address, Address]]:
        """The flows that found no room; they are forgotten here, so that each may ask again."""
        found, self._left_out = list(self._left_out), {}
        return found

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
