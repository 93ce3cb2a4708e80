"""Four real Open vSwitches on a ring with their controller, and what sends and listens on it.

s1 --- s2      h1..h4 are hosts, one at each switch; "c" is the coordinator's port, at s2.
|       |      By IEEE 802.1D, s1 is the root and s3 - s4 is blocked.
s4 --- s3
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from controller.store.store import Store, StoreUnavailable
from tests.emulation.ovs_private import PrivateNetwork, until

ROOT = Path(__file__).parents[4]
SWITCHES = ("s1", "s2", "s3", "s4")
HOSTS = ("h1", "h2", "h3", "h4")
EVERYBODY = (*HOSTS, "c")
MAC = {name: f"02:00:00:00:00:{number:02x}" for number, name in enumerate(EVERYBODY, 1)}
IP = {name: f"10.0.0.{number}" for number, name in enumerate(EVERYBODY, 1)}
TEST_ETHERTYPE = 0x88B6  # the other of IEEE 802's two local experimental EtherTypes
PORT = 6653
COMMANDS = {
    # as the console script `ryu-manager` does
    "ryu": [
        *("-c", "from controller.openflow.framework import ryu_manager; ryu_manager()"),
        *("--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", str(PORT), "controller/app.py"),
    ],
    "os-ken": [
        *("-m", "controller.openflow.framework", "os-ken"),
        "--listen-host",
        "127.0.0.1",
        "--listen-port",
        str(PORT),
    ],
}


def octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


@dataclass
class Ring:
    """The running fabric with its controller."""

    network: PrivateNetwork
    framework: str
    store: Store
    controller: subprocess.Popen[bytes] | None = None

    def start_controller(self) -> None:
        env = {
            "BATON_REDIS": self.store.url,
            "BATON_CONTROL_PORT": "s2:s2-c",
            "BATON_CONTROL_MAC": MAC["c"],
            "PYTHONPATH": str(ROOT),
        }
        name = "controller"
        self.controller = self.network.spawn(
            name, "env", "-C", str(ROOT), sys.executable, *COMMANDS[self.framework], env=env
        )

    def fabric(self) -> dict[str, Any]:
        try:
            return self.store.fabric() or {}
        except StoreUnavailable:
            return {}

    def blocked(self) -> list[list[str]]:
        return self.fabric().get("blocked", [])

    def links(self) -> set[tuple[str, str]]:
        """Inter-switch links of the published fabric."""
        links = self.fabric().get("fabric", {}).get("links", [])
        return {(link["a"], link["b"]) for link in links if {link["a"], link["b"]} <= set(SWITCHES)}

    def ping(self, source: str, target: str, timeout_s: float = 1.0) -> bool:
        command = ("ip", "netns", "exec", self.network.host_namespace(source))
        result = subprocess.run(
            (*command, "ping", "-c1", "-n", f"-W{timeout_s}", IP[target]), capture_output=True, check=False
        )
        return result.returncode == 0

    def pinged(self) -> bool:
        """Whether everything is learned, once every host has said something."""
        return all(self.ping(name, "h1") for name in EVERYBODY[1:]) and self.settled()

    def settled(self) -> bool:
        return (
            len(self.links()) == 4 and self.blocked() == [["s3", "s4"]] and len(self.fabric()["hosts"]) == 5
        )


def connect(ring: Ring) -> None:
    """Every host pings every other, so that all are learned."""
    for source in EVERYBODY:
        for target in EVERYBODY:
            if source != target:
                until(lambda s=source, t=target: ring.ping(s, t, 0.5), 40, f"{source} pings {target}")
    until(ring.settled, 20, "four links, one blocked, five hosts")


class Listener:
    """Receives frames of one EtherType at every host; the own frames that leave a host are not among them."""

    def __init__(self, ring: Ring, kind: int) -> None:
        self._sockets = {name: ring.network.raw_socket(name, kind) for name in EVERYBODY}
        self.kind = kind

    def send(self, source: str, target: str, pretend: str | None = None) -> dict[str, int]:
        """Send one frame, wait, and count its copies by host. `pretend`: another source address."""
        body = os.urandom(32)
        frame = (
            octets(target) + octets(pretend or MAC[source]) + self.kind.to_bytes(2, "big") + body + bytes(14)
        )
        for receiver in self._sockets.values():
            receiver.setblocking(False)
        self._sockets[source].send(frame)
        time.sleep(0.15)
        copies: dict[str, int] = {}
        for name, receiver in self._sockets.items():
            for packet, address in received(receiver):
                if address[2] != socket.PACKET_OUTGOING and packet[14:46] == body:
                    copies[name] = copies.get(name, 0) + 1
        return copies

    def close(self) -> None:
        for one in self._sockets.values():
            one.close()


def received(receiver: socket.socket) -> Iterator[tuple[bytes, Any]]:
    while True:
        try:
            yield receiver.recvfrom(2048)
        except BlockingIOError:
            return


class Stream:
    """A datagram every 2 ms from one host to another, and when each arrived."""

    PERIOD_S = 0.002

    def __init__(self, ring: Ring, source: str, target: str) -> None:
        self._sender = ring.network.udp_socket(source)
        self._receiver = ring.network.udp_socket(target, 7007)
        self._receiver.settimeout(0.2)
        self._target = (IP[target], 7007)
        self._running = True
        self.sent = 0
        self.arrivals: list[tuple[float, int]] = []
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]

    def __enter__(self) -> Stream:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._running = False
        for thread in self._threads:
            thread.join()
        self._sender.close()
        self._receiver.close()

    def _send(self) -> None:
        while self._running:
            self._sender.sendto(self.sent.to_bytes(8, "big"), self._target)
            self.sent += 1
            time.sleep(self.PERIOD_S)

    def _receive(self) -> None:
        while self._running:
            try:
                data = self._receiver.recv(64)
            except TimeoutError:
                continue
            self.arrivals.append((time.monotonic(), int.from_bytes(data, "big")))

    def outage_s(self) -> float:
        """The longest time without an arrival."""
        times = [at for at, _ in self.arrivals]
        return max(later - earlier for earlier, later in pairwise(times))

    def duplicates(self) -> int:
        return len(self.arrivals) - len({number for _, number in self.arrivals})


def report(ring: Ring, what: str, stream: Stream) -> None:
    lost = stream.sent - len({number for _, number in stream.arrivals})
    print(
        f"\n{ring.framework}: {what}: outage {stream.outage_s() * 1000:.0f} ms, {lost} of {stream.sent} lost"
    )
