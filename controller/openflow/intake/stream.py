"""One switch's stream of bytes, cut into messages; only those that are sound, and not too many frames, go on. Pure."""

from __future__ import annotations

from collections import Counter

from controller.openflow.intake import messages
from controller.openflow.intake.budget import Budget

FRAMES_PER_S, FRAMES_AT_ONCE = 2_000, 2_000
"""How many frames (packet-ins) of one switch the application takes. A switch with meters sends fewer."""
STATISTICS_BYTES_PER_S, STATISTICS_BYTES_AT_ONCE = 1 << 20, 1 << 24
"""How much a switch may tell of itself: once a table of 64,000 entries, as the takeover takes, and then the counters of
thousands of ports. It is asked for those of 5,000 ports a second (POLL_PER_PORT_S of controller/app.py)."""
STATISTICS_LEAST = 128
"""Bytes that each part of an answer counts at least: as the counters of one port."""
HANDSHAKE_NS = 10_000_000_000
"""Within which a switch must have described itself."""


class Unreadable(Exception):
    """Nothing more can be read from this peer; the text says why."""


class Stream:
    """What one peer has sent. `begun_ns`: when it connected."""

    def __init__(self, begun_ns: int) -> None:
        self._rest = bytearray()
        self._greeted = self._described = False
        self._begun_ns = begun_ns
        self._frames = Budget(FRAMES_PER_S, FRAMES_AT_ONCE)
        self._statistics = Budget(STATISTICS_BYTES_PER_S, STATISTICS_BYTES_AT_ONCE)
        self.malformed: Counter[str] = Counter()
        """Messages dropped, by what was wrong with them."""
        self.frames_dropped = 0

    def feed(self, data: bytes, now_ns: int) -> bytes:
        """The messages that the framework may parse, of what has arrived so far; whole ones only.

        Raises:
            Unreadable: hang up.
        """
        self._rest += data
        admitted, at = bytearray(), 0
        while len(self._rest) - at >= messages.HEADER.size:
            length = int.from_bytes(self._rest[at + 2 : at + 4])
            if not self._greeted and self._rest[at + 1] != messages.HELLO:
                raise Unreadable("no HELLO at the beginning; this port speaks OpenFlow 1.3")
            if length < messages.HEADER.size:
                raise Unreadable("a message's length is less than its header's")
            if len(self._rest) - at < length:
                break
            admitted += self._one(bytes(self._rest[at : at + length]), now_ns)
            at += length
        del self._rest[:at]
        self.wait(now_ns)
        return bytes(admitted)

    def wait(self, now_ns: int) -> None:
        """Time passes without a message.

        Raises:
            Unreadable: it has not described itself for HANDSHAKE_NS.
        """
        if not self._described and now_ns - self._begun_ns >= HANDSHAKE_NS:
            raise Unreadable("it has not finished the handshake")

    def _one(self, message: bytes, now_ns: int) -> bytes:
        try:
            if not self._greeted:
                message = messages.hello(message)
                self._greeted = True
                return message
            if not messages.admits(message):
                return b""
        except messages.Malformed as error:
            if not self._described:
                raise Unreadable(str(error)) from None
            self.malformed[str(error)] += 1
            return b""
        self._described = self._described or message[1] == messages.FEATURES_REPLY
        if messages.is_packet_in(message) and not self._frames.take(now_ns):
            self.frames_dropped += 1
            return b""
        if messages.is_statistics(message) and not self._statistics.take(now_ns, max(STATISTICS_LEAST, len(message))):
            self.malformed["more statistics than we take"] += 1
            return b""
        return message
