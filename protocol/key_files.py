"""The key's file, and beside it the new key's while a fabric changes its key. An edge: these two files.

FILE holds the key, FILE.new the one that is to come after it. What is on disk is taken: one that starts in the middle of a
change takes both, as those that run do. Only `obey` changes files, by a single step of the file system.
"""

from __future__ import annotations

from pathlib import Path

from protocol.bodies.keys import KeyStep, Step
from protocol.key import Key, KeyFileError
from protocol.keyring import KeyRing


def new_beside(path: Path) -> Path:
    """Where the key after this one is."""
    return path.with_name(path.name + ".new")


class KeyFiles:
    """Keeps a ring as the files say."""

    def __init__(self, path: Path, ring: KeyRing) -> None:
        self.path = path
        self.ring = ring
        self._seen: object = None
        self._told: list[str] = []

    def refresh(self) -> list[str]:
        """Looks whether a file changed, and takes it; a line for each thing to be told. A file that can't be read changes
        nothing: the ring stays as it is, and it is looked at again when it is another."""
        seen = _identity(self.path), _identity(new_beside(self.path))
        if seen == self._seen:
            return []
        self._seen = seen
        try:
            keys = [Key.load(path) for path, there in zip((self.path, new_beside(self.path)), seen, strict=True) if there]
        except KeyFileError as error:
            return [f"{error}; the keys stay as they are"]
        sending, before = self.ring.fingerprints()
        others = [key for key in keys if key.fingerprint != sending]
        self.ring.other = others[-1] if others else None
        after = self.ring.fingerprints()[1]
        if after == before:
            return []
        return [f"key {name(after)} is taken, too" if after else f"key {name(before)} is taken no more"]

    def obey(self, message: KeyStep) -> list[str]:
        """Does what a step asks, once we send with the key that is to stay; lines to be told."""
        lines = self.refresh()
        keeps = {Step.DROP: message.new, Step.CANCEL: message.old}.get(message.step)
        if keeps == self.ring.sending.fingerprint and self.ring.other is not None:
            fresh = new_beside(self.path)
            try:
                if not _holds(fresh, message.new):
                    pass  # what else is there was put there for another reason, and is not ours to touch
                elif message.step is Step.DROP:
                    fresh.replace(self.path)
                else:
                    fresh.unlink()
            except OSError as error:
                lines.append(f"key file {fresh}: {error.strerror}; both keys are taken until it can be put in place")
            lines += self.refresh()
        told, self._told = self._told, lines
        return lines if lines != told else []


def name(fingerprint: int) -> str:
    """A key's name for people: it says which key, and nothing of what is in it."""
    return f"{fingerprint:016x}"


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_mode


def _holds(path: Path, fingerprint: int) -> bool:
    try:
        return Key.load(path).fingerprint == fingerprint
    except KeyFileError:
        return False
