"""A switch's flow entries and groups as they came over the wire, and what they do with a frame. Pure.

Written from OpenFlow 1.3.5 (7.2.2, 7.2.3, 7.2.4, 7.3.4), apart from the application's own codec, so that each checks the other.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.openflow.intake.hosts import PortRef

ADD, DELETE, DELETE_STRICT = 0, 3, 4
IN_PORT, CONTROLLER = 0xFFFFFFF8, 0xFFFFFFFD
_FLOW_MOD = struct.Struct("!QQBBHHHIIIH2x")  # from the cookie to the flags
_HEADER = 8
PORT, DST, SRC, TYPE, SPA = 0, 3, 4, 5, 22  # OXM fields of the basic class

Key = tuple[int, int, bytes]


class Frame(NamedTuple):
    """The fields of a frame that tables match on; addresses as six bytes."""

    source: bytes
    target: bytes
    kind: int = 0x0800


class Entry(NamedTuple):
    """A flow entry: cookie, and instructions as on the wire; after how long it ends when it is idle, and its flags."""

    cookie: int
    instructions: bytes
    idle_s: int = 0
    flags: int = 0


class _Rule(NamedTuple):
    priority: int
    fields: tuple[tuple[int, bytes, bytes | None], ...]
    instructions: bytes


def fields_of(match: bytes) -> tuple[tuple[int, bytes, bytes | None], ...]:
    """The fields of a match on the wire: number, value, mask or None."""
    found, at, end = [], 4, int.from_bytes(match[2:4])
    while at < end:
        kind, size = match[at + 2], match[at + 3]
        value = match[at + 4 : at + 4 + size]
        half = size // 2
        found.append((kind >> 1, value[:half], value[half:]) if kind & 1 else (kind >> 1, value, None))
        at += 4 + size
    return tuple(found)


def _indexed(match: bytes) -> bytes:
    exact = {number: value for number, value, mask in fields_of(match) if mask is None}
    return exact.get(DST) or exact.get(SRC) or b""


@dataclass(slots=True)
class Flows:
    """One switch's tables. `sent` counts the flow mods that came, `groups_sent` the group mods."""

    entries: dict[Key, Entry] = field(default_factory=dict)
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)
    sent: int = 0
    groups_sent: int = 0
    _cookies: dict[tuple[int, int], set[Key]] = field(default_factory=dict)
    _index: dict[tuple[int, bytes], dict[Key, _Rule]] = field(default_factory=dict)

    def flow_mod(self, message: bytes) -> None:
        """Carries out a flow mod. Raises ValueError for a command that the application never sends."""
        self.sent += 1
        cookie, mask, table, command, idle_s, _, priority, _, _, _, flags = _FLOW_MOD.unpack_from(message, _HEADER)
        at = _HEADER + _FLOW_MOD.size
        length = int.from_bytes(message[at + 2 : at + 4])
        match = message[at : at + length]
        key = table, priority, match
        if command == ADD:
            self._remove(key)
            self._cookies.setdefault((table, cookie), set()).add(key)
            self.entries[key] = Entry(cookie, message[at + -(-length // 8) * 8 :], idle_s, flags)
            place = table, _indexed(match)
            self._index.setdefault(place, {})[key] = _Rule(priority, fields_of(match), self.entries[key].instructions)
        elif command == DELETE_STRICT:
            self._remove(key)
        elif command == DELETE:
            fitting = [at for at in self._cookies if table in (at[0], 0xFF) and at[1] & mask == cookie & mask]
            for one in [one for at in fitting for one in self._cookies[at]]:
                self._remove(one)
        else:
            raise ValueError(f"flow mod with command {command}")

    def _remove(self, key: Key) -> None:
        if (entry := self.entries.pop(key, None)) is not None:
            del self._index[key[0], _indexed(key[2])][key]
            same = self._cookies[key[0], entry.cookie]
            same.discard(key)
            if not same:
                del self._cookies[key[0], entry.cookie]

    def group_mod(self, message: bytes) -> None:
        """Adds or modifies a group of type ALL whose buckets each have one output."""
        self.groups_sent += 1
        number = int.from_bytes(message[12:16])
        members, at = [], 16
        while at < len(message):
            members.append(int.from_bytes(message[at + 20 : at + 24]))
            at += int.from_bytes(message[at : at + 2])
        self.groups[number] = tuple(members)

    def told(self, cookie: int, mask: int) -> Iterator[bytes]:
        """The entries whose cookie fits, as flow statistics (7.3.5.2); they have counted nothing."""
        for (table, priority, match), entry in self.entries.items():
            if entry.cookie & mask == cookie & mask:
                rest = match + bytes(-len(match) % 8) + entry.instructions
                fixed = 48 + len(rest), table, 0, 0, priority, entry.idle_s, 0, entry.flags, entry.cookie, 0, 0
                yield struct.pack("!HBxIIHHHH4xQQQ", *fixed) + rest

    def groups_told(self) -> Iterator[bytes]:
        """The groups, as their descriptions (7.3.5.10)."""
        for number, members in self.groups.items():
            buckets = [struct.pack("!HHII4xHHIH6x", 32, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0, 16, each, 0xFFFF) for each in members]
            yield struct.pack("!HBxI", 8 + 32 * len(buckets), 0, number) + b"".join(buckets)

    def knows(self, mac: bytes, table: int) -> bool:
        """Whether a table has an entry that names this address."""
        return bool(self._index.get((table, mac)))

    def outputs(self, port: int, frame: Frame) -> set[int]:
        """The ports by which a frame that came in by `port` leaves."""
        out: set[int] = set()
        table: int | None = 0
        while table is not None:
            rule = self._rule(table, port, frame)
            if rule is None:
                return out
            table = self._carry_out(rule.instructions, port, out)
        return out

    def _rule(self, table: int, port: int, frame: Frame) -> _Rule | None:
        best: _Rule | None = None
        for place in {frame.target, frame.source, b""}:
            for rule in self._index.get((table, place), {}).values():
                if (best is None or rule.priority > best.priority) and _matches(rule, port, frame):
                    best = rule
        return best

    def _carry_out(self, instructions: bytes, port: int, out: set[int]) -> int | None:
        following, at = None, 0
        while at < len(instructions):
            kind, size = struct.unpack_from("!HH", instructions, at)
            if kind == 1:  # goto
                following = instructions[at + 4]
            elif kind == 4:  # apply actions
                inside = at + 8
                while inside < at + size:
                    action, length = struct.unpack_from("!HH", instructions, inside)
                    value = int.from_bytes(instructions[inside + 4 : inside + 8])
                    if action == 0 and value == IN_PORT:
                        out.add(port)
                    elif action == 0 and value not in (CONTROLLER, port):
                        out.add(value)
                    elif action == 22:
                        out.update(member for member in self.groups.get(value, ()) if member != port)
                    inside += length
            at += size
        return following


def _matches(rule: _Rule, port: int, frame: Frame) -> bool:
    for number, value, mask in rule.fields:
        if number == PORT:
            fits = int.from_bytes(value) == port
        elif number == TYPE:
            fits = int.from_bytes(value) == frame.kind
        elif number in (DST, SRC):
            address = frame.target if number == DST else frame.source
            bits = int.from_bytes(mask) if mask is not None else -1
            fits = int.from_bytes(address) & bits == int.from_bytes(value) & bits
        else:
            fits = False
        if not fits:
            return False
    return True


class Walk(NamedTuple):
    """Where copies of a frame left the fabric, and whether a copy came twice into a switch by the same port: that is a loop."""

    left: list[PortRef]
    loops: bool


def walk(switches: Mapping[int, Flows], far: Mapping[PortRef, PortRef], at: PortRef, frame: Frame) -> Walk:
    """Sends a frame into the fabric at a port. `far`: the ends of the links that work."""
    left: list[PortRef] = []
    seen, queue = {at}, deque([at])
    while queue:
        here = queue.popleft()
        for number in switches[here.dpid].outputs(here.number, frame):
            out = PortRef(here.dpid, number)
            there = far.get(out)
            if there is None:
                left.append(out)
            elif there in seen:
                return Walk(left, True)
            else:
                seen.add(there)
                queue.append(there)
    return Walk(left, False)
