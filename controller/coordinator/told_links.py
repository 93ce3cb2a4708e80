"""The links of the status as the store bridge is told them: when they changed, a few rows at a time. Sends only through what it
is given.

A fabric of thousands of hosts has ten thousand directed links, which take 20 ms to be written as JSON in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.timers import Timers
from protocol.units import MILLISECOND_NS

ROWS, PAUSE_NS = 128, 2 * MILLISECOND_NS
"""How many rows are written at once, some 250 us, and for how long the loop then does other work."""


class ToldLinks:
    """What the store bridge has of the links.

    Args:
        write: takes lines for the store bridge, {"links": [first, total, rows]}, and says whether it had room.
    """

    def __init__(self, timers: Timers, write: Callable[[dict[str, Any]], bool]) -> None:
        self._timers = timers
        self._write = write
        self._rows: list[dict[str, Any]] | None = None
        self._first = 0
        """How many of the rows are told."""
        self._going_on = False

    def tell(self, rows: list[dict[str, Any]], now_ns: int) -> None:
        """Tells these rows, unless they are the list that was told last."""
        if rows is not self._rows:
            self._rows, self._first = rows, -1
            if not self._going_on:
                self._go_on(now_ns)

    def _go_on(self, now_ns: int) -> None:
        rows = self._rows or []
        first = max(0, self._first)
        piece = rows[first : first + ROWS]
        if self._write({"links": [first, len(rows), piece]}):
            self._first = first + len(piece)
        self._going_on = self._first < len(rows)
        if self._going_on:
            self._timers.at(now_ns + PAUSE_NS, self._go_on)
