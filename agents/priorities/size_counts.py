"""Counts the flows that ended on a host by type and size, for its next SIZE_REPORT. Pure."""

from __future__ import annotations

from protocol.bodies.flows.priorities import SizeCount
from protocol.bodies.flows.size_bins import TYPES, bin_of

MOST_FLOWS = (1 << 32) - 1


class SizeCounts:
    """Counts since the last `take`."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], tuple[int, int]] = {}

    def add(self, flow_type: int, size_bytes: int) -> None:
        """Counts a flow that ended; ignores one without payload.

        A flow of a coflow (type 4) counts as type 1: it is load, but no threshold applies to it.
        """
        if size_bytes <= 0:
            return
        cell = (flow_type if flow_type <= TYPES else 1), bin_of(size_bytes)
        flows, total = self._cells.get(cell, (0, 0))
        self._cells[cell] = min(flows + 1, MOST_FLOWS), total + size_bytes

    def take(self) -> list[SizeCount]:
        """Returns all rows, and starts again from zero."""
        cells, self._cells = self._cells, {}
        return [SizeCount(*cell, *amounts) for cell, amounts in sorted(cells.items())]
