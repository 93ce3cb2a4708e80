"""The store killed with SIGKILL under load, and started again, empty: does coordination go on, and is all data there again?

Method: the emulated star under two controllers and five UDP senders. A client sets a longer slice and the override `free`,
takes the override back, and ends, so that only the controllers still know what it set. Then Redis is killed, and started two
seconds later without any data. tcpdump at the hosts counts the directives: a controller that grants from memory sends as many
as before. Another leader, a change of epoch or a drop at the bottleneck would show that something wrong was granted.
"""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from typing import Any

from bench.coordination.grants import by_epoch, directives_per_s
from bench.coordination.two_controllers import TwoControllers, prioritise, two_controllers
from bench.coordination.under_load import run_under_load, traffic
from controller.store.store import Store
from emulation.stack.control_capture import CapturedFrame
from protocol.messages import Heartbeat

KILL_AFTER_S, AWAY_S = 2.0, 2.0
SLICE_NS = 3_000_000
BACK_S = 10.0
KEYS = ("fabric", "status", "policy", "override", "leader", "members", "controllers")


def run(duration_s: float = 7.0) -> dict[str, Any]:
    """What reached the hosts while the store was away, and what it holds afterwards."""
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
            prioritise(two.redis.process.pid)
            times["back"] = time.monotonic_ns()

        with two.capture() as capture:
            events = [(KILL_AFTER_S, kill), (KILL_AFTER_S + AWAY_S, start)]
            outcome = run_under_load(two.emulated, 5, duration_s, events=events)
        two.baton.wait(lambda: set(held) <= set(_held(two)), "all that the store held to be there again", BACK_S)
        frames, after = capture.frames(), two.baton.status()
        policy, override = two.baton.store.policy() or {}, two.baton.store.override()
        stands_by = not two.standby.leads()
    return {
        "away_ms": round((times["back"] - times["killed"]) / 1e6, 1),
        "directives_per_s": {
            "before": directives_per_s(frames, times["killed"] - 1_500_000_000, times["killed"]),
            "away": directives_per_s(frames, times["killed"], times["back"]),
            "after": directives_per_s(frames, times["back"], times["back"] + 1_500_000_000),
        },
        "longest_silence_ms": _longest_silence_ms(frames, times["killed"], times["back"] + 1_500_000_000),
        "epochs": [before["epoch"], after["epoch"]],
        "the_standby_stood_by": stands_by,
        "operators_policy_kept": policy.get("slice_ns") == SLICE_NS == after["slice_ns"],
        "override": override,
        "held_before": held,
        "held_after": "all of it",
        "granters": by_epoch(frames),
        **traffic(outcome),
    }


def _operate(two: TwoControllers) -> None:
    operator = Store(two.redis.url)
    operator.set_policy({**(operator.policy() or {}), "slice_ns": SLICE_NS})
    for word in ("free", "coordinate"):
        operator.set_override(word)
        two.baton.wait(lambda word=word: two.baton.status().get("override") == word, f"the override {word}")  # type: ignore[misc]
    operator.close()
    two.baton.wait(lambda: two.baton.status().get("slice_ns") == SLICE_NS, "the operator's slice")


def _held(two: TwoControllers) -> list[str]:
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


def _longest_silence_ms(frames: list[CapturedFrame], from_ns: int, until_ns: int) -> float:
    """The longest time between two heartbeats at one host, ms."""
    longest = 0
    for host in {frame.host for frame in frames}:
        times = [frame.at_ns for frame in frames if frame.host == host and isinstance(frame.message, Heartbeat)]
        within = [from_ns, *(at_ns for at_ns in times if from_ns <= at_ns < until_ns), until_ns]
        longest = max(longest, *(after - before for before, after in pairwise(within)))
    return round(longest / 1e6, 1)
