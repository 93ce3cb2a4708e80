"""How late a sleeping program of real-time priority is woken, while something is measured. An edge: a program.

    python -IS bench/host_control/lateness.py SECONDS

Prints a line when it is ready and begins when it reads one, so that its own start is no lateness of a timer; prints the sorted
lateness (ns) as JSON at the end. Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

READY = "ready"
INTERVAL_NS = 5_000_000
PRIORITY = 50


def measure(seconds: float) -> list[int]:
    """For so long, once in `INTERVAL_NS`."""
    late = []
    now_ns = time.monotonic_ns()
    end_ns = now_ns + round(seconds * 1e9)
    while (due_ns := now_ns + INTERVAL_NS) < end_ns:
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)
        now_ns = time.monotonic_ns()
        late.append(now_ns - due_ns)
    return sorted(late)


def main() -> None:
    """The program."""
    with contextlib.suppress(PermissionError):  # measured without, then
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    print(READY, flush=True)
    input()
    print(json.dumps(measure(float(sys.argv[1]))))


if __name__ == "__main__":
    main()
