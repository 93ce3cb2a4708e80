"""An agent that polls at real-time priority, beside a program that wants the same processor: the kernel does not stop the
agent."""

from __future__ import annotations

import os
import subprocess
import sys

POLL_S = 3
HOG = "while True: pass"
POLLER = f"""
import os, time
from agents.loop.waiting import Waiting
processor = max(os.sched_getaffinity(0))
os.sched_setaffinity(0, {{processor}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
waiting = Waiting([os.pipe()[0]], os.pipe()[0])
now = time.monotonic_ns()
end = now + {POLL_S} * 10**9
longest = 0
while now < end:
    waiting.until(end, poll=True, deferred=False)
    before, now = now, time.monotonic_ns()
    longest = max(longest, now - before)
print(longest)
"""
FAIR_SERVER_NS = 50_000_000
"""The time that the kernel gives other programs at once, each second, if they got none otherwise."""


def test_it_rests_so_often_that_the_fair_server_never_takes_its_processor() -> None:
    processor = max(os.sched_getaffinity(0))
    hog = subprocess.Popen(["taskset", "--cpu-list", str(processor), sys.executable, "-c", HOG])
    try:
        done = subprocess.run([sys.executable, "-c", POLLER], capture_output=True, text=True, timeout=60, check=True)
        assert hog.poll() is None
    finally:
        hog.kill()
        hog.wait()
    assert int(done.stdout) < FAIR_SERVER_NS * 4 // 5
