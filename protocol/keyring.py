"""The accepted keys: one, or two while a fabric changes its key; and the one to send with. Pure.

A member sends with the key of its leader's last frame, so that no message must announce the change; the leader sends with the
new key once every member accepts both. The second key is tried only when the first one fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from protocol.key import Key
from protocol.wire import Prover, Verifier


class Authentication(Prover, Verifier, Protocol):
    """How the frames of one version of the wire are authenticated: what a guard and a sender need."""

    def follow(self) -> None:
        """A member has accepted the frame that was verified last: it is the leader's."""


class KeyRing:
    """Received frames are tried with `sending` first, and with `other` (if there is one) only when that fails."""

    __slots__ = ("_proved", "other", "sending")

    def __init__(self, sending: Key, other: Key | None = None) -> None:
        self.sending = sending
        self.other = other
        self._proved = sending
        """The key of the frame that was verified last."""

    def tag(self, data: bytes) -> bytes:
        """The tag of `data` by the key to send with."""
        return self.sending.tag(data)

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether `tag` is that of `data` by one of the keys."""
        if self.sending.proves(data, tag):
            self._proved = self.sending
            return True
        if self.other is None or not self.other.proves(data, tag):
            return False
        self._proved = self.other
        return True

    def follow(self) -> None:
        """Sends with the key of the frame that was verified last: it is the leader's."""
        if self._proved is not self.sending:
            self.swap()

    def swap(self) -> None:
        """Sends with the other key from now on, and accepts both as before."""
        if self.other is not None:
            self.sending, self.other = self.other, self.sending

    def send_with(self, fingerprint: int) -> bool:
        """Sends with the key of this fingerprint from now on; returns whether the ring has it."""
        if self.other is not None and self.other.fingerprint == fingerprint:
            self.swap()
        return self.sending.fingerprint == fingerprint

    def fingerprints(self) -> tuple[int, int]:
        """The fingerprints of the key to send with and of the other one (0: none)."""
        return self.sending.fingerprint, 0 if self.other is None else self.other.fingerprint


def authentications(ring: KeyRing) -> Mapping[int, Authentication]:
    """How frames are authenticated, by version of the wire: this is where a version gets another way."""
    return {2: ring, 3: ring}
