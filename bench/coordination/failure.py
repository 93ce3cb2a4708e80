"""The coordinator killed with SIGKILL under load: how soon every host sends freely, and how soon it is coordinated again.

Method: the emulated star, five UDP senders under timeslices. The coordinator's process is killed in the middle; the agents log,
by the machine's monotonic clock, when every gate had been opened, when they began to obey again, and when they opened the
first slot of the next coordinator, which the supervisor starts.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from emulation.measuring.fidelity import environment
from emulation.stack.stack import Stack
from emulation.stack.star import BOTTLENECK, SENDERS, mixed_flows, star
from emulation.traffic import experiment

KILL_AFTER_S = 2.0


def run(duration_s: float = 6.0) -> dict[str, Any]:
    """Times in ms after the kill, the slowest host's."""
    with star(coordinator={"slice": "2ms"}) as (emulated, baton):
        killed: list[tuple[int, int]] = []
        outcome = experiment.run(
            emulated,
            mixed_flows(5),
            duration_s=duration_s,
            warmup_s=2,
            bottlenecks=[BOTTLENECK],
            host_queues=False,
            events=[(KILL_AFTER_S, lambda: killed.append(_kill(baton)))],
        )
        status = baton.status()
        restarted = sum(process.poll() is not None for process in baton.agents.values())
        agents = baton.stop_agents()
    at_ns, epoch = killed[0]
    freed = [_first_after(agents[host]["released_ns"], at_ns) for host in SENDERS]
    obeyed = [_first_after(agents[host]["obeyed_ns"], at_ns) for host in SENDERS]
    granted = [_first_after(agents[host]["first_slot_ns"], at_ns) for host in SENDERS]
    return {
        "free_after_ms": _slowest(freed, at_ns),
        "member_again_after_ms": _slowest(obeyed, at_ns),
        "coordinated_again_after_ms": _slowest(granted, at_ns),
        "epochs": [epoch, status["epoch"]],
        "agents_restarted": restarted,
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "drops": outcome.drops,
        "valid": outcome.valid,
        "environment": environment(),
    }


def _kill(baton: Stack) -> tuple[int, int]:
    status = baton.status()
    at_ns = time.monotonic_ns()
    os.kill(status["pid"], signal.SIGKILL)
    return at_ns, status["epoch"]


def _first_after(times_ns: list[int], at_ns: int) -> int | None:
    return next((time_ns for time_ns in times_ns if time_ns > at_ns), None)


def _slowest(times_ns: list[int | None], at_ns: int) -> float | None:
    """None unless every host has a time."""
    known = [time_ns for time_ns in times_ns if time_ns is not None]
    return round((max(known) - at_ns) / 1e6, 1) if len(known) == len(times_ns) else None
