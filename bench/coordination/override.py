"""The global override under load: how soon every gate is open after `baton free`, and agents obey after `baton coordinate`.

Method: the emulated star, five UDP senders at full speed under timeslices. The benchmark writes the override into the store as
the two commands do, several times in turn; the agents log when they had opened all their gates, when they began to obey, and
when they opened the first slot after that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from bench.coordination.two_controllers import SETTINGS, dedicated_store
from bench.coordination.under_load import run_under_load, slowest_host_ms
from emulation.measuring.fidelity import environment
from emulation.stack.stack import Stack
from emulation.stack.star import star

PERIOD_S = 0.8


def run(rounds: int = 4) -> dict[str, Any]:
    """Times in ms after the command, of the slowest host: all rounds, their median and the worst."""
    said: dict[str, list[int]] = {"free": [], "coordinate": []}

    def say(baton: Stack, word: str) -> Callable[[], None]:
        def act() -> None:
            said[word].append(time.monotonic_ns())
            baton.store.set_override(word)

        return act

    with dedicated_store() as redis, star(coordinator=SETTINGS, store=redis.url) as (emulated, baton):
        words = [word for _ in range(rounds) for word in ("free", "coordinate")]
        events = [(PERIOD_S * number, say(baton, word)) for number, word in enumerate(words, 1)]
        outcome = run_under_load(emulated, 5, PERIOD_S * (len(words) + 1), events=events)
        agents = baton.stop_agents()

    def found(word: str, log: str) -> list[float | None]:
        return [slowest_host_ms(agents, log, at) for at in said[word]]

    return {
        "rounds": rounds,
        "all_gates_open_after_ms": summary(found("free", "released_ns")),
        "all_obey_after_ms": summary(found("coordinate", "obeyed_ns")),
        "all_had_a_slot_after_ms": summary(found("coordinate", "first_slot_ns")),
        "goodput_mbps": round(outcome.goodput_mbps, 2),
        "confidence": outcome.confidence().to_dict(),
        "environment": environment(),
    }


def summary(times_ms: list[float | None]) -> dict[str, Any]:
    """All times, their median and the worst, which are None if not every host came so far in that round, or in one of all."""
    ordered = sorted(math.inf if time_ms is None else time_ms for time_ms in times_ms)
    shown = {"p50": ordered[len(ordered) // 2], "worst": ordered[-1]} if ordered else {"p50": None, "worst": None}
    return {"all": times_ms, **{name: None if value == math.inf else value for name, value in shown.items()}}
