"""Computes thresholds from size reports, in a process of its own: solving takes a tenth of a second, a slice two milliseconds.

The coordinator and its tuner speak JSON lines over a socket pair. To the tuner, first {"bands": K, "period_ns": n, "in_force":
thresholds or null}; then {"sizes": [rate in bit/s, period in ns, rows as hex]} as the reports come, {"busiest": load of the
busiest link} after each reading of the ports, and {"in_force": thresholds} where the store tells those of the leader before
later. From it, once a period, {"tuned": ...} as `Tuning.period` returns. Reports that the tuner does not take while it solves
are lost like frames; the loads are shares of what did come. An edge: sockets, clock.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from controller.processes.jsonlines import JsonLines
from controller.processes.logs import log_to_stderr

log = logging.getLogger("baton.tuner")


def serve(connection: socket.socket) -> None:
    """Answers once a period, until the coordinator is gone."""
    from controller.priorities.tuning import Tuning, explain  # late: numpy is slow to import, see main

    lines = JsonLines(connection)
    values: Sequence[dict[str, Any]] | None = lines.read()
    while values is not None and not values:
        values = lines.read()
    if values is None:
        return
    first, period_ns = values[0], values[0]["period_ns"]
    tuning = Tuning(first["bands"], first["in_force"])
    due_ns = time.monotonic_ns() + period_ns
    values = values[1:]
    while values is not None:
        for value in values:
            tuning.take(value)
        if time.monotonic_ns() >= due_ns:
            begun_ns = time.monotonic_ns()
            due_ns = begun_ns + period_ns
            tuned = tuning.period() | {"took_ms": (time.monotonic_ns() - begun_ns) // 1_000_000}
            if tuned["changed"]:
                tuned["text"] = explain(tuned)
                log.info("%s", tuned["text"])
            lines.write({"tuned": tuned})
        wait_s = max(0, due_ns - time.monotonic_ns()) / 1e9
        values = lines.read() if select.select((connection,), (), (), wait_s)[0] else []


def main(arguments: list[str] | None = None) -> int:
    """`python -m controller.priorities.tuner --fd N`: started by the coordinator with one end of a socket pair."""
    parser = argparse.ArgumentParser(prog="tuner")
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args(arguments)
    # The coordinator may be starting at real-time priority; nothing here is urgent, numpy's import least of all.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:  # only root may raise what `nice` has lowered
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    log_to_stderr()
    serve(socket.socket(fileno=options.fd))
    return 0


if __name__ == "__main__":
    sys.exit(main())
