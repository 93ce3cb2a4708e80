"""The accepted keys: one, or two while a fabric changes its key; and the one to send with. Pure.

A member sends with the key of its leader's last frame, so that no message must announce the change; the leader sends with the
new key once every member accepts both. The second key is tried only when the first one fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from protocol.key import TAG_BYTES, Key
from protocol.wire import Prover, Verifier

if TYPE_CHECKING:
    from protocol.keys.heartbeats import HeartbeatReader
    from protocol.keys.hosts import Speaker


class Named(Protocol):
    """A key, or a set of keys."""

    @property
    def fingerprint(self) -> int:
        """By which a change of keys names it: of the key, or of the one that these are derived from."""

    @property
    def ident(self) -> object:
        """What tells it from every other one."""


K = TypeVar("K", bound=Named)


class Authentication(Prover, Verifier, Protocol):
    """How the frames of one version of the wire are authenticated: what a guard and a sender need."""

    heartbeats: HeartbeatReader | None
    """What is known of the leader's heartbeats, where they are a hash chain."""
    speaker: Speaker | None
    """Who made the frame that was verified last, where hosts have keys of their own; None: a leader."""

    def follow(self) -> None:
        """Sends as the frame was made that was verified last: a member has accepted it, and it is the leader's."""

    def place(self) -> int | None:
        """The sequence of the next heartbeat; None: the sender's next number, as in every frame."""


class KeyRing(Generic[K]):
    """Received frames are tried with `sending` first, and with `other` (if there is one) only when that fails."""

    __slots__ = ("other", "sending")

    def __init__(self, sending: K, other: K | None = None) -> None:
        self.sending = sending
        self.other = other

    def swap(self) -> None:
        """Sends with the other key from now on, and accepts both as before."""
        if self.other is not None:
            self.sending, self.other = self.other, self.sending

    @property
    def renews(self) -> bool:
        """Whether the other key is a newer one of this host's, under the same master key: the host registers with it."""
        return self.other is not None and self.other.fingerprint == self.sending.fingerprint

    def send_with(self, fingerprint: int) -> bool:
        """Sends with the key of this fingerprint from now on; returns whether the ring has it."""
        if self.other is not None and self.other.fingerprint == fingerprint:
            self.swap()
        return self.sending.fingerprint == fingerprint

    def fingerprints(self) -> tuple[int, int]:
        """The fingerprints of the key to send with and of the other one (0: none)."""
        return self.sending.fingerprint, 0 if self.other is None else self.other.fingerprint


class SharedAuthentication:
    """By a key that all hosts of a fabric share, as in version 2 of the wire: whoever has it can make any frame."""

    __slots__ = ("_proved", "_ring")

    heartbeats: HeartbeatReader | None = None
    speaker: Speaker | None = None

    def __init__(self, ring: KeyRing[Key]) -> None:
        self._ring = ring
        self._proved = ring.sending
        """The key of the frame that was verified last."""

    def tag(self, data: bytes) -> bytes:
        """The tag of `data` by the key to send with."""
        return self._ring.sending.tag(data)

    def tag_bytes(self, _: bytes) -> int:
        """How long the tag of any frame is."""
        return TAG_BYTES

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether `tag` is that of `data` by one of the keys."""
        ring = self._ring
        if ring.sending.proves(data, tag):
            self._proved = ring.sending
            return True
        if ring.other is None or not ring.other.proves(data, tag):
            return False
        self._proved = ring.other
        return True

    def follow(self) -> None:
        """Sends with the key of the frame that was verified last: it is the leader's."""
        if self._proved is not self._ring.sending:
            self._ring.swap()

    def place(self) -> None:
        """Heartbeats have the sender's numbers."""
        return
