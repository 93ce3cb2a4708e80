"""Traffic programs that run lists of flows inside emulated hosts, each flow a TCP connection. An edge: sockets and clock.

    python -IS emulation/traffic/flow_load.py serve --port 6000 --flows 20 --until-ns T --control baton_dctcp
    python -IS emulation/traffic/flow_load.py send --until-ns T < flows.jsonl

Like emulation/traffic/workloads.py this file imports only the standard library, is run by its path, and takes instants of
CLOCK_MONOTONIC. `send` is open loop: a flow starts at its time, whether or not others have completed. It reads one JSON object
a line:

    {"flow": 7, "start_ns": T, "to": "10.0.0.6", "port": 6000, "size": 30000, "mark": 0, "dscp": null, "control": "baton_mcp"}

Both print one JSON object a flow, sorted by its number, when all flows are over or at `--until-ns`.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import heapq
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

COMMAND = (sys.executable, "-IS", __file__)
READY = "ready"
HEADER = struct.Struct("!IQ")  # a flow begins with its number and its size, which counts the header
BLOCK = memoryview(bytes(1 << 18))
WAKE_BYTES = 1 << 14  # fewer wake-ups than one a packet
RETRANSMITS = 100  # tcpi_total_retrans in struct tcp_info
PRIORITY = 1  # SCHED_FIFO: below the emulated switch and every agent


class Sending:
    """One flow at its sender, from connect to the receiver's close."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.flow = wanted["flow"]
        self._control = wanted["control"]
        self._header = HEADER.pack(self.flow, wanted["size"])
        self._size, self._sent = wanted["size"], 0
        self.row = {"flow": self.flow, "late_ns": 0, "start_ns": 0, "source_port": 0, "retransmits": 0, "control": ""}
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, wanted["mark"].to_bytes(4, sys.byteorder))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if wanted["dscp"] is not None:
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, wanted["dscp"] << 2)
        self.row["start_ns"] = time.monotonic_ns()
        self.row["late_ns"] = self.row["start_ns"] - wanted["start_ns"]
        begun = self.sock.connect_ex((wanted["to"], wanted["port"]))
        if begun not in (0, errno.EINPROGRESS):
            raise OSError(begun, f"flow {self.flow} to {wanted['to']}: {os.strerror(begun)}")
        self.row["source_port"] = self.sock.getsockname()[1]

    def write(self) -> bool:
        """Sends what the socket takes; whether everything is sent. Raises OSError: the connection is broken."""
        if self._sent == 0:
            if self._control is not None:
                # After connect: at connect the route's congestion control replaces an earlier choice.
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._control.encode())
            first = self._header + bytes(min(self._size, 1 << 16) - HEADER.size)
            self._sent = self.sock.send(first)
            if self._sent < HEADER.size:
                raise OSError(errno.EIO, "the socket did not take even the header")
        while self._sent < self._size:
            try:
                self._sent += self.sock.send(BLOCK[: self._size - self._sent])
            except BlockingIOError:
                return False
        return True

    def finish(self, end: str) -> None:
        """Records how the flow ended, and closes its socket."""
        with contextlib.suppress(OSError):  # a connection that was reset may have no such values
            information = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
            self.row["retransmits"] = struct.unpack_from("I", information, RETRANSMITS)[0]
            self.row["control"] = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        self.row["end"] = end
        self.sock.close()


