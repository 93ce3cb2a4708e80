"""What wakes the supervisor before its time: `stop` and `reload_soon`, and changed files. An edge: a socket, inotify(7)."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Collection
from pathlib import Path

from controller.processes.file_events import FileEvents
from controller.processes.services import Readable


class Wakeups:
    """Readable for select where there is something to look at; `drain` takes it."""

    def __init__(self, pause_s: float) -> None:
        """`pause_s`: for so long after a change of a file the next one wakes nobody, since others may write beside it, too."""
        self._pause_s = pause_s
        self._changes: list[FileEvents] = []
        self._sees_all = False
        self._changed_s = 0.0
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)

    def watch(self, paths: Collection[Path]) -> None:
        """Looks out for changes of these files, and of none that it looked out for before."""
        self._close_watches()
        for path in paths:
            with contextlib.suppress(OSError):
                self._changes.append(FileEvents(path))
        self._sees_all = len(self._changes) == len(paths)

    @property
    def sources(self) -> list[Readable]:
        """What to wait for."""
        return [self._woken] if self._changed_lately else [self._woken, *self._changes]

    @property
    def sees_changes(self) -> bool:
        """Whether a change of any watched file wakes; otherwise somebody has to look."""
        return self._sees_all and not self._changed_lately

    @property
    def _changed_lately(self) -> bool:
        return time.monotonic() - self._changed_s < self._pause_s

    def wake(self) -> None:
        """Wakes who waits for `sources`; for signal handlers, too."""
        with contextlib.suppress(BlockingIOError):
            self._wake.send(b"!")

    def drain(self) -> None:
        """Takes what has woken."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(64)
        if sum(changes.drain() for changes in self._changes):
            self._changed_s = time.monotonic()

    def close(self) -> None:
        """Nothing wakes any more."""
        self._close_watches()
        self._woken.close()
        self._wake.close()

    def _close_watches(self) -> None:
        for changes in self._changes:
            changes.close()
        self._changes = []
