"""A leader that is stopped (SIGSTOP) under load, and goes on (SIGCONT) long after another was elected: can it grant anything?

Method: the emulated star under two controllers, one UDP sender and four TCP flows. Every process of the leader is stopped, and
continued more than a second after the standby was elected. The benchmark then counts the frames that the woken leader sent
(tcpdump at the hosts), how soon it stood down, and what it says it kept back.

The hosts' own fence protects against a leader that notices nothing. To test it, the benchmark forges that leader's grants as it
would have sent them: with the right key, from its own port and address, under its epoch. The agents' counts of refusals say
what became of the grants; null if they cannot be read.
"""

from __future__ import annotations

import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.coordination.grants import by_epoch, directives
from bench.coordination.two_controllers import TwoControllers, two_controllers
from bench.coordination.under_load import run_under_load
from controller.store.store import Store, StoreUnavailable
from emulation.measuring.fidelity import environment
from emulation.stack.standby import signal_all
from protocol.messages import Cause

STOP_AFTER_S = 2.0
ELECTED_S = 5.0
FORGED = 20
"""Grants forged for each host."""
SETTLE_S = 0.5


def run(duration_s: float = 7.0) -> dict[str, Any]:
    """What a leader that was replaced could still do."""
    with two_controllers() as two:
        times: dict[str, int] = {}
        counts: list[dict[int, int] | None] = []
        old_leader = ""

        def stop() -> None:
            nonlocal old_leader
            old_leader = two.leader()
            times["epoch"] = two.baton.status()["epoch"]
            times["stopped"] = time.monotonic_ns()
            signal_all(two.directory(old_leader), signal.SIGSTOP)

        def wake() -> None:
            two.baton.wait(lambda: two.leader() not in ("", old_leader), "the standby to lead", ELECTED_S)
            times["woken"] = time.monotonic_ns()
            signal_all(two.directory(old_leader), signal.SIGCONT)

        def forge() -> None:
            counts.append(refused(two.baton.store))
            times["forged"] = time.monotonic_ns()
            _forge(two, old_leader, times["epoch"])
            time.sleep(SETTLE_S)
            counts.append(refused(two.baton.store))

        with two.capture() as capture:
            events = [(STOP_AFTER_S, stop), (STOP_AFTER_S + 1.5, wake), (STOP_AFTER_S + 3.0, forge)]
            outcome = run_under_load(two.emulated, 1, duration_s, events=events)
        frames, status = capture.frames(), two.baton.status()
        stood_down = _stood_down(two.directory(old_leader))
        agents = two.baton.stop_agents()
    old = times["epoch"]
    late = [each for each in frames if each.epoch == old and each.at_ns > times["woken"] and each.refused is not Cause.NOT_OURS]
    own = [each for each in late if each.at_ns < times["forged"]]
    forged = [each for each in directives(late) if each.at_ns >= times["forged"]]
    woken_ms = time.time_ns() // 10**6 - (time.monotonic_ns() - times["woken"]) // 10**6
    return {
        "epochs": [old, status["epoch"]],
        "stopped_for_ms": round((times["woken"] - times["stopped"]) / 1e6, 1),
        "stood_down_after_ms": stood_down and stood_down[0] - woken_ms,
        "stood_down": stood_down and stood_down[1],
        "sent_by_the_woken_leader": len(own),
        "forged_grants": len(forged),
        "forged_grants_refused": sum(each.refused is Cause.OLD_EPOCH for each in forged),
        "refusals_counted_by_agents": newly_refused(*counts),
        **by_epoch(frames),
        "slots_of_hosts": {host: found.get("slots") for host, found in agents.items()},
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "confidence": outcome.confidence().to_dict(),
        "environment": environment(),
    }


def _stood_down(run_dir: Path) -> tuple[int, str] | None:
    """When the old leader last stood down (wall clock, ms), and why, by its log; the store may have the event later."""
    for line in reversed((run_dir / "coordinator.log").read_text().splitlines()):
        time_text, _, text = line.partition(" baton.coordinator WARNING ")
        if text.startswith("stood down"):
            return round(datetime.strptime(time_text, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000), text
    return None


def refused(store: Store) -> dict[int, int] | None:
    """How many frames of old epochs each agent (by its node id) says that it has refused; None: the store is away."""
    try:
        members = store.members()
    except StoreUnavailable:
        return None
    return {node: member["refused"].get(str(int(Cause.OLD_EPOCH)), 0) for node, member in members.items()}


def newly_refused(before: dict[int, int] | None, after: dict[int, int] | None) -> int | None:
    """How many frames all agents refused in between; None: it is not known, since not every agent's count is in both."""
    if not before or not after or before.keys() != after.keys():
        return None
    return sum(after.values()) - sum(before.values())


def _forge(two: TwoControllers, old_leader: str, epoch: int) -> None:
    baton = two.baton
    node, interface = two.attachment(old_leader)
    words = [f"{member['mac']}={node}={member['name']}" for node, member in baton.store.members().items()]
    two.emulated.run_in(
        node,
        *(sys.executable, "-m", "bench.coordination.old_leader", "--interface", interface, "--epoch", str(epoch)),
        *("--key", str(baton.key_file), "--count", str(FORGED), *words),
    )
