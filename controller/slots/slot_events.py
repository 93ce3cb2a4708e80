"""The events of a slot's life, told once to every listener; and the counts of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.policies.base import Slot

Pair = tuple[int, int]
"""The node that sends, and the one that it sends to."""


class SlotListener:
    """Hears of every slot that a directive grants, and of what becomes of it. A subclass states only what it does.

    Slots are named by their numbers; a number may be of a slot that the listener never heard of, or has forgotten.
    """

    def granted(self, slot: Slot, end_ns: int, now_ns: int) -> None:
        """A directive for a slot goes out now; `end_ns` is its lease's end. The same number again replaces what was granted."""

    def opened(self, slot: int, opened_ns: int, *, late: bool) -> None:
        """A slot's first acknowledgement says when its gate opened."""

    def yielded(self, slot: int, pair: Pair, unspent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        """A host gave back the rest of a slot: so much of its credit, with so much waiting there now.

        `pair`: the host, and the destination that it names. A slot of another pair is not the host's to give back: it counts
        as unknown.
        """

    def revoked(self, slot: int, now_ns: int) -> None:
        """The coordinator takes a slot back."""

    def lost(self, slots: Sequence[int]) -> None:
        """These slots were never acknowledged."""


@dataclass(slots=True)
class Tallies(SlotListener):
    """Counts since the coordinator's start, and the slots that are not acknowledged yet."""

    slots: int = 0
    acks: int = 0
    late: int = 0
    lost_slots: int = 0
    yields: int = 0
    _awaited: dict[int, tuple[Slot, int]] = field(default_factory=dict)

    def granted(self, slot: Slot, end_ns: int, now_ns: int) -> None:
        """Counts a slot; a repeated one (with an earlier start) is not counted twice."""
        self.slots += slot.slot not in self._awaited
        self._awaited[slot.slot] = slot, now_ns

    def opened(self, slot: int, opened_ns: int, *, late: bool) -> None:
        if self._awaited.pop(slot, None) is not None:
            self.acks += 1
            self.late += late

    def yielded(self, slot: int, pair: Pair, unspent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        self.yields += 1

    def revoked(self, slot: int, now_ns: int) -> None:
        """Counts a slot that was not acknowledged as never granted."""
        if self._awaited.pop(slot, None) is not None:
            self.slots -= 1

    def lost(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.lost_slots += self._awaited.pop(slot, None) is not None

    def awaited(self, slot: int) -> tuple[Slot, int] | None:
        """A slot that is not acknowledged yet, and when its directive left (ns); else None."""
        return self._awaited.get(slot)

    def overdue(self, then_ns: int) -> list[int]:
        """The slots begun before `then_ns` that are not acknowledged yet."""
        return [number for number, (slot, _) in self._awaited.items() if slot.start_ns < then_ns]
