"""Sends flows of UDP packets in turn, as fast as the host can or at a rate. An edge: a socket, run as a program of its own.

    python -m bench.host_control.flood --flows 16 --size 1000 --seconds 2 [--pps 200000]

Flow n goes to 10.9.0.(16 + n), port 9. The size of a packet includes its Ethernet header and check sequence, as in the
published tables; its payload begins with the packet's number in its flow (32 bits, little-endian). The program prints a line
when it is ready, begins when it reads one, and finally prints what it sent, as JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from bench.host_control.capture import UDP_PORT
from bench.host_control.ends import Ends
from emulation.traffic.workloads import READY

HEADERS = 14 + 20 + 8 + 4
"""Ethernet, IPv4, UDP, and the check sequence."""
SMALLEST = HEADERS + 4
TURN = 32
"""The program hands at least so many packets to the kernel at once."""
_SO_SNDBUFFORCE = 32
BUFFER_BYTES = 256 << 20
"""So large that the packets that wait at closed gates never hold back those of the other flows."""


class _Message(ctypes.Structure):
    """struct mmsghdr of recvmmsg(2), with struct msghdr unfolded."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_bytes", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("sent", ctypes.c_uint32),
    )


def prefer() -> None:
    """Runs before ordinary programs, by niceness: of the process, and of its group (autogroup of sched(7))."""
    with suppress(PermissionError):  # without the right, at ordinary priority
        os.nice(-20)
    with suppress(OSError):  # a kernel without autogroups
        Path("/proc/self/autogroup").write_text("-20")


def send(flows: int, size: int, seconds: float, pps: int) -> dict[str, float]:
    """Sends for so many seconds; what was sent. `pps`: packets per second, 0 for as fast as the kernel takes them."""
    turns = max(1, TURN // flows) if not pps else 1
    count = turns * flows
    payloads = np.zeros((count, size - HEADERS), np.uint8)
    numbers = np.ndarray((count,), "<u4", buffer=payloads, strides=(size - HEADERS,))
    numbers[:] = np.repeat(np.arange(turns), flows)
    step = np.uint32(turns)
    vectors = np.empty((count, 2), np.uint64)
    vectors[:, 0] = payloads.ctypes.data + np.arange(count) * payloads.shape[1]
    vectors[:, 1] = payloads.shape[1]
    names = b"".join(
        struct.pack("=H", socket.AF_INET) + UDP_PORT.to_bytes(2, "big") + target.packed + bytes(8)
        for target in Ends.targets(flows)
    )
    held = ctypes.create_string_buffer(names)
    messages = (_Message * count)()
    for at, message in enumerate(messages):
        message.name, message.name_bytes = ctypes.addressof(held) + at % flows * 16, 16
        message.vectors, message.vector_count = int(vectors.ctypes.data) + at * 16, 1
    libc = ctypes.CDLL(None, use_errno=True)
    sendmmsg = libc.sendmmsg
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, BUFFER_BYTES)
        fd, now_ns = out.fileno(), time.monotonic_ns
        print(READY, flush=True)
        input()
        begin = now_ns()
        end, due, gap = begin + round(seconds * 1e9), begin, count * 10**9 // pps if pps else 0
        sent = 0
        while (now := now_ns()) < end:
            if now < due:
                continue  # a sleep would end later than the gap is long
            due = max(due + gap, now - 50 * gap)
            done = sendmmsg(fd, ctypes.byref(messages), count, 0)
            if done < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            sent += done
            numbers += step
        return {"packets": sent, "seconds": (now_ns() - begin) / 1e9}


def main() -> None:
    """Parses the arguments, sends, prints the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--flows", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--pps", type=int, default=0)
    given = parser.parse_args()
    if given.size < SMALLEST:
        parser.error(f"--size: at least {SMALLEST}")
    prefer()
    print(json.dumps(send(given.flows, given.size, given.seconds, given.pps)))


if __name__ == "__main__":
    main()
