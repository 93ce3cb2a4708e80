"""Checks every length of an OpenFlow message before the framework's parser sees it. Pure.

Ryu and os-ken walk lists by the lengths that the peer wrote: one of 0 hangs the whole process. So only messages of the kinds
that Baton uses pass, each with every length inside its container and large enough for its own header. Source: OpenFlow Switch
Specification 1.3.5, section 7; section numbers below are its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

HEADER = struct.Struct("!BBHI")  # version, type, length, xid
VERSION = 4  # of OpenFlow 1.3
OLDEST = 1  # of OpenFlow 1.0: stands for all that are too old; os-ken does not know the two between
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES_REPLY, PACKET_IN, FLOW_REMOVED, PORT_STATUS = 0, 1, 2, 3, 6, 10, 11, 12
MULTIPART_REPLY, BARRIER_REPLY, QUEUE_GET_CONFIG_REPLY, ROLE_REPLY = 19, 21, 23, 25

_EXPERIMENTER = 0xFFFF
_LENGTHS = struct.Struct("!HH")  # type and length of an action, an instruction, a property, a match
_OXM = struct.Struct("!HBB")  # class, field and mask bit, length
_BASIC = 0x8000  # OFPXMC_OPENFLOW_BASIC
_BASIC_SIZES = (
    *(4, 4, 8, 6, 6, 2, 2, 1, 1, 1, 1, 4, 4, 2, 2, 2, 2, 2, 2, 1, 1, 2, 4, 4, 6, 6, 16, 16, 4, 1, 1, 16, 6, 6),
    *(4, 1, 1, 3, 8, 2),
)
"""Bytes of each basic match field by its number: table 12, 7.2.3.7."""
_IN_PORT = _OXM.pack(_BASIC, 0, 4)
_SET_FIELD, _GOTO_TABLE, _WRITE_METADATA, _METER = 25, 1, 2, 6
_ACTION_SIZES = {0: 16, 11: 8, 12: 8, 15: 8, 16: 8, 17: 8, 18: 8, 19: 8, 20: 8, 21: 8, 22: 8, 23: 8, 24: 8, 26: 8, 27: 8}
"""Bytes of each action but set-field: 7.2.5."""
_ACTION_LISTS = (3, 4, 5)  # OFPIT_WRITE_ACTIONS, OFPIT_APPLY_ACTIONS, OFPIT_CLEAR_ACTIONS
_INSTRUCTION_SIZES = {_GOTO_TABLE: 8, _WRITE_METADATA: 24, _METER: 8}


class Malformed(ValueError):
    """A message that must not reach the parser; the text says what is wrong, and has no number of the sender's."""


