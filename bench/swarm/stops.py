"""When the coordinator under a swarm stood still, and when a processor of the machine did. An edge: threads in C (witness.h).

A virtual machine stands now and then for milliseconds, while its host has other work to do. So a stop of a program says little,
unless it is known what the machine did meanwhile. A thread on each processor, of real-time priority, sleeps for 0.25 ms, again
and again. Where it wakes up later than `MACHINE_NS` its processor stood: the kernel's own work for frames, which alone runs
before it, is shorter. To be watched disturbs: the longest stops of the coordinator are some 0.2 ms longer then.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bench.swarm.library import I64, LIBRARY, U32

MOST = 64
MACHINE_NS = 300_000
Span = tuple[int, int]
"""From when to when, ns of the monotonic clock."""


class Stops(ctypes.Structure):
    """`struct stops` (bench/swarm/stops.h): the longest ones, in no order."""

    _fields_ = (("count", U32), ("of", I64 * 2 * MOST))

    def spans(self) -> list[Span]:
        """The stops, in the order of their beginnings."""
        return sorted((begin_ns, end_ns) for begin_ns, end_ns in self.of[: self.count])


@contextmanager
def watched() -> Iterator[list[Span] | None]:
    """Watches all processors that this process may use. The list is filled at the end of the block: when any of them stood.
    None: the system does not allow it."""
    watching = [LIBRARY.loaded().witness_make(processor) for processor in sorted(os.sched_getaffinity(0))]
    stood: list[Span] = []
    try:
        yield stood if all(watching) else None
    finally:
        for witness in filter(None, watching):
            LIBRARY.loaded().witness_end(witness, ctypes.byref(seen := Stops()))
            stood += (span for span in seen.spans() if span[1] - span[0] > MACHINE_NS)


def longest_ns(spans: Iterable[Span], without: Iterable[Span] = ()) -> int:
    """How long the longest span is; of each that counts which no span of `without` covers. 0: there are none."""
    others = sorted(without)
    return max((end_ns - begin_ns - _covered_ns(begin_ns, end_ns, others) for begin_ns, end_ns in spans), default=0)


def _covered_ns(begin_ns: int, end_ns: int, others: list[Span]) -> int:
    covered_ns, at_ns = 0, begin_ns
    for first_ns, last_ns in others:
        covered_ns += max(0, min(last_ns, end_ns) - max(first_ns, at_ns))
        at_ns = max(at_ns, last_ns)
    return covered_ns
