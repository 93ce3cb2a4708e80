"""The hosts' enrolments: who was given a key, for which MAC addresses, and whose key counts no more. An edge: a file.

A leader knows a host's key and name by the master key alone (protocol/keys/hosts.py). What it cannot know is told here: which
keys are revoked, and which addresses are reserved for a host. `baton host ...` writes it to a file beside the master key, and
to the store; a leader follows both, and takes what either says. An entry is only ever added, and never becomes valid again once
it is revoked: so nothing that is lost, late or in another order brings a revoked key back while one of the two is left.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol.bodies.text import packed_text, printable
from protocol.key import KeyFileError, open_to_others
from protocol.keys.hosts import SALT_BYTES
from protocol.units import COUNT_MAX

log = logging.getLogger("baton.coordinator")

MOST = 65_536
REMEDY = "if its host's keys were revoked, revoke them again, and enroll the host anew"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """One key that was given to a host. Times are seconds since 1970; `revoked` is 0 while the key counts."""

    name: str
    enrolled: int
    macs: tuple[str, ...] = ()
    revoked: int = 0


Document = dict[str, dict[str, Any]]
"""By the first 8 bytes of the enrolment, in hexadecimal digits: the fields of an `Enrolment`."""


class Enrolments:
    """All that is known."""

    def __init__(self) -> None:
        self._by_salt: dict[bytes, Enrolment] = {}
        self._macs: dict[bytes, frozenset[bytes]] = {}
        self._reserved: dict[bytes, str] = {}
        self._told: set[str] = set()
        """The entries that made no sense."""

    def merge(self, document: Mapping[str, Any]) -> bool:
        """Takes what is new in a document; returns whether anything was. What makes no sense is told once, and left out."""
        before = dict(self._by_salt)
        for text, fields in document.items():
            try:
                salt, new = _entry(text, fields)
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                if text not in self._told:
                    why = f"{type(error).__name__}: {error}"
                    log.error("%s", printable(f"enrolment {text} makes no sense, and is left out: {why}; {REMEDY}"))
                    self._told.add(text)
                continue
            known = self._by_salt.get(salt)
            if known is None and (new.revoked or len(self._by_salt) < MOST):
                self._by_salt[salt] = new
            elif known is not None and new.revoked and not known.revoked:
                self._by_salt[salt] = Enrolment(known.name, known.enrolled, known.macs, new.revoked)
        if self._by_salt == before:
            return False
        self._macs = {
            salt: frozenset(bytes.fromhex(mac.replace(":", "")) for mac in one.macs) for salt, one in self._by_salt.items()
        }
        self._reserved = {
            mac: one.name for salt, one in self._by_salt.items() if not one.revoked for mac in self._macs[salt]
        }
        return True

    def document(self) -> Document:
        """All of it, as JSON values."""
        return {salt.hex(): asdict(one) | {"macs": list(one.macs)} for salt, one in self._by_salt.items()}

    def joined(self, document: Mapping[str, Any] | None) -> Document:
        """All of it, with what is new in a document taken in."""
        self.merge(document or {})
        return self.document()

    def add(self, enrolment: bytes, name: str, macs: tuple[str, ...], now_s: int) -> None:
        """Notes that a host was enrolled: later than with any earlier key, whatever the clock says. Raises KeyFileError, as
        `check_room`."""
        self.check_room()
        newest = max((one.enrolled for one in self._by_salt.values() if one.name == name), default=-1)
        self.merge({enrolment[:SALT_BYTES].hex(): asdict(Enrolment(name, max(now_s, newest + 1), macs))})

    def check_room(self) -> None:
        """Raises KeyFileError: a key that is given to a host now could not be noted, and so not be revoked."""
        if len(self._by_salt) >= MOST:
            raise KeyFileError(f"{MOST} keys were given out under this master key, and no more can be noted; use a new one")

    def revoke(self, name: str, now_s: int, *, but_newest: bool = False) -> int:
        """Revokes a host's keys, all or all but the newest one; returns how many."""
        mine = sorted((one.enrolled, salt) for salt, one in self._by_salt.items() if one.name == name and not one.revoked)
        chosen = mine[:-1] if but_newest else mine
        self.merge({salt.hex(): asdict(self._by_salt[salt]) | {"revoked": now_s} for _, salt in chosen})
        return len(chosen)

    def valid(self) -> list[tuple[bytes, Enrolment]]:
        """The enrolments that count, each with the first 8 bytes by which it is known: the newest of each host last."""
        return sorted(((salt, one) for salt, one in self._by_salt.items() if not one.revoked), key=lambda it: it[1].enrolled)

    def revoked(self, enrolment: bytes) -> bool:
        """Whether this enrolment counts no more."""
        one = self._by_salt.get(enrolment[:SALT_BYTES])
        return one is not None and one.revoked > 0

    def macs(self, enrolment: bytes) -> frozenset[bytes]:
        """The only addresses that the host may speak from; empty: any one that is no other's."""
        return self._macs.get(enrolment[:SALT_BYTES], frozenset())

    def reserved(self, mac: bytes) -> str | None:
        """The name of the host for which this address is reserved."""
        return self._reserved.get(mac)


