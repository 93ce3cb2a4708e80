"""Keeps the keys in memory in step with the key file, and with the new key's file during a change. An edge: these two files.

FILE holds the key, FILE.new its successor. A process accepts every key that is on disk: one that starts during a change accepts
both keys, as running processes do. Only `apply` changes files, in a single step of the file system.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic

from protocol.bodies.keys import KeyStep, RotationStep
from protocol.key import KeyFileError, put_in_place
from protocol.keyring import K, KeyRing


def new_beside(path: Path) -> Path:
    """The path of the new key's file."""
    return path.with_name(path.name + ".new")


class KeyFiles(Generic[K]):
    """Updates a key ring from the key files, which `load` reads."""

    def __init__(self, path: Path, ring: KeyRing[K], load: Callable[[Path], K] | None = None) -> None:
        """`load`: None: as the key in use was loaded."""
        self.path = path
        self.ring = ring
        self._load: Callable[[Path], K] = load or type(ring.sending).load  # type: ignore[attr-defined]
        self._seen: object = None
        self._wrong = ""
        self._told: list[str] = []

    def refresh(self) -> list[str]:
        """Reads the files again if they changed; returns lines for the log.

        A file that can't be read leaves the ring as it is, and is read again at the next call; what is wrong is told once.
        """
        seen = _identity(self.path), _identity(new_beside(self.path))
        if seen == self._seen:
            return []
        try:
            keys = [self._load(path) for path, there in zip((self.path, new_beside(self.path)), seen, strict=True) if there]
        except KeyFileError as error:
            told, self._wrong = self._wrong, str(error)
            return [f"{error}; the keys stay as they are"] if told != self._wrong else []
        self._seen, self._wrong = seen, ""
        others = [key for key in keys if key.ident != self.ring.sending.ident]
        before, self.ring.other = self.ring.other, others[-1] if others else None
        if (before and before.ident) == (self.ring.other and self.ring.other.ident):
            return []
        if self.ring.renews:
            return ["a newer key of this host is there: registering with it"]
        if before is not None and before.fingerprint == self.ring.sending.fingerprint:
            return ["the older key of this host is no longer used"]
        if (other := self.ring.other) is not None:
            return [f"key {name(other.fingerprint)} is accepted, too"]
        return [f"key {name(before.fingerprint)} is no longer accepted"] if before is not None else []

    def apply(self, message: KeyStep) -> list[str]:
        """Carries out a step of the change, once we send with the key that remains; returns lines for the log."""
        lines = self.refresh()
        keeps = {RotationStep.DROP: message.new, RotationStep.CANCEL: message.old}.get(message.step)
        if keeps == self.ring.sending.fingerprint and self.ring.other is not None:
            fresh = new_beside(self.path)
            try:
                if not self._holds(fresh, message.new):
                    pass  # another key is there, for another reason: leave it alone
                elif message.step is RotationStep.DROP:
                    put_in_place(fresh, self.path)
                else:
                    fresh.unlink()
            except OSError as error:
                lines.append(f"key file {fresh}: {error.strerror}; both keys stay accepted until it can be put in place")
            lines += self.refresh()
        told, self._told = self._told, lines
        return lines if lines != told else []

    def settle(self) -> list[str]:
        """Puts a newer key of this host's in the place of the older one, once the leader has taken it; returns lines for the
        log."""
        fresh = new_beside(self.path)
        try:
            if not self.ring.renews or self._load(fresh).ident != self.ring.sending.ident:
                return []
            put_in_place(fresh, self.path)
        except (KeyFileError, OSError):
            return []
        return self.refresh()

    def _holds(self, path: Path, fingerprint: int) -> bool:
        try:
            return self._load(path).fingerprint == fingerprint
        except KeyFileError:
            return False


def name(fingerprint: int) -> str:
    """A key's name for people: its fingerprint, which reveals nothing about the key."""
    return f"{fingerprint:016x}"


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode, status.st_uid
