"""Pauses of eight classes of traffic, received and sent: timers, renewal, storms, counters. Pure.

Received (IEEE 802.1Q clause 36, IEEE 802.3 annex 31B): a time starts the class' timer anew, 0 ends the pause at once, a class
whose bit is clear is left as it is; a PAUSE is for all classes. Sent: a pause of any length, said again before the partner's
timer ends while it is longer than one frame can say, and ended by a time of 0. Both have a watchdog (`pause_watchdog`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.host_control.pause_watchdog import Change, PauseWatchdog, StormSettings
from protocol import pfc
from protocol.pfc import CLASSES, BadFrameError, Pfc

ALL = frozenset(range(CLASSES))


@dataclass(frozen=True, slots=True)
class PauseSettings:
    """Whose pauses are obeyed, and what is a storm. No `accept_from` (MAC addresses) accepts whoever is at the link's end."""

    accept_from: frozenset[bytes] = frozenset()
    storm: StormSettings = field(default_factory=StormSettings)


@dataclass(slots=True)
class ClassCounters:
    """What happened to one class since the start: pauses received, sent and refused (not obeyed: sender or storm), how long it
    was paused, storms of either direction."""

    received: int = 0
    sent: int = 0
    refused: int = 0
    paused_ns: int = 0
    storms: int = 0


def check_class(priority: int, what: str) -> int:
    """The class. Raises ValueError: not one of the eight."""
    if not 0 <= priority < CLASSES:
        raise ValueError(f"{what}: class {priority}; write classes from 0 to {CLASSES - 1}")
    return priority


