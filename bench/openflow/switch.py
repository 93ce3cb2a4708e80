"""One switch of a swarm: what it answers to the messages of OpenFlow 1.3. Pure: bytes in, bytes out.

It describes itself and its ports, keeps the entries that it is sent, tells counters, and passes on LLDP to its neighbours. It
has no queues and no meters.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from bench.openflow.flows import Flows
from controller.openflow.intake.hosts import PortRef

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES, PACKET_IN, PORT_STATUS, PACKET_OUT = 0, 1, 2, 3, 5, 10, 12, 13
FLOW_MOD, GROUP_MOD, MULTIPART, BARRIER, QUEUES, ROLE, METER_MOD = 14, 15, 18, 20, 22, 24, 29
LLDP = b"\x88\xcc"
LOCAL_PORT = 0xFFFFFFFE
DOWN = 1  # OFPPS_LINK_DOWN

PART_BYTES = 60_000
"""Of what a switch tells in one message: as Open vSwitch does it."""

Passed = Callable[[PortRef, bytes], None]
"""Takes a frame that left by a port."""


def _parts(kind: int, told: list[bytes], xid: int) -> Iterator[bytes]:
    """A reply in as many messages as it needs; all but the last say that more follow."""
    begin = size = 0
    for at, one in enumerate(told):
        if size + len(one) > PART_BYTES:
            yield message(19, struct.pack("!HH4x", kind, 1) + b"".join(told[begin:at]), xid)
            begin, size = at, 0
        size += len(one)
    yield message(19, struct.pack("!HH4x", kind, 0) + b"".join(told[begin:]), xid)


def message(kind: int, body: bytes = b"", xid: int = 0) -> bytes:
    """A message with its header."""
    return struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body


class Switch:
    """The state of one switch; `rates_bps`: its ports. `passed` gets the LLDP frames that it sends."""

    def __init__(self, dpid: int, name: str, rates_bps: dict[int, int], passed: Passed) -> None:
        self.dpid = dpid
        self.flows = Flows()
        self.down: set[int] = set()
        self.ready = False
        """Whether a controller has asked for its ports."""
        self.echoed: list[int] = []
        """The numbers of our own echo requests that were answered."""
        self.errors: list[str] = []
        self._name = name
        self._rates_bps = rates_bps
        self._passed = passed
        self._rest = b""

    def connected(self) -> bytes:
        """The first words of a new connection. Entries stay from the one before."""
        self._rest, self.ready = b"", False
        return message(HELLO)

    def feed(self, data: bytes) -> bytes:
        """Carries out the messages that are whole by now; returns the answers."""
        data, at, answers = self._rest + data, 0, []
        while len(data) - at >= 8:
            length = int.from_bytes(data[at + 2 : at + 4])
            if length < 8 or len(data) - at < length:
                break
            answers.append(self._one(data[at + 1], data[at : at + length]))
            at += length
        self._rest = data[at:]
        return b"".join(answers)

    def port_status(self, number: int) -> bytes:
        """Tells that a port has changed: its link is in `down` now, or no longer."""
        return message(PORT_STATUS, struct.pack("!B7x", 2) + self._described(number))

    def packet_in(self, number: int, frame: bytes) -> bytes:
        """Passes a frame on that came in by a port."""
        match = struct.pack("!HHHBBI4x", 1, 12, 0x8000, 0, 4, number)
        return message(PACKET_IN, struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, 0, 0) + match + b"\0\0" + frame)

    def _one(self, kind: int, told: bytes) -> bytes:
        xid, body = int.from_bytes(told[4:8]), told[8:]
        if kind == FLOW_MOD:
            self.flows.flow_mod(told)
        elif kind == GROUP_MOD:
            self.flows.group_mod(told)
        elif kind == PACKET_OUT:
            self._send(body)
        elif kind == ECHO_REPLY:
            self.echoed.append(xid)
        elif kind == ECHO_REQUEST:
            return message(ECHO_REPLY, body, xid)
        elif kind == FEATURES:
            return message(6, struct.pack("!QIBB2xII", self.dpid, 0, 254, 0, 0x4F, 0), xid)
        elif kind == BARRIER:
            return message(21, b"", xid)
        elif kind == ROLE:
            return message(25, body, xid)
        elif kind == QUEUES:
            return message(23, body[:4] + bytes(4), xid)
        elif kind == MULTIPART:
            return self._statistics(xid, body)
        elif kind == ERROR:
            self.errors.append(body[:4].hex())
        return b""

    def _send(self, body: bytes) -> None:
        length = int.from_bytes(body[8:10])
        frame, at = body[16 + length :], 16
        while at < 16 + length:
            action, size = struct.unpack_from("!HH", body, at)
            if action == 0 and frame[12:14] == LLDP:
                self._passed(PortRef(self.dpid, int.from_bytes(body[at + 4 : at + 8])), frame)
            at += size

    def _statistics(self, xid: int, body: bytes) -> bytes:
        kind = int.from_bytes(body[:2])
        if kind == 13:
            self.ready = True
            found = b"".join(self._described(number) for number in (*self._rates_bps, LOCAL_PORT))
        elif kind == 4:
            found = b"".join(struct.pack("!I4x12QII", number, *bytes(12), 1, 0) for number in self._rates_bps)
        elif kind == 2:
            found = struct.pack("!QQI4x", 0, 0, len(self.flows.entries))
        elif kind in (1, 7):
            told = list(self.flows.told(*struct.unpack_from("!QQ", body, 24)) if kind == 1 else self.flows.groups_told())
            return b"".join(_parts(kind, told, xid))
        else:  # there are no meters
            found = bytes(16)
        return message(19, struct.pack("!HH4x", kind, 0) + found, xid)

    def _described(self, number: int) -> bytes:
        local = number == LOCAL_PORT
        name = self._name if local else f"{self._name}-eth{number}"
        state = DOWN if local or number in self.down else 4
        kbps = 0 if local else self._rates_bps[number] // 1000
        address = (0x06 << 40 | self.dpid << 16 | number & 0xFFFF).to_bytes(6)
        return struct.pack("!I4x6s2x16sIIIIIIII", number, address, name.encode(), 0, state, 0, 0, 0, 0, kbps, kbps)
