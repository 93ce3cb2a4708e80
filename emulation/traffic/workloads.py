"""Traffic programs that run inside emulated hosts. An edge: sockets and clock.

    python -IS emulation/traffic/workloads.py receive --udp 5001 --tcp 5002 --from-ns T0 --until-ns T1
    python -IS emulation/traffic/workloads.py udp-send --to 10.0.0.6 --port 5001 --begin-ns T --end-ns T1

This file imports only the standard library, and is run by its path without site packages, so that a program starts in about
30 ms. Instants are CLOCK_MONOTONIC nanoseconds, which all namespaces of a machine share: programs start together at an instant.
Every program blocks in the kernel while it has nothing to do, and ends with one line of JSON on standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import os
import select
import selectors
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Sequence
from typing import Any

COMMAND = (sys.executable, "-IS", __file__)
READY = "ready"
DATAGRAM_BYTES = 60_000  # XCo's UDP senders send messages of about this size
BLOCK_BYTES = 1 << 16
CATCH_UP_NS = 20_000_000  # so late wake-ups do not lower the rate, and a longer stop causes no burst
RECEIVE_BUFFER_BYTES = 8 << 20  # so large that the receiving program loses no datagram
SEND_TIMEOUT = struct.pack("ll", 0, 250_000)  # struct timeval: how late a blocked sender notices its end
CONNECT_TIMEOUT_S = 1.0
LOST_IN_THE_NETWORK = (errno.EHOSTUNREACH, errno.ETIMEDOUT)
"""What a connection fails with whose packets, or questions for the receiver's address, nobody answers."""
PENDING_CONNECTIONS = 1024
TCP_INFO_TOTAL_RETRANS = 100  # offset in struct tcp_info
TCP_INFO_TRACED = {80: "I", 68: "I", TCP_INFO_TOTAL_RETRANS: "I", 24: "I", 104: "Q", 120: "Q"}
"""By offset: snd_cwnd, rtt, total_retrans, unacked, pacing_rate, bytes_acked."""
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
ECHO_WAIT_NS = 1_000_000_000  # for the last replies
ECHO_REMEMBERED = 64  # a duplicate reply comes soon after the first


class Rhythm:
    """When a sender may send: paced at a rate, in on-phases only, or as fast as the socket takes it."""

    def __init__(self, begin_ns: int, end_ns: int, rate_bps: int, on_ns: int, off_ns: int, phase_ns: int) -> None:
        """`rate_bps` 0: as fast as the socket takes it; `off_ns` 0: always on; `phase_ns`: how much later it starts."""
        self.end_ns = end_ns
        self.rate_bps = rate_bps
        self.on_ns = on_ns
        self.off_ns = off_ns
        self.first_ns = begin_ns + phase_ns
        self._due_ns = self.first_ns

    def next_ns(self, now_ns: int) -> int:
        """The instant at which the next block may be sent, `now_ns` or later."""
        due_ns = max(now_ns, self._due_ns) if self.rate_bps else max(now_ns, self.first_ns)
        if self.off_ns:
            period_ns = self.on_ns + self.off_ns
            position_ns = (due_ns - self.first_ns) % period_ns
            if position_ns >= self.on_ns:
                due_ns += period_ns - position_ns
        return due_ns

    def sent(self, at_ns: int, size: int) -> None:
        """Records that a block was sent at `at_ns`; a sender that was held back catches up at most `CATCH_UP_NS`, and nothing
        of an off-phase."""
        if self.rate_bps:
            gap_ns = size * 8 * 10**9 // self.rate_bps
            in_phase_ns = (at_ns - self.first_ns) % (self.on_ns + self.off_ns) if self.off_ns else at_ns - self.first_ns
            self._due_ns = max(max(self._due_ns, at_ns - in_phase_ns) + gap_ns, at_ns - CATCH_UP_NS)

    def wait(self) -> bool:
        """Sleeps until the next block may be sent; False when the end has come."""
        now_ns = time.monotonic_ns()
        due_ns = self.next_ns(now_ns)
        if due_ns >= self.end_ns:
            _sleep_until(self.end_ns)
            return False
        _sleep_until(due_ns)
        return True


