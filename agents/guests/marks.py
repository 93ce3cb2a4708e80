"""The marks that a host's agent keeps for guests' flows: who may have how many, and until when. Pure.

A guest has room for `GUEST_MARKS` marks, counted by its port of the bridge, since it may use many addresses. The operator has
`OPERATOR_ROOM` places that no guest can take, and a guest cannot change a mark of the operator's.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from agents.guests.flows import Flows, format_end
from agents.guests.requests import Cause, RequestRefused
from protocol.flowmark import FlowMark

TABLE_MARKS = 4096
GUEST_MARKS = 64
OPERATOR_ROOM = 1024
OPERATOR = 0
"""In the place of a guest's bridge port: whose mark it is."""


class Tagging(Protocol):
    """What tags packets by the marks: the kernel's table."""

    def set(self, flows: Flows, mark: int, until_ns: int) -> None:
        """Gives flows a mark until then."""

    def remove(self, flows: Flows) -> None:
        """Takes it away."""


@dataclass(frozen=True, slots=True)
class Held:
    """A mark that is held; `owner` is the guest's bridge port, or `OPERATOR`."""

    mark: FlowMark
    until_ns: int
    owner: int

    def described(self, flows: Flows, now_ns: int) -> dict[str, str | int]:
        """As an answer says it; the fields are those of a request."""
        fields: dict[str, str | int] = {
            "from": format_end(flows.source, flows.source_port),
            "to": format_end(flows.target, flows.target_port),
            "for_ms": max(0, self.until_ns - now_ns) // 1_000_000,
        }
        if self.mark.deadline_ms is not None:
            fields["deadline_ms"] = self.mark.deadline_ms
        if self.mark.size_bytes is not None:
            fields["size_bytes"] = self.mark.size_bytes
        return fields


class Marks:
    """The marks of one host. Times are its monotonic clock, in ns."""

    def __init__(self, tagging: Tagging) -> None:
        self._tagging = tagging
        self.held: dict[Flows, Held] = {}
        self._owned: Counter[int] = Counter()
        self._ends: list[tuple[int, bytes, Flows]] = []
        """A heap, with an entry for each time that flows were marked; one that no longer counts is passed over."""
        self.marked, self.expired, self.removed = 0, 0, 0

    def mark(self, flows: Flows, mark: FlowMark, until_ns: int, owner: int) -> None:
        """Marks flows, or marks them anew.

        Raises:
            RequestRefused: FULL or HELD; nothing changes.
        """
        before = self.held.get(flows)
        self._check_owner(before, owner)
        if before is None:
            if owner != OPERATOR and self._owned[owner] >= GUEST_MARKS:
                raise RequestRefused(Cause.FULL, f"you have {GUEST_MARKS} marks; leave ports out, or unmark some flows")
            if len(self.held) >= TABLE_MARKS - (0 if owner == OPERATOR else OPERATOR_ROOM):
                raise RequestRefused(Cause.FULL, f"the host holds {len(self.held)} marks; ask again when some have expired")
        self._tagging.set(flows, mark.encode(), until_ns)
        self._forget(flows)
        self.held[flows] = Held(mark, until_ns, owner)
        self._owned[owner] += 1
        self.marked += 1
        self._note_end(flows, until_ns)

    def unmark(self, flows: Flows, owner: int) -> None:
        """Takes a mark away.

        Raises:
            RequestRefused: ABSENT or HELD.
        """
        if (before := self.held.get(flows)) is None:
            raise RequestRefused(Cause.ABSENT, "there is no mark for exactly these flows; the status shows what there is")
        self._check_owner(before, owner)
        self._tagging.remove(flows)
        self._forget(flows)
        self.removed += 1

    def next_end_ns(self) -> int | None:
        """When a mark may expire next."""
        return self._ends[0][0] if self._ends else None

    def expire(self, now_ns: int) -> None:
        """Removes what has expired. The tagger has ignored it since then."""
        while self._ends and self._ends[0][0] <= now_ns:
            until_ns, _, flows = heapq.heappop(self._ends)
            held = self.held.get(flows)
            if held is not None and held.until_ns == until_ns:
                self._tagging.remove(flows)
                self._forget(flows)
                self.expired += 1

    def _check_owner(self, held: Held | None, owner: int) -> None:
        if held is not None and held.owner != owner and owner != OPERATOR:
            raise RequestRefused(Cause.HELD, "the operator has marked these flows; that mark stays")

    def _forget(self, flows: Flows) -> None:
        if (held := self.held.pop(flows, None)) is not None:
            self._owned[held.owner] -= 1
            if not self._owned[held.owner]:
                del self._owned[held.owner]

    def _note_end(self, flows: Flows, until_ns: int) -> None:
        heapq.heappush(self._ends, (until_ns, flows.key(), flows))
        if len(self._ends) > 2 * TABLE_MARKS:  # marked anew again and again
            self._ends = [(held.until_ns, one.key(), one) for one, held in self.held.items()]
            heapq.heapify(self._ends)
