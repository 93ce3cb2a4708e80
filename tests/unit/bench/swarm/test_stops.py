"""The longest stops of the coordinator, without what the machine stood meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from bench.swarm.stops import MACHINE_NS, longest_ns, watched

MS = 1_000_000
TAKE = f"""
import os, time
os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
end_ns = time.monotonic_ns() + {20 * MS}
while time.monotonic_ns() < end_ns:
    pass
"""
"""Takes a processor from all others for 20 ms, as a virtual machine's host does."""


@pytest.mark.parametrize(
    ("spans", "without", "longest"),
    [
        ([], [], 0),
        ([(0, 5), (10, 17)], [], 7),
        ([(0, 5), (10, 17)], [(9, 12)], 5),
        ([(0, 10)], [(2, 4), (3, 6), (8, 20)], 4),
        ([(0, 10)], [(-5, 30)], 0),
        ([(0, 10)], [(8, 9), (1, 2), (1, 9)], 2),
        ([(0, 10), (20, 26)], [(-5, 0), (10, 20)], 10),
    ],
)
def test_of_a_stop_counts_what_no_other_covers(
    spans: list[tuple[int, int]], without: list[tuple[int, int]], longest: int
) -> None:
    assert longest_ns(spans, without) == longest


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a thread of real-time priority")
def test_a_processor_that_stood_is_seen() -> None:
    with watched() as stood:
        began_ns = time.monotonic_ns()
        subprocess.run([sys.executable, "-ISc", TAKE], check=True)
        ended_ns = time.monotonic_ns()
    assert stood is not None
    inside = [(begin_ns, end_ns) for begin_ns, end_ns in stood if began_ns - MS <= begin_ns and end_ns <= ended_ns + MS]
    assert 15 * MS < longest_ns(inside) < ended_ns - began_ns + MS
    assert all(end_ns - begin_ns > MACHINE_NS for begin_ns, end_ns in stood)
