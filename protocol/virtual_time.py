"""Virtual time, where the clock stands still while a program computes, as agents and controller meet it. An edge: environment.

Two things differ there. A loop that polls would last for ever, since a poll takes no time: it sleeps instead. And what a
processor costs is zero: `ProcessingDelay` puts it back, from a constant or from samples that were measured in real time.
"""

from __future__ import annotations

import os
import random
import time

INSIDE = "BATON_VIRTUAL"
"""In the environment of every process in virtual time."""
AGENT_DELAY, CONTROLLER_DELAY = "BATON_AGENT_DELAY_NS", "BATON_CONTROLLER_DELAY_NS"
"""In the environment: samples in ns, separated by commas."""


def inside() -> bool:
    """Whether this process runs in virtual time."""
    return INSIDE in os.environ


class ProcessingDelay:
    """What a turn of a loop would have taken on a real processor."""

    def __init__(self, samples_ns: tuple[int, ...]) -> None:
        """`samples_ns`: one of them, drawn at random (the same ones in each run), is slept at each turn."""
        self._samples_ns = samples_ns
        self._dice = random.Random(len(samples_ns))

    def sleep(self) -> None:
        """Passes the time of one turn."""
        time.sleep(self._dice.choice(self._samples_ns) / 1e9)


def processing_delay(variable: str) -> ProcessingDelay | None:
    """The delay that the environment asks for; None: none, as always in real time.

    Raises ValueError: the variable does not hold numbers.
    """
    text = os.environ.get(variable, "")
    if not text or not inside():
        return None
    return ProcessingDelay(tuple(int(word) for word in text.split(",")))
