"""A control link between socket pairs, for a leader that takes and sends frames in batches, by descriptors."""

from __future__ import annotations

import socket
from collections.abc import Callable

from controller.coordinator.coordinator import DEFERRED
from controller.frames.frames import DEFERRED as DEFERRED_BOX
from controller.frames.frames import MAIN

DEFERRED_KINDS = frozenset(int(kind) for kind, _ in DEFERRED)


class PairedLink:
    """A control link between socket pairs: `deliver` puts frames in, `delivered` takes out what was sent. Each holds some
    hundred frames."""

    tag, interface = b"", "c0"

    def __init__(self, address: bytes) -> None:
        self.address = address
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        self._inner, self._outer = [inner for inner, _ in pairs], [outer for _, outer in pairs]
        for end in (*self._inner, *self._outer):
            end.setblocking(False)

    def fileno(self) -> int:
        """The descriptor of frames that wake."""
        return self._inner[MAIN].fileno()

    def deferred_fileno(self) -> int:
        """The descriptor of those that do not."""
        return self._inner[DEFERRED_BOX].fileno()

    def stamp(self) -> None:
        """There are no stamps."""

    def send(self, frame: bytes) -> bool:
        """Sends a frame of the leader's; False: there is no room for it."""
        try:
            self._inner[MAIN].send(frame)
        except BlockingIOError:
            return False
        return True

    def send_stamped(self, frame: Callable[[int], bytes]) -> bool:
        """Sends a frame, made for no time in particular."""
        return self.send(frame(1))

    def receive(self) -> bytes | None:
        """The next frame; None: there is none."""
        return self._next(MAIN)

    def deferred_frames(self, most: int) -> list[tuple[bytes, int]]:
        """At most so many deferred frames."""
        found = list[tuple[bytes, int]]()
        while len(found) < most and (raw := self._next(DEFERRED_BOX)) is not None:
            found.append((raw, 0))
        return found

    def _next(self, box: int) -> bytes | None:
        try:
            return self._inner[box].recv(2048)
        except BlockingIOError:
            return None

    def arrived_ns(self) -> int:
        """No time in particular."""
        return 1

    def deliver(self, frame: bytes) -> int:
        """Returns the box in which the frame waits."""
        box = DEFERRED_BOX if len(frame) > 17 and frame[17] in DEFERRED_KINDS else MAIN
        self._outer[box].send(frame)
        return box

    def delivered(self) -> list[bytes]:
        """What was sent since the last call."""
        found = []
        while True:
            try:
                found.append(self._outer[MAIN].recv(2048))
            except BlockingIOError:
                return found

    def close(self) -> None:
        """Closes all ends."""
        for end in (*self._inner, *self._outer):
            end.close()
