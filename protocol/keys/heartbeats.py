"""Heartbeats that no host can make: a signature for what they say, and a hash chain for their being new. Pure.

A signature takes a host 100 us and more to verify, too much for each of 80 heartbeats a second. So the leader signs what the
heartbeat says only when that changes, and repeats the signature. That the leader still lives shows the next value of a hash
chain (Lamport, "Password authentication with insecure communication", 1981): each heartbeat discloses the value whose hash is
that of the heartbeat before. The signed part names where the chain begins, and its number, which grows with every change: who
has heard the newer one refuses the older one. A value counts once; so another one's just-heard value is good for nothing
but the same heartbeat again.

The tag: number 8, base 8, anchor 16, signature 64, value 16. The signature covers the frame without its sequence, and the
three fields before it. The frame's sequence is the value's place: `base` is that of the anchor.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct

from protocol.keys.signing import SIGNATURE_BYTES, PublicKey, Signer
from protocol.wire import Cause

VALUE_BYTES = 16
LENGTH = 256
"""How many heartbeats a chain lasts: so a signature more every 3 s at 80 heartbeats a second, and at most so many hashes
for a heartbeat after a pause."""
SEQUENCE_FROM, SEQUENCE_UNTIL = 30, 38
"""Where a frame has its sequence (`protocol.wire.HEADER`)."""
_HEAD = struct.Struct(f"!QQ{VALUE_BYTES}s")
_SIGNED_UNTIL = _HEAD.size + SIGNATURE_BYTES
HEARTBEAT_TAG_BYTES = _SIGNED_UNTIL + VALUE_BYTES
_OF_LEADER = slice(6, SEQUENCE_FROM)
"""The source address and the header without the sequence; the epoch is in it."""
_PREPARED = hashlib.blake2s(digest_size=VALUE_BYTES, person=b"baton hb")


def before(value: bytes, place: int) -> bytes:
    """The value at the place before."""
    digest = _PREPARED.copy()
    digest.update(value + place.to_bytes(8))
    return digest.digest()


class HeartbeatSealer:
    """A leader's heartbeats, of one epoch. Give `sequence` of `next_place()` to the frame that it seals."""

    def __init__(self) -> None:
        self._number = 0
        self._base = 0
        self._place = 0
        self._values: list[bytes] = []
        self._signed = b""
        self._tail = b""
        self._signer: Signer | None = None
        self._begin()

    @property
    def position(self) -> tuple[int, bytes]:
        """The place and the value that were disclosed last, for a host that joins."""
        return self._place, self._values[self._place - self._base]

    def next_place(self) -> int:
        """Goes on to the next value; where it is, is the next frame's sequence."""
        self._place += 1
        if self._place > self._base + LENGTH:
            self._begin()
            self._place += 1
        return self._place

    def _begin(self) -> None:
        """A new chain; its anchor has the place that is reached."""
        self._base = self._place
        values = [secrets.token_bytes(VALUE_BYTES)]
        for place in range(self._base + LENGTH, self._base, -1):
            values.append(before(values[-1], place))
        self._values = values[::-1]
        self._signed = b""

    def tag(self, data: bytes, signer: Signer) -> bytes:
        """The tag of a frame whose sequence is the present place; `signer` signs what is new."""
        content = data[:SEQUENCE_FROM] + data[SEQUENCE_UNTIL:]
        if content != self._signed or self._signer is not signer:
            self._signed, self._signer = content, signer
            self._number += 1
            head = _HEAD.pack(self._number, self._base, self._values[0])
            self._tail = head + signer.tag(content + head)
        return self._tail + self._values[self._place - self._base]


class HeartbeatReader:
    """What a host, or another controller, has verified of a leader's heartbeats."""

    def __init__(self) -> None:
        self._leader = b""
        """The leader whose heartbeats were accepted last: source address and epoch."""
        self._content = self._start = self._rest = b""
        self._number = self._base = 0
        self._place, self._value = 0, b""
        self._opened = b"", b"", b""
        """Of the heartbeat that was opened last: leader, signed part with its signature, and value."""

    def proves(self, data: bytes, tag: bytes, leader: PublicKey) -> bool:
        """Whether the leader has signed what the heartbeat says; not whether the heartbeat is new: see `refused`."""
        content = data[:SEQUENCE_FROM] + data[SEQUENCE_UNTIL:] + tag[:_SIGNED_UNTIL]
        if content != self._content:
            if self._leader == data[_OF_LEADER] and _HEAD.unpack_from(tag)[0] <= self._number:
                return False
            if not leader.proves(content[:-SIGNATURE_BYTES], content[-SIGNATURE_BYTES:]):
                return False
        self._opened = data[_OF_LEADER], content, tag[_SIGNED_UNTIL:]
        return True

    def refused(self, place: int) -> Cause | None:
        """Why not to believe the heartbeat that `proves` took last; None: it is newer than all before, and those are old from
        now on."""
        leader, content, value = self._opened
        number, base, anchor = _HEAD.unpack_from(content, len(content) - _SIGNED_UNTIL)
        cause = self._follow(place, value, base, anchor)
        if cause is None:
            self._leader, self._content, self._number, self._base = leader, content, number, base
            self._start, self._rest = content[:SEQUENCE_FROM], content[SEQUENCE_FROM:]
        return cause

    def repeats(self, frame: bytes) -> bool:
        """Whether a frame says and has signed what the heartbeat that was believed last did."""
        return frame[:SEQUENCE_FROM] == self._start and frame[SEQUENCE_UNTIL:-VALUE_BYTES] == self._rest

    def refused_again(self, frame: bytes, place: int) -> Cause | None:
        """The same as `refused`, of a frame that `repeats` the last one."""
        return self._follow(place, frame[-VALUE_BYTES:], self._base, b"")

    def _follow(self, place: int, value: bytes, base: int, anchor: bytes) -> Cause | None:
        start, known = (self._place, self._value) if self._value and self._place >= base else (base, anchor)
        if place <= start:
            return Cause.REPLAY
        if place > base + LENGTH:
            return Cause.TAG
        found = value
        for at in range(place, start, -1):
            digest = _PREPARED.copy()
            digest.update(found + at.to_bytes(8))
            found = digest.digest()
        if not hmac.compare_digest(found, known):
            return Cause.TAG
        self._place, self._value = place, value
        return None

    def welcomed(self, place: int, value: bytes) -> None:
        """The leader itself, under this host's key, says which value was the last: only later ones count from now on."""
        if place > self._place or not self._value:
            self._place, self._value = place, value

    def new_leader(self) -> None:
        """Forgets what was accepted: another leader has a chain of its own."""
        self._leader = self._content = self._start = self._rest = self._value = b""
        self._number = self._base = self._place = 0
