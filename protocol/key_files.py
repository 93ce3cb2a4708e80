"""Keeps the keys in memory in step with the key file, and with the new key's file during a change. An edge: these two files.

FILE holds the key, FILE.new its successor. A process accepts every key that is on disk: one that starts during a change accepts
both keys, as running processes do. Only `apply` changes files, in a single step of the file system.
"""

from __future__ import annotations

from pathlib import Path

from protocol.bodies.keys import KeyStep, RotationStep
from protocol.key import Key, KeyFileError
from protocol.keyring import KeyRing


def new_beside(path: Path) -> Path:
    """The path of the new key's file."""
    return path.with_name(path.name + ".new")


class KeyFiles:
    """Updates a key ring from the key files."""

    def __init__(self, path: Path, ring: KeyRing) -> None:
        self.path = path
        self.ring = ring
        self._seen: object = None
        self._told: list[str] = []

    def refresh(self) -> list[str]:
        """Reads the files again if they changed; returns lines for the log.

        A file that can't be read leaves the ring as it is, and is read again when it changes.
        """
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
        return [f"key {name(after)} is accepted, too" if after else f"key {name(before)} is no longer accepted"]

    def apply(self, message: KeyStep) -> list[str]:
        """Carries out a step of the change, once we send with the key that remains; returns lines for the log."""
        lines = self.refresh()
        keeps = {RotationStep.DROP: message.new, RotationStep.CANCEL: message.old}.get(message.step)
        if keeps == self.ring.sending.fingerprint and self.ring.other is not None:
            fresh = new_beside(self.path)
            try:
                if not _holds(fresh, message.new):
                    pass  # another key is there, for another reason: leave it alone
                elif message.step is RotationStep.DROP:
                    fresh.replace(self.path)
                else:
                    fresh.unlink()
            except OSError as error:
                lines.append(f"key file {fresh}: {error.strerror}; both keys stay accepted until it can be put in place")
            lines += self.refresh()
        told, self._told = self._told, lines
        return lines if lines != told else []


def name(fingerprint: int) -> str:
    """A key's name for people: its fingerprint, which reveals nothing about the key."""
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
