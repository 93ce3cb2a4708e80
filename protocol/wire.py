"""The frame around a message: headers, tag and padding; and layouts of named fields. Pure.

PROTOCOL.md is the contract. The bodies of messages are in `messages`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum, unique
from operator import attrgetter
from typing import Any, Protocol

from protocol.bodies.versions import NEWEST, SPOKEN

ETHERTYPE = 0x88B5
"""IEEE 802 Local Experimental EtherType 1."""
MAGIC = 0x4254
FRAME_MIN = 60
"""Ethernet's shortest frame without its check sequence (IEEE 802.3 clause 4A.4.2: 64 bytes with it)."""
MTU = 1500


@unique
class Cause(IntEnum):
    """Why a frame was refused. The numbers are on the wire (REPORT's counters); they are never reused."""

    SHORT = 1
    """Fewer bytes than the shortest frame."""
    NOT_BATON = 2
    """Another EtherType or magic."""
    VERSION = 3
    """A version of the protocol that the receiver does not speak or has not agreed on, or a flag that it does not know."""
    LENGTH = 4
    """The frame is not as long as its header says, or its padding is not zero."""
    TAG = 5
    """The tag is not that of our key: forged, damaged, or another fabric's."""
    UNKNOWN_TYPE = 6
    """A message type that this version does not know."""
    MALFORMED = 7
    """Authentic, but the body breaks the rules of its type."""
    OLD_EPOCH = 8
    """Sent under an earlier leader."""
    FUTURE_EPOCH = 9
    """Sent under a later leader than the one that refuses it: this leader is deposed."""
    REPLAY = 10
    """A sequence number already seen, or older than the window remembers."""
    NOT_LEADER = 11
    """A wrong sender: a member accepts frames of the leader only, a leader those of its members only."""
    NOT_OURS = 12
    """Addressed to another host."""
    UNKNOWN_SENDER = 13
    """From a node that is not a member (counted by the coordinator)."""
    CLOCK = 14
    """A time too far from ours to be valid (counted by the agent)."""
    SCHEDULE = 15
    """A week that cannot be executed: it has unknown flows, or overlaps another week (counted by the agent)."""
    CONDITION = 16
    """A condition for an unknown queue, or with a rate above the link's (counted by the agent)."""
    FAILED = 18
    """The receiver's own error while it handled a message, or something else that was due; its log has it."""
    AHEAD = 17
    """A sequence number too far above the sender's last one (counted by the leader)."""
    REVOKED = 19
    """Under a key that was revoked (counted by the leader)."""


class Refused(Exception):
    """A frame that is refused, with the cause."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.name)
        self.cause = cause


_LIMITS = {code: (1 << 8 * size) - 1 for code, size in (("B", 1), ("H", 2), ("I", 4), ("Q", 8))}


class Layout:
    """Named unsigned integers in network byte order, without gaps: 'B' 1, 'H' 2, 'I' 4, 'Q' 8 bytes."""

    __slots__ = ("codes", "names", "size", "struct", "values")

    def __init__(self, **codes: str) -> None:
        self.names = tuple(codes)
        self.codes = "".join(codes.values())
        self.struct = struct.Struct("!" + self.codes)
        self.size = self.struct.size
        self.values: Callable[[Any], tuple[Any, ...]] = attrgetter(*codes) if len(codes) > 1 else self._single
        """Reads the named attributes of an object, as a tuple."""

    def _single(self, item: object) -> tuple[Any, ...]:
        return (getattr(item, self.names[0]),)

    def pack(self, owner: str, *values: object) -> bytes:
        """The fields as bytes. Raises ValueError naming `owner` and the field whose value does not fit."""
        try:
            return self.struct.pack(*values)
        except struct.error:
            raise self._misfit(owner, values) from None

    def pack_rows(self, owner: str, rows: Iterable[Sequence[object]]) -> bytes:
        """Rows of fields, one after the other. Raises ValueError naming `owner`, the row and the field."""
        pack = self.struct.pack
        rows = tuple(rows)
        try:
            return b"".join([pack(*row) for row in rows])
        except struct.error:
            for number, row in enumerate(rows):
                self.pack(f"{owner}[{number}]", *row)
            raise

    def _misfit(self, owner: str, values: Sequence[object]) -> ValueError:
        if len(values) != len(self.names):
            return ValueError(f"{owner}: {len(values)} values, must be: {', '.join(self.names)}")
        for name, code, value in zip(self.names, self.codes, values, strict=True):
            if not isinstance(value, int) or not 0 <= value <= _LIMITS[code]:
                return ValueError(f"{owner}.{name}: {value!r} must be an integer from 0 to {_LIMITS[code]}")
        return ValueError(f"{owner}: cannot be encoded")


def check_page(name: str, page: int, pages: int) -> None:
    """Raises ValueError naming the message: it is not one of its pages, which are numbered from 0."""
    if page >= pages:
        raise ValueError(f"{name}.page: {page} must be less than pages, which is {pages}")


HEADER = Layout(magic="H", version="B", type="B", flags="H", length="H", sender="I", epoch="I", sequence="Q")
ETHERNET_BYTES = 14
VERSION = ETHERNET_BYTES + 2
"""The offset of the protocol's version in a frame."""
TYPE = ETHERNET_BYTES + 3
"""The offset of the message's type in a frame."""
SENDER = slice(ETHERNET_BYTES + 8, ETHERNET_BYTES + 12)
"""The bytes of the sender's node id in a frame."""
BODY = ETHERNET_BYTES + HEADER.size
"""The offset of the body in a frame."""
SIGNATURE_BYTES = 64
BODY_MAX = MTU + ETHERNET_BYTES - BODY - SIGNATURE_BYTES
"""The longest body: with a signature, too, it fits in an Ethernet frame of 1,500 bytes."""