def _entry(text: str, fields: Any) -> tuple[bytes, Enrolment]:  # noqa: ANN401 -- what the store or a file holds
    """Raises ValueError, KeyError, TypeError, OverflowError: it is none."""
    salt = bytes.fromhex(text)
    one = Enrolment(
        str(fields["name"]), _seconds(fields["enrolled"]), tuple(map(str, fields["macs"])), _seconds(fields["revoked"])
    )
    packed_text("name", one.name, 255)
    if len(salt) != SALT_BYTES:
        raise ValueError(f"{len(salt)} bytes, not {SALT_BYTES}")
    if any(len(bytes.fromhex(mac.replace(":", ""))) != 6 for mac in one.macs):
        raise ValueError(f"macs: {one.macs} are no MAC addresses")
    return salt, one


def _seconds(value: Any) -> int:  # noqa: ANN401 -- as above
    """A time as the store can hold it. Raises ValueError, TypeError, OverflowError: it is none."""
    if (seconds := int(value)) < 0:
        raise ValueError("before 1970")
    return min(COUNT_MAX, seconds)


def beside(key_file: Path) -> Path:
    """The file of the enrolments that belongs to a master key."""
    return key_file.with_name(key_file.name + ".hosts")


class EnrolmentFile:
    """The file beside the master key: JSON, mode 0600."""

    def __init__(self, key_file: Path) -> None:
        self.path = beside(key_file)
        self._seen: object = None

    def read(self) -> Document:
        """What it says; nothing if there is none. Raises KeyFileError: unreadable, open to others, or damaged."""
        try:
            with self.path.open(encoding="utf-8") as file:
                if complaint := open_to_others(os.fstat(file.fileno()), user=os.geteuid()):
                    raise KeyFileError(f"{self.path}: {complaint}")
                found = json.load(file)
        except FileNotFoundError:
            return {}
        except KeyFileError:
            raise
        except OSError as error:
            raise KeyFileError(f"{self.path}: {error.strerror}") from None
        except ValueError:
            raise KeyFileError(f"{self.path}: is damaged; copy that of the other controller, or enroll hosts anew") from None
        if not isinstance(found, dict):
            raise KeyFileError(f"{self.path}: is damaged; copy that of the other controller, or enroll hosts anew")
        return found

    def news(self) -> Document | None:
        """What it says if it has changed since the last call; None: it has not. Raises as `read`."""
        try:
            status = self.path.stat()
            seen: object = status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode
        except OSError:
            seen = None
        if seen == self._seen:
            return None
        found = self.read()
        self._seen = seen
        return found

    @contextmanager
    def changing(self) -> Iterator[Enrolments]:
        """The enrolments, to be changed inside the block and then written: one program at a time, whole or not at all.

        Raises KeyFileError as `read`, and if it cannot be written.
        """
        try:
            with self.path.with_name(self.path.name + ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                found = Enrolments()
                found.merge(self.read())
                before = found.document()
                yield found
                if found.document() != before:
                    fresh = self.path.with_name(self.path.name + ".tmp")
                    fresh.unlink(missing_ok=True)
                    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                        json.dump(found.document(), file)
                        file.flush()
                        os.fsync(file.fileno())
                    fresh.replace(self.path)
        except OSError as error:
            raise KeyFileError(f"{self.path}: {error.strerror}; name a writable directory") from None
