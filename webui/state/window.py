"""The slots of the last seconds by host, for timelines too long for one page. Pure, but it keeps what it has been told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from webui.state.lists import Page, Wanted, by_name, paged

LATE, LOST = "late", "lost"
KEPT_US = 10_000_000
SUMMED_US = 3_000_000
"""How long hosts keep their order by what they held."""
Row = Sequence[Any]
SORTS: Mapping[str, int] = {"held": 0, "late": 1, "lost": 2}


class Window:
    """The rows of controller/scheduling/telemetry.py by node; the latest row of a slot counts."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.now_us = 0
        self._rows: dict[int, dict[int, Row]] = {}
        self._ends: deque[tuple[int, int, int]] = deque()
        """When each row's slot ends, its node and the slot, in the order in which rows came: nearly that of their ends."""
        self._summed: dict[int, tuple[int, int, int]] = {}
        self._summed_us = 0

    def add(self, batches: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Takes the next batches with their ids, and forgets what ended more than `KEPT_US` before the last of them, as soon as
        what came before it has, too."""
        for number, batch in batches:
            self.last_id = number
            if batch["now_us"] < self.now_us - KEPT_US:
                self._rows.clear()  # another coordinator, with a clock of its own
                self._ends.clear()
            self.now_us = batch["now_us"]
            for row in batch["rows"]:
                self._rows.setdefault(row[2], {})[row[1]] = row
                self._ends.append((row[5], row[2], row[1]))
        limit_us = self.now_us - KEPT_US
        while self._ends and self._ends[0][0] < limit_us:
            _, node, slot = self._ends.popleft()
            slots = self._rows.get(node, {})
            if slot in slots and slots[slot][5] < limit_us:
                del slots[slot]
                if not slots:
                    del self._rows[node]

    def page(self, name_of: Callable[[int], str], wanted: Wanted) -> Page:
        """A page of the hosts with slots: rows {"node", "name", "held_us", "late", "lost", "slots"}."""
        terms = wanted.search.lower().split()
        names = {node: name_of(node) for node in self._rows}
        found = [node for node, name in names.items() if all(term in name.lower() for term in terms)]
        found.sort(key=lambda node: by_name(names[node]), reverse=wanted.down and wanted.sort not in SORTS)
        if wanted.sort in SORTS:
            if not 0 <= self.now_us - self._summed_us < SUMMED_US:
                self._summed, self._summed_us = {node: self._sums(node) for node in self._rows}, self.now_us
            column, nothing = SORTS[wanted.sort], (0, 0, 0)
            found.sort(key=lambda node: self._summed.get(node, nothing)[column], reverse=wanted.down)
        page = paged(found, len(names), wanted)
        rows = []
        for node in page.rows:
            held_us, late, lost = self._sums(node)
            slots = list(self._rows[node].values())
            rows.append({"node": node, "name": names[node], "held_us": held_us, "late": late, "lost": lost, "slots": slots})
        return page._replace(rows=rows)

    def _sums(self, node: int) -> tuple[int, int, int]:
        rows = self._rows[node].values()
        held_us = sum(row[5] - row[4] for row in rows if row[0] != LOST)
        return held_us, sum(row[0] == LATE for row in rows), sum(row[0] == LOST for row in rows)
