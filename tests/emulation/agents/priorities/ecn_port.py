"""Senders, a switch's port that marks, and a receiver, each in a network namespace of its own; bulk flows over them."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyroute2 import IPRoute

from agents.bpf.build import object_path
from ebpf.libbpf import BpfMap, BpfObject
from tests.emulation.namespaces import inside, run

FRAME_BYTES = 1514
CHUNK = 1 << 16
_PORT = struct.Struct("=5I")
BURST_BYTES = 10 * FRAME_BYTES  # what a late timer of the shaper can catch up with


@dataclass
class EcnPort:
    """The port's rate, and the namespaces of both sides; `target` is the receiver's address."""

    senders: str
    switch: str
    receiver: str
    rate_bps: int
    state: BpfMap
    target: str = "10.8.2.2"

    def counts(self) -> dict[str, int]:
        """Segments seen, marked and lost at the port."""
        values = _PORT.unpack(self.state.get(bytes(4)) or bytes(_PORT.size))
        return dict(zip(("seen", "marked", "lost"), values[2:], strict=True))

    def queue_samples(self, seconds: float, every: float = 0.002) -> list[int]:
        """Packets that wait at the port, by the kernel's own count, once every 2 ms."""
        samples = []
        with inside(self.switch):
            netlink = IPRoute()
        with netlink:
            index = netlink.link_lookup(ifname="out")[0]
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(every)
                (queue,) = (q for q in netlink.get_qdiscs(index) if q["parent"] == 0xFFFFFFFF)
                samples.append(int(queue.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["qlen"]))
        return samples


@contextmanager
def ecn_port(rate_bps: int = 100_000_000, threshold: int | None = 20, buffer: int = 100) -> Iterator[EcnPort]:
    """Threshold and buffer in packets; without a threshold nothing is marked."""
    stem = f"baton{os.getpid()}p"
    names = tuple(f"{stem}{letter}" for letter in "sor")
    senders, switch, receiver = names
    with ExitStack() as stack:
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(subprocess.run, ("ip", "netns", "del", name), check=False, capture_output=True)
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        run("ip", "netns", "exec", switch, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for name, device, last, peer in ((senders, "in", 1, switch), (receiver, "out", 2, switch)):
            run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", device, "netns", peer)
            for where, interface, host in ((name, "eth0", 2), (peer, device, 1)):
                run("ip", "-n", where, "addr", "add", f"10.8.{last}.{host}/24", "dev", interface)
                run("ip", "-n", where, "link", "set", interface, "up", "gso_max_segs", "1")
                off = ("tx", "off", "tso", "off", "gso", "off", "gro", "off")
                run("ip", "netns", "exec", where, "ethtool", "-K", interface, *off)
            run("ip", "-n", name, "route", "add", "default", "via", f"10.8.{last}.1")
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_ecn=1", "net.ipv4.tcp_rto_min_us=10000")
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
        shape = ("rate", str(rate_bps), "burst", str(BURST_BYTES), "limit", str(2 * buffer * FRAME_BYTES))
        run("ip", "netns", "exec", switch, "tc", "qdisc", "add", "dev", "out", "root", "tbf", *shape)
        marker = BpfObject(object_path("ecn_port", Path(__file__).parent))
        stack.callback(marker.close)
        state = marker.map("port", 4, _PORT.size)
        state[bytes(4)] = _PORT.pack(threshold or 0, buffer, 0, 0, 0)
        with inside(switch):
            marker.attach_egress("ecn_port", socket.if_nametoindex("out"), 1)
        yield EcnPort(senders, switch, receiver, rate_bps, state)


@dataclass
class Sink:
    """At the receiver: takes all connections; when which byte of each had come."""

    port: EcnPort
    control: str
    listener: socket.socket = field(init=False)
    address: tuple[str, int] = field(init=False)
    received: dict[int, int] = field(default_factory=dict)  # bytes by the sender's port
    last: dict[int, float] = field(default_factory=dict)  # time of the last byte

    def __enter__(self) -> Sink:
        with inside(self.port.receiver):
            self.listener = socket.socket()
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.control.encode())
        self.listener.bind((self.port.target, 0))
        self.listener.listen(64)
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, (_, port) = self.listener.accept()
                self.received[port], self.last[port] = 0, time.monotonic()
                threading.Thread(target=self._take, args=(sock, port), daemon=True).start()

    def _take(self, sock: socket.socket, port: int) -> None:
        with sock, suppress(OSError):
            while data := sock.recv(CHUNK):
                self.received[port] += len(data)
                self.last[port] = time.monotonic()


def connect(sink: Sink, control: str | None, mark: int = 0) -> socket.socket:
    """A connection from the senders' side to the sink."""
    with inside(sink.port.senders):
        sock = socket.socket()
    if control is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, struct.pack("I", mark))
    sock.connect(sink.address)
    return sock


@contextmanager
def bulk(sink: Sink, control: str, count: int) -> Iterator[list[int]]:
    """Flows without an end, until the block is left; their ports."""
    socks = [connect(sink, control) for _ in range(count)]

    def pour(sock: socket.socket) -> None:
        with suppress(OSError):
            while True:
                sock.sendall(bytes(CHUNK))

    threads = [threading.Thread(target=pour, args=(sock,), daemon=True) for sock in socks]
    for thread in threads:
        thread.start()
    try:
        yield [sock.getsockname()[1] for sock in socks]
    finally:
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def send(sink: Sink, control: str | None, size: int, mark: int, after: float = 0.0) -> tuple[float, int]:
    """Sends a flow on a connection of its own; (its start, its port). Returns when the kernel has taken all."""
    time.sleep(after)
    began = time.monotonic()
    sock = connect(sink, control, mark)
    port = sock.getsockname()[1]
    sock.sendall(bytes(size))
    sock.shutdown(socket.SHUT_WR)
    threading.Thread(target=_until_closed, args=(sock,), daemon=True).start()
    return began, port


def _until_closed(sock: socket.socket) -> None:
    with sock, suppress(OSError):
        sock.recv(1)