class Received:
    """Pauses that the partner sent us: which classes are `paused` now.

    Args:
        link_bps: a quantum is 512 bits at this rate.
    """

    def __init__(self, link_bps: int, settings: PauseSettings | None = None) -> None:
        self.link_bps = link_bps
        self.settings = settings or PauseSettings()
        self.watchdog = PauseWatchdog(self.settings.storm)
        self.counters = [ClassCounters() for _ in range(CLASSES)]
        self.bad: Counter[str] = Counter()
        """Frames not taken, by cause; "partner" for one that is not in `accept_from`."""
        self._until_ns: dict[int, int] = {}
        self._since_ns: dict[int, int] = {}

    @property
    def paused(self) -> frozenset[int]:
        """The classes that may not send now."""
        return frozenset(self._until_ns)

    def take(self, settings: PauseSettings) -> None:
        """Other settings from now on; what is paused stays so until its time."""
        self.settings = settings
        self.watchdog.settings = settings.storm

    def receive(self, frame: bytes, now_ns: int) -> None:
        """Takes a frame of EtherType 0x8808 as it arrived; what cannot be taken is counted, and changes nothing.

        `advance` to `now_ns` first: what ended before is to have ended.
        """
        try:
            _, source, quanta = pfc.read(frame)
        except BadFrameError as error:
            self.bad[error.cause.value] += 1
            return
        if self.settings.accept_from and source not in self.settings.accept_from:
            self.bad["partner"] += 1
            for priority in quanta:
                self.counters[priority].refused += 1
            return
        for priority, time in quanta.items():
            self.counters[priority].received += 1
            if time:
                # At least a nanosecond: a quantum of a very fast link is shorter, and 0 would be an XON.
                self._xoff(priority, now_ns + max(1, pfc.to_ns(time, self.link_bps)), now_ns)
            else:
                self._open(priority, now_ns)

    def _xoff(self, priority: int, until_ns: int, now_ns: int) -> None:
        self.watchdog.xoff(priority, now_ns)
        if self.watchdog.muted(priority):
            self.counters[priority].refused += 1
            return
        if priority not in self._until_ns:
            self._since_ns[priority] = now_ns
            self.watchdog.paused(priority, True, now_ns)
        self._until_ns[priority] = until_ns

    def presume(self, until_ns: int, now_ns: int) -> None:
        """Takes every class that is open for paused until then, or until a frame says otherwise."""
        for priority in ALL - self.paused:
            if not self.watchdog.muted(priority):
                self._since_ns[priority], self._until_ns[priority] = now_ns, until_ns
                self.watchdog.paused(priority, True, now_ns)

    def _open(self, priority: int, now_ns: int) -> None:
        if self._until_ns.pop(priority, None) is not None:
            self.counters[priority].paused_ns += max(0, now_ns - self._since_ns.pop(priority))
            self.watchdog.paused(priority, False, now_ns)

    def advance(self, now_ns: int) -> list[Change]:
        """Ends the pauses whose time is over; the storms that began or ended."""
        for priority, until_ns in list(self._until_ns.items()):
            if until_ns <= now_ns:
                self._open(priority, until_ns)
        changes = self.watchdog.advance(now_ns)
        for change in changes:
            self.counters[change.priority].storms += change.began
            if self.watchdog.muted(change.priority):
                self._open(change.priority, now_ns)
        return changes

    def release(self, now_ns: int) -> None:
        """Every class may send, until the next pause."""
        for priority in self.paused:
            self._open(priority, now_ns)

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next."""
        return _earliest([*self._until_ns.values(), self.watchdog.next_due_ns()])

    def paused_ns(self, priority: int, now_ns: int) -> int:
        """How long the class was paused until now, the present pause included."""
        return self.counters[priority].paused_ns + max(0, now_ns - self._since_ns.get(priority, now_ns))


class Originated:
    """Pauses that we ask the partner for, as frames to send.

    Args:
        source: our MAC address.
        counters: shared with `Received`; `sent`, `refused` and `storms` are counted here.
    """

    def __init__(self, source: bytes, link_bps: int, counters: list[ClassCounters], storm: StormSettings | None = None) -> None:
        self.source = source
        self.link_bps = link_bps
        self.counters = counters
        self.watchdog = PauseWatchdog(storm or StormSettings())
        self._until_ns: dict[int, int] = {}
        self._renew_ns: dict[int, int] = {}

    @property
    def paused(self) -> frozenset[int]:
        """The classes that the partner may not send now."""
        return frozenset(self._until_ns)

    def pause(self, classes: Iterable[int], duration_ns: int, now_ns: int) -> list[bytes]:
        """Pauses the partner's classes for so long from now; the frames to send. A class with a storm is counted, not paused.

        Raises:
            ValueError: no class, one above 7, or a duration that is not above 0; nothing is changed.
        """
        wanted = sorted({check_class(priority, "pause") for priority in classes})
        if not wanted or duration_ns <= 0:
            raise ValueError("pause: name a class from 0 to 7 and a duration above 0")
        due = []
        for priority in wanted:
            self.watchdog.xoff(priority, now_ns)
            if self.watchdog.muted(priority):
                self.counters[priority].refused += 1
                continue
            if priority not in self._until_ns:
                self.watchdog.paused(priority, True, now_ns)
            self._until_ns[priority] = now_ns + duration_ns
            due.append(priority)
        return self._frames(due, now_ns)

    def resume(self, classes: Iterable[int], now_ns: int) -> list[bytes]:
        """Ends their pauses at once; the frame that says so, also for a class that we did not pause.

        Raises:
            ValueError: a class above 7; nothing is changed.
        """
        wanted = [check_class(priority, "resume") for priority in classes]
        for priority in wanted:
            self._end(priority, now_ns)
        return self._frames(wanted, now_ns)

    def advance(self, now_ns: int) -> tuple[list[bytes], list[Change]]:
        """Renews, ends and watches: the frames to send, and the storms that began or ended."""
        due = {priority for priority, renew_ns in self._renew_ns.items() if renew_ns <= now_ns}
        for priority, until_ns in list(self._until_ns.items()):
            if until_ns <= now_ns:
                self._end(priority, until_ns)
                due.add(priority)
        changes = self.watchdog.advance(now_ns)
        for change in changes:
            self.counters[change.priority].storms += change.began
            if self.watchdog.muted(change.priority):
                self._end(change.priority, now_ns)
                due.add(change.priority)
        return self._frames(sorted(due), now_ns), changes

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next."""
        return _earliest([*self._renew_ns.values(), *self._until_ns.values(), self.watchdog.next_due_ns()])

    def _end(self, priority: int, now_ns: int) -> None:
        self._renew_ns.pop(priority, None)
        if self._until_ns.pop(priority, None) is not None:
            self.watchdog.paused(priority, False, now_ns)

    def _frames(self, classes: Iterable[int], now_ns: int) -> list[bytes]:
        longest_ns = pfc.longest_ns(self.link_bps)
        quanta = {}
        for priority in classes:
            self.counters[priority].sent += 1
            rest_ns = self._until_ns.get(priority, now_ns) - now_ns
            quanta[priority] = pfc.to_quanta(min(rest_ns, longest_ns), self.link_bps)
            if rest_ns > longest_ns:
                self._renew_ns[priority] = now_ns + longest_ns // 2
            else:
                self._renew_ns.pop(priority, None)
        return [Pfc(self.source, quanta).encode()] if quanta else []


def _earliest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
