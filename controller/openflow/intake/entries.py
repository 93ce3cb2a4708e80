"""Reads the flow entries and groups that a switch says it holds, as plain values. Pure.

The frameworks' own objects take 65 us an entry, ten times what is needed; a switch may hold ten thousand. So `keep_raw` has the
frameworks keep each entry as bytes, whose lengths controller/openflow/intake/messages.py has checked. Source: OpenFlow Switch
Specification 1.3.5, section 7; section numbers below are its own.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address
from typing import Any, Self

from controller.openflow.tables.flowtable import Cause, Flow, Match, Ports

_ENTRY = struct.Struct("!HBxIIHHHH4xQQQ")  # 7.3.5.2, up to the match
_GROUP = struct.Struct("!HBxI")  # 7.3.5.10
_LENGTHS = struct.Struct("!HH")
_OUTPUT_PORT = slice(4, 8)
_OUTPUT, _SET_QUEUE, _GROUP_ACTION = 0, 21, 22  # 7.2.5
_GOTO, _APPLY = 1, 4  # 7.2.4
_TO_CONTROLLER = 0xFFFFFFFD
_SEND_FLOW_REM = 1
_ALL = 0  # OFPGT_ALL
_BUCKET_HEADER, _OUTPUT_SIZE = 16, 16
_IN_PORT, _ETH_DST, _ETH_SRC, _ETH_TYPE, _ARP_SPA = 0, 3, 4, 5, 22  # table 12, 7.2.3.7
_BASIC = 0x8000


class Raw(bytes):
    """One entry or group of a reply, with its own length first."""

    @property
    def length(self) -> int:
        """Bytes in the reply."""
        return len(self)

    @property
    def cookie(self) -> int:
        """Of a flow entry."""
        return int.from_bytes(self[24:32])

    @property
    def packet_count(self) -> int:
        """Of a flow entry."""
        return int.from_bytes(self[32:40])

    @property
    def key(self) -> bytes:
        """Of a flow entry that drops: what identifies it, as table, priority and match do."""
        return self[2:3] + self[12:14] + self[_ENTRY.size :]

    @classmethod
    def parser(cls, buffer: bytes, offset: int) -> Self:
        """As the frameworks' parsers of entries."""
        return cls(buffer[offset : offset + int.from_bytes(buffer[offset : offset + 2])])


def keep_raw(parser: Any) -> None:  # noqa: ANN401 -- the frameworks publish no types
    """Has a framework's parser of OpenFlow 1.3 (a module) keep flow entries and groups as `Raw`."""
    parser.OFPFlowStatsReply.cls_stats_body_cls = Raw
    parser.OFPGroupDescStatsReply.cls_stats_body_cls = Raw


def flow(entry: Raw) -> Flow | None:
    """The entry; None if it is none that `Flow` can express."""
    _, table, _, _, priority, idle_s, hard_s, flags, cookie, _, _ = _ENTRY.unpack_from(entry)
    kind, size = _LENGTHS.unpack_from(entry, _ENTRY.size)
    begin, end = _ENTRY.size, _ENTRY.size + size
    match = _match(entry, begin + 4, end) if kind == 1 else None
    if match is None or hard_s or (flags & _SEND_FLOW_REM) != bool(idle_s):
        return None
    try:
        cause = Cause(cookie & 0xFFFF)
    except ValueError:
        return None
    found = _instructions(entry, begin + -(-size // 8) * 8)
    return None if found is None else Flow(table, priority, match, idle_s=idle_s, cause=cause, **found)


def group(described: Raw) -> tuple[int, Ports | None]:
    """A group's number, and its ports; None for these unless it is of type ALL and each bucket has one output."""
    _, kind, number = _GROUP.unpack_from(described)
    ports, at = set(), _GROUP.size
    while at < len(described):
        length = int.from_bytes(described[at : at + 2])
        action = described[at + _BUCKET_HEADER : at + length]
        if kind != _ALL or len(action) != _OUTPUT_SIZE or int.from_bytes(action[:2]) != _OUTPUT:
            return number, None
        ports.add(int.from_bytes(action[_OUTPUT_PORT]))
        at += length
    return number, frozenset(ports) if kind == _ALL else None


def _match(entry: bytes, at: int, end: int) -> Match | None:
    fields: dict[str, Any] = {}
    while at < end:
        group, bits, size = struct.unpack_from("!HBB", entry, at)
        number, masked, value = bits >> 1, bits & 1, entry[at + 4 : at + 4 + size]
        at += 4 + size
        if group != _BASIC:
            return None
        if number in (_ETH_SRC, _ETH_DST):
            name = "eth_src" if number == _ETH_SRC else "eth_dst"
            fields[name] = f"{value[:6].hex(':')}/{value[6:].hex(':')}" if masked else value.hex(":")
        elif masked:
            return None
        elif number == _IN_PORT:
            fields["in_port"] = int.from_bytes(value)
        elif number == _ETH_TYPE:
            fields["eth_type"] = int.from_bytes(value)
        elif number == _ARP_SPA:
            fields["arp_spa"] = str(IPv4Address(bytes(value)))
        else:
            return None
    return Match(**fields)


def _instructions(entry: bytes, at: int) -> dict[str, int] | None:
    found: dict[str, int] = {}
    while at < len(entry):
        kind, size = _LENGTHS.unpack_from(entry, at)
        if kind == _APPLY and not found:
            acts = _actions(entry, at + 8, at + size)
            if acts is None:
                return None
            found |= acts
        elif kind == _GOTO and "goto" not in found:
            found["goto"] = entry[at + 4]
        else:
            return None
        at += size
    return found


_ORDER = ("copy_bytes", "queue", "output", "group")
"""Of a `Flow`'s actions."""


def _actions(entry: bytes, at: int, end: int) -> dict[str, int] | None:
    found: dict[str, int] = {}
    latest = -1
    while at < end:
        kind, size = _LENGTHS.unpack_from(entry, at)
        value = int.from_bytes(entry[at + 4 : at + 8])
        if kind == _OUTPUT and value == _TO_CONTROLLER:
            name, value = "copy_bytes", int.from_bytes(entry[at + 8 : at + 10])
        elif kind in (_OUTPUT, _SET_QUEUE, _GROUP_ACTION):
            name = {_OUTPUT: "output", _SET_QUEUE: "queue", _GROUP_ACTION: "group"}[kind]
        else:
            return None
        place = _ORDER.index(name)
        if place <= latest:
            return None
        found[name], latest = value, place
        at += size
    return found
