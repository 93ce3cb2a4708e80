"""The kernel's table of guests' marks, in which the tagger looks: agents/bpf/guest_marks.h. An edge."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Protocol

from agents.guests.flows import KEY, Flows
from ebpf.libbpf import BpfMap

_VALUE = struct.Struct("=QII")
_ZERO = bytes(4)


class Tables(Protocol):
    """A tagger."""

    def map(self, name: str, key_bytes: int, value_bytes: int) -> BpfMap:
        """One of its tables."""


class GuestMap:
    """Guests' marks as a tagger finds them. They go with the tagger."""

    def __init__(self, tagger: Tables) -> None:
        self._marks = tagger.map("guest_marks", KEY.size, _VALUE.size)
        self._shapes = tagger.map("guest_shapes", 4, 4)
        self._held: set[Flows] = set()
        self._in_use: Counter[int] = Counter()

    def set(self, flows: Flows, mark: int, until_ns: int) -> None:
        """Gives the flows a mark from their next packet on, until `until_ns` of the monotonic clock.

        Raises:
            BpfError: the kernel refuses it; nothing changes.
        """
        self._marks[flows.key()] = _VALUE.pack(until_ns, mark, 0)
        if flows not in self._held:
            self._held.add(flows)
            self._in_use[flows.shape] += 1
            self._say_shapes()

    def remove(self, flows: Flows) -> None:
        """From their next packet on these flows have no mark."""
        if flows in self._held:
            self._held.remove(flows)
            self._marks.remove(flows.key())
            self._in_use[flows.shape] -= 1
            self._say_shapes()

    def _say_shapes(self) -> None:
        shapes = sum(1 << shape for shape, count in self._in_use.items() if count)
        self._shapes[_ZERO] = shapes.to_bytes(4, "little")
