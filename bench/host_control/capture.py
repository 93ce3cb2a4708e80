"""Every packet that arrives at an interface, with the kernel's timestamp. An edge: a packet socket's ring (packet(7)).

The kernel writes headers into memory that it shares with this process (PACKET_RX_RING, TPACKET_V2 of linux/if_packet.h), so no
program has to run to receive them, and none takes processor time from what is measured. Timestamps are those of SO_TIMESTAMPNS:
CLOCK_REALTIME, taken when the driver hands the packet to the stack.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.host_control.ends import FIRST_FLOW, End

SOL_PACKET = 263  # linux/socket.h
PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, PACKET_TIMESTAMP, PACKET_IGNORE_OUTGOING = 5, 6, 10, 17, 23
TPACKET_V2 = 1
SOF_TIMESTAMPING_SOFTWARE = 1 << 4  # linux/net_tstamp.h
SO_TIMESTAMPNS, SO_ATTACH_FILTER = 35, 26  # asm-generic/socket.h
ETH_P_ALL = 3
FRAME_BYTES, BLOCK_BYTES = 128, 1 << 20
_PER_BLOCK = BLOCK_BYTES // FRAME_BYTES
_DATA = 66
"""Where an Ethernet header begins in a frame of the ring: TPACKET2_HDRLEN and the header itself, aligned to 16."""
_FRAME = np.dtype(
    {
        "names": ["status", "length", "mac", "sec", "nsec", "ethertype", "protocol", "target", "port", "sequence", "start"],
        "formats": ["<u4", "<u4", "<u2", "<u4", "<u4", ">u2", "u1", ">u4", ">u2", "<u4", "S62"],
        "offsets": [0, 4, 12, 16, 20, _DATA + 12, _DATA + 23, _DATA + 30, _DATA + 36, _DATA + 42, _DATA],
        "itemsize": FRAME_BYTES,
    }
)
UDP_PORT = 9
"""The destination port of the flows: discard (RFC 863)."""
# Classic BPF (linux/filter.h): passes IPv4, UDP and that port, and nothing else.
_FLOWS = ((0x28, 0, 0, 12), (0x15, 0, 5, 0x0800), (0x30, 0, 0, 23), (0x15, 0, 3, 17), (0x28, 0, 0, 36),
          (0x15, 0, 1, UDP_PORT), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0))  # fmt: skip
Instruction = tuple[int, int, int, int]


class Arrivals(NamedTuple):
    """The packets that arrived, in order: time (ns, CLOCK_REALTIME), number of the flow, sequence number within it; and how
    many packets were lost because the ring was full."""

    at_ns: NDArray[np.int64]
    flow: NDArray[np.int64]
    sequence: NDArray[np.int64]
    lost: int


class Capture:
    """A ring into which the kernel captures; `arrivals` or `frames` reads it once, at the end."""

    def __init__(self, interface: str, megabytes: int, code: Sequence[Instruction]) -> None:
        """Captures at an interface of this thread's network namespace, into a ring of so many megabytes, what the filter
        passes.

        Raises:
            OSError: there is no such interface, or this process may not open a packet socket (CAP_NET_RAW).
        """
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            program = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
            held = ctypes.create_string_buffer(program)
            attached = struct.pack("HxxxxxxP", len(code), ctypes.addressof(held))
            self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
            self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
            self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            # Without SO_TIMESTAMPNS the kernel takes the time of the copy into the ring, not that of the driver.
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self._socket.setsockopt(SOL_PACKET, PACKET_TIMESTAMP, SOF_TIMESTAMPING_SOFTWARE)
            ring = struct.pack("IIII", BLOCK_BYTES, megabytes, FRAME_BYTES, megabytes * _PER_BLOCK)
            self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, ring)
            self._memory = mmap.mmap(self._socket.fileno(), megabytes * BLOCK_BYTES)
            self._socket.bind((interface, ETH_P_ALL))
        except BaseException:
            self._socket.close()
            raise

    def _taken(self) -> NDArray[Any]:
        """A copy of the captured frames, in order of arrival."""
        ring = np.frombuffer(self._memory, _FRAME)
        full = np.flatnonzero(ring["status"] == 0)
        count = int(full[0]) if full.size else ring.size  # the kernel fills the ring from its beginning
        return ring[:count].copy()

    def arrivals(self) -> Arrivals:
        """The packets of the flows that arrived."""
        taken = self._taken()
        lost = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        return Arrivals(_times(taken), taken["target"].astype(np.int64) - int(FIRST_FLOW), taken["sequence"].astype(np.int64),
                        lost)  # fmt: skip

    def frames(self) -> list[tuple[int, bytes]]:
        """(time, the first 62 bytes) of every captured frame."""
        taken = self._taken()
        starts = taken["start"].view("V62") if taken.size else taken["start"]
        return [(int(at), bytes(start).ljust(62, b"\0")) for at, start in zip(_times(taken), starts, strict=True)]

    def close(self) -> None:
        """Frees the ring."""
        self._memory.close()
        self._socket.close()


def _times(taken: NDArray[Any]) -> NDArray[np.int64]:
    return taken["sec"].astype(np.int64) * 10**9 + taken["nsec"].astype(np.int64)


@contextmanager
def flows_at(end: End, megabytes: int = 64) -> Iterator[Capture]:
    """Captures the packets of the flows that arrive at an end; a megabyte holds 8,192 packets."""
    yield from _capture(end, megabytes, _FLOWS)


@contextmanager
def control_at(end: End, ethertypes: Sequence[int]) -> Iterator[Capture]:
    """Captures the frames of some EtherTypes that arrive at an end."""
    tests = [(0x15, len(ethertypes) - at, 0, kind) for at, kind in enumerate(ethertypes)]
    yield from _capture(end, 2, [(0x28, 0, 0, 12), *tests, (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF)])


def _capture(end: End, megabytes: int, code: Sequence[Instruction]) -> Iterator[Capture]:
    with end.entered():
        capture = Capture(end.interface, megabytes, code)
    try:
        yield capture
    finally:
        capture.close()
