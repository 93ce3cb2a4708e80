"""The coordinator killed with SIGKILL under load: how soon every host sends freely, and how soon it is coordinated again.

Method: the emulated star, five UDP senders under timeslices. The coordinator's process is killed in the middle. Each agent
logs, by the machine's monotonic clock, when it had opened every gate, when it began to obey again, and when it opened the first
slot of the next coordinator, which the supervisor starts.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from bench.coordination.under_load import recovery, run_under_load, traffic
from emulation.stack.stack import Stack
from emulation.stack.star import star

KILL_AFTER_S = 2.0


def run(duration_s: float = 6.0) -> dict[str, Any]:
    """Times in ms after the kill, of the slowest host."""
    with star(coordinator={"slice": "2ms"}) as (emulated, baton):
        killed: list[tuple[int, int]] = []
        outcome = run_under_load(emulated, 5, duration_s, events=[(KILL_AFTER_S, lambda: killed.append(_kill(baton)))])
        status = baton.status()
        restarted = sum(process.poll() is not None for process in baton.agents.values())
        agents = baton.stop_agents()
    at_ns, epoch = killed[0]
    return {
        **recovery(agents, at_ns),
        "epochs": [epoch, status["epoch"]],
        "agents_restarted": restarted,
        **traffic(outcome),
    }


def _kill(baton: Stack) -> tuple[int, int]:
    """Kills the coordinator; when (monotonic ns), and the epoch under which it led."""
    status = baton.status()
    at_ns = time.monotonic_ns()
    os.kill(status["pid"], signal.SIGKILL)
    return at_ns, status["epoch"]
