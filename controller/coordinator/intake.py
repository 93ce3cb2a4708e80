"""What one turn of the leader's loop takes of the frames that wait. An edge: the control socket.

Frames that do not wake the loop come first: a slot's ACK comes before its YIELD, a REPORT before a LEAVE. Where the library in
C takes frames, it takes them in batches, and gives back one by one those that Python handles.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from controller.coordinator.repeats import Repeats
from controller.frames.exchange import Exchange
from controller.frames.frames import DEFERRED, MAIN, Batch
from controller.frames.loop import SlotLoop
from protocol.link import ControlSocket, arrived_ns
from protocol.timers import Mishaps

MOST_FRAMES = 64
"""How many frames of each kind, deferred or not, one turn of the loop takes: some milliseconds. Timers, the lease and the plan
are served between two turns, however many frames come. Of frames that come in batches it takes these only one by one, and
begins no batch after `BATCHES_NS`."""
BATCHES_NS = 250_000


class Intake:
    """Takes frames, and knows whether some are left.

    Args:
        exchange: the frames of the library in C, if it takes them.
        granting: takes a batch of that library.
        receive: takes a frame, at a time (ns), and whether it is proven (Batch.proven).
    """

    def __init__(
        self,
        link: ControlSocket,
        exchange: Exchange | None,
        repeats: Repeats,
        mishaps: Mishaps,
        granting: Callable[[Batch, int], None],
        receive: Callable[[bytes, int, bool], None],
    ) -> None:
        self._link = link
        self._exchange = exchange
        self._repeats = repeats
        self._mishaps = mishaps
        self._granting = granting
        self._receive = receive
        self._stamp_ns = 0
        """When the kernel received the frame that is handled (by the wall clock), if it came with a batch."""
        self._deferred = self._woken = False
        self._all_read_ns = 0
        """When the last turn began that read all frames."""

    @property
    def source(self) -> ControlSocket | SlotLoop:
        """What is readable when there is something to take."""
        return self._link

    @property
    def behind(self) -> bool:
        """Whether the last turn left some."""
        return self._deferred or self._woken

    def read_until(self, now_ns: int) -> int:
        """Every frame that came before this time has been read."""
        return self._all_read_ns if self.behind else now_ns

    def arrived_ns(self) -> int:
        """When the frame that is handled came (ns, of the monotonic clock)."""
        return self._link.arrived_ns() if self._exchange is None else arrived_ns(self._stamp_ns)

    def turn(self, now_ns: int, *, woken: bool) -> None:
        """Takes what waits, as far as one turn may. `woken`: the socket is readable."""
        self._deferred = self.deferred(now_ns)
        if woken or self._woken:
            self._woken = self.frames()
        if not self.behind:
            self._all_read_ns = now_ns

    def deferred(self, now_ns: int) -> bool:
        """Takes frames that did not wake the loop; returns whether there may be more."""
        if self._exchange is not None:
            return self._batches(self._exchange, DEFERRED)
        waited = self._link.deferred_frames(MOST_FRAMES)
        for raw, _ in waited:
            self._receive(raw, now_ns, False)
        return len(waited) == MOST_FRAMES

    def frames(self) -> bool:
        """Takes the other frames; returns whether there may be more."""
        if self._exchange is not None:
            return self._batches(self._exchange, MAIN)
        for _ in range(MOST_FRAMES):
            if (raw := self._link.receive()) is None:
                return False
            self._receive(raw, time.monotonic_ns(), False)
        return True

    def _batches(self, exchange: Exchange, box: int) -> bool:
        now = time.monotonic_ns()
        until_ns, left = now + BATCHES_NS, MOST_FRAMES
        while (batch := self.batch(exchange, box, now)) is not None and batch.more:
            left -= batch.raw is not None
            if not left or (now := time.monotonic_ns()) >= until_ns:
                return True
        return False

    def batch(self, exchange: Exchange, box: int, now_ns: int) -> Batch | None:
        """Takes one batch of those that have come; None: nothing."""
        if (batch := exchange.take(box, now_ns)) is not None:
            with self._mishaps.surviving("a batch of frames", now_ns):
                self._granting(batch, now_ns)
            if batch.raw is not None and not self._repeats.drops(batch.raw, batch.stamp_ns):
                self._stamp_ns = batch.stamp_ns
                self._receive(batch.raw, now_ns, batch.proven)
        return batch
