"""A key for each host, derived from the master key that only controllers have. Pure.

HKDF-SHA256 (RFC 5869): K(host) from the master key and the host's enrolment; from K(host), for each MAC address, one key for
frames to the leader and one for frames from it. So a host can make frames of its own alone, and no frame can be sent back.

An enrolment is 16 bytes: 8 random ones, and 8 that bind the host's name to them under the master key. So a leader needs no list
to know the key and the name of a host, and a host cannot take another name.
"""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass

from protocol.key import SECRET_BYTES, TAG_BYTES, Key
from protocol.keys.signing import PublicKey, Signer

SALT_BYTES, ENROLMENT_BYTES = 8, 16
NAMED_TAG_BYTES = ENROLMENT_BYTES + TAG_BYTES


class Derivation:
    """HKDF-SHA256 without salt, from one secret. In the standard library's terms, as a leader derives keys for every frame of a
    host that it does not know, forged or not: that takes a tenth of what `cryptography` takes."""

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(bytes(SECRET_BYTES), secret, "sha256")

    def __call__(self, *info: bytes) -> bytes:
        """32 bytes; `info` is joined with lengths, so that no two lists are alike."""
        joined = b"".join([len(part).to_bytes(2) + part for part in info])
        return hmac.digest(self._key, joined + b"\x01", "sha256")


class NamedKey:
    """The key for a host's frames to the leader. Its tag is the host's enrolment, by which the leader finds the key, and
    a keyed hash, which covers the enrolment too."""

    __slots__ = ("_key", "enrolment")

    def __init__(self, enrolment: bytes, key: Key) -> None:
        self.enrolment = enrolment
        self._key = key

    @property
    def secret(self) -> bytes:
        """For code that verifies tags itself (controller/frames/frames.c); never shown."""
        return self._key.secret

    def tag(self, data: bytes) -> bytes:
        """Enrolment and keyed hash, 32 bytes."""
        return self.enrolment + self._key.tag(data + self.enrolment)

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether `tag` is that of `data`."""
        return hmac.compare_digest(self.tag(data), tag)


@dataclass(frozen=True, slots=True, eq=False)
class Credentials:
    """All keys of one host at one MAC address."""

    enrolment: bytes
    to_leader: NamedKey
    from_leader: Key
    group: PublicKey
    """Verifies what the leader sends to all."""
    host: HostSecret
    """What they are derived from."""

    @property
    def fingerprint(self) -> int:
        """Of the master key from which they are derived."""
        return self.host.fingerprint

    @property
    def ident(self) -> bytes:
        """What tells them from all others of this address."""
        return self.enrolment

    def at(self, mac: bytes) -> Credentials:
        """The same host's keys at another MAC address."""
        return self.host.at(mac, self.group)


@dataclass(frozen=True, slots=True)
class HostSecret:
    """What one host has: its name, its enrolment, K(host), the leaders' public key, and the fingerprint of the master key."""

    name: str
    enrolment: bytes
    secret: bytes
    leader: bytes
    fingerprint: int

    def at(self, mac: bytes, group: PublicKey | None = None) -> Credentials:
        """The keys for frames from and to this MAC address. `group`: the leaders' public key, if it was read already."""
        derive = Derivation(self.secret)
        return Credentials(
            self.enrolment,
            NamedKey(self.enrolment, Key(derive(b"to the leader", mac))),
            Key(derive(b"from the leader", mac)),
            group or PublicKey(self.leader),
            self,
        )


class Master:
    """The master key: every host's keys, and the leaders' signature, follow from it."""

    __slots__ = ("_bind", "_derive", "fingerprint", "group", "secret", "signer")

    def __init__(self, key: Key) -> None:
        self.secret = key.secret
        self.fingerprint = key.fingerprint
        self._derive = Derivation(key.secret)
        self.signer = Signer(self._derive(b"baton leader"))
        self.group = self.signer.public_key
        self._bind = Derivation(self._derive(b"baton names"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Master:
        """Reads the controllers' key file. Raises KeyFileError as `Key.load`."""
        return cls(Key.load(path))

    @property
    def ident(self) -> int:
        """What tells it from every other master key."""
        return self.fingerprint

    def enroll(self, name: str, salt: bytes | None = None) -> HostSecret:
        """What the host of this name gets: something new, or what belongs to the first 8 bytes of an enrolment."""
        return self.host(self.enrolment(name, secrets.token_bytes(SALT_BYTES) if salt is None else salt), name)

    def enrolment(self, name: str, salt: bytes) -> bytes:
        """The enrolment of a host that begins with the first 8 bytes of `salt`."""
        return salt[:SALT_BYTES] + self._bound(salt[:SALT_BYTES], name)

    def host(self, enrolment: bytes, name: str) -> HostSecret:
        """The secret of an enrolment; whether the name belongs to it, `certifies` says."""
        secret = self._derive(b"baton host", enrolment)
        return HostSecret(name, enrolment, secret, self.group.public, self.fingerprint)

    def certifies(self, enrolment: bytes, name: str) -> bool:
        """Whether this master key gave the enrolment to the host of this name."""
        return hmac.compare_digest(enrolment[SALT_BYTES:], self._bound(enrolment[:SALT_BYTES], name))

    def _bound(self, salt: bytes, name: str) -> bytes:
        return self._bind(salt, name.encode())[: ENROLMENT_BYTES - SALT_BYTES]


class Speaker:
    """A host as a leader knows it by its frames: the keys that it speaks under, and its name once the leader has checked it."""

    __slots__ = ("credentials", "name", "series")

    def __init__(self, credentials: Credentials, series: bytes = b"", name: str | None = None) -> None:
        """`series`: the MAC address, if the host may speak from several at once, each with sequence numbers of its own."""
        self.credentials = credentials
        self.series = credentials.enrolment, series
        self.name = name
