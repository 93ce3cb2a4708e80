"""Pauses of eight classes of traffic, received and sent: timers, renewal, storms, counters. Pure.

Received (IEEE 802.1Q clause 36, IEEE 802.3 annex 31B): a time restarts the class's timer, 0 ends the pause at once, and a class
whose bit is clear does not change; a PAUSE is for all classes. Sent: a pause of any length. One that is longer than a frame can
express is renewed before the partner's timer ends; a time of 0 ends it. Both have a watchdog (`pause_watchdog`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.host_control.pause_watchdog import PauseWatchdog, StormChange, StormSettings
from protocol import pfc
from protocol.pfc import CLASSES, BadFrameError, PfcFrame

ALL = frozenset(range(CLASSES))


@dataclass(frozen=True, slots=True)
class PauseSettings:
    """The MAC addresses whose pauses count (an empty `accept_from` accepts every sender), and the limits of a storm."""

    accept_from: frozenset[bytes] = frozenset()
    storm: StormSettings = field(default_factory=StormSettings)


@dataclass(slots=True)
class ClassCounters:
    """Counts of one class since the start: pauses received, sent and refused (because of their sender or a storm), the time it
    was paused, and storms of both directions."""

    received: int = 0
    sent: int = 0
    refused: int = 0
    paused_ns: int = 0
    storms: int = 0


def check_class(priority: int, what: str) -> int:
    """Returns the class. Raises ValueError if it is not one of the eight; `what` begins the message."""
    if not 0 <= priority < CLASSES:
        raise ValueError(f"{what}: class {priority}; write classes from 0 to {CLASSES - 1}")
    return priority


class ReceivedPauses:
    """Pauses received from the partner: which classes are `paused` now.

    Args:
        link_bps: a quantum is 512 bits at this rate.
    """

    def __init__(self, link_bps: int, settings: PauseSettings | None = None) -> None:
        self.link_bps = link_bps
        self.settings = settings or PauseSettings()
        self.watchdog = PauseWatchdog(self.settings.storm)
        self.counters = [ClassCounters() for _ in range(CLASSES)]
        self.bad: Counter[str] = Counter()
        """Rejected frames by cause; "partner" for a sender that is not in `accept_from`."""
        self._until_ns: dict[int, int] = {}
        self._since_ns: dict[int, int] = {}

    @property
    def paused(self) -> frozenset[int]:
        """The classes that may not send now."""
        return frozenset(self._until_ns)

    def configure(self, settings: PauseSettings) -> None:
        """Replaces the settings. A paused class stays paused until its time ends."""
        self.settings = settings
        self.watchdog.settings = settings.storm

    def receive(self, frame: bytes, now_ns: int) -> None:
        """Applies a frame of EtherType 0x8808; counts an invalid one, which changes nothing.

        Call `advance` with `now_ns` first, so that pauses that are over have ended.
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
                # At least 1 ns: a quantum of a very fast link is shorter, and 0 would be an XON.
                self._pause(priority, now_ns + max(1, pfc.to_ns(time, self.link_bps)), now_ns)
            else:
                self._resume(priority, now_ns)

    def _pause(self, priority: int, until_ns: int, now_ns: int) -> None:
        self.watchdog.xoff(priority, now_ns)
        if self.watchdog.ignored(priority):
            self.counters[priority].refused += 1
            return
        if priority not in self._until_ns:
            self._since_ns[priority] = now_ns
            self.watchdog.paused(priority, True, now_ns)
        self._until_ns[priority] = until_ns

    def assume_paused(self, until_ns: int, now_ns: int) -> None:
        """Treats every open class as paused until `until_ns`, or until a frame opens it."""
        for priority in ALL - self.paused:
            if not self.watchdog.ignored(priority):
                self._since_ns[priority], self._until_ns[priority] = now_ns, until_ns
                self.watchdog.paused(priority, True, now_ns)

    def _resume(self, priority: int, now_ns: int) -> None:
        if self._until_ns.pop(priority, None) is not None:
            self.counters[priority].paused_ns += max(0, now_ns - self._since_ns.pop(priority))
            self.watchdog.paused(priority, False, now_ns)

    def advance(self, now_ns: int) -> list[StormChange]:
        """Ends pauses whose time is over; returns the storms that began or ended."""
        for priority, until_ns in list(self._until_ns.items()):
            if until_ns <= now_ns:
                self._resume(priority, until_ns)
        changes = self.watchdog.advance(now_ns)
        for change in changes:
            self.counters[change.priority].storms += change.began
            if self.watchdog.ignored(change.priority):
                self._resume(change.priority, now_ns)
        return changes

    def release(self, now_ns: int) -> None:
        """Ends all pauses; the next pause counts again."""
        for priority in self.paused:
            self._resume(priority, now_ns)

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next."""
        return _earliest([*self._until_ns.values(), self.watchdog.next_due_ns()])

    def paused_ns(self, priority: int, now_ns: int) -> int:
        """How long the class has been paused since the start, including the current pause."""
        return self.counters[priority].paused_ns + max(0, now_ns - self._since_ns.get(priority, now_ns))


class OriginatedPauses:
    """Pauses that this host requests from the partner, as frames to send.

    Args:
        source: this host's MAC address.
        counters: shared with `ReceivedPauses`; this class counts `sent`, `refused` and `storms`.
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
        """Pauses classes at the partner for `duration_ns` from now; returns the frames to send.

        A class with a storm is counted as refused and not paused.

        Raises:
            ValueError: no class, a class above 7, or a duration that is not above 0; nothing changes.
        """
        wanted = sorted({check_class(priority, "pause") for priority in classes})
        if not wanted or duration_ns <= 0:
            raise ValueError("pause: name a class from 0 to 7 and a duration above 0")
        due = []
        for priority in wanted:
            self.watchdog.xoff(priority, now_ns)
            if self.watchdog.ignored(priority):
                self.counters[priority].refused += 1
                continue
            if priority not in self._until_ns:
                self.watchdog.paused(priority, True, now_ns)
            self._until_ns[priority] = now_ns + duration_ns
            due.append(priority)
        return self._frames(due, now_ns)

    def resume(self, classes: Iterable[int], now_ns: int) -> list[bytes]:
        """Ends the pauses of classes at once; returns the frame to send. It names also classes that this host did not pause.

        Raises:
            ValueError: a class above 7; nothing changes.
        """
        wanted = [check_class(priority, "resume") for priority in classes]
        for priority in wanted:
            self._end(priority, now_ns)
        return self._frames(wanted, now_ns)

    def advance(self, now_ns: int) -> tuple[list[bytes], list[StormChange]]:
        """Renews and ends pauses; returns the frames to send, and the storms that began or ended."""
        due = {priority for priority, renew_ns in self._renew_ns.items() if renew_ns <= now_ns}
        for priority, until_ns in list(self._until_ns.items()):
            if until_ns <= now_ns:
                self._end(priority, until_ns)
                due.add(priority)
        changes = self.watchdog.advance(now_ns)
        for change in changes:
            self.counters[change.priority].storms += change.began
            if self.watchdog.ignored(change.priority):
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
        return [PfcFrame(self.source, quanta).encode()] if quanta else []


def _earliest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
