"""The accepted keys: one, or two while a fabric changes its key; and the one to send with. Pure.

A member sends with the key of its leader's last frame, so that no message must announce the change; the leader sends with the
new key once every member accepts both. The second key is tried only when the first one fails.
"""

from __future__ import annotations

from protocol.key import Key


class KeyRing:
    """Received frames are tried with `sending` first, and with `other` (if there is one) only when that fails."""

    __slots__ = ("other", "sending")

    def __init__(self, sending: Key, other: Key | None = None) -> None:
        self.sending = sending
        self.other = other

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
