"""Copies of root's files for processes that run by users of their own. An edge: files.

The key, users' passwords and certificates' keys are root's, mode 0600: so that an operator need not give them away, the
supervisor puts a copy of each into the run directory, where the one process that needs it can read it and no other. It copies
again what has changed. A process does not change what it got, with one exception: the coordinator ends a change of the
fabric's key by putting the new key's file in the place of the old one's, or by removing it. The supervisor does the same to the
original.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from protocol.key import open_to_others, put_in_place
from protocol.key_files import new_beside

Seen = tuple[int, int, int, int, int] | None


class Copies:
    """The copies in one run directory, which must be root's alone to write into."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._wanted: dict[Path, tuple[Path, int, bool]] = {}
        self._seen: dict[Path, Seen] = {}

    def want(self, source: Path, copy: Path, *, owner: int, secret: bool = True) -> Path:
        """Keeps `copy` equal to `source` from the next `refresh` on, for the user `owner`; returns `copy`. A `secret` must be a
        file for its owner only (`open_to_others`), else there is no copy."""
        self._wanted[copy] = source, owner, secret
        return copy

    def forget(self, *directories: Path) -> None:
        """Keeps no copy in these directories any more, and removes those that are there."""
        for copy in [copy for copy in self._wanted if copy.parent in directories]:
            del self._wanted[copy]
            self._seen.pop(copy, None)
            copy.unlink(missing_ok=True)

    def sources(self) -> Iterator[Path]:
        """The originals."""
        yield from (source for source, _, _ in self._wanted.values())

    def refresh(self) -> list[str]:
        """Copies what has changed, and removes copies of what is gone. Returns what is wrong with a file that is now another
        than before, as lines with the remedy."""
        found = []
        for copy, (source, owner, secret) in self._wanted.items():
            seen = _seen(source)
            if copy in self._seen and self._seen[copy] == seen:
                continue
            self._seen[copy] = seen
            try:
                if seen is None:
                    copy.unlink(missing_ok=True)
                else:
                    self._copy(source, copy, owner, secret)
            except (OSError, ValueError) as error:
                copy.unlink(missing_ok=True)
                found.append(f"{source}: {error.strerror if isinstance(error, OSError) else error}")
        return found

    def take_back(self, key: Path) -> str:
        """Does to the file of the key what the coordinator has done to its copies since the last `refresh`: puts the new key in
        the place of the old one, or gives the new one up. Returns what was done, or why it can't be; mostly nothing."""
        copies = {source: copy for copy, (source, _, _) in self._wanted.items()}
        new = new_beside(key)
        copy, new_copy = copies.get(key), copies.get(new)
        if copy is None or new_copy is None or self._seen.get(new_copy) is None or new_copy.exists():
            return ""
        if _seen(new) != self._seen[new_copy] or _seen(key) != self._seen[copy]:
            return ""  # changed by somebody else meanwhile: the next `refresh` tells the coordinator
        held = _read(copy)
        try:
            if held == new.read_bytes():
                put_in_place(new, key)
                told = f"{key}: holds the new key"
            elif held == key.read_bytes():
                new.unlink()
                told = f"{new}: was given up"
            else:
                return ""
        except OSError as error:
            return f"{new}: {error.strerror}; both keys stay accepted until it can be put in place"
        self._seen[copy], self._seen[new_copy] = _seen(key), None
        return told

    def _copy(self, source: Path, copy: Path, owner: int, secret: bool) -> None:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("is not a regular file; name the file itself")
            if secret and (complaint := open_to_others(status, user=owner)):
                raise ValueError(complaint)
            content = file.read()
        put(self._run_dir, copy, content, owner)


def put(run_dir: Path, path: Path, content: bytes, owner: int | None) -> None:
    """Replaces a file in one step by one of mode 0600 that belongs to `owner` (None: to this user). Raises OSError.

    `path` may be in another user's directory below `run_dir`: the file is made in `run_dir`, which must be ours alone."""
    prepare(run_dir, path, content, owner).replace(path)


def prepare(run_dir: Path, path: Path, content: bytes, owner: int | None) -> Path:
    """Makes the file that is to replace `path`, as `put` does, and returns where it is. Raises OSError: nothing is left."""
    temporary = run_dir / f".{path.parent.name}-{path.name}.new"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, 0o600)
            if owner is not None:
                os.fchown(descriptor, owner, -1)
    except OSError:
        temporary.unlink()
        raise
    return temporary


def _seen(path: Path) -> Seen:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode, status.st_uid


def _read(path: Path) -> bytes:
    """What a file of another user holds; nothing if it is no plain file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(4096) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
