"""The OpenFlow application on a ring of four real Open vSwitches, under Ryu and under os-ken.

s1 --- s2      h1..h4 are hosts, one at each switch; "c" is the coordinator's port, at s2.
|       |      By IEEE 802.1D, s1 is the root and s3 - s4 is blocked.
s4 --- s3
"""

from __future__ import annotations

import os
import signal
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

import pytest
from ovs_private import CONTROL_ETHERTYPE, PrivateNetwork, missing, until

from controller.forwarding import HEARTBEAT_MAC
from controller.store import Store, StoreUnavailable

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

ROOT = Path(__file__).parents[2]
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
        *("-c", "from controller.framework import ryu_manager; ryu_manager()"),
        *("--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", str(PORT), "controller/app.py"),
    ],
    "os-ken": [
        *("-m", "controller.framework", "os-ken"),
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
                until(lambda s=source, t=target: ring.ping(s, t, 0.5), 10, f"{source} pings {target}")
    until(ring.settled, 5, "four links, one blocked, five hosts")


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def ring(request: pytest.FixtureRequest) -> Iterator[Ring]:
    with PrivateNetwork() as network:
        path = network.directory / "redis.sock"
        network.spawn(
            "redis",
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(path),
            "--save",
            "",
            "--dir",
            str(network.directory),
        )
        store = Store(f"unix://{path}?db=0")
        store.wait(5)
        ring = Ring(network, request.param, store)
        for dpid, name in enumerate(SWITCHES, 1):
            network.add_switch(name, dpid, f"tcp:127.0.0.1:{PORT}")
        for one, other in zip(SWITCHES, SWITCHES[1:] + SWITCHES[:1], strict=True):
            network.add_link(one, f"{one}-{other}", other, f"{other}-{one}")
        for name in EVERYBODY:
            switch = "s2" if name == "c" else f"s{name[1]}"
            network.add_host(name, switch, f"{switch}-{name}", MAC[name], f"{IP[name]}/24")
        ring.start_controller()
        try:
            connect(ring)
            yield ring
        finally:
            if request.session.testsfailed:
                print(network.log("controller")[-6000:])
            store.close()


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


@pytest.fixture
def control(ring: Ring) -> Iterator[Listener]:
    listener = Listener(ring, CONTROL_ETHERTYPE)
    yield listener
    listener.close()


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


class TestLearning:
    """The application finds out what is there, and publishes it."""

    def test_all_links_are_learned_and_one_of_the_ring_is_blocked(self, ring: Ring) -> None:
        assert ring.links() == {("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s1", "s4")}
        assert ring.blocked() == [["s3", "s4"]]

    def test_all_hosts_are_learned_with_address_and_place(self, ring: Ring) -> None:
        hosts = {host["macs"][0]: host for host in ring.fabric()["hosts"]}
        for name in EVERYBODY:
            host = hosts[MAC[name]]
            assert host["addresses"] == [IP[name]]
            assert host["port"] == f"{host['switch']}-{name}"

    def test_port_load_is_published(self, ring: Ring) -> None:
        with Stream(ring, "h1", "h3"):
            time.sleep(0.5)
            until(lambda: ring.store.ports(), 5, "port loads")
            time.sleep(2.5)
            loads = ring.store.ports()
        assert loads is not None
        # 8 + 42 bytes, 2 ms apart or a little more
        assert 50_000 < loads["ports"]["s3:s3-h3"]["tx_bps"] < 400_000
        by_link = {(link["source"], link["target"]): link for link in loads["links"]}
        assert by_link["s1", "s2"]["load_bps"] > 50_000


class TestForwarding:
    """Frames follow the tree, whatever happens to it."""

    def test_a_broadcast_reaches_every_host_exactly_once(self, ring: Ring) -> None:
        listener = Listener(ring, TEST_ETHERTYPE)
        try:
            for source in EVERYBODY:
                copies = listener.send(source, "ff:ff:ff:ff:ff:ff")
                assert copies == {name: 1 for name in EVERYBODY if name != source}
        finally:
            listener.close()

    def test_a_link_of_the_tree_goes_down_and_up_again_under_traffic(self, ring: Ring) -> None:
        with Stream(ring, "h1", "h3") as down:
            time.sleep(0.5)
            ring.network.ip("link", "set", "s1-s2", "down")
            time.sleep(1.5)
        report(ring, "link down", down)
        assert ring.blocked() == []
        assert ring.ping("h2", "h4")
        with Stream(ring, "h1", "h3") as up:
            time.sleep(0.5)
            ring.network.ip("link", "set", "s1-s2", "up")
            until(ring.settled, 5, "the old tree")
            time.sleep(0.5)
        report(ring, "link up", up)
        assert down.outage_s() < 1
        assert up.outage_s() < 1
        assert down.duplicates() == up.duplicates() == 0

    def test_a_link_that_comes_up_joins_the_tree_within_a_second(self, ring: Ring) -> None:
        ring.network.ip("link", "set", "s1-s2", "down")
        until(lambda: len(ring.links()) == 3, 2, "three links")
        began = time.monotonic()
        ring.network.ip("link", "set", "s1-s2", "up")
        until(ring.settled, 1, "the old tree again")
        print(
            f"\n{ring.framework}: link up to new tree published: {(time.monotonic() - began) * 1000:.0f} ms"
        )

    def test_flows_that_another_removes_are_put_again(self, ring: Ring) -> None:
        before = ring.network.ovs.ofctl("dump-flows", "s3", "--no-stats")
        ring.network.ovs.ofctl("del-flows", "s3")
        until(lambda: ring.ping("h1", "h3", 0.3), 6, "traffic through s3 again")
        count = before.count("table=")
        until(
            lambda: ring.network.ovs.ofctl("dump-flows", "s3", "--no-stats").count("table=") >= count,
            5,
            "all flows",
        )

    def test_the_controller_dies_and_starts_again_and_traffic_goes_on(self, ring: Ring) -> None:
        with Stream(ring, "h1", "h3") as stream:
            time.sleep(0.3)
            assert ring.controller is not None
            ring.controller.send_signal(signal.SIGKILL)
            ring.controller.wait()
            time.sleep(0.5)
            published = ring.store.version("fabric")
            ring.start_controller()
            until(lambda: ring.store.version("fabric") > published and ring.pinged(), 15, "learned again")
            time.sleep(0.5)
        report(ring, "controller killed and started", stream)
        assert stream.outage_s() < 0.5
        assert stream.duplicates() == 0


class TestControlEtherType:
    """Real frames of the control EtherType pass only between host ports and the coordinator's."""

    def test_a_host_reaches_the_coordinator(self, control: Listener) -> None:
        for host in HOSTS:
            assert control.send(host, MAC["c"]) == {"c": 1}

    def test_the_coordinator_reaches_a_host(self, control: Listener) -> None:
        for host in HOSTS:
            assert control.send("c", MAC[host]) == {host: 1}

    def test_a_heartbeat_reaches_every_host_exactly_once(self, control: Listener) -> None:
        assert control.send("c", HEARTBEAT_MAC) == dict.fromkeys(HOSTS, 1)

    def test_no_host_reaches_another_host(self, control: Listener) -> None:
        for target in (MAC["h2"], MAC["h3"], HEARTBEAT_MAC, "ff:ff:ff:ff:ff:ff"):
            assert control.send("h1", target) == {}

    def test_a_forged_coordinator_is_dropped_and_counted(self, ring: Ring, control: Listener) -> None:
        def forged() -> int:
            return (ring.store.ports() or {"refused": {}})["refused"].get("forged_coordinator", 0)

        until(lambda: ring.store.ports(), 5, "port documents")
        time.sleep(2.2)
        before = forged()
        for target in (MAC["h3"], HEARTBEAT_MAC, "ff:ff:ff:ff:ff:ff"):
            assert control.send("h1", target, pretend=MAC["c"]) == {}
        until(lambda: forged() >= before + 3, 5, "three more forged frames counted")
        assert forged() == before + 3
        events = [event["kind"] for event in ring.store.events()]
        assert "forged_coordinator" in events

    def test_another_address_at_the_coordinators_port_reaches_nobody(self, control: Listener) -> None:
        assert control.send("c", MAC["h1"], pretend="02:00:00:00:99:99") == {}


class TestSwitch:
    """A whole switch goes. Last: the ring is broken after this."""

    def test_a_switch_dies_and_traffic_goes_round(self, ring: Ring) -> None:
        assert ring.blocked() == [["s3", "s4"]]
        with Stream(ring, "h1", "h3") as stream:
            time.sleep(0.5)
            ring.network.ovs.vsctl("del-br", "s2")
            time.sleep(2)
        report(ring, "switch gone", stream)
        assert stream.outage_s() < 1
        assert ring.blocked() == []
