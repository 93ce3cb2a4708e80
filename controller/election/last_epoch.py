"""The last epoch that a controller of this machine took, in a file beside the master key, where it outlives the store. An edge.

A private store forgets its epochs when it ends, and hosts do not. A leader that began anew in an epoch that they know would be
refused for as long as that lasts: they can't tell its first sequence numbers, or its chain of heartbeats, from those of its
predecessor that somebody plays again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from protocol.auth import believable

log = logging.getLogger("baton.elector")

DIGITS = 10


def beside(key_file: Path) -> Path:
    """The file that belongs to a master key."""
    return key_file.with_name(key_file.name + ".epoch")


class LastEpoch:
    """The file, open for reading and writing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> int:
        """The epoch; 0 if there is none, or none that a leader can have: who set the clock back does not go on from there."""
        try:
            epoch = int(os.pread(self._descriptor, DIGITS + 1, 0) or b"0")
        except (OSError, ValueError):
            return 0
        return epoch if believable(epoch, int(time.time())) else 0

    def note(self, epoch: int) -> None:
        """Writes an epoch that was taken, unless a later one is there. Nothing waits for the disk: a lease is short."""
        if epoch <= self.read():
            return
        try:
            os.pwrite(self._descriptor, b"%0*d\n" % (DIGITS, epoch), 0)
            threading.Thread(target=os.fdatasync, args=(self._descriptor,), daemon=True).start()
        except (OSError, RuntimeError) as error:  # the latter: there can be no thread now
            log.error("epoch %d may not be kept (%s): free the place, else hosts may refuse the next leader", epoch, error)
