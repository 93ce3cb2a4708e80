"""What the steps policy knows of flows, links and steps. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from controller.policies.base import Slot

UNKNOWN = 1 << 62
"""More bytes than a host may say."""


@dataclass(slots=True, eq=False)
class Resource:
    """A directed link; the first one of a path stands for its sender, which has one slot at a time."""

    capacity: int
    awake: int = 0
    """What the flows in the queue take of it."""
    parked: deque[Flow] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Flow:
    """Large flows from one node to one destination."""

    node: int
    destination: int
    takes: tuple[tuple[Resource, int], ...] = ()
    need_bps: int = 0
    sends_bps: int = 0
    """What its packets arrive with behind its node's first link."""
    waiting: bool = False
    """Bytes wait at its node for which it has no slot."""
    left_bytes: int = UNKNOWN
    """How many."""
    regulated: bool = False
    queued: bool = False
    """In the queue, or parked."""
    awake: bool = False
    credit: float = 0.0
    loose: bool = False

    @property
    def wanted(self) -> bool:
        """Whether it may be granted a slot."""
        return self.waiting and self.regulated and bool(self.takes)


@dataclass(slots=True, eq=False)
class Step:
    """What is granted in a step: by resource what is taken, by node the slot."""

    number: int
    taken: dict[Resource, int] = field(default_factory=dict)
    slots: dict[int, tuple[Slot, Flow]] = field(default_factory=dict)

    def fits(self, flow: Flow) -> bool:
        """Whether every link of its path has room."""
        return all(self.taken.get(resource, 0) + need <= resource.capacity for resource, need in flow.takes)

    def take(self, flow: Flow, sign: int = 1) -> None:
        """Takes what a flow needs; gives it back with a `sign` of -1."""
        for resource, need in flow.takes:
            self.taken[resource] = self.taken.get(resource, 0) + sign * need
