"""The leading controller's machine dies under load: how soon the standby leads, and every host is coordinated again.

Method: the emulated star under two controllers that share a store; two UDP senders at full speed, three long TCP flows. In the
middle every process of the leader (supervisor, OpenFlow application, coordinator and its helpers) gets SIGKILL, so that nobody
can give its lease back. tcpdump at the hosts sees when the standby first speaks; the agents log when they obeyed again and when
they opened the first slot of the new leader. What agents accepted is found by running their guard over the captured frames.
"""

from __future__ import annotations

import signal
import time
from typing import Any

from bench.coordination.two_controllers import first_after, granters, slowest_ms, two_controllers
from emulation.measuring.fidelity import environment
from emulation.stack.standby import signal_all
from emulation.stack.star import BOTTLENECK, SENDERS, mixed_flows
from emulation.traffic import experiment

KILL_AFTER_S = 2.0
BUCKET_NS = 100_000_000
RECOVERED = 40
"""A TCP connection that carried nothing in so many last buckets counts as lost: one that starved among floods sends again when
its retransmission timer says so."""


def run(duration_s: float = 9.0) -> dict[str, Any]:
    """Times in ms after the kill, the slowest host's."""
    with two_controllers() as two:
        killed: list[int] = []
        before = two.baton.store.leader()

        def kill() -> None:
            nonlocal before
            before = two.baton.store.leader()
            killed.append(signal_all(two.directory(before["name"] if before else ""), signal.SIGKILL))

        with two.capture() as capture:
            outcome = experiment.run(
                two.emulated,
                mixed_flows(2),
                duration_s=duration_s,
                warmup_s=2,
                bottlenecks=[BOTTLENECK],
                host_queues=False,
                bucket_ns=BUCKET_NS,
                events=[(KILL_AFTER_S, kill)],
            )
        heard, status, after = capture.heard(), two.baton.status(), two.leader()
        obeys = [event["at_ms"] for event in two.baton.store.events() if event["kind"] == "role"]
        restarted = sum(process.poll() is not None for process in two.baton.agents.values())
        agents = two.baton.stop_agents()
    at_ns = killed[0]
    killed_ms = (time.time_ns() - time.monotonic_ns() + at_ns) // 10**6
    assert before is not None, "somebody led"
    speaks = next((each.at_ns for each in heard if each.epoch > before["epoch"]), None)

    def slowest(log: str) -> float | None:
        return slowest_ms([first_after(agents[host][log], at_ns) for host in SENDERS], at_ns)

    return {
        "standby_leads": after not in ("", before["name"]),
        "standby_speaks_after_ms": slowest_ms([speaks], at_ns),
        "free_after_ms": slowest("released_ns"),
        "member_again_after_ms": slowest("obeyed_ns"),
        "coordinated_again_after_ms": slowest("first_slot_ns"),
        **granters(heard),
        "leader_epochs": [before["epoch"], status["epoch"]],
        "switch_obeys_after_ms": next((at_ms - killed_ms for at_ms in obeys if at_ms > killed_ms), None),
        "agents_restarted": restarted,
        "tcp_flows": sum(each.flow.kind == "tcp" for each in outcome.flows),
        "tcp_flows_lost": sum(each.flow.kind == "tcp" and not any(each.buckets[-RECOVERED:]) for each in outcome.flows),
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "drops": outcome.drops,
        "valid": outcome.valid,
        "environment": environment(),
    }
