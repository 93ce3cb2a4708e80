"""A fabric's shared key and the tag it puts on a frame. An edge: the key file, mode 0600.

Source: RFC 7693 (BLAKE2), keyed mode, 16-byte digest, with a personalisation of this protocol's own.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

SECRET_BYTES = 32
TAG_BYTES = 16
PERSON = b"baton v1"
_FINGERPRINT_PERSON = b"batonfpr"
_LONGEST_FILE = 4096
_compare = hmac.compare_digest


def open_to_others(status: os.stat_result, *, user: int) -> str:
    """Why a file is no place for a secret of this user's process: others can read, write or own it; empty if it is one."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        return f"mode {mode:04o} is open to others; chmod 600 it"
    if status.st_uid not in (0, user):
        return f"is owned by uid {status.st_uid}; chown it to root, or to the user of this process (uid {user})"
    return ""


class KeyFileError(ValueError):
    """A key file that cannot be used; the text is one line with the remedy."""


def read_secret(path: str | os.PathLike[str], what: str, made: str = "") -> str:
    """The text of a file that only its owner may read, without space around it. `made` says how one is made, such as by which
    command.

    Raises KeyFileError, which calls the file `what`: missing, unreadable, no regular file, or open to others.
    """
    try:
        # O_NONBLOCK: a FIFO in the file's place must not block the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeyFileError(f"{what} {path}: {error.strerror}; name the {what}, or make one{made and f' {made}'}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{what} {path}: not a regular file; name the {what} itself")
        if complaint := open_to_others(status, user=os.geteuid()):
            raise KeyFileError(f"{what} {path}: {complaint}")
        return os.read(descriptor, _LONGEST_FILE).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)


def write_secret(path: Path, text: str, what: str, remedy: str) -> None:
    """Writes a file of mode 0600 that does not exist yet. Raises KeyFileError: it exists, or cannot be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise KeyFileError(f"{what} {path}: exists; {remedy}") from None
    except OSError as error:
        raise KeyFileError(f"{what} {path}: {error.strerror}; name a writable directory") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise KeyFileError(f"{what} {path}: {error.strerror}; make room and try again") from None


def put_in_place(fresh: Path, path: Path) -> None:
    """Replaces a file in one step; after a power cut one of both is there, and whole. Raises OSError: nothing is replaced."""
    _sync(fresh)
    fresh.replace(path)
    with suppress(OSError):  # who may write a directory need not be allowed to read it
        _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Key:
    """A shared secret of 32 bytes. The keyed hash is prepared once and copied for each frame."""

    __slots__ = ("_prepared", "secret")

    def __init__(self, secret: bytes) -> None:
        """Raises ValueError: the secret is not 32 bytes."""
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"secret: {len(secret)} bytes, must be {SECRET_BYTES}")
        self.secret = bytes(secret)
        """For code that computes tags itself (agents/reflex/reflex.c, controller/frames/frames.c); never shown."""
        self._prepared = hashlib.blake2s(key=secret, digest_size=TAG_BYTES, person=PERSON)

    @property
    def fingerprint(self) -> int:
        """64 bits that identify the key and reveal nothing about it."""
        return int.from_bytes(hashlib.blake2s(key=self.secret, digest_size=8, person=_FINGERPRINT_PERSON).digest())

    @property
    def ident(self) -> int:
        """What tells it from every other key."""
        return self.fingerprint

    @property
    def from_leader(self) -> Key:
        """The key for frames of the leader: this one, which serves all."""
        return self

    def tag_bytes(self, _: bytes) -> int:
        """How long the tag of any frame is."""
        return TAG_BYTES

    def tag(self, data: bytes) -> bytes:
        """The 16-byte tag of `data`."""
        digest = self._prepared.copy()
        digest.update(data)
        return digest.digest()

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether `tag` is that of `data`; compared in constant time."""
        digest = self._prepared.copy()
        digest.update(data)
        return _compare(digest.digest(), tag)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Key:
        """Reads a key file: 64 hexadecimal digits, a regular file that only its owner may read.

        Raises KeyFileError: missing, unreadable, open to others (`open_to_others`), or not 64 hexadecimal digits.
        """
        text = read_secret(path, "key file", "by `baton key generate`")
        try:
            return cls(bytes.fromhex(text))
        except ValueError:
            wanted = f"must be {2 * SECRET_BYTES} hexadecimal digits and no more; name the right file, or restore it"
            told = "holds a host's key; name the controllers' master key" if text.startswith('{"baton"') else wanted
            raise KeyFileError(f"key file {path}: {told}") from None

    @classmethod
    def generate(cls, path: str | os.PathLike[str]) -> Key:
        """Writes a new random key to a file of mode 0600 and returns the key; never overwrites a file.

        Raises KeyFileError: the file exists, or cannot be written.
        """
        secret = secrets.token_bytes(SECRET_BYTES)
        write_secret(Path(path), secret.hex() + "\n", "key file", "remove it to give the fabric a new key")
        return cls(secret)
