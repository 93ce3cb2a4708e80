"""The keys that are taken: one, or two while a fabric changes its key; and which of them we send with. Pure.

A member sends with the key that its leader sent with last, so nobody need tell it when; the leader sends with the new key
once every member takes both. The second key costs nothing while there is none, and is tried only when the first one fails.
"""

from __future__ import annotations

from protocol.key import Key


class KeyRing:
    """`sending` is tried first on what is received, and `other` (if there is one) only when that fails."""

    __slots__ = ("other", "sending")

    def __init__(self, sending: Key, other: Key | None = None) -> None:
        self.sending = sending
        self.other = other

    def swap(self) -> None:
        """Sends with the other key from now on, and takes both as before."""
        if self.other is not None:
            self.sending, self.other = self.other, self.sending

    def send_with(self, fingerprint: int) -> bool:
        """Sends with the key of this fingerprint; whether we have it."""
        if self.other is not None and self.other.fingerprint == fingerprint:
            self.swap()
        return self.sending.fingerprint == fingerprint

    def fingerprints(self) -> tuple[int, int]:
        """Of the key to send with, and of the other one (0: none)."""
        return self.sending.fingerprint, 0 if self.other is None else self.other.fingerprint
