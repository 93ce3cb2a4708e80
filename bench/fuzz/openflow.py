"""Hostile OpenFlow messages, sent through Baton's check into the parsers of Ryu and os-ken.

Method: each run is one stream of a HELLO and some messages, made from valid ones by a seeded generator, which likes to write
small and extreme numbers where lengths are. What `Stream` admits goes to the framework's parser, and flow entries and groups to
Baton's reader of them. A crash is an exception of the stream other than `Unreadable`, one that escapes from a parser, or a
message that takes SLOW_S: a parser that walks a list by a length of 0 takes for ever, and an alarm ends it. A message that the
parser itself gives up (a vendor's match field of another size) is counted.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import random
import signal
import struct
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any

from controller.openflow.intake import entries
from controller.openflow.intake.messages import HEADER, HELLO, VERSION
from controller.openflow.intake.stream import Stream, Unreadable

FRAMEWORKS = ("ryu", "os_ken")
CRASHES_KEPT = 5
SLOW_S = 2.0
FLOW_STATISTICS = 1
EXTREMES = (0, 1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFE, 0xFFFF)


def message(kind: int, body: bytes = b"", version: int = VERSION) -> bytes:
    """A message with its header; xid 1."""
    return HEADER.pack(version, kind, HEADER.size + len(body), 1) + body


def _match(*fields: tuple[int, bytes]) -> bytes:
    oxms = b"".join(struct.pack("!HBB", 0x8000, number << 1, len(value)) + value for number, value in fields)
    return struct.pack("!HH", 1, 4 + len(oxms)) + oxms + bytes(-(4 + len(oxms)) % 8)


_PORT = _match((0, struct.pack("!I", 1)))
_SOURCE = _match((0, struct.pack("!I", 1)), (4, bytes.fromhex("020000000001")), (5, b"\x08\x06"), (22, bytes(4)))
_OUTPUT = struct.pack("!HHIH6x", 0, 16, 0xFFFFFFFD, 64)
_SET_FIELD = struct.pack("!HHHBB", 25, 16, 0x8000, 3 << 1, 6) + bytes(8)
_APPLY = struct.pack("!HH4x", 4, 8 + len(_OUTPUT + _SET_FIELD)) + _OUTPUT + _SET_FIELD
_INSTRUCTIONS = _APPLY + struct.pack("!HHB3x", 1, 8, 2) + struct.pack("!HHI", 6, 8, 1)
_FLOW = struct.pack("!HBxIIHHHH4xQQQ", 48 + len(_SOURCE + _INSTRUCTIONS), 1, 2, 3, 100, 300, 0, 1, 0xBA70 << 48, 5, 6)
_FLOW += _SOURCE + _INSTRUCTIONS
_DESCRIBED = struct.pack("!I4x6s2x16sIIIIIIII", 1, bytes(6), b"s1-eth1", 0, 0, 0, 0, 0, 0, 1_000_000, 1_000_000)
_BUCKET = struct.pack("!HHII4x", 32, 0, 0xFFFFFFFF, 0xFFFFFFFF) + struct.pack("!HHIH6x", 0, 16, 2, 0)
_DESCRIBED_GROUP = struct.pack("!HBxI", 8 + 2 * len(_BUCKET), 0, 1) + _BUCKET * 2
_QUEUE = struct.pack("!IIH6x", 1, 1, 32) + struct.pack("!HH4xH6x", 2, 16, 500)
_ARP = bytes.fromhex("ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002")

HELLOS = (
    message(HELLO),
    message(HELLO, struct.pack("!HHI", 1, 8, 0x3E)),
    message(HELLO, struct.pack("!HHI", 1, 8, 0x7E), version=6),
    message(HELLO, struct.pack("!HHII4x", 1, 12, 0x7E, 0), version=6),
)
FEATURES = message(6, struct.pack("!QIBB2xII", 1, 0, 254, 0, 0, 0))
SEEDS = (
    message(1, struct.pack("!HH", 1, 1) + message(22, bytes(8))),
    message(1, struct.pack("!HHI", 0xFFFF, 1, 0x4F4E4600) + bytes(8)),
    message(2, b"ping"),
    message(3, b"pong"),
    FEATURES,
    message(10, struct.pack("!IHBBQ", 0xFFFFFFFF, 42, 1, 1, 0) + _PORT + bytes(2) + _ARP),
    message(11, struct.pack("!QHBBIIHHQQ", 0, 100, 0, 1, 1, 1, 300, 0, 1, 1) + _SOURCE),
    message(12, struct.pack("!B7x", 2) + _DESCRIBED),
    message(19, struct.pack("!HH4x", 1, 0) + _FLOW * 2),
    message(19, struct.pack("!HH4x", 2, 0) + struct.pack("!QQI4x", 1, 2, 3)),
    message(19, struct.pack("!HH4x", 4, 0) + bytes(112) * 3),
    message(19, struct.pack("!HH4x", 11, 0) + struct.pack("!IIIBB2x", 10, 2, 3, 1, 1)),
    message(19, struct.pack("!HH4x", 13, 1) + _DESCRIBED * 3),
    message(19, struct.pack("!HH4x", 6, 0) + struct.pack("!H2xIIIQQII", 56, 1, 1, 0, 1, 1, 1, 1) + bytes(16)),
    message(19, struct.pack("!HH4x", 7, 0) + _DESCRIBED_GROUP * 2),
    message(19, struct.pack("!HH4x", 10, 0) + struct.pack("!HHI", 8, 0, 1)),
    message(19, struct.pack("!HH4x", 12, 0) + struct.pack("!HB5x32sQQII", 64, 0, b"t", 0, 0, 0, 1)),
    message(21),
    message(23, struct.pack("!I4x", 0xFFFFFFFF) + _QUEUE * 2),
    message(25, struct.pack("!I4xQ", 2, 7)),
)
"""One of each kind that Baton uses, and of others that switches know."""


def fuzz(seconds: float, seed: int) -> dict[str, Any]:
    """{"runs", "forgeries", "crashes", "accepted_forgeries", "parsed", "given_up", "refused", "slowest_s", "first_crashes"}."""
    generator = random.Random(seed)
    parsers = [Parser(root) for root in FRAMEWORKS]
    counts: Counter[str] = Counter()
    crashes: list[str] = []
    slowest_s = 0.0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        counts["runs"] += 1
        sent = hostile(generator)
        for parser in parsers:
            began_s = time.monotonic()
            try:
                counts["parsed"] += parser.take(sent)
            except Unreadable:
                counts["refused"] += 1
            except Exception:  # any other exception is a finding
                counts["crashes"] += 1
                if len(crashes) < CRASHES_KEPT:
                    crashes.append(f"seed {seed}, run {counts['runs']}, {parser.root}, {sent.hex()}: {traceback.format_exc()}")
            slowest_s = max(slowest_s, time.monotonic() - began_s)
    counts["given_up"] = sum(parser.given_up for parser in parsers)
    sums = {name: counts[name] for name in ("runs", "crashes", "parsed", "given_up", "refused")}
    return {**sums, "forgeries": 0, "accepted_forgeries": 0, "slowest_s": slowest_s, "first_crashes": crashes}


def hostile(generator: random.Random) -> bytes:
    """A stream: mostly a good HELLO and a mostly good description, then messages with wrong lengths."""
    first = _mutated(generator.choice(HELLOS), generator) if generator.random() < 0.3 else generator.choice(HELLOS)
    rest = [FEATURES, *(_mutated(generator.choice(SEEDS), generator) for _ in range(4))]
    return first + b"".join(rest)


def _mutated(whole: bytes, generator: random.Random) -> bytes:
    raw = bytearray(whole)
    for _ in range(generator.randrange(4)):
        at = generator.randrange(len(raw))
        way = generator.randrange(5)
        if way == 0:
            raw[at] = generator.randrange(256)
        elif way < 3:
            raw[at & ~1 : (at & ~1) + 2] = generator.choice(EXTREMES).to_bytes(2)
        elif way == 3:
            del raw[max(8, at) :]
        else:
            raw[at:at] = raw[at : at + generator.choice((4, 8, 16, 56))]
    if generator.random() < 0.9:  # else the framing is lost, and nothing is read
        raw += bytes(max(0, HEADER.size - len(raw)))
        raw[2:4] = min(len(raw), 0xFFFF).to_bytes(2)
    return bytes(raw)


class Parser:
    """The parser of one framework, behind Baton's check."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._parser: Any = importlib.import_module(f"{root}.ofproto.ofproto_parser")
        for version in ("0", "2", "3"):
            made = importlib.import_module(f"{root}.ofproto.ofproto_v1_{version}_parser")
        entries.keep_raw(made)  # of 1.3
        self._datapath: Any = importlib.import_module(f"{root}.ofproto.ofproto_protocol").ProtocolDesc(version=VERSION)
        self.given_up = 0
        logging.getLogger(f"{root}.ofproto.ofproto_parser").addFilter(self._logged)

    def take(self, stream: bytes) -> int:
        """Parses what the check admits; returns how many messages.

        Raises:
            Unreadable: the check hangs up.
            Exception: whatever escapes from the parser; TimeoutError if it takes SLOW_S.
        """
        admitted, parsed = Stream(0).feed(stream, 0), 0
        while admitted:
            version, kind, length, xid = self.header(admitted)
            self.parse(version, kind, length, xid, admitted[:length])
            admitted = admitted[length:]
            parsed += 1
        return parsed

    def header(self, buffer: bytes) -> tuple[int, int, int, int]:
        """(version, kind, length, xid) of the message that begins here."""
        version, kind, length, xid = self._parser.header(buffer)
        return version, kind, length, xid

    def parse(self, version: int, kind: int, length: int, xid: int, buffer: bytes) -> Any:  # noqa: ANN401 -- of a framework
        """Parses one message as the framework does, without a check; the framework's object, None if the parser gives it up.
        Raises as `take`."""
        parsed = None
        with _alarm() as rung:
            parsed = self._parser.msg(self._datapath, version, kind, length, xid, bytearray(buffer))
            told = getattr(parsed, "body", None)
            for each in told if isinstance(told, list) else ():
                if isinstance(each, entries.Raw):
                    (entries.flow if parsed.type == FLOW_STATISTICS else entries.group)(each)
        if rung:
            raise TimeoutError(f"{self.root} took {SLOW_S} s for a message")
        return parsed

    def _logged(self, _record: logging.LogRecord) -> bool:
        """A filter of the parser's log: counts what it would say, and says nothing."""
        self.given_up += 1
        return False


@contextlib.contextmanager
def _alarm() -> Iterator[list[bool]]:
    """Ends what runs inside after SLOW_S; the list is not empty if it had to. The parsers catch any exception."""
    rung: list[bool] = []

    def ring(_signal: int, _frame: FrameType | None) -> None:
        rung.append(True)
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SLOW_S)
    try:
        with contextlib.suppress(TimeoutError):
            yield rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