def send(arguments: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Runs the list on standard input. A row: the flow's start, lateness, port, retransmits, congestion control and end.

    `end` is "complete" (the receiver has closed after the last byte), "aborted" (the connection broke), or "unfinished".
    """
    due = [(wanted["start_ns"], wanted["flow"], wanted) for wanted in map(json.loads, sys.stdin)]
    heapq.heapify(due)
    poll = select.epoll()
    running: dict[int, Sending] = {}
    rows = []
    print(READY, flush=True)
    while (due or running) and (now_ns := time.monotonic_ns()) < arguments.until_ns:
        while due and due[0][0] <= now_ns:
            flow = Sending(heapq.heappop(due)[2])
            running[flow.sock.fileno()] = flow
            poll.register(flow.sock, select.EPOLLOUT)
        wake_ns = min(due[0][0] if due else arguments.until_ns, arguments.until_ns)
        for descriptor, events in poll.poll(max(0, wake_ns - time.monotonic_ns()) / 1e9):
            flow = running[descriptor]
            end = _advance(flow, events, poll)
            if end is not None:
                poll.unregister(descriptor)
                flow.finish(end)
                rows.append(running.pop(descriptor).row)
    for flow in running.values():
        flow.finish("unfinished")
        rows.append(flow.row)
    return rows


def _advance(flow: Sending, events: int, poll: select.epoll) -> str | None:
    if events & select.EPOLLERR:
        return "aborted"
    try:
        if events & select.EPOLLOUT and flow.write():
            poll.modify(flow.sock, select.EPOLLIN)
        if events & (select.EPOLLIN | select.EPOLLHUP):
            return "aborted" if flow.sock.recv(1) else "complete"
    except OSError:
        return "aborted"
    return None


class Receiving:
    """One flow at its receiver; `sock` must not block."""

    def __init__(self, sock: socket.socket, bucket_ns: int, from_ns: int) -> None:
        self.sock = sock
        self.size: int | None = None
        self.buckets: dict[int, int] = {}
        self.row: dict[str, Any] = {"flow": None, "bytes": 0, "first_ns": time.monotonic_ns(), "last_ns": 0, "complete": False}
        self._bucket_ns, self._from_ns = bucket_ns, from_ns

    def read(self, buffer: bytearray) -> bool:
        """Reads what has arrived; whether the flow is over."""
        try:
            size = self.sock.recv_into(buffer)
        except BlockingIOError:
            return False
        except OSError:
            return True
        if size == 0:
            return True
        row, now_ns = self.row, time.monotonic_ns()
        if self.size is None:
            row["flow"], self.size = HEADER.unpack_from(buffer)
        row["bytes"] += size
        row["last_ns"] = now_ns
        if self._bucket_ns:
            bucket = (now_ns - self._from_ns) // self._bucket_ns
            self.buckets[bucket] = self.buckets.get(bucket, 0) + size
        left: int = self.size - row["bytes"]
        row["complete"] = left <= 0
        if left > 0 and not self._bucket_ns:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(left, WAKE_BYTES))
        return left <= 0


def serve(arguments: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Receives `--flows` flows. A row: bytes, the instants of the connection and of its last byte, whether it is complete.

    With `--bucket-ns`, "buckets": {number of the interval since `--from-ns`: bytes}.
    """
    buffer = bytearray(1 << 18)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if arguments.control is not None:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, arguments.control.encode())
    listener.bind(("", arguments.port))
    listener.listen(1024)
    listener.setblocking(False)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    running: dict[int, Receiving] = {}
    ended: list[Receiving] = []
    print(READY, flush=True)
    while len(ended) < arguments.flows and (left_ns := arguments.until_ns - time.monotonic_ns()) > 0:
        for descriptor, _ in poll.poll(left_ns / 1e9):
            if descriptor == listener.fileno():
                with contextlib.suppress(BlockingIOError):
                    flow = Receiving(listener.accept()[0], arguments.bucket_ns, arguments.from_ns)
                    flow.sock.setblocking(False)
                    running[flow.sock.fileno()] = flow
                    poll.register(flow.sock, select.EPOLLIN)
                continue
            flow = running[descriptor]
            if flow.read(buffer):
                poll.unregister(descriptor)
                flow.sock.close()
                ended.append(running.pop(descriptor))
    rows = [*ended, *running.values()]
    for flow in rows:
        if flow.buckets:
            flow.row["buckets"] = flow.buckets
    return [flow.row for flow in rows if flow.row["flow"] is not None]


def main(argv: Sequence[str] | None = None) -> None:
    """Parses the arguments, runs one program, prints its rows."""
    parser = argparse.ArgumentParser(description="Baton's lists of flows")
    commands = parser.add_subparsers(required=True)
    for name, function in (("send", send), ("serve", serve)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--until-ns", type=int, required=True)
    command.add_argument("--port", type=int, required=True)
    command.add_argument("--flows", type=int, required=True)
    command.add_argument("--control")
    command.add_argument("--bucket-ns", type=int, default=0)
    command.add_argument("--from-ns", type=int, default=0)
    arguments = parser.parse_args(argv)
    with contextlib.suppress(PermissionError):  # without the right, at ordinary priority
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    rows = arguments.function(arguments)
    for row in sorted(rows, key=lambda row: int(row["flow"])):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
