"""Pause-storm protection: no partner and no forger keeps a class paused for longer than the detection time. Pure.

There is one watchdog for received pauses (they silence this host) and one for sent pauses (they silence the partner).
A *storm* is a class that stayed paused for the detection time and was open for less than a tenth of it. So a pause that is
interrupted for an instant now and then is a storm too; one that lets a fair share pass is ordinary flow control.
During a storm:

    drop     the agent ignores pauses of the class until none has come for the restoration time
    forward  the agent ignores pauses of the class for the restoration time, then honours them again
    alert    the agent logs and reports the storm, and honours the pauses

Detection, action and restoration are those of SONiC's PFC watchdog, except that `drop` never drops a packet. Only a pause
(XOFF) extends the restoration; an XON does not.
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
"""An open class moves away from a storm this many times as fast as a paused one approaches it: with 9, a class that is paused
for nine tenths of the time has a storm."""


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


class StormChange(NamedTuple):
    """The begin or end of a class's storm."""

    priority: int
    began: bool
    at_ns: int


@dataclass(slots=True)
class _Class:
    paused: bool = False
    level_ns: int = 0
    """How near the class is to a storm: the time paused minus the weighted time open."""
    since_ns: int = 0
    """When `level_ns` was computed."""
    storm: bool = False
    restored_ns: int = 0
    """During a storm: when it ends."""


@dataclass(slots=True)
class PauseWatchdog:
    """Watches the eight classes in one direction.

    The owner of the pauses calls `xoff` for each pause, `paused` when a class becomes paused or open, and `advance` at
    `next_due_ns`; it ignores the pauses of a class while `ignored` says so.
    """

    settings: StormSettings = field(default_factory=StormSettings)
    storms: list[int] = field(default_factory=lambda: [0] * CLASSES)
    """The number of storms of each class."""
    _classes: list[_Class] = field(default_factory=lambda: [_Class() for _ in range(CLASSES)])
    _watched: set[int] = field(default_factory=set)
    """Classes that are paused or have a storm: only these have a due time, and usually there are none."""

    def ignored(self, priority: int) -> bool:
        """Whether the agent ignores pauses of the class now."""
        return self._classes[priority].storm and self.settings.action is not Action.ALERT

    def storming(self, priority: int) -> bool:
        """Whether the class has a storm now."""
        return self._classes[priority].storm

    def xoff(self, priority: int, now_ns: int) -> None:
        """Notes a pause of more than 0 quanta, received or to be sent, whether it takes effect or not."""
        if self._classes[priority].storm and self.settings.action is not Action.FORWARD:
            self._classes[priority].restored_ns = now_ns + self.settings.restoration_ns[priority]

    def paused(self, priority: int, paused: bool, now_ns: int) -> None:
        """Notes that the class is paused, or open, from now on."""
        state = self._classes[priority]
        state.level_ns, state.since_ns = self._level(state, now_ns), now_ns
        state.paused = paused
        self._update_watched(priority)

    def advance(self, now_ns: int) -> list[StormChange]:
        """Begins and ends storms; returns those that began or ended."""
        return [change for priority in sorted(self._watched) for change in self._advance(priority, now_ns)]

    def _advance(self, priority: int, now_ns: int) -> Iterator[StormChange]:
        state = self._classes[priority]
        due_ns = self._due_ns(priority)
        if due_ns is None or due_ns > now_ns:
            return
        state.storm = not state.storm
        state.level_ns, state.since_ns = 0, now_ns
        if state.storm:
            self.storms[priority] += 1
            state.restored_ns = now_ns + self.settings.restoration_ns[priority]
        self._update_watched(priority)
        yield StormChange(priority, state.storm, now_ns)

    def _update_watched(self, priority: int) -> None:
        state = self._classes[priority]
        (self._watched.add if state.paused or state.storm else self._watched.discard)(priority)

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next; None while no class is paused or has a storm."""
        times = [due for priority in self._watched if (due := self._due_ns(priority)) is not None]
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
