"""What one turn of the leader's loop takes of what the loop of slots tells: frames for Python, and what became of the others.
Pure, but for the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from controller.coordinator.intake import Intake
from controller.coordinator.repeats import Repeats
from controller.frames.exchange import Exchange
from controller.frames.frames import Batch
from controller.frames.loop import SlotLoop
from controller.frames.told import Planned, RawFrame, Told, records
from protocol.link import ControlSocket
from protocol.timers import Mishaps

TAKES_NS = 1_000_000
"""No record is begun later in a turn: timers and the lease are served between two turns. Frames that must not wait are answered
by the loop of slots."""


class LoopIntake(Intake):
    """As `Intake`, from what the loop of slots tells.

    Args:
        loop: takes the frames of both sockets.
        granting: takes a record of what it told, at the time (ns) of that.
        attend: is called when all that was told has been taken.
    """

    def __init__(
        self,
        link: ControlSocket,
        exchange: Exchange,
        loop: SlotLoop,
        repeats: Repeats,
        mishaps: Mishaps,
        granting: Callable[[Batch | Planned, int], None],
        receive: Callable[[bytes, int, bool], None],
        attend: Callable[[int], None],
    ) -> None:
        super().__init__(link, exchange, repeats, mishaps, granting, receive)
        self._loop = loop
        self._take = granting
        self._attend = attend
        self._records: Iterator[tuple[int, Told]] | None = None
        self._read_ns = 0

    @property
    def source(self) -> ControlSocket | SlotLoop:
        """The loop."""
        return self._loop

    @property
    def behind(self) -> bool:
        """Whether the last turn left some."""
        return self._records is not None

    def read_until(self, now_ns: int) -> int:
        """Every frame that came before this time has been read, and handled but for what waits here."""
        return self._all_read_ns

    def turn(self, now_ns: int, *, woken: bool) -> None:
        """Takes what was told, as far as one turn may."""
        if self._records is None:
            told, self._read_ns = self._loop.told()
            if not told and not woken:
                self._all_read_ns = self._read_ns
                return
            self._records = records(told)
        until_ns = now_ns + TAKES_NS
        for then_ns, record in self._records:
            self._one(record, then_ns, now_ns)
            if time.monotonic_ns() >= until_ns:
                return
        self._records, self._all_read_ns = None, self._read_ns
        self._attend(time.monotonic_ns())

    def _one(self, record: Told, then_ns: int, now_ns: int) -> None:
        if isinstance(record, RawFrame):
            if not self._repeats.drops(record.raw, record.stamp_ns):
                self._stamp_ns = record.stamp_ns
                self._receive(record.raw, now_ns, record.proven)
            return
        with self._mishaps.surviving("a batch of frames", now_ns):
            self._take(record, then_ns)
