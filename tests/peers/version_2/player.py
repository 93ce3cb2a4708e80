"""An agent and a leader of the wire's version 2: they say what was recorded of that time's (`record.py`), and take what those
took.

Frozen: nothing here follows the project. Layouts, limits and the tag are those of version 2 as it was, written down a second
time, so that a change of what today's code says in version 2 is found. What a player says is a recorded frame, changed only
where the protocol demands it: epoch, sequence, tag, the nonce and node id that the other end gave, its slots, and times.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

RECORD: dict[str, Any] = json.loads((Path(__file__).parent / "frames.json").read_text())
KEY, EPOCH = bytes.fromhex(RECORD["key"]), RECORD["epoch"]
LEADER, AGENT = bytes.fromhex(RECORD["leader_mac"]), bytes.fromhex(RECORD["agent_mac"])
GROUP = bytes.fromhex("034241544f4e")
HEAD, BODY, TAG, SHORTEST = struct.Struct("!6s6sHHBBHHIIQ"), 38, 16, 60
MS = 1_000_000

REGISTER, WELCOME, DIRECTORY_REQUEST, DIRECTORY, REGULATE, BACKLOG, DIRECTIVE, YIELD, ACK, REPORT = range(1, 11)
HEARTBEAT, PING, PONG, LEAVE, ERROR = range(11, 16)
THRESHOLDS, COFLOWS, CONDITIONS, WEEK, CLOCK_REPORT, PFC_SETTINGS, PFC_PAUSE = 17, 19, 20, 21, 22, 23, 24
KEY_STEP, KEY_STATE, HOST_STATE, HOST_LINK, PATHS, LOSSES, DIRECTORY_CHANGE = 32, 33, 40, 41, 42, 43, 44

FIELDS: dict[int, dict[str, tuple[int, str]]] = {
    REGISTER: {"nonce": (0, "Q"), "rate_bps": (8, "Q"), "gates": (16, "B")},
    WELCOME: {
        "nonce": (0, "Q"), "node": (8, "I"), "heartbeat_ns": (12, "Q"), "fail_open_ns": (20, "Q"), "hysteresis_ns": (28, "Q"),
        "mice_bytes": (36, "Q"), "mice_rate_bps": (44, "Q"), "report_ns": (52, "Q"),
    },
    BACKLOG: {"report": (0, "Q"), "page": (8, "H"), "pages": (10, "H"), "destination": (12, "I"), "bytes": (16, "Q")},
    DIRECTIVE: {
        "destination": (0, "I"), "slot": (4, "Q"), "start_ns": (12, "Q"), "end_ns": (20, "Q"), "bytes": (28, "I"),
        "rate_bps": (32, "Q"),
    },
    YIELD: {"destination": (0, "I"), "slot": (4, "Q"), "unspent": (12, "I"), "backlog": (16, "Q")},
    ACK: {"slot": (0, "Q"), "destination": (8, "I"), "received_ns": (12, "Q"), "opened_ns": (20, "Q")},
    HEARTBEAT: {"override": (0, "B"), "directory": (1, "Q"), "regulate": (9, "Q"), "thresholds": (17, "I")},
    PING: {"sent_ns": (0, "Q")},
    PONG: {"sent_ns": (0, "Q"), "received_ns": (8, "Q"), "replied_ns": (16, "Q")},
    ERROR: {"code": (0, "H"), "sequence": (2, "Q")},
    DIRECTORY: {"version": (0, "Q"), "page": (8, "H"), "pages": (10, "H")},
    REGULATE: {"version": (0, "Q"), "page": (8, "H"), "pages": (10, "H")},
}  # fmt: skip
"""Where the fields are in a body, that a player reads or changes."""


def _rows(head: int, row: int) -> Callable[[bytes], bool]:
    return lambda body: len(body) >= head and ((not row and len(body) == head) or (bool(row) and not (len(body) - head) % row))


def _exactly(size: int) -> Callable[[bytes], bool]:
    return _rows(size, 0)


def _addresses(body: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    found = []
    for _ in range(count):
        size = {4: 4, 6: 16}[body[at]]
        found.append(body[at + 1 : at + 1 + size])
        at += 1 + size
    return found, at


def entries(body: bytes, head: int, fixed: int) -> Iterator[tuple[bytes, list[bytes]]]:
    """Entries of a DIRECTORY or a DIRECTORY_CHANGE: the fixed part (its last byte counts the addresses), and the addresses."""
    at = head
    while at < len(body):
        start = body[at : at + fixed]
        found, at = _addresses(body, at + fixed, start[-1])
        yield start, found
    if at != len(body):
        raise IndexError(at)


def _register(body: bytes) -> bool:
    name, version, count = body[17:20]
    return _addresses(body, 20 + name + version, count)[1] == len(body)


TAKES: dict[int, Callable[[bytes], bool]] = {
    REGISTER: _register, WELCOME: _exactly(60), DIRECTORY_REQUEST: _exactly(8), REGULATE: _rows(12, 4), BACKLOG: _rows(12, 20),
    DIRECTORY: lambda body: bool(list(entries(body, 12, 5))) or len(body) == 12,
    DIRECTORY_CHANGE: lambda body: bool(list(entries(body, 16, 6))) or len(body) == 16,
    DIRECTIVE: _rows(0, 40), YIELD: _exactly(24), ACK: _exactly(28), HEARTBEAT: _exactly(21), PING: _exactly(8),
    REPORT: lambda body: not (len(body) - 22 - 20 * struct.unpack_from("!H", body, 20)[0]) % 10,
    PONG: _exactly(24), LEAVE: lambda body: body.isascii(), ERROR: lambda body: len(body) >= 10 and body[10:].isascii(),
    THRESHOLDS: lambda _: True, COFLOWS: _rows(12, 5), CONDITIONS: _rows(12, 32), WEEK: lambda _: True,
    CLOCK_REPORT: _exactly(16), PFC_SETTINGS: lambda body: len(body) == 131 + 6 * body[1] + 5 * body[2],
    PFC_PAUSE: _exactly(17), KEY_STEP: _exactly(17), KEY_STATE: _exactly(16), HOST_STATE: lambda body: len(body) >= 42,
    HOST_LINK: _exactly(36), PATHS: _rows(24, 16), LOSSES: _rows(0, 16),
}  # fmt: skip
"""The types of version 2, and whether a body is one of that type's."""


