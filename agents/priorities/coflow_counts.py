"""What this host's next COFLOW_REPORT says: which bytes of coflows have changed since the last ones. Pure.

A row that changed is sent again in the next `REPEATS` reports, since a report may be lost. What has not changed for `SILENT_NS`
is taken out of the kernel's table, and counted on from here, so that the table stays short; after `FORGET_NS`, a coflow's
longest life, it is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

REPEATS = 2
SILENT_NS, FORGET_NS = 2_000_000_000, 3_600_000_000_000

Target = TypeVar("Target")


@dataclass(slots=True)
class _Row:
    changed_ns: int
    node: int | None = None
    """As this leader numbers it; None: not looked up yet."""
    repeats: int = 0
    total: int = 0
    before: int = 0
    """What was counted before the kernel began again."""


class CoflowCounts(Generic[Target]):
    """The bytes by coflow and destination address, as the kernel counts them and as they were reported."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, Target], _Row] = {}

    def take(
        self, counted: Mapping[tuple[int, Target], int], node_of: Callable[[Target], int], now_ns: int
    ) -> list[tuple[int, int, int]]:
        """Takes the kernel's numbers; returns the entries of the report to send now: all of one coflow and node together."""
        for key, value in counted.items():
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = _Row(now_ns)
            if value + row.before != row.total:
                if value + row.before < row.total:  # the kernel dropped the row to make room
                    row.before = row.total
                row.total = value + row.before
                row.changed_ns, row.repeats = now_ns, 1 + REPEATS
        wanted, sums = set(), dict[tuple[int, int], int]()
        for (coflow, target), row in self._rows.items():
            if row.node is None:
                row.node = node_of(target)
            at = coflow, row.node
            sums[at] = sums.get(at, 0) + row.total
            if row.repeats:
                row.repeats -= 1
                wanted.add(at)
        return [(coflow, node, sums[coflow, node]) for coflow, node in sorted(wanted)]

    def again(self) -> None:
        """Has everything reported again: another leader listens, which numbers the nodes anew."""
        for row in self._rows.values():
            row.repeats, row.node = 1 + REPEATS, None

    def silent(self, now_ns: int) -> list[tuple[int, Target]]:
        """What to take out of the kernel's table now."""
        for key in [key for key, row in self._rows.items() if now_ns - row.changed_ns >= FORGET_NS]:
            del self._rows[key]
        found = []
        for key, row in self._rows.items():
            if row.total > row.before and now_ns - row.changed_ns >= SILENT_NS:
                row.before = row.total
                found.append(key)
        return found

    @property
    def busy(self) -> bool:
        """Whether there is something to report soon."""
        return any(row.repeats for row in self._rows.values())
