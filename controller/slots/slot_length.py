"""How many slices long slots are, by how busy the loop of slots is. Pure.

A slot costs the controller some 5 to 50 us, however long it is. Where hundreds of senders with short slices ask for more slots
than a processor can plan and tell, the loop tells each after its time, and hosts get a small part of the links. Slots that are
twice as long are half as many. So slots last longer while the loop has too much to do, or is late with its plans because others
take its processors, and as long as a slice again later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from controller.members.part import Part
from protocol.units import MILLISECOND_NS, SECOND_NS

LOOK_NS = 200 * MILLISECOND_NS
BUSY, BUSIEST, IDLE = 0.3, 0.6, 0.12
"""Slots become longer where the loop works for the first part of the time, four times as long at once from the second on, and
shorter below the third: that is less than half of the first, as halving slots may double the work. The first part is small
since Python has to be served beside: with two processors, of which other programs took one, slots were late from 0.4 on."""
LATE = 0.25
"""The same where its plans are late by this part of a slot, on average."""
LOOKS = 3
"""So often in a row it must be busy or late."""
MANY = 20_000
"""Slots a second: where there are fewer, it is busy with something else."""
LONGEST_NS = 50 * MILLISECOND_NS
"""Slots are not made longer than this: a round of twenty senders takes a second then."""
CALM_NS, CALM_AT_MOST_NS = 10 * SECOND_NS, 600 * SECOND_NS
"""How long it must be idle before slots become shorter. The time doubles whenever that turns out to have been too early."""


class Work(NamedTuple):
    """What the loop of slots did in some time (ns)."""

    busy_ns: int
    """How long all its turns took together."""
    delay_ns: int
    """How late a plan was that was due, on average."""


class SlotLength:
    """In slices: a power of two."""

    def __init__(self) -> None:
        self.times = 1
        self._over = 0
        self._idle_since_ns: int | None = None
        self._calm_ns = CALM_NS
        self._shortened = False

    def update(self, busy: float, delay_ns: int, slots_per_s: float, slice_ns: int, now_ns: int) -> bool:
        """Takes a look's measurements; returns whether slots have another length from now on.

        Args:
            busy: for which part of the time the loop has worked.
            delay_ns: how late its plans were on average.
            slice_ns: the length of a slot of one slice.
        """
        before = self.times
        if (busy >= BUSY or delay_ns >= LATE * self.times * slice_ns) and slots_per_s >= MANY:
            self._idle_since_ns = None
            self._over += 1
            if self._over >= LOOKS:
                self._lengthen(4 if busy >= BUSIEST else 2, slice_ns)
        else:
            self._over = 0
            self._shorten(busy, now_ns)
        if self.times != before:
            self._over, self._idle_since_ns = 0, None
        return self.times != before

    def _lengthen(self, factor: int, slice_ns: int) -> None:
        before = self.times
        while factor > 1 and 2 * self.times * slice_ns <= LONGEST_NS:
            self.times, factor = 2 * self.times, factor // 2
        if self._shortened and self.times != before:
            self._calm_ns = min(2 * self._calm_ns, CALM_AT_MOST_NS)
            self._shortened = False

    def _shorten(self, busy: float, now_ns: int) -> None:
        if busy >= IDLE or self.times == 1:
            self._idle_since_ns = None
        elif self._idle_since_ns is None:
            self._idle_since_ns = now_ns
        elif now_ns - self._idle_since_ns >= self._calm_ns:
            self.times //= 2
            self._shortened = True


class Sliced(Protocol):
    """What has the policy in force (controller/scheduling/policy_control.py)."""

    slices: int
    """How many slices long its slots are; 1 again when an operator has chosen another policy or slice."""

    def slice_ns(self) -> int | None:
        """Its slice; None: it grants no slots of slices."""

    def lengthen(self, slices: int, now_ns: int) -> None:
        """Has slots of so many slices granted from now on."""


class SlotLengths(Part):
    """Looks at the loop of slots five times a second, and has slots made longer or shorter.

    Args:
        work: what the loop did since the last call; None: there is none.
        slots: how many slots were granted so far.
        write: takes lines for the store bridge, {"event": [kind, severity, text]}.
    """

    def __init__(
        self,
        policy: Sliced,
        work: Callable[[], Work | None],
        slots: Callable[[], int],
        write: Callable[[dict[str, Any]], object],
    ) -> None:
        self.periodic = ((LOOK_NS, self.look),)
        self._policy = policy
        self._work = work
        self._slots = slots
        self._write = write
        self._length = SlotLength()
        self._busy, self._delay_ns = 0.0, 0
        self._looked_ns: int | None = None
        self._counted = 0

    def look(self, now_ns: int) -> None:
        """Measures since the last look, and has the length changed where that says so."""
        before_ns, self._looked_ns = self._looked_ns, now_ns
        work, counted = self._work(), self._slots()
        granted, self._counted = counted - self._counted, counted
        if before_ns is None or work is None or now_ns <= before_ns:
            return
        self._busy, self._delay_ns = work.busy_ns / (now_ns - before_ns), work.delay_ns
        if self._policy.slices != self._length.times:
            self._length = SlotLength()
            return
        slice_ns, slots_per_s = self._policy.slice_ns(), granted * SECOND_NS / (now_ns - before_ns)
        if slice_ns is not None and self._length.update(self._busy, self._delay_ns, slots_per_s, slice_ns, now_ns):
            self._policy.lengthen(self._length.times, now_ns)
            severity = "warning" if self._length.times > 1 else "info"
            self._write({"event": ["policy", severity, self._text(slice_ns)]})

    def status(self) -> dict[str, Any]:
        return {"loop_busy": round(self._busy, 3), "slot_slices": self._policy.slices}

    def warnings(self) -> list[str]:
        slice_ns = self._policy.slice_ns()
        if self._policy.slices == 1 or slice_ns is None:
            return []
        return [f"{self._text(slice_ns)}; set a longer slice, or policy auto, which gives so many senders rates"]

    def _text(self, slice_ns: int) -> str:
        slots_ms, slice_ms = self._policy.slices * slice_ns / MILLISECOND_NS, slice_ns / MILLISECOND_NS
        if self._policy.slices == 1:
            return f"slots last {slice_ms:.3g} ms again"
        return (
            f"slots last {slots_ms:.3g} instead of {slice_ms:.3g} ms, as the controller has no time for so many short ones: "
            f"its loop of slots works {self._busy:.0%} of the time, and is late by {self._delay_ns / MILLISECOND_NS:.2g} ms"
        )
