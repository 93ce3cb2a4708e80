"""How frames of version 3 of the wire are authenticated: with a key for each host, and a signature for what goes to all. Pure.

A host verifies and makes frames under its own keys, whereas a leader does under those of every host. A controller that stands
by verifies only what goes to all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protocol.bodies.vocabulary import HEARTBEAT_MAC, Kind
from protocol.key import TAG_BYTES, Key
from protocol.keyring import KeyRing
from protocol.keys.heartbeats import HEARTBEAT_TAG_BYTES, HeartbeatReader, HeartbeatSealer
from protocol.keys.hosts import NAMED_TAG_BYTES, Credentials, Master, Speaker
from protocol.keys.signing import SIGNATURE_BYTES
from protocol.wire import TYPE, Cause, Refused


class GroupAuthentication:
    """Of what leaders say to all: a signature, or in heartbeats a hash chain (protocol/keys/heartbeats.py)."""

    speaker: Speaker | None = None
    """Who made the frame that was verified last; None: a leader."""

    def __init__(self, ring: KeyRing[Master] | KeyRing[Credentials]) -> None:
        self._ring = ring
        self._chain = HeartbeatReader()
        self.heartbeats: HeartbeatReader | None = self._chain
        self._swaps = False

    def tag(self, data: bytes) -> bytes:
        """Raises ValueError: who only hears leaders makes no frames."""
        raise ValueError("a controller that stands by makes no frames")

    def tag_bytes(self, frame: bytes) -> int:
        """How long the frame's tag is."""
        if frame[:6] != HEARTBEAT_MAC:
            return TAG_BYTES
        return HEARTBEAT_TAG_BYTES if frame[TYPE] == Kind.HEARTBEAT else SIGNATURE_BYTES

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether a leader made the frame, by one of the keys."""
        other = self._ring.other
        self._swaps = not self._proves(self._ring.sending, data, tag)
        return not self._swaps or (other is not None and self._proves(other, data, tag))

    def _proves(self, keys: Master | Credentials, data: bytes, tag: bytes) -> bool:
        if data[:6] != HEARTBEAT_MAC:
            return isinstance(keys, Credentials) and keys.from_leader.proves(data, tag)
        if data[TYPE] == Kind.HEARTBEAT:
            return self._chain.proves(data, tag, keys.group)
        return keys.group.proves(data, tag)

    def follow(self) -> None:
        """Uses first the keys by which the frame was verified last: they are the leader's."""
        if self._swaps:
            self._ring.swap()
            self._swaps = False

    def place(self) -> int | None:
        """None: makes no heartbeats."""
        return None


class HostAuthentication(GroupAuthentication):
    """A host's."""

    def __init__(self, ring: KeyRing[Credentials]) -> None:
        super().__init__(ring)
        self._own = ring

    def tag(self, data: bytes) -> bytes:
        """The tag of a frame to the leader."""
        return self._own.sending.to_leader.tag(data)


class LeaderAuthentication(GroupAuthentication):
    """A leader's, in one epoch.

    Args:
        find: whose a frame may be, by its first bytes and its enrolment, or why it is nobody's.
        key_for: the key for frames to the host at a MAC address.
    """

    def __init__(
        self,
        ring: KeyRing[Master],
        find: Callable[[bytes, bytes], Sequence[Speaker] | Cause],
        key_for: Callable[[bytes], Key | None],
    ) -> None:
        super().__init__(ring)
        self._masters = ring
        self._find = find
        self._key_for = key_for
        self._sealer = HeartbeatSealer()

    @property
    def position(self) -> tuple[int, bytes]:
        """Place and value of the last heartbeat, for a host that joins."""
        return self._sealer.position

    def place(self) -> int:
        """Goes on to the next heartbeat, and returns the sequence that its frame must have."""
        return self._sealer.next_place()

    def tag(self, data: bytes) -> bytes:
        """The tag of a frame to a host or to all. Raises ValueError: there is no such host."""
        if data[:6] == HEARTBEAT_MAC:
            signer = self._masters.sending.signer
            return self._sealer.tag(data, signer) if data[TYPE] == Kind.HEARTBEAT else signer.tag(data)
        if (key := self._key_for(data[:6])) is None:
            raise ValueError(f"{data[:6].hex(':')}: no host that the leader knows")
        return key.tag(data)

    def tag_bytes(self, frame: bytes) -> int:
        """How long the frame's tag is."""
        return super().tag_bytes(frame) if frame[:6] == HEARTBEAT_MAC else NAMED_TAG_BYTES

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether a host made the frame, or another leader. Raises Refused: under a key that counts no more."""
        self.speaker = None
        if data[:6] == HEARTBEAT_MAC:
            return super().proves(data, tag)
        found = self._find(data, tag[:-TAG_BYTES])
        if isinstance(found, Cause):
            raise Refused(found)
        for speaker in found:
            if speaker.credentials.to_leader.proves(data, tag):
                self.speaker = speaker
                return True
        return False

    def follow(self) -> None:
        """Nothing: which key a leader uses, operators say."""
