"""The leading controller's machine dies under load: how soon the standby leads, and every host is coordinated again.

Method: the emulated star under two controllers that share a store; two UDP senders at full speed, three long TCP flows. In the
middle every process of the leader (supervisor, OpenFlow application, coordinator and its helpers) gets SIGKILL, so that no
process can give its lease back. tcpdump at the hosts shows when the standby first speaks; the agents log when they obeyed again
and when they opened the first slot of the new leader. Running the agents' guard over the captured frames shows what the agents
accepted.
"""

from __future__ import annotations

import signal
import time
from typing import Any

from bench.coordination.grants import by_epoch
from bench.coordination.two_controllers import two_controllers
from bench.coordination.under_load import recovery, run_under_load, slowest_ms, traffic
from emulation.stack.standby import signal_all

KILL_AFTER_S = 2.0
BUCKET_NS = 100_000_000
RECOVERED = 40
"""A TCP connection that carried nothing in this many last buckets counts as lost: one that starved among floods sends again
only when its retransmission timer fires."""


def run(duration_s: float = 9.0) -> dict[str, Any]:
    """Times in ms after the kill, of the slowest host."""
    with two_controllers() as two:
        killed: list[int] = []
        before = two.baton.store.leader()

        def kill() -> None:
            nonlocal before
            before = two.baton.store.leader()
            killed.append(signal_all(two.directory(before["name"] if before else ""), signal.SIGKILL))

        with two.capture() as capture:
            outcome = run_under_load(two.emulated, 2, duration_s, bucket_ns=BUCKET_NS, events=[(KILL_AFTER_S, kill)])
        frames, status, after = capture.frames(), two.baton.status(), two.leader()
        obeys = [event["at_ms"] for event in two.baton.store.events() if event["kind"] == "role"]
        restarted = sum(process.poll() is not None for process in two.baton.agents.values())
        agents = two.baton.stop_agents()
    at_ns = killed[0]
    killed_ms = (time.time_ns() - time.monotonic_ns() + at_ns) // 10**6
    assert before is not None, "a controller led"
    speaks = next((frame.at_ns for frame in frames if frame.epoch > before["epoch"]), None)
    return {
        "standby_leads": after not in ("", before["name"]),
        "standby_speaks_after_ms": slowest_ms([speaks], at_ns),
        **recovery(agents, at_ns),
        **by_epoch(frames),
        "leader_epochs": [before["epoch"], status["epoch"]],
        "switch_obeys_after_ms": next((at_ms - killed_ms for at_ms in obeys if at_ms > killed_ms), None),
        "agents_restarted": restarted,
        "tcp_flows": sum(each.flow.kind == "tcp" for each in outcome.flows),
        "tcp_flows_lost": sum(each.flow.kind == "tcp" and not any(each.buckets[-RECOVERED:]) for each in outcome.flows),
        **traffic(outcome),
    }
