"""The links of the status as the store bridge is told them: what changed, a few rows at a time. Sends only through what it is
given.

A fabric of thousands of hosts has ten thousand directed links, which take 20 ms to be written as JSON in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.timers import Timers
from protocol.units import MILLISECOND_NS

ROWS, PAUSE_NS = 128, 2 * MILLISECOND_NS
"""How many rows are written at once, some 250 us, and for how long the loop then does other work."""
Rows = list[dict[str, Any]]


class ToldLinks:
    """What the store bridge has of the links.

    Args:
        write: takes lines for the store bridge, {"links": {"rows": rows, "new": whether they take the place of all rows,
            "more": whether others follow that count together with them}}, and says whether it had room.
    """

    def __init__(self, timers: Timers, write: Callable[[dict[str, Any]], bool]) -> None:
        self._timers = timers
        self._write = write
        self._rows: Rows | None = None
        self._left: Rows = []
        """Those that are still to be told."""
        self._new = True
        self._going_on = False

    def tell(self, rows: Rows, now_ns: int) -> None:
        """Tells what of these rows differs from the list that was told last. A row that has not changed is the same object."""
        if rows is self._rows:
            return
        changed = None if self._rows is None or self._going_on else _changed(self._rows, rows)
        self._rows = rows
        self._new = changed is None
        self._left = rows if changed is None else changed
        if not self._going_on and (self._new or self._left):
            self._go_on(now_ns)

    def _go_on(self, now_ns: int) -> None:
        piece, rest = self._left[:ROWS], self._left[ROWS:]
        told = self._write({"links": {"rows": piece, "new": self._new, "more": bool(rest)}})
        if told:
            self._left, self._new = rest, False
        self._going_on = not told or bool(rest)
        if self._going_on:
            self._timers.at(now_ns + PAUSE_NS, self._go_on)


def _changed(old: Rows, new: Rows) -> Rows | None:
    """The rows that differ; None if they are not of the same links in the same order."""
    if len(old) != len(new):
        return None
    pairs = [(was, row) for was, row in zip(old, new, strict=True) if was is not row]
    if any((was["source"], was["target"]) != (row["source"], row["target"]) for was, row in pairs):
        return None
    return [row for was, row in pairs if was != row]
