"""The store killed with SIGKILL under load, and started again, empty: does coordination go on, and is all there again?

Method: the emulated star under two controllers and five UDP senders. An operator's own process sets a longer slice and a free
override, takes the latter back, and ends; so nobody but the controllers knows. Then Redis is killed, and started two seconds
later without any data. tcpdump at the hosts counts the directives of every tenth of a second: from memory as many as before.
Another leader, a change of epoch or a drop at the bottleneck would show that something wrong was granted.
"""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from typing import Any

from bench.coordination.two_controllers import Two, granters, grants, two_controllers, undisturbed
from controller.store.store import Store
from emulation.measuring.fidelity import environment
from emulation.stack.control_capture import Heard
from emulation.stack.star import BOTTLENECK, mixed_flows
from emulation.traffic import experiment
from protocol.messages import Heartbeat

KILL_AFTER_S, AWAY_S = 2.0, 2.0
BUCKET_NS = 100_000_000
SLICE_NS = 3_000_000
BACK_S = 10.0
KEYS = ("fabric", "status", "policy", "override", "leader", "members", "controllers")


def run(duration_s: float = 7.0) -> dict[str, Any]:
    """What hosts heard while the store was away, and what it holds after."""
    with two_controllers() as two:
        _operate(two)
        two.baton.wait(lambda: set(_held(two)) == set(KEYS), "the store to hold everything")
        before = two.baton.status()
        held = _held(two)
        times: dict[str, int] = {}

        def kill() -> None:
            assert two.redis.process is not None
            times["killed"] = time.monotonic_ns()
            os.kill(two.redis.process.pid, signal.SIGKILL)
            two.redis.process.wait()

        def start() -> None:
            two.redis.start()
            assert two.redis.process is not None
            undisturbed(two.redis.process.pid)
            times["back"] = time.monotonic_ns()

        with two.capture() as capture:
            outcome = experiment.run(
                two.emulated,
                mixed_flows(5),
                duration_s=duration_s,
                warmup_s=2,
                bottlenecks=[BOTTLENECK],
                host_queues=False,
                events=[(KILL_AFTER_S, kill), (KILL_AFTER_S + AWAY_S, start)],
            )
        two.baton.wait(lambda: set(held) <= set(_held(two)), "all that the store held to be there again", BACK_S)
        heard, after = capture.heard(), two.baton.status()
        policy, override = two.baton.store.policy() or {}, two.baton.store.override()
        stands_by = not two.standby.leads()
    return {
        "away_ms": round((times["back"] - times["killed"]) / 1e6, 1),
        "directives_per_s": {
            "before": rate(heard, times["killed"] - 1_500_000_000, times["killed"]),
            "away": rate(heard, times["killed"], times["back"]),
            "after": rate(heard, times["back"], times["back"] + 1_500_000_000),
        },
        "longest_silence_ms": _longest_silence_ms(heard, times["killed"], times["back"] + 1_500_000_000),
        "epochs": [before["epoch"], after["epoch"]],
        "the_standby_stood_by": stands_by,
        "operators_policy_kept": policy.get("slice_ns") == SLICE_NS == after["slice_ns"],
        "override": override,
        "held_before": held,
        "held_after": "all of it",
        "granters": granters(heard),
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "drops": outcome.drops,
        "valid": outcome.valid,
        "environment": environment(),
    }


def _operate(two: Two) -> None:
    operator = Store(two.redis.url)
    operator.set_policy({**(operator.policy() or {}), "slice_ns": SLICE_NS})
    for word in ("free", "coordinate"):
        operator.set_override(word)
        two.baton.wait(lambda word=word: two.baton.status().get("override") == word, f"the override {word}")  # type: ignore[misc]
    operator.close()
    two.baton.wait(lambda: two.baton.status().get("slice_ns") == SLICE_NS, "the operator's slice")


def _held(two: Two) -> list[str]:
    store = two.baton.store
    found = {
        "fabric": store.fabric(),
        "status": store.status(),
        "policy": store.policy(),
        "override": store.override(),
        "leader": store.leader(),
        "members": len(store.members()) == len(two.baton.agents),
        "controllers": len(store.controllers()) == 2,
    }
    return [key for key in KEYS if found[key]]


def rate(heard: list[Heard], from_ns: int, until_ns: int) -> float:
    """Directives per second at all hosts together."""
    count = sum(from_ns <= each.at_ns < until_ns for each in grants(heard))
    return round(count / ((until_ns - from_ns) / 1e9), 1)


def _longest_silence_ms(heard: list[Heard], from_ns: int, until_ns: int) -> float:
    """Between two heartbeats at one host."""
    longest = 0
    for host in {each.host for each in heard}:
        times = [each.at_ns for each in heard if each.host == host and isinstance(each.message, Heartbeat)]
        within = [from_ns, *(at_ns for at_ns in times if from_ns <= at_ns < until_ns), until_ns]
        longest = max(longest, *(after - before for before, after in pairwise(within)))
    return round(longest / 1e6, 1)
