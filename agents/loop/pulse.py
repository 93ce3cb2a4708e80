"""Tells every few seconds that the agent's loop turns, to whoever waits for its end. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Callable

from agents.loop.part import Part
from protocol.units import SECOND_NS

BEAT_NS = 3 * SECOND_NS
"""Each beat wakes two processes of an idle host. The guardian waits more than twice as long (agents/queues/guardian.py)."""


class Pulse(Part):
    """Calls `beat` every `BEAT_NS`, as long as the loop turns."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._due_ns = 0

    def next_due_ns(self) -> int:
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + BEAT_NS
            self._beat()
