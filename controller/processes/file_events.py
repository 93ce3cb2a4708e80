"""Says when a file may have changed, so that nobody need look at it again and again. An edge: inotify(7)."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

_WRITTEN, _MOVED_IN, _DELETED = 0x8, 0x80, 0x200  # IN_CLOSE_WRITE, IN_MOVED_TO, IN_DELETE (linux/inotify.h)


class FileEvents:
    """Readable when the file was written, replaced or removed. A file that is a link may change without notice."""

    def __init__(self, path: Path) -> None:
        """Raises OSError: the kernel has no inotify, or no more watches, or there is no such directory."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        directory = os.fsencode(path.absolute().parent)
        mask = _WRITTEN | _MOVED_IN | _DELETED
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, directory, mask) < 0:
            number = ctypes.get_errno()
            self.close()
            raise OSError(number, os.strerror(number), str(path))

    def fileno(self) -> int:
        """For select."""
        return self._descriptor

    def drain(self) -> bool:
        """Takes what waits to be read, whatever file in the directory it is about; returns whether there was any."""
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self._descriptor, 1 << 16))
        return False

    def close(self) -> None:
        """Ends the watch."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