class Said(NamedTuple):
    """A frame that a player took."""

    kind: int
    body: bytes
    to_all: bool

    def __getitem__(self, name: Any) -> Any:  # noqa: ANN401 -- a field by its name
        offset, code = FIELDS[self.kind][name]
        return struct.unpack_from("!" + code, self.body, offset)[0]


class Player:
    """What agent and leader have in common: a guard of that time, and recorded frames to say."""

    def __init__(self, said: list[str], own: bytes, other: bytes, sender: int, epoch: int) -> None:
        self.own, self.other, self.sender, self.epoch = own, other, sender, epoch
        self.refused: Counter[str] = Counter()
        self.heard: list[Said] = []
        self._sequence = 10**18
        self._highest: dict[bool, int] = {True: -1, False: -1}
        self._recorded: dict[int, bytes] = {}
        for text in said:
            raw = bytes.fromhex(text)
            self._recorded[raw[17]] = max(raw, self._recorded.get(raw[17], b""), key=len)

    def all(self, kind: int) -> list[Said]:
        """What it heard of one type."""
        return [said for said in self.heard if said.kind == kind]

    def say(self, kind: int, *, to: bytes | None = None, **changed: int) -> bytes:
        """The recorded frame of a type, with these fields changed."""
        raw = self._recorded[kind]
        length = struct.unpack_from("!H", raw, 20)[0]
        body = bytearray(raw[BODY : BODY + length])
        for name, value in changed.items():
            offset, code = FIELDS[kind][name]
            struct.pack_into("!" + code, body, offset, value)
        to = to or (GROUP if raw[:6] == GROUP else self.other)
        self._sequence += 1
        data = HEAD.pack(to, self.own, 0x88B5, 0x4254, 2, kind, 0, length, self.sender, self.epoch, self._sequence) + body
        return (data + _tag(data)).ljust(SHORTEST, b"\0")

    def take(self, raw: bytes) -> Said | None:
        """The frame, if that time's guard would have accepted it; else None, and the cause is counted."""
        cause = self._cause(raw)
        if cause:
            self.refused[cause] += 1
            return None
        said = Said(raw[17], raw[BODY : BODY + struct.unpack_from("!H", raw, 20)[0]], raw[:6] == GROUP)
        self.heard.append(said)
        return said

    def _cause(self, raw: bytes) -> str:
        if len(raw) < SHORTEST:
            return "SHORT"
        to, source, ethertype, magic, version, kind, flags, length, sender, epoch, sequence = HEAD.unpack_from(raw)
        end = BODY + length + TAG
        if (ethertype, magic) != (0x88B5, 0x4254):
            return "NOT_BATON"
        if version != 2 or flags:
            return "VERSION"
        if len(raw) != max(SHORTEST, end) or any(raw[end:]):
            return "LENGTH"
        if not hmac.compare_digest(_tag(raw[: end - TAG]), raw[end - TAG : end]):
            return "TAG"
        if kind not in TAKES:
            return "UNKNOWN_TYPE"
        try:
            if not TAKES[kind](raw[BODY : BODY + length]):
                return "MALFORMED"
        except (struct.error, IndexError, KeyError, ValueError):
            return "MALFORMED"
        if to not in (self.own, GROUP):
            return "NOT_OURS"
        if epoch != self.epoch:
            return "OLD_EPOCH" if epoch < self.epoch else "FUTURE_EPOCH"
        if (sender == 1) == (self.sender == 1) or source != self.other:
            return "NOT_LEADER"
        if sequence <= self._highest[to == GROUP]:
            return "REPLAY"
        self._highest[to == GROUP] = sequence
        return ""


