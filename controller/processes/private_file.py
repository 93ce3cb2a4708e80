"""Files that only their owner reads. An edge: files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def private(path: Path, flags: int) -> BinaryIO:
    """Opens a file for writing, with mode 0600 whatever it was before; makes it if there is none. Follows no symbolic link.

    `flags`: O_TRUNC, O_APPEND or O_EXCL. Raises OSError."""
    descriptor = os.open(path, flags | os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab" if flags & os.O_APPEND else "wb")
