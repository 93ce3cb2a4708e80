"""PFC frames (IEEE 802.1Qbb, Annex 36B of 802.1Q-2018) and PAUSE frames (IEEE 802.3, Annex 31B): built and read. Pure.

Times are counted in quanta of 512 bit times, so the same number of quanta is a shorter pause on a faster link. A time of 0 ends
a pause; a class whose bit in the enable vector is clear stays as it is, whatever its time field holds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

DESTINATION = bytes.fromhex("0180c2000001")
"""Bridges never forward frames to this address (IEEE 802.1Q, table 8-1): they reach the link partner only."""
ETHERTYPE = 0x8808
PFC_OPCODE, PAUSE_OPCODE = 0x0101, 0x0001
CLASSES = 8
"""The priority classes of IEEE 802.1Qbb."""
QUANTUM_BITS = 512
MAX_QUANTA = 0xFFFF
FRAME_BYTES = 60
"""Without the frame check sequence, which the interface adds."""
_HEADER = struct.Struct("!6s6sHH")
_CLASSES = struct.Struct("!H8H")
_TIME = struct.Struct("!H")


class BadFrame(Enum):
    """Why a frame is refused."""

    SHORT = "short"
    """Fewer than `FRAME_BYTES` (a frame from the wire is never shorter), or cut off."""
    ETHERTYPE = "ethertype"
    DESTINATION = "destination"
    OPCODE = "opcode"
    RESERVED = "reserved"
    """The upper byte of the enable vector is not 0."""


class BadFrameError(ValueError):
    """A frame that is refused; `cause` says under which counter it falls."""

    def __init__(self, cause: BadFrame) -> None:
        super().__init__(f"not a PFC or PAUSE frame: {cause.value}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class PfcFrame:
    """A PFC frame: the quanta of each class whose bit is set.

    Raises:
        ValueError: a class above 7, or a time above 65,535 quanta.
    """

    source: bytes
    quanta: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for priority, quanta in self.quanta.items():
            if not 0 <= priority < CLASSES:
                raise ValueError(f"class {priority}: must be from 0 to {CLASSES - 1}")
            _check(quanta, f"class {priority}")

    def encode(self) -> bytes:
        """The whole frame, padded, without its check sequence."""
        enabled = sum(1 << priority for priority in self.quanta)
        times = (self.quanta.get(priority, 0) for priority in range(CLASSES))
        return _padded(self.source, PFC_OPCODE, _CLASSES.pack(enabled, *times))


@dataclass(frozen=True, slots=True)
class PauseFrame:
    """A PAUSE frame for the whole link. Raises ValueError: more than 65,535 quanta."""

    source: bytes
    quanta: int

    def __post_init__(self) -> None:
        _check(self.quanta, "pause")

    def encode(self) -> bytes:
        """The whole frame, padded, without its check sequence."""
        return _padded(self.source, PAUSE_OPCODE, _TIME.pack(self.quanta))


def read(frame: bytes) -> tuple[int, bytes, dict[int, int]]:
    """A received frame's opcode, source address, and quanta for each class that it names (all eight, if it is a PAUSE).

    Raises:
        BadFrameError: the frame is refused; with the cause to count.
    """
    if len(frame) < FRAME_BYTES:
        raise BadFrameError(BadFrame.SHORT)
    destination, source, ethertype, opcode = _HEADER.unpack_from(frame)
    if ethertype != ETHERTYPE:
        raise BadFrameError(BadFrame.ETHERTYPE)
    if destination != DESTINATION:
        raise BadFrameError(BadFrame.DESTINATION)
    if opcode == PAUSE_OPCODE:
        return opcode, source, dict.fromkeys(range(CLASSES), *_TIME.unpack_from(frame, _HEADER.size))
    if opcode != PFC_OPCODE:
        raise BadFrameError(BadFrame.OPCODE)
    enabled, *times = _CLASSES.unpack_from(frame, _HEADER.size)
    if enabled >> CLASSES:
        raise BadFrameError(BadFrame.RESERVED)
    return opcode, source, {priority: time for priority, time in enumerate(times) if enabled >> priority & 1}


def decode(frame: bytes) -> PfcFrame | PauseFrame:
    """A received frame as an object. Raises BadFrameError."""
    opcode, source, quanta = read(frame)
    return PauseFrame(source, quanta[0]) if opcode == PAUSE_OPCODE else PfcFrame(source, quanta)


def to_quanta(duration_ns: int, link_bps: int) -> int:
    """The smallest number of quanta that lasts at least as long as the duration.

    Raises:
        ValueError: the duration is negative or longer than one frame allows (`longest_ns`), or the rate is not above 0.
    """
    if link_bps <= 0:
        raise ValueError(f"link rate {link_bps} bit/s: must be above 0")
    if duration_ns < 0:
        raise ValueError(f"pause of {duration_ns} ns: must not be negative")
    quanta = -(-duration_ns * link_bps // (QUANTUM_BITS * 10**9))
    if quanta > MAX_QUANTA:
        raise ValueError(f"pause of {duration_ns} ns: a frame allows at most {longest_ns(link_bps)} ns here; renew it in time")
    return quanta


def to_ns(quanta: int, link_bps: int) -> int:
    """The duration of a number of quanta at a link's rate, rounded down. Raises ValueError."""
    if link_bps <= 0:
        raise ValueError(f"link rate {link_bps} bit/s: must be above 0")
    return _check(quanta, "pause") * QUANTUM_BITS * 10**9 // link_bps


def longest_ns(link_bps: int) -> int:
    """The longest pause (ns) that one frame can request."""
    return to_ns(MAX_QUANTA, link_bps)


def _check(quanta: int, what: str) -> int:
    if not 0 <= quanta <= MAX_QUANTA:
        raise ValueError(f"{what}: {quanta} quanta; must be from 0 to {MAX_QUANTA}")
    return quanta


def _padded(source: bytes, opcode: int, body: bytes) -> bytes:
    if len(source) != 6:
        raise ValueError(f"source address of {len(source)} bytes: must be 6")
    return (_HEADER.pack(DESTINATION, source, ETHERTYPE, opcode) + body).ljust(FRAME_BYTES, b"\0")
