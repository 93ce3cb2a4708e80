"""What this host's next COFLOW_REPORT says: which bytes of coflows have changed since the last ones. Pure.

A row that changed is sent again in the next `REPEATS` reports, since a report may be lost. What has not changed for `SILENT_NS`
is taken out of the kernel's table, and counted on from here, so that the table stays short; after `FORGET_NS`, a coflow's
longest life, it is forgotten, or when there are `MOST_ROWS` that changed later: its bytes stay counted while its coflow and
node have another row, for a sum that falls is taken for a tagger that began anew. What has not changed costs nothing at a
`take`. What went to an address stays counted to the node that it had then, or to none: what a virtual machine gets once it has
migrated counts to its new host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from protocol.bodies.vocabulary import UNREGISTERED

REPEATS = 2
SILENT_NS, FORGET_NS = 2_000_000_000, 3_600_000_000_000
MOST_ROWS = 65_536

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
    past: dict[int, int] = field(default_factory=dict)
    """Of `total`: what went there while the address had another node, or none, by node."""

    @property
    def fresh(self) -> int:
        """What is counted to `node`, beside what was before it last had another."""
        return self.total - sum(self.past.values())


class CoflowCounts(Generic[Target]):
    """The bytes by coflow and destination address, as the kernel counts them and as they were reported."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, Target], _Row] = {}
        """The one that changed first comes first."""
        self._sums: dict[tuple[int, int], int] = {}
        """By coflow and node, of rows whose node was looked up."""
        self._rows_of: Counter[tuple[int, int]] = Counter()
        """How many rows each of these sums has."""
        self._reporting: dict[tuple[int, Target], _Row] = {}
        """Those with `repeats` left."""
        self._in_kernel: dict[tuple[int, Target], _Row] = {}
        """Those that the kernel's table has, too; in the order of `_rows`."""

    def take(
        self, counted: Mapping[tuple[int, Target], int], node_of: Callable[[Target], int], now_ns: int
    ) -> list[tuple[int, int, int]]:
        """Takes the kernel's numbers; returns the entries of the report to send now: all of one coflow and node together."""
        for key, value in counted.items():
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = _Row(now_ns)
            if value + row.before != row.total:
                if row.node is not None and node_of(key[1]) != UNREGISTERED:
                    self._look_up(key, row, node_of)
                self._grow(key, row, value, now_ns)
        while len(self._rows) > MOST_ROWS:
            self._forget(next(iter(self._rows)))
        wanted = set()
        for key, row in list(self._reporting.items()):
            node = self._look_up(key, row, node_of) if row.node is None else row.node
            wanted.add((key[0], node))
            row.repeats -= 1
            if not row.repeats:
                del self._reporting[key]
        return [(coflow, node, self._sums[coflow, node]) for coflow, node in sorted(wanted)]

    def _look_up(self, key: tuple[int, Target], row: _Row, node_of: Callable[[Target], int]) -> int:
        """Counts the row to its node from now on, and what went there before unless that is counted already; the node."""
        node = node_of(key[1])
        if node == row.node:
            return node
        if row.node is not None:
            row.past[row.node] = row.past.get(row.node, 0) + row.fresh
        row.node = node
        at = key[0], node
        self._sums[at] = self._sums.get(at, 0) + row.fresh
        self._rows_of[at] += node not in row.past
        return node

    def _grow(self, key: tuple[int, Target], row: _Row, value: int, now_ns: int) -> None:
        if value + row.before < row.total:  # the kernel dropped the row to make room
            row.before = row.total
        if row.node is not None:
            self._sums[key[0], row.node] += value + row.before - row.total
        row.total = value + row.before
        row.changed_ns, row.repeats = now_ns, 1 + REPEATS
        self._reporting[key] = row
        for rows in (self._rows, self._in_kernel):  # to the end
            rows.pop(key, None)
            rows[key] = row

    def _forget(self, key: tuple[int, Target]) -> None:
        row = self._rows.pop(key)
        self._reporting.pop(key, None)
        counted = self._in_kernel.pop(key, None) is not None
        if row.node is None:
            return
        shares = row.past | {row.node: row.past.get(row.node, 0) + row.fresh}
        for node, size_bytes in shares.items():
            at = key[0], node
            self._rows_of[at] -= 1
            if not self._rows_of[at]:
                del self._sums[at], self._rows_of[at]
            elif counted:  # the kernel will say it again
                self._sums[at] -= size_bytes

    def again(self) -> None:
        """Has everything reported again: another leader listens, which numbers the nodes anew."""
        self._sums.clear()
        self._rows_of.clear()
        for row in self._rows.values():
            row.repeats, row.node = 1 + REPEATS, None
            row.past.clear()
        self._reporting = dict(self._rows)

    def silent(self, now_ns: int) -> list[tuple[int, Target]]:
        """What to take out of the kernel's table now."""
        while self._rows and now_ns - next(iter(self._rows.values())).changed_ns >= FORGET_NS:
            self._forget(next(iter(self._rows)))
        found = []
        while self._in_kernel:
            key, row = next(iter(self._in_kernel.items()))
            if now_ns - row.changed_ns < SILENT_NS:
                break
            row.before = row.total
            del self._in_kernel[key]
            found.append(key)
        return found

    @property
    def busy(self) -> bool:
        """Whether there is something to report soon."""
        return bool(self._reporting)
