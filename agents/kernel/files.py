"""Where an agent can write that gave up the rights over files (agents/kernel/capabilities.py). An edge: stat(2)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SEARCH, WRITE = 1, 3
"""What a directory's mode has to allow, for its owner, its group or all: to pass through it, and to make files in it."""


def in_the_way(directory: Path) -> Path | None:
    """The first directory on the way that keeps this user, also root, from `directory` by its owner and mode; None: it can be
    written, or be made where it is missing."""
    directory = directory.resolve()
    for at in (*reversed(directory.parents), directory):
        try:
            found = at.stat()
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            return None  # who opens it says so better
        if not _allows(found, WRITE if at == directory else SEARCH):
            return at
    return directory if not os.access(directory, os.W_OK) else None  # a file system that can only be read


def _allows(found: os.stat_result, wanted: int) -> bool:
    if found.st_uid == os.geteuid():
        return found.st_mode >> 6 & wanted == wanted
    if found.st_gid in (os.getegid(), *os.getgroups()):
        return found.st_mode >> 3 & wanted == wanted
    return found.st_mode & wanted == wanted
