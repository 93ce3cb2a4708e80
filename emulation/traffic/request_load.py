"""Traffic programs of requests: blocks from several servers with a barrier, sequences of short connections. An edge: sockets.

    python -IS emulation/traffic/request_load.py serve --port 5001 --until-ns T
    python -IS emulation/traffic/request_load.py request --servers 10.0.0.1,5001 10.0.0.2,5002 --size 1000000 --begin-ns T ...
    python -IS emulation/traffic/request_load.py sequences --to 10.0.0.4 --port 5001 --size 30000 --count 100 --begin-ns T ...

Like emulation/traffic/workloads.py this file imports only the standard library, is run by its path, and takes instants of
CLOCK_MONOTONIC. Every program ends with one line of JSON on standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import math
import selectors
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

COMMAND = (sys.executable, "-IS", __file__)
READY = "ready"
REQUEST = struct.Struct("!Q")  # the size of the block that is wanted, bytes
BLOCK = memoryview(bytes(1 << 16))
WAKE_BYTES = 1 << 14  # fewer wake-ups than one a packet
RETRY_S, CONNECT_TIMEOUT_S = 0.05, 1.0
LOST_IN_THE_NETWORK = (errno.EHOSTUNREACH, errno.ETIMEDOUT)
"""What a connection fails with whose packets, or questions for the server's address, nobody answers."""
ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: closing drops what is unsent


