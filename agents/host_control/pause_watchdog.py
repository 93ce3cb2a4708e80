"""Pause-storm protection: no partner and no forger keeps a class paused for longer than the detection time. Pure.

One watchdog for each direction: of pauses received (they silence this host) and of pauses sent (they silence the partner).
A *storm* is a class that was kept paused for the detection time, with less than a tenth of that time open: a pause that is
interrupted for an instant now and then is a storm too, one that lets a fair share pass is flow control at work. Then:

    drop     its pauses are dropped until none has come for the restoration time
    forward  its packets are forwarded in spite of pauses for the restoration time; then pauses are obeyed again
    alert    it is told, and the pauses are obeyed

as the PFC watchdog of SONiC gives its operators detection, action and restoration, but that `drop` never drops a packet. Only
a pause (XOFF) puts the restoration off: an XON is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.bodies.pfc import Action
from protocol.pfc import CLASSES
from protocol.units import MILLISECOND_NS

DETECTION_NS = RESTORATION_NS = 200 * MILLISECOND_NS
OPEN_WEIGHT = 9
"""How many times as fast as a paused class nears a storm an open one leaves it: 9 is a storm from nine tenths paused on."""


@dataclass(frozen=True, slots=True)
class StormSettings:
    """Detection and restoration times of each class in ns, and the action. Raises ValueError naming the field."""

    detection_ns: tuple[int, ...] = (DETECTION_NS,) * CLASSES
    restoration_ns: tuple[int, ...] = (RESTORATION_NS,) * CLASSES
    action: Action = Action.DROP

    def __post_init__(self) -> None:
        for name in ("detection_ns", "restoration_ns"):
            times = getattr(self, name)
            if len(times) != CLASSES or min(times) <= 0:
                raise ValueError(f"{name}: {times}; must be {CLASSES} times above 0, one for each class")


class Change(NamedTuple):
    """A class whose storm began or ended, and when."""

    priority: int
    began: bool
    at_ns: int


@dataclass(slots=True)
class _Class:
    paused: bool = False
    level_ns: int = 0
    """How near to a storm: what it was paused, less what it was open, weighted."""
    since_ns: int = 0
    """When `level_ns` was worked out."""
    storm: bool = False
    restored_ns: int = 0
    """During a storm: when it is over."""


@dataclass(slots=True)
class PauseWatchdog:
    """Watches the eight classes in one direction.

    Whoever owns the pauses calls `xoff` for each that comes, `paused` when a class becomes paused or open, `advance` when
    `next_due_ns` has come, and obeys no pause of a class that is `muted`.
    """

    settings: StormSettings = field(default_factory=StormSettings)
    storms: list[int] = field(default_factory=lambda: [0] * CLASSES)
    """How many each class had."""
    _classes: list[_Class] = field(default_factory=lambda: [_Class() for _ in range(CLASSES)])
    _busy: set[int] = field(default_factory=set)
    """Classes that are paused or have a storm: only these have times, and mostly there are none."""

    def muted(self, priority: int) -> bool:
        """Whether pauses of the class have no effect now."""
        return self._classes[priority].storm and self.settings.action is not Action.ALERT

    def storming(self, priority: int) -> bool:
        """Whether the class has a storm now."""
        return self._classes[priority].storm

    def xoff(self, priority: int, now_ns: int) -> None:
        """A pause of more than 0 quanta came, or was to be sent, obeyed or not."""
        if self._classes[priority].storm and self.settings.action is not Action.FORWARD:
            self._classes[priority].restored_ns = now_ns + self.settings.restoration_ns[priority]

    def paused(self, priority: int, paused: bool, now_ns: int) -> None:
        """The class is paused, or open, from now on."""
        state = self._classes[priority]
        state.level_ns, state.since_ns = self._level(state, now_ns), now_ns
        state.paused = paused
        self._settle(priority)

    def advance(self, now_ns: int) -> list[Change]:
        """The storms that have begun or ended by now."""
        return [change for priority in sorted(self._busy) for change in self._advance(priority, now_ns)]

    def _advance(self, priority: int, now_ns: int) -> Iterator[Change]:
        state = self._classes[priority]
        due_ns = self._due_ns(priority)
        if due_ns is None or due_ns > now_ns:
            return
        state.storm = not state.storm
        state.level_ns, state.since_ns = 0, now_ns
        if state.storm:
            self.storms[priority] += 1
            state.restored_ns = now_ns + self.settings.restoration_ns[priority]
        self._settle(priority)
        yield Change(priority, state.storm, now_ns)

    def _settle(self, priority: int) -> None:
        state = self._classes[priority]
        (self._busy.add if state.paused or state.storm else self._busy.discard)(priority)

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next; None while no class is paused or has a storm."""
        times = [due for priority in self._busy if (due := self._due_ns(priority)) is not None]
        return min(times, default=None)

    def _due_ns(self, priority: int) -> int | None:
        state = self._classes[priority]
        if state.storm:
            return state.restored_ns
        if state.paused:
            return state.since_ns + self.settings.detection_ns[priority] - state.level_ns
        return None

    def _level(self, state: _Class, now_ns: int) -> int:
        elapsed_ns = now_ns - state.since_ns
        return state.level_ns + elapsed_ns if state.paused else max(0, state.level_ns - OPEN_WEIGHT * elapsed_ns)
