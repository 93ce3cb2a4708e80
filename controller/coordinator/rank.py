"""How Python's thread and the loop of slots share the processors. An edge: the scheduler."""

from __future__ import annotations

from controller.frames.loop import SlotLoop
from protocol.realtime import begin_realtime, is_realtime, rank_below

FEW = 500
"""Among so many members Python takes some tenths of a processor at most."""


class Rank:
    """Among few members Python is real-time, right below the loop, and is told of reports as they come: hosts count the
    milliseconds from heartbeat to heartbeat. Among many, where it is always at work, it is an ordinary thread, and is told of
    many at once.

    Args:
        priority: of the loop, which this process has when this is made, if it may; None: neither is real-time.
    """

    def __init__(self, loop: SlotLoop, priority: int | None) -> None:
        self._loop = loop
        self._priority = priority if is_realtime() else None
        self._busy: bool | None = None
        self.look(0)

    def look(self, members: int) -> None:
        """Follows the number of members."""
        if (busy := members > FEW) != self._busy:
            self._busy = busy
            self._loop.set_prompt(prompt=not busy)
            rank_below(self._priority, busy=busy)

    def end(self) -> None:
        """The loop has ended: this thread keeps the schedule again."""
        begin_realtime(self._priority)