_HEADERS = struct.Struct("!6s6sH" + HEADER.codes)
_PADDING = bytes(FRAME_MIN)
_LOWEST = SPOKEN.lowest

Envelope = tuple[bytes, bytes, int, int, int, int, int, int]


class Prover(Protocol):
    """What makes the tags of frames. `data` is a frame from its first byte to the end of its body: whoever needs the addresses,
    the version or the type finds them there."""

    def tag(self, data: bytes) -> bytes:
        """What stands behind the body, to show who made the frame: a keyed hash, or a signature."""


class Verifier(Protocol):
    """What checks the tags of frames; see `Prover`."""

    def tag_bytes(self, frame: bytes) -> int:
        """How long the tag of a frame is, by the headers."""

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether `tag` is that of `data`. Takes as long for a wrong one as for the right one.

        Raises Refused: not so, for a better reason than TAG.
        """


def seal(
    kind: int,
    body: bytes,
    *,
    key: Prover,
    destination: bytes,
    source: bytes,
    sender: int,
    epoch: int,
    sequence: int,
    version: int = NEWEST,
) -> bytes:
    """A whole frame: headers, body, tag, and zeros up to 60 bytes.

    Raises ValueError: an address is not 6 bytes, a number does not fit, or the body is longer than `BODY_MAX`.
    """
    length = len(body)
    if length > BODY_MAX:
        raise ValueError(f"body: {length} bytes, at most {BODY_MAX} fit in a frame; send it in pages")
    if len(destination) != 6 or len(source) != 6:
        name, value = ("source", source) if len(destination) == 6 else ("destination", destination)
        raise ValueError(f"{name}: {value!r} must be a MAC address of 6 bytes")
    try:
        data = (
            _HEADERS.pack(
                destination, source, ETHERTYPE, MAGIC, version, kind, 0, length, sender, epoch, sequence
            )
            + body
        )
    except struct.error:
        HEADER.pack("frame", MAGIC, version, kind, 0, length, sender, epoch, sequence)
        raise ValueError(f"destination, source: {destination!r}, {source!r} must be bytes") from None
    data += key.tag(data)
    return data if len(data) >= FRAME_MIN else data + _PADDING[len(data) :]


def envelope(frame: bytes) -> Envelope:
    """What `unseal` returns, of a frame that was verified elsewhere."""
    destination, source, _, _, version, kind, _, length, sender, epoch, sequence = _HEADERS.unpack_from(frame)
    return destination, source, version, kind, sender, epoch, sequence, length


def unseal(frame: bytes, key: Verifier) -> Envelope:
    """(destination, source, version, type, sender, epoch, sequence, body length) of an authentic frame.

    Raises Refused: SHORT, NOT_BATON, VERSION, LENGTH or TAG.
    """
    size = len(frame)
    if size < FRAME_MIN:
        raise Refused(Cause.SHORT)
    destination, source, ethertype, magic, version, kind, flags, length, sender, epoch, sequence = (
        _HEADERS.unpack_from(frame)
    )
    if ethertype != ETHERTYPE or magic != MAGIC:
        raise Refused(Cause.NOT_BATON)
    if version < _LOWEST or version > NEWEST or flags:
        raise Refused(Cause.VERSION)
    tag = BODY + length
    end = tag + key.tag_bytes(frame)
    # The tag does not cover the padding, so the padding must be as `seal` makes it: zeros, up to 60 bytes.
    if end != size and (end > size or size != FRAME_MIN or any(frame[end:])):
        raise Refused(Cause.LENGTH)
    if not key.proves(frame[:tag], frame[tag:end]):
        raise Refused(Cause.TAG)
    return destination, source, version, kind, sender, epoch, sequence, length