def hello(message: bytes) -> bytes:
    """The peer's HELLO as the plainest one that says the same: header, and one bitmap of the versions 0 to 31 if it has one.

    Raises:
        Malformed: an element's length is wrong.
    """
    version, _, _, xid = HEADER.unpack_from(message)
    if version == 0:
        raise Malformed("HELLO: version 0")
    bitmap, at = b"", HEADER.size
    while at < len(message):
        element, length = _header(message, at, len(message), 4, "HELLO: element")
        if element == 1 and not bitmap:  # OFPHET_VERSIONBITMAP
            if length < 8:
                raise Malformed("HELLO: element: length")
            bitmap = message[at + 4 : at + 8]
        at += -(-length // 8) * 8
    if not bitmap:
        return HEADER.pack(VERSION if version >= VERSION else OLDEST, HELLO, HEADER.size, xid)
    return HEADER.pack(VERSION, HELLO, HEADER.size + 8, xid) + _LENGTHS.pack(1, 8) + bitmap


def admits(message: bytes) -> bool:
    """Whether the framework may parse this message, which follows the HELLO; False: it is of a kind that Baton does not use.

    Raises:
        Malformed: another version than OpenFlow 1.3, or a length is wrong.
    """
    version, kind, length, _ = HEADER.unpack_from(message)
    if version != VERSION:
        raise Malformed("another version than OpenFlow 1.3; allow only that at the switch")
    if length != len(message):
        raise Malformed("length")
    if kind == MULTIPART_REPLY:
        if length < 16:
            raise Malformed("multipart reply: length")
        check = _MULTIPARTS.get(int.from_bytes(message[8:10]))
    else:
        check = _KINDS.get(kind)
    if check is None:
        return False
    check(message)
    return True


def is_packet_in(message: bytes) -> bool:
    """Whether this is a frame that the switch passes on."""
    return message[1] == PACKET_IN


def is_statistics(message: bytes) -> bool:
    """Whether this is a part of what a switch tells of itself, as of its entries."""
    return message[1] == MULTIPART_REPLY


def _header(message: bytes, at: int, end: int, least: int, what: str) -> tuple[int, int]:
    """Type and length at a place, of which at least `least` bytes lie before `end`."""
    if end - at < max(least, 4):
        raise Malformed(f"{what}: cut short")
    kind, length = _LENGTHS.unpack_from(message, at)
    if not least <= length <= end - at:
        raise Malformed(f"{what}: length")
    return kind, length


def _exactly(size: int, what: str) -> Callable[[bytes], None]:
    def check(message: bytes) -> None:
        if len(message) != size:
            raise Malformed(f"{what}: length")

    return check


def _each(begin: int, size: int, what: str) -> Callable[[bytes], None]:
    """For a list of entries of one size."""

    def check(message: bytes) -> None:
        if len(message) < begin or (len(message) - begin) % size:
            raise Malformed(f"{what}: length")

    return check


def _error(message: bytes) -> None:
    experimenter = message[8:10] == _EXPERIMENTER.to_bytes(2)
    if len(message) < (16 if experimenter else 12):
        raise Malformed("error: cut short")


def _anything(message: bytes) -> None:
    """An echo carries what it likes."""


def _packet_in(message: bytes) -> None:  # 7.4.1
    end = _match(message, 24, len(message), "packet-in", needs_port=True)
    if len(message) < end + 2:
        raise Malformed("packet-in: cut short")


def _flow_removed(message: bytes) -> None:  # 7.4.2
    if _match(message, 48, len(message), "flow removed") != len(message):
        raise Malformed("flow removed: length")


def _flow_stats(message: bytes) -> None:  # 7.3.5.2
    at = 16
    while at < len(message):
        if len(message) - at < 56:
            raise Malformed("flow statistics: cut short")
        length = int.from_bytes(message[at : at + 2])
        if not 56 <= length <= len(message) - at:
            raise Malformed("flow statistics: length")
        end = at + length
        inside = _match(message, at + 48, end, "flow statistics")
        while inside < end:
            inside = _instruction(message, inside, end)
        at = end


def _groups(message: bytes) -> None:  # 7.3.5.10
    at = 16
    while at < len(message):
        if len(message) - at < 8:
            raise Malformed("groups: cut short")
        length = int.from_bytes(message[at : at + 2])
        if not 8 <= length <= len(message) - at:
            raise Malformed("groups: length")
        end, inside = at + length, at + 8
        while inside < end:
            inside = _bucket(message, inside, end)
        at = end


def _bucket(message: bytes, at: int, end: int) -> int:
    """Checks a bucket of a group; returns where it ends (7.3.4.3)."""
    if end - at < 16:
        raise Malformed("bucket: cut short")
    length = int.from_bytes(message[at : at + 2])
    if not 16 <= length <= end - at:
        raise Malformed("bucket: length")
    inside, until = at + 16, at + length
    while inside < until:
        inside = _action(message, inside, until)
    return until


def _queues(message: bytes) -> None:  # 7.3.6
    if len(message) < 16:
        raise Malformed("queues: cut short")
    at = 16
    while at < len(message):
        if len(message) - at < 16:
            raise Malformed("queues: cut short")
        length = int.from_bytes(message[at + 8 : at + 10])
        if not 16 <= length <= len(message) - at:
            raise Malformed("queues: length")
        end, inside = at + length, at + 16
        while inside < end:
            kind, size = _header(message, inside, end, 8, "queue property")
            if kind not in (1, 2, _EXPERIMENTER) or size < 16:
                raise Malformed("queue property: length or kind")
            inside += size
        at = end


def _match(message: bytes, at: int, end: int, what: str, *, needs_port: bool = False) -> int:
    """Checks a match; returns where it ends, padding included (7.2.3)."""
    kind, length = _header(message, at, end, 4, f"{what}: match")
    if kind != 1:
        raise Malformed(f"{what}: match: not OXM")
    inside, until = at + 4, at + length
    found = False
    while inside < until:
        found = found or message[inside : inside + 4] == _IN_PORT
        inside = _field(message, inside, until, what)
    if needs_port and not found:
        raise Malformed(f"{what}: match: no port")
    after = at + -(-length // 8) * 8
    if after > end:
        raise Malformed(f"{what}: match: cut short")
    return after


def _field(message: bytes, at: int, end: int, what: str) -> int:
    """Checks one OXM field; returns where it ends (7.2.3.2)."""
    if end - at < 4:
        raise Malformed(f"{what}: match field: cut short")
    group, bits, length = _OXM.unpack_from(message, at)
    end_of_field: int = at + 4 + length
    number, masked = bits >> 1, bits & 1
    if group == _BASIC:
        sound = number < len(_BASIC_SIZES) and length == _BASIC_SIZES[number] << masked
    else:  # an experimenter's number, and its type, come before the value
        sound = length - (6 if group == _EXPERIMENTER else 0) >= 1 << masked
    if not sound or end_of_field > end:
        raise Malformed(f"{what}: match field: length")
    return end_of_field


def _instruction(message: bytes, at: int, end: int) -> int:
    kind, length = _header(message, at, end, 8, "instruction")
    if kind in _ACTION_LISTS:
        inside, until = at + 8, at + length
        while inside < until:
            inside = _action(message, inside, until)
    elif length != _INSTRUCTION_SIZES.get(kind):
        raise Malformed("instruction: length or kind")
    return at + length


def _action(message: bytes, at: int, end: int) -> int:
    kind, length = _header(message, at, end, 8, "action")
    if kind == _SET_FIELD:
        if length % 8 or -(-(_field(message, at + 4, at + length, "action") - at) // 8) * 8 != length:
            raise Malformed("action: length")
    elif length != _ACTION_SIZES.get(kind):
        raise Malformed("action: length or kind")
    return at + length


_KINDS: dict[int, Callable[[bytes], None]] = {
    ERROR: _error,
    ECHO_REQUEST: _anything,
    ECHO_REPLY: _anything,
    FEATURES_REPLY: _exactly(32, "features"),
    PACKET_IN: _packet_in,
    FLOW_REMOVED: _flow_removed,
    PORT_STATUS: _exactly(80, "port status"),
    BARRIER_REPLY: _exactly(8, "barrier"),
    QUEUE_GET_CONFIG_REPLY: _queues,
    ROLE_REPLY: _exactly(24, "role"),
}
_MULTIPARTS: dict[int, Callable[[bytes], None]] = {
    1: _flow_stats,
    2: _exactly(40, "aggregate statistics"),
    4: _each(16, 112, "port statistics"),
    7: _groups,
    11: _exactly(32, "meter features"),
    13: _each(16, 64, "port descriptions"),
}