def _tag(data: bytes) -> bytes:
    return hashlib.blake2s(data, key=KEY, digest_size=TAG, person=b"baton v1").digest()


class OldAgent(Player):
    """Yesterday's agent, as a member: registers with the leader that it hears, reports a backlog, uses slots and gives back."""

    NONCE = 4_711

    def __init__(self, epoch: int = EPOCH, own: bytes = AGENT, leader: bytes = LEADER) -> None:
        super().__init__(RECORD["agent"], own, leader, 0, epoch)
        self.directory: dict[int, list[bytes]] = {}
        self.regulated: frozenset[int] = frozenset()
        self.override: int | None = None

    def answer(self, raw: bytes) -> list[bytes]:
        """What it says to a frame of the leader's."""
        said = self.take(raw)
        if said is None:
            return []
        if said.kind == HEARTBEAT:
            self.override = said["override"]
            return [] if self.sender else [self.say(REGISTER, nonce=self.NONCE)]
        if said.kind == WELCOME and said["nonce"] == self.NONCE:
            self.sender = said["node"]
            return [self.say(DIRECTORY_REQUEST), self.say(PING, sent_ns=5), self.say(HOST_STATE), self.say(CLOCK_REPORT)]
        if said.kind == DIRECTORY:
            self.directory = {struct.unpack("!I", start[:4])[0]: found for start, found in entries(said.body, 12, 5)}
        if said.kind == REGULATE:
            self.regulated = frozenset(number for (number,) in struct.iter_unpack("!I", said.body[12:]))
            return [self.say(BACKLOG, report=9, destination=next(iter(self.regulated)), bytes=60_000)] if self.regulated else []
        if said.kind == DIRECTIVE:
            return self._use(said)
        return [self.say(KEY_STATE)] if said.kind == KEY_STEP else []

    def _use(self, said: Said) -> list[bytes]:
        found = []
        for at in range(0, len(said.body), 40):
            grant = Said(DIRECTIVE, said.body[at : at + 40], to_all=False)
            slot, destination, start_ns = grant["slot"], grant["destination"], grant["start_ns"]
            if destination not in self.regulated or grant["end_ns"] < start_ns or (grant["bytes"] and grant["rate_bps"]):
                self.refused["DIRECTIVE"] += 1
                continue
            if not grant["bytes"] and not grant["rate_bps"]:
                continue  # revoked
            found.append(self.say(ACK, slot=slot, destination=destination, received_ns=start_ns, opened_ns=start_ns + 20_000))
            found.append(self.say(YIELD, slot=slot, destination=destination, unspent=grant["bytes"] // 2, backlog=0))
        return found


class OldLeader(Player):
    """Yesterday's leader: takes a host in, regulates it, grants a slot for each backlog."""

    SLOT_NS = 2 * MS

    def __init__(self, epoch: int = EPOCH, own: bytes = LEADER, agent: bytes = AGENT) -> None:
        super().__init__(RECORD["leader"], own, agent, 1, epoch)
        self.slots = 0
        self.registered = Said(LEAVE, b"", to_all=False)

    def heartbeat(self, override: int = 0) -> bytes:
        """The next one, to all."""
        return self.say(HEARTBEAT, override=override, directory=1, regulate=1)

    def answer(self, raw: bytes, now_ns: int) -> list[bytes]:
        """What it says to a frame of an agent's."""
        said = self.take(raw)
        if said is None:
            return []
        if said.kind == REGISTER:
            self.registered = said
            return [self.say(WELCOME, nonce=said["nonce"])]
        if said.kind == DIRECTORY_REQUEST:
            return [self.say(DIRECTORY, version=1), self.say(REGULATE)]
        if said.kind == BACKLOG and len(said.body) > 12:
            self.slots += 1
            times = {"start_ns": now_ns, "end_ns": now_ns + self.SLOT_NS}
            return [self.say(DIRECTIVE, destination=said["destination"], slot=self.slots, **times)]
        if said.kind == PING:
            return [self.say(PONG, sent_ns=said["sent_ns"], received_ns=now_ns, replied_ns=now_ns)]
        return []
