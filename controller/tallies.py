"""What became of the slots: granted, acknowledged, late, lost, yielded. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Tallies:
    """Counts since the coordinator's start, and the slots that are not acknowledged yet."""

    slots: int = 0
    acks: int = 0
    late: int = 0
    lost: int = 0
    yields: int = 0
    _starts: dict[int, int] = field(default_factory=dict)

    def granted(self, slot: int, start_ns: int) -> None:
        """A directive for a slot goes out; a repeated one (an earlier start) is not counted twice."""
        self.slots += slot not in self._starts
        self._starts[slot] = start_ns

    def acknowledged(self, slot: int) -> int | None:
        """The slot's start when this is its first acknowledgement, else None."""
        start_ns = self._starts.pop(slot, None)
        self.acks += start_ns is not None
        return start_ns

    def revoked(self, slot: int) -> None:
        """The slot was taken back before it began."""
        if self._starts.pop(slot, None) is not None:
            self.slots -= 1

    def forget_before(self, then_ns: int) -> list[int]:
        """Slots begun before `then_ns` and not acknowledged are lost; says which."""
        late = [slot for slot, start_ns in self._starts.items() if start_ns < then_ns]
        for slot in late:
            del self._starts[slot]
        self.lost += len(late)
        return late
