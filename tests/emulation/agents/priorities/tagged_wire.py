"""A veth pair with the tagger at one end: frames are sent through its hook, and captured at the other end."""

from __future__ import annotations

import ctypes
import itertools
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from agents.priorities.tagger import RunOptions, Tagger, TaggerSettings
from tests.emulation.namespaces import Pair, inside, pair

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA = 3, 263, 8
SO_MARK = 36
DSCP = (56, 48, 40, 32, 24, 16, 8, 1)
BETA, ALPHA = (2048, 5000, 20_000), (2000, 5000, 9000)
QUIET = TaggerSettings(dscp=DSCP, idle_ns=0, short_bytes=0)


@dataclass
class Wire:
    """A tagger at the left host's egress, a socket that sends there, and one that captures at the right host."""

    pair: Pair
    tagger: Tagger
    sender: socket.socket
    receiver: socket.socket
    ports: Iterator[int] = field(default_factory=lambda: itertools.count(2000))

    def cross(self, frame: Packet | bytes, mark: int = 0) -> bytes:
        """Sends one frame and returns what arrives, with its VLAN tag."""
        self.sender.setsockopt(socket.SOL_SOCKET, SO_MARK, struct.pack("=I", mark))
        self.sender.send(bytes(frame))
        data, ancillary, _, _ = self.receiver.recvmsg(65536, 256)
        *_, tci, protocol = struct.unpack("=IIIHHHH", ancillary[0][2])
        if protocol:  # the kernel keeps the outer tag beside the data
            data = data[:12] + struct.pack("!HH", protocol, tci) + data[12:]
        return data

    def dscp(self, frame: Packet, mark: int = 0) -> int:
        """The DSCP with which a well-formed frame arrives; fails if anything else changed, or the checksum is wrong."""
        whole = bytes(frame)
        at = 14 + 4 * (whole[12:14] in (b"\x81\x00", b"\x88\xa8"))
        data = self.cross(whole, mark)
        before, after = bytearray(whole), bytearray(data)
        if whole[at] >> 4 == 4:
            assert ones_sum(data[at : at + 20]) == 0xFFFF, "the header's checksum is wrong"
            tos, was = data[at + 1], whole[at + 1]
            before[at + 1] = after[at + 1] = 0
            before[at + 10 : at + 12] = after[at + 10 : at + 12] = b"\0\0"
        else:
            tos, was = (int.from_bytes(each[at : at + 2], "big") >> 4 & 0xFF for each in (data, whole))
            for each in (before, after):
                each[at : at + 2] = bytes((each[at] & 0xF0, each[at + 1] & 0x0F))
        assert after == before, "more than the traffic class changed"
        assert tos & 3 == was & 3, "ECN changed"
        return int(tos) >> 2


def ones_sum(data: bytes) -> int:
    """The ones' complement sum of RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@contextmanager
def tagged_pair() -> Iterator[Wire]:
    """A pair of hosts with the tagger at the left one's egress."""
    with pair() as made:
        with inside(made.left):
            tagger = Tagger("eth0", QUIET)
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sender.bind(("eth0", 0))
        with inside(made.right):
            receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            receiver.bind(("eth0", ETH_P_ALL))
        receiver.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        receiver.settimeout(2)
        tagger.set_thresholds(1, BETA, ALPHA)
        with sender, receiver:
            yield Wire(made, tagger, sender, receiver)
        tagger.close()


@dataclass
class Flow:
    """Builds the packets of a scripted flow."""

    port: int
    version: int = 4
    transport: str = "tcp"
    vlan: int | None = None
    sequence: int = 2**32 - 3000  # so that it wraps
    ecn: int = 0

    def packet(self, size: int, flags: str = "A", back: int = 0) -> Packet:
        """A packet of the next `size` bytes; with `back`, of bytes that far back."""
        self.ecn = (self.ecn + 1) % 4
        start = (self.sequence - back) % 2**32
        if not back:
            self.sequence = (self.sequence + size + ("S" in flags)) % 2**32
        ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        if self.vlan is not None:
            ether /= Dot1Q(vlan=self.vlan)
        if self.version == 4:
            network: Packet = IP(src="10.9.0.1", dst="10.9.0.2", tos=self.ecn, id=self.sequence & 0xFFFF)
        else:
            network = IPv6(src="fd00::1", dst="fd00::2", tc=self.ecn, fl=0xABCDE)
        tcp = self.transport == "tcp"
        ports: dict[str, Any] = {"sport": self.port, "dport": 80}
        over = TCP(**ports, seq=start, flags=flags, options=[("Timestamp", (1, 2))]) if tcp else UDP(**ports)
        return ether / network / over / Raw(bytes(size))


class ProgramTimer:
    """Times the program that tc shows at the hook, by BPF_PROG_TEST_RUN."""

    def __init__(self, wire: Wire) -> None:
        shown = wire.pair.tc("filter", "show", "dev", "eth0", "egress")
        self.program = next(entry["options"]["prog"]["id"] for entry in shown if "options" in entry)
        self._library = ctypes.CDLL("libbpf.so.1")
        self._fd = self._library.bpf_prog_get_fd_by_id(ctypes.c_uint32(self.program))
        assert self._fd >= 0

    def run(self, frame: bytes, repeat: int, mark: int = 0) -> int:
        """The mean time a packet takes, ns."""
        context = struct.pack("=III", 0, 0, mark)
        options = RunOptions(sz=ctypes.sizeof(RunOptions), data_in=frame, data_size_in=len(frame), repeat=repeat)
        options.ctx_in, options.ctx_size_in = context, len(context)
        assert self._library.bpf_prog_test_run_opts(self._fd, ctypes.byref(options)) == 0
        assert ctypes.c_int32(options.retval).value == -1, "other filters must see the packet too (TC_ACT_UNSPEC)"
        return int(options.duration)

    def close(self) -> None:
        os.close(self._fd)