def udp_send(arguments: argparse.Namespace) -> dict[str, Any]:
    """Sends datagrams until the end."""
    rhythm = _rhythm(arguments)
    payload = bytes(arguments.size)
    sent = refused = 0
    with socket.socket(_family(arguments.to), socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, SEND_TIMEOUT)
        sender.connect((arguments.to, arguments.port))
        while rhythm.wait():
            try:
                sender.send(payload)
            except BlockingIOError:
                refused += 1  # the queue did not move for SEND_TIMEOUT
                continue
            except OSError:
                refused += 1  # no program listens yet, or there is no route at the moment
                time.sleep(0.005)
                continue
            sent += 1
            rhythm.sent(time.monotonic_ns(), len(payload))
    return {"sent_bytes": sent * len(payload), "refused": refused}


def tcp_send(arguments: argparse.Namespace) -> dict[str, Any]:
    """Connects at once, sends from the beginning until the end, then aborts the connections, unsent data included.

    With `--count` connections each is a thread that sends its part of the rate.

    Returns:
        "connected": False if the network let no connection through before the end, and so nothing was sent;
        among others "completed_ns", from the first byte to the receiver's close after `total` bytes; None: not complete;
        "trace", if a `trace_ns` is given: for each connection rows [ns since the beginning, cwnd in segments, srtt in us,
        retransmissions so far, segments unacknowledged, pacing rate in bytes/s, acknowledged bytes, bytes in the socket].
    """
    with contextlib.ExitStack() as stack:
        senders = []
        try:
            for _ in range(arguments.count):
                senders.append(stack.enter_context(_connected(arguments.to, arguments.port, arguments.end_ns)))
        except OSError as error:
            if error.errno not in LOST_IN_THE_NETWORK and not isinstance(error, TimeoutError):
                raise
            return _unconnected(arguments)
        found: list[dict[str, Any]] = [{} for _ in senders]
        threads = [
            threading.Thread(target=_send_all, args=(sender, arguments, into))
            for sender, into in zip(senders[1:], found[1:], strict=True)
        ]
        traced: list[list[list[int]]] = [[] for _ in senders]
        if arguments.trace_ns:
            threads.append(threading.Thread(target=_trace, args=(senders, arguments, traced)))
        for thread in threads:
            thread.start()
        _send_all(senders[0], arguments, found[0])
        for thread in threads:
            thread.join()
        retransmits = sum(_information(sender)[TCP_INFO_TOTAL_RETRANS] for sender in senders)
        control = senders[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    completed = {"completed_ns": found[0]["completed_ns"]} if arguments.total else {}
    traces = {"trace": traced} if arguments.trace_ns else {}
    sent = sum(one["sent"] for one in found)
    sending = {"sent_bytes": sent, "retransmits": retransmits, "congestion_control": control}
    return {"connected": True, **sending, **completed, **traces}


def _unconnected(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `tcp_send` returns if it got no connection."""
    completed = {"completed_ns": None} if arguments.total else {}
    traces: dict[str, list[list[list[int]]]] = {"trace": [[] for _ in range(arguments.count)]} if arguments.trace_ns else {}
    return {"connected": False, "sent_bytes": 0, "retransmits": 0, "congestion_control": None, **completed, **traces}


def _send_all(sender: socket.socket, arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    """Sends on one connection; writes into `found` what `tcp_send` returns of it."""
    rhythm = _rhythm(arguments)
    rhythm.rate_bps //= arguments.count
    block = memoryview(bytes(min(arguments.size, BLOCK_BYTES)))
    total, sent = arguments.total, 0
    found |= {"sent": 0, "completed_ns": None}
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, SEND_TIMEOUT)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        while (not total or sent < total) and rhythm.wait():
            try:
                count = sender.send(block[: total - sent] if total else block)
            except BlockingIOError:
                continue
            sent += count
            rhythm.sent(time.monotonic_ns(), count)
        if total and sent == total and _closed_by_receiver(sender, arguments.end_ns):
            found["completed_ns"] = time.monotonic_ns() - rhythm.first_ns
    except ConnectionError:
        pass  # the receiver ended first
    found["sent"] = sent


def _trace(senders: Sequence[socket.socket], arguments: argparse.Namespace, traced: list[list[list[int]]]) -> None:
    """Samples every connection until the end."""
    due_ns = arguments.begin_ns
    while due_ns < arguments.end_ns:
        _sleep_until(due_ns)
        for sender, rows in zip(senders, traced, strict=True):
            information = _information(sender)
            queued = struct.unpack("i", fcntl.ioctl(sender, termios.TIOCOUTQ, bytes(4)))[0]
            rows.append([time.monotonic_ns() - arguments.begin_ns, *(information[at] for at in TCP_INFO_TRACED), queued])
        due_ns += arguments.trace_ns


def _information(sender: socket.socket) -> dict[int, int]:
    """The fields of struct tcp_info (linux/tcp.h) that are used here, by their offset."""
    data = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    fields = {TCP_INFO_TOTAL_RETRANS: "I", **TCP_INFO_TRACED}
    return {at: struct.unpack_from(form, data, at)[0] for at, form in fields.items()}


def _closed_by_receiver(sender: socket.socket, end_ns: int) -> bool:
    """Ends the sending; whether the receiver closes, having everything, before the end."""
    sender.shutdown(socket.SHUT_WR)
    ready, _, _ = select.select([sender], (), (), max(0, end_ns - time.monotonic_ns()) / 1e9)
    return bool(ready) and not sender.recv(1)


def receive(arguments: argparse.Namespace) -> dict[str, Any]:
    """Counts the application's bytes that arrive at each port within [from, until).

    Returns:
        "bytes": by port; "buckets": by port, the bytes of each `bucket_ns` since `from` if that is not 0.
    """
    from_ns, until_ns, bucket_ns = arguments.from_ns, arguments.until_ns, arguments.bucket_ns
    ports = (*arguments.udp, *arguments.tcp)
    counts = dict.fromkeys(ports, 0)
    buckets = {port: [0] * (-((from_ns - until_ns) // bucket_ns) if bucket_ns else 0) for port in ports}
    buffer = bytearray(1 << 18)
    selector = selectors.DefaultSelector()
    family = socket.AF_INET6 if arguments.ipv6 else socket.AF_INET
    for kind, wanted in ((socket.SOCK_DGRAM, arguments.udp), (socket.SOCK_STREAM, arguments.tcp)):
        for port in wanted:
            _listen(selector, family, kind, port)
    print(READY, flush=True)
    while (left_ns := until_ns - time.monotonic_ns()) > 0:
        for key, _ in selector.select(left_ns / 1e9):
            port, listening = key.data
            source = key.fileobj
            assert isinstance(source, socket.socket)
            if listening:
                accepted, _ = source.accept()
                # Fewer wake-ups: at 100 Mb/s every packet would cause one, each 120 microseconds.
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 14)
                selector.register(accepted, selectors.EVENT_READ, (port, False))
                continue
            try:
                size = source.recv_into(buffer)
            except (BlockingIOError, ConnectionError):
                size = -1
            now_ns = time.monotonic_ns()
            if size <= 0 and source.type == socket.SOCK_STREAM:
                selector.unregister(source)
                source.close()
            elif size > 0 and from_ns <= now_ns < until_ns:
                counts[port] += size
                if bucket_ns:
                    buckets[port][(now_ns - from_ns) // bucket_ns] += size
    return {"bytes": counts, "buckets": buckets if bucket_ns else {}}


def timer_probe(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures how late the kernel wakes a sleeping process: the best that any timed program of this machine can expect.

    Runs at real-time priority, if allowed. With `--seconds` it says that it is ready, and begins when it reads a line, so that
    its own start is no lateness of a timer.

    The instants are `interval_ns` apart whatever happens: while the machine stands still, each of those that pass meanwhile is
    late, so the share of late ones is that of the time. Those before the program's own start do not count.

    Returns:
        "late_ns": the sorted lateness at every instant, nanoseconds.
    """
    with contextlib.suppress(PermissionError):  # without the right, at ordinary priority
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    late = []
    due_ns, end_ns = arguments.begin_ns, arguments.end_ns
    if arguments.seconds:
        print(READY, flush=True)
        input()
        begin_ns = time.monotonic_ns()
        due_ns, end_ns = begin_ns + arguments.interval_ns, begin_ns + round(arguments.seconds * 1e9)
    due_ns += max(0, -((due_ns - time.monotonic_ns()) // arguments.interval_ns)) * arguments.interval_ns
    while due_ns < end_ns:
        _sleep_until(due_ns)
        late.append(time.monotonic_ns() - due_ns)
        due_ns += arguments.interval_ns
    return {"late_ns": sorted(late)}


def echo(arguments: argparse.Namespace) -> dict[str, Any]:
    """Sends ICMP echo requests at an interval and measures round-trip times, as ping does but without its busy waiting.

    A reply's time is the kernel's (SO_TIMESTAMPNS). The program runs at real-time priority, if allowed, so that nothing
    preempts it between reading the clock and sending: it measures the network, not the machine's scheduler.

    Returns:
        "sent": requests; "rtt_ns": [sequence number, nanoseconds] of every first reply, in the order of the replies.
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    ipv6 = _family(arguments.to) == socket.AF_INET6
    kind, protocol = (128, socket.IPPROTO_ICMPV6) if ipv6 else (8, socket.IPPROTO_ICMP)
    identifier = os.getpid() & 0xFFFF
    sent_ns: dict[int, int] = {}
    rtt_ns: list[tuple[int, int]] = []
    with socket.socket(_family(arguments.to), socket.SOCK_RAW, protocol) as prober:
        prober.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        prober.connect((arguments.to, 0))
        prober.setblocking(False)
        due_ns, last_ns = arguments.begin_ns, arguments.end_ns + ECHO_WAIT_NS
        while (now_ns := time.monotonic_ns()) < last_ns and (due_ns < arguments.end_ns or len(rtt_ns) < len(sent_ns)):
            if due_ns <= now_ns and due_ns < arguments.end_ns:
                number = len(sent_ns) + 1
                request = echo_request(kind, identifier, number)
                sent_ns[number] = time.time_ns()
                with contextlib.suppress(OSError):  # no route at the moment: the request stays unanswered
                    prober.send(request)
                due_ns += arguments.interval_ns
            until_ns = due_ns if due_ns < arguments.end_ns else last_ns
            select.select([prober], (), (), max(0, until_ns - time.monotonic_ns()) / 1e9)
            while (reply := _echo_reply(prober, ipv6, identifier)) is not None:
                number, at_ns = request_of(reply[0], len(sent_ns)), reply[1]
                if number in sent_ns and all(number != known for known, _ in rtt_ns[-ECHO_REMEMBERED:]):
                    rtt_ns.append((number, at_ns - sent_ns[number]))
    return {"sent": len(sent_ns), "rtt_ns": rtt_ns}


def echo_request(kind: int, identifier: int, number: int) -> bytes:
    """An ICMP echo request (RFC 792; RFC 4443, where the kernel fills in the checksum) of 64 bytes."""
    message = struct.pack("!BBHHH", kind, 0, 0, identifier, number & 0xFFFF) + bytes(56)
    total = sum(struct.unpack("!32H", message))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return message[:2] + struct.pack("!H", checksum) + message[4:]


def request_of(sequence: int, sent: int) -> int:
    """The number of the request that a reply answers, the newest of those sent with its sequence number, which has 16 bits."""
    return sent - (sent - sequence & 0xFFFF)


def _echo_reply(prober: socket.socket, ipv6: bool, identifier: int) -> tuple[int, int] | None:
    """The next reply to this prober: its sequence number and when it arrived (CLOCK_REALTIME)."""
    while True:
        try:
            packet, ancillary, _, _ = prober.recvmsg(256, 64)
        except BlockingIOError:
            return None
        except OSError:
            continue  # an ICMP error: unreachable at the moment
        message = packet if ipv6 else packet[(packet[0] & 15) * 4 :]
        kind, _, _, echoed, number = struct.unpack_from("!BBHHH", message)
        if kind == (129 if ipv6 else 0) and echoed == identifier:
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            return number, seconds * 10**9 + nanoseconds


def main(argv: Sequence[str] | None = None) -> None:
    """Parses the arguments, runs one program, prints its result as one line of JSON."""
    parser = argparse.ArgumentParser(description="Baton's traffic programs")
    commands = parser.add_subparsers(required=True)
    for name, function in (("udp-send", udp_send), ("tcp-send", tcp_send)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--to", required=True)
        command.add_argument("--port", type=int, required=True)
        command.add_argument("--size", type=int, default=DATAGRAM_BYTES, help="bytes of a datagram or block")
        for option in ("--begin-ns", "--end-ns"):
            command.add_argument(option, type=int, required=True)
        for option in ("--rate-bps", "--on-ns", "--off-ns", "--phase-ns", "--total", "--trace-ns"):
            command.add_argument(option, type=int, default=0)
        command.add_argument("--count", type=int, default=1, help="connections")
    command = commands.add_parser("receive")
    command.set_defaults(function=receive)
    command.add_argument("--udp", type=int, nargs="*", default=[])
    command.add_argument("--tcp", type=int, nargs="*", default=[])
    command.add_argument("--ipv6", action="store_true")
    command.add_argument("--from-ns", type=int, required=True)
    command.add_argument("--until-ns", type=int, required=True)
    command.add_argument("--bucket-ns", type=int, default=0)
    command = commands.add_parser("timer-probe")
    command.set_defaults(function=timer_probe)
    command.add_argument("--begin-ns", type=int, default=0)
    command.add_argument("--end-ns", type=int, default=0)
    command.add_argument("--seconds", type=float, default=0.0, help="in place of begin and end: after a line on standard input")
    command.add_argument("--interval-ns", type=int, default=5_000_000)
    command = commands.add_parser("echo")
    command.set_defaults(function=echo)
    command.add_argument("--to", required=True)
    command.add_argument("--begin-ns", type=int, required=True)
    command.add_argument("--end-ns", type=int, required=True)
    command.add_argument("--interval-ns", type=int, default=10_000_000)
    arguments = parser.parse_args(argv)
    print(json.dumps(arguments.function(arguments)), flush=True)


def _rhythm(arguments: argparse.Namespace) -> Rhythm:
    return Rhythm(
        arguments.begin_ns,
        arguments.end_ns,
        arguments.rate_bps,
        arguments.on_ns,
        arguments.off_ns,
        arguments.phase_ns,
    )


def _connected(address: str, port: int, end_ns: int) -> socket.socket:
    while True:
        sender = socket.socket(_family(address), socket.SOCK_STREAM)
        sender.settimeout(CONNECT_TIMEOUT_S)
        try:
            sender.connect((address, port))
        except OSError:
            sender.close()
            if time.monotonic_ns() > end_ns:
                raise
            time.sleep(0.05)
            continue
        sender.settimeout(None)
        return sender


def _listen(selector: selectors.BaseSelector, family: int, kind: int, port: int) -> None:
    receiver = socket.socket(family, kind)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if kind == socket.SOCK_DGRAM:
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    receiver.bind(("", port))
    receiver.setblocking(False)
    if kind == socket.SOCK_STREAM:
        receiver.listen(PENDING_CONNECTIONS)
    selector.register(receiver, selectors.EVENT_READ, (port, kind == socket.SOCK_STREAM))


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _sleep_until(instant_ns: int) -> None:
    while (left_ns := instant_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)


if __name__ == "__main__":
    main()