def serve(arguments: argparse.Namespace) -> dict[str, Any]:
    """Answers one client: each request of a size by a block of that size, until the end.

    Returns:
        "blocks": how many blocks were written completely.
    """
    blocks = 0
    with socket.socket(_family(arguments.address), socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((arguments.address, arguments.port))
        listener.listen()
        print(READY, flush=True)
        listener.settimeout(_left_s(arguments.until_ns))
        with contextlib.suppress(TimeoutError, ConnectionError):
            client, _ = listener.accept()
            with client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
                while size := _wanted(client, arguments.until_ns):
                    while size:
                        client.settimeout(_left_s(arguments.until_ns))
                        size -= client.send(BLOCK[: min(size, len(BLOCK))])
                    blocks += 1
    return {"blocks": blocks}


def request(arguments: argparse.Namespace) -> dict[str, Any]:
    """Asks all servers for a block each, and for the next ones when the last of these has arrived, until the end.

    Returns:
        "bytes": received in [from, until), by the servers' ports; "buckets": by port, as `workloads.receive` has them;
        "rounds_ns": how long each round took that ended in that time; "unconnected": to how many servers the network let no
        connection through before the end, so that nothing was asked of any.
    """
    from_ns, until_ns, bucket_ns = arguments.from_ns, arguments.until_ns, arguments.bucket_ns
    selector = selectors.DefaultSelector()
    servers = [(address, int(port)) for address, _, port in (text.rpartition(",") for text in arguments.servers)]
    counts = {port: 0 for _, port in servers}
    buckets = {port: [0] * (-((from_ns - until_ns) // bucket_ns) if bucket_ns else 0) for port in counts}
    for address, port in servers:
        try:
            selector.register(_connected(address, port, until_ns), selectors.EVENT_READ, port)
        except OSError as error:
            if error.errno not in LOST_IN_THE_NETWORK and not isinstance(error, TimeoutError):
                raise
            missing_servers = len(servers) - len(selector.get_map())
            return {"bytes": counts, "buckets": buckets if bucket_ns else {}, "rounds_ns": [], "unconnected": missing_servers}
    rounds: list[int] = []
    buffer = bytearray(1 << 18)
    _sleep_until(arguments.begin_ns)
    begun_ns = time.monotonic_ns()
    missing: dict[int, int] = {}
    while time.monotonic_ns() < until_ns:
        if not any(missing.values()):
            now_ns = time.monotonic_ns()
            if missing and from_ns <= now_ns:
                rounds.append(now_ns - begun_ns)
            begun_ns = now_ns
            for key in selector.get_map().values():
                missing[key.data] = arguments.size
                _ask(key.fileobj, arguments.size)
        for key, _ in selector.select(_left_s(until_ns)):
            port, source = key.data, key.fileobj
            assert isinstance(source, socket.socket)
            try:
                size = source.recv_into(buffer)
            except ConnectionError:
                size = 0  # the server ended first
            now_ns = time.monotonic_ns()
            if size == 0:
                selector.unregister(source)
                continue
            missing[port] -= size
            if 0 < missing[port] < WAKE_BYTES:
                source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing[port])
            if from_ns <= now_ns < until_ns:
                counts[port] += size
                if bucket_ns:
                    buckets[port][(now_ns - from_ns) // bucket_ns] += size
    return {"bytes": counts, "buckets": buckets if bucket_ns else {}, "rounds_ns": rounds, "unconnected": 0}


def sequences(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keeps `count` TCP connections in flight: each sends `size` bytes, waits until the receiver closes, and is followed by the
    next.

    Returns:
        "connections": completed in [from, end); "connection_ms": p50, p99 and max of what these took, from connect to the
        receiver's close.
    """
    selector = selectors.DefaultSelector()
    took_ns: list[int] = []
    _sleep_until(arguments.begin_ns)
    for _ in range(arguments.count):
        _Connection(arguments, selector)
    while (left_s := _left_s(arguments.end_ns, least=0)) > 0:
        if not selector.get_map():
            time.sleep(left_s)
        for key, events in selector.select(left_s):
            connection: _Connection = key.data
            if not connection.go_on(events):
                continue
            now_ns = time.monotonic_ns()
            if connection.completed and now_ns >= arguments.from_ns:
                took_ns.append(now_ns - connection.begun_ns)
            connection.close()
            _Connection(arguments, selector)
    for key in list(selector.get_map().values()):
        key.data.close()
    took_ns.sort()
    return {
        "connections": len(took_ns),
        "connection_ms": {
            name: took_ns[max(0, math.ceil(share * len(took_ns)) - 1)] / 1e6 if took_ns else None
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
    }


class _Connection:
    """One short connection, from connect to the receiver's close."""

    def __init__(self, arguments: argparse.Namespace, selector: selectors.BaseSelector) -> None:
        self.begun_ns = time.monotonic_ns()
        self.completed = False
        self._left = arguments.size
        self._selector = selector
        self._sock = socket.socket(_family(arguments.to), socket.SOCK_STREAM)
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        begun = self._sock.connect_ex((arguments.to, arguments.port))
        if begun not in (0, errno.EINPROGRESS):
            raise OSError(begun, f"connect to {arguments.to}: {errno.errorcode.get(begun, begun)}")
        selector.register(self._sock, selectors.EVENT_WRITE, self)

    def go_on(self, events: int) -> bool:
        """Sends or waits on; whether the connection is over."""
        try:
            if events & selectors.EVENT_WRITE:
                self._left -= self._sock.send(BLOCK[: self._left])
                if not self._left:
                    self._sock.shutdown(socket.SHUT_WR)
                    self._selector.modify(self._sock, selectors.EVENT_READ, self)
                return False
            self.completed = not self._sock.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True  # it failed: refused, or timed out
        return True

    def close(self) -> None:
        """Closes it; what is unsent is dropped."""
        self._selector.unregister(self._sock)
        self._sock.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Parses the arguments, runs one program, prints its result as one line of JSON."""
    parser = argparse.ArgumentParser(description="Baton's traffic programs of requests")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("serve")
    command.set_defaults(function=serve)
    command.add_argument("--address", required=True)
    for option in ("--port", "--until-ns"):
        command.add_argument(option, type=int, required=True)
    command = commands.add_parser("request")
    command.set_defaults(function=request)
    command.add_argument("--servers", nargs="+", required=True, help="ADDRESS,PORT of each")
    for option in ("--size", "--begin-ns", "--from-ns", "--until-ns"):
        command.add_argument(option, type=int, required=True)
    command.add_argument("--bucket-ns", type=int, default=0)
    command = commands.add_parser("sequences")
    command.set_defaults(function=sequences)
    command.add_argument("--to", required=True)
    for option in ("--port", "--size", "--count", "--begin-ns", "--from-ns", "--end-ns"):
        command.add_argument(option, type=int, required=True)
    arguments = parser.parse_args(argv)
    print(json.dumps(arguments.function(arguments)), flush=True)


def _wanted(client: socket.socket, until_ns: int) -> int:
    """The size of the next block that the client wants; 0 when it has gone."""
    found = b""
    while len(found) < REQUEST.size:
        client.settimeout(_left_s(until_ns))
        more = client.recv(REQUEST.size - len(found))
        if not more:
            return 0
        found += more
    return int(REQUEST.unpack(found)[0])


def _ask(server: Any, size: int) -> None:  # noqa: ANN401 -- a selector's file object
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(size, WAKE_BYTES))
    with contextlib.suppress(ConnectionError):  # the server ended first
        server.sendall(REQUEST.pack(size))


def _connected(address: str, port: int, until_ns: int) -> socket.socket:
    while True:
        server = socket.socket(_family(address), socket.SOCK_STREAM)
        server.settimeout(CONNECT_TIMEOUT_S)
        try:
            server.connect((address, port))
        except OSError:
            server.close()
            if time.monotonic_ns() > until_ns:
                raise
            time.sleep(RETRY_S)
            continue
        server.settimeout(None)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        return server


def _left_s(instant_ns: int, least: float = 1e-6) -> float:
    return max(least, (instant_ns - time.monotonic_ns()) / 1e9)


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _sleep_until(instant_ns: int) -> None:
    while (left_ns := instant_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)


if __name__ == "__main__":
    main()
