"""Marks of guests' flows, for real: asked for by `baton flow` and bare datagrams in a guest, seen by tcpdump in the fabric."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from agents.addresses.part import Addresses
from agents.guests.part import LOOKS, MOST, Guests
from agents.guests.requests import PORT
from agents.loop.part import Part
from agents.priorities.tagger import Tagger
from protocol.bodies.flows.guest_marks import GuestMarks
from protocol.messages import Message
from tests.emulation.agents.guests.bridged import GUESTS, HOST, SERVER, Bridged, bridged, captured, send
from tests.emulation.agents.priorities.tagged_wire import ALPHA, BETA, DSCP, QUIET
from tests.emulation.namespaces import inside

TOP, FIRST, THIRD = DSCP[0], DSCP[1], DSCP[3]
IN_THIRD = "19KB"
PATIENCE_S = 5.0


class FakeAgent:
    """An agent that keeps what it sends."""

    def __init__(self, *, member: bool) -> None:
        self.member = member
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)


class Host:
    """The parts of an agent that guests need, on a host with guests, served by a thread."""

    def __init__(self, made: Bridged, run_dir: Path, port: int = PORT) -> None:
        self.bridged, self.run_dir = made, run_dir
        self.left, self.right = made.pair.left, made.pair.right
        self.guest, self.other = made.guests
        self.agent = FakeAgent(member=True)
        clock = time.monotonic_ns
        with inside(self.left):
            self.tagger = Tagger("eth0", QUIET)
            self.tagger.set_thresholds(1, BETA, ALPHA)
            self.addresses = Addresses(cast(Any, FakeAgent(member=False)), "eth0", (), 1000, lambda *_: None, clock)
            self.guests = Guests(
                cast(Any, self.agent), self.tagger, lambda: self.addresses.found, 100_000_000, port,
                interface="eth0", run_dir=run_dir, clock=clock,
            )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        parts: list[Part] = [self.addresses, self.guests]
        calls = {fd: call for part in parts for fd, call in part.descriptors.items()}
        while not self._stop.is_set():
            for fd in select.select(calls, (), (), 0.005)[0]:
                calls[fd](time.monotonic_ns())
            for part in parts:
                part.advance(time.monotonic_ns())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        self.stop()
        for part in (self.guests, self.addresses, self.tagger):
            part.close()

    def flow(self, namespace: str, *words: str, agent: str = HOST) -> subprocess.CompletedProcess[str]:
        """`baton flow` in a namespace."""
        where = ("--run-dir", str(self.run_dir)) if namespace == self.left else ("--agent", agent)
        command = ("ip", "netns", "exec", namespace, sys.executable, "-m", "cli.main", "flow", *words, *where)
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    def marked(self, namespace: str, *words: str) -> None:
        done = self.flow(namespace, "mark", *words)
        assert done.returncode == 0, done.stderr

    def counts(self) -> dict[str, Any]:
        return dict(json.loads(self.flow(self.left, "list", "--json").stdout))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with bridged() as made:
        found = Host(made, tmp_path / "run")
        yield found
        found.close()


def test_a_guests_flow_gets_its_queue_by_its_deadline_and_only_that_flow_and_only_until_the_mark_expires(
    host: Host, tmp_path: Path
) -> None:
    with captured(host.right, tmp_path / "flow.pcap", "udp") as seen:
        send(host.guest, (SERVER, 9000), source_port=4000)
        host.marked(host.guest, "--to", f"{SERVER}:9000", "--deadline", "4s", "--for", "3s")
        end_s = time.monotonic() + 3
        send(host.guest, (SERVER, 9000), source_port=4001)
        send(host.guest, (SERVER, 9000), source_port=4000)  # it was there before the mark
        send(host.guest, (SERVER, 9001), source_port=4002)
        send(host.other, (SERVER, 9000), source_port=4003)
        time.sleep(max(0.0, end_s + 0.5 - time.monotonic()))
        send(host.guest, (SERVER, 9000), source_port=4001)
    assert [(source, port, dscp) for source, port, _, dscp in seen] == [
        (GUESTS[0], 4000, FIRST),
        (GUESTS[0], 4001, TOP),
        (GUESTS[0], 4000, TOP),
        (GUESTS[0], 4002, FIRST),
        (GUESTS[1], 4003, FIRST),
        (GUESTS[0], 4001, FIRST),
    ]
    told = host.counts()
    assert (told["held"], told["marked"], told["expired"]) == (0, 1, 1)
    assert told["refusals"].keys() <= {"unknown"}, "asked again until the host knew the guest"
    reports = [(message.held, message.marked) for message in host.agent.sent if isinstance(message, GuestMarks)]
    assert {(0, 0), (1, 1)} <= set(reports), "the leader is told"


def test_a_guests_flow_of_known_size_gets_its_band_and_ipv6_is_no_different(host: Host, tmp_path: Path) -> None:
    host.bridged.ping(host.guest, "fd09::100")  # the host knows the guest by that address, too
    with captured(host.right, tmp_path / "size.pcap", "udp") as seen:
        host.marked(host.guest, "--from", f"{GUESTS[0]}:4000", "--to", SERVER, "--size", IN_THIRD)
        send(host.guest, (SERVER, 9000), source_port=4000)
        send(host.guest, (SERVER, 9000), source_port=4001)
        done = host.flow(host.guest, "mark", "--to", "[fd09::2]:9000", "--size", IN_THIRD, agent="fd09::100")
        assert "fd09::50 -> [fd09::2]:9000: size 19,000 bytes" in done.stdout, done.stderr
        send(host.guest, ("fd09::2", 9000), source_port=4002)
    assert [(port, dscp) for _, port, _, dscp in seen] == [(4000, THIRD), (4001, FIRST), (4002, THIRD)]


def test_a_mark_counts_on_a_tcp_connection_that_is_open_and_ends_on_it(host: Host, tmp_path: Path) -> None:
    with inside(host.right):
        listener = socket.create_server((SERVER, 9000))
    with inside(host.guest):
        client = socket.socket()
    with captured(host.right, tmp_path / "tcp.pcap", "tcp[13] & 8 != 0") as seen, listener, client:  # PSH: data
        client.connect((SERVER, 9000))
        server, _ = listener.accept()
        with server:
            for step in ("before", "marked", "after"):
                client.sendall(step.encode())
                assert server.recv(100) == step.encode()
                if step == "before":
                    host.marked(host.left, "--from", GUESTS[0], "--to", f"{SERVER}:9000", "--deadline", "4s")
                elif step == "marked":
                    assert host.flow(host.left, "unmark", "--from", GUESTS[0], "--to", f"{SERVER}:9000").returncode == 0
    assert [dscp for *_, dscp in seen] == [FIRST, TOP, FIRST]


def test_a_guest_without_baton_needs_two_datagrams(host: Host, tmp_path: Path) -> None:
    host.bridged.ping(host.guest, HOST)
    until_known(host, GUESTS[0])
    request: dict[str, Any] = {"to": f"{SERVER}:9000", "deadline_ms": 100}
    with inside(host.guest), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(2)
        asker.connect((HOST, PORT))
        asker.send(json.dumps(request).encode())
        request |= json.loads(asker.recv(1500))
        asker.send(json.dumps(request).encode())
        assert json.loads(asker.recv(1500))["marked"]["to"] == f"{SERVER}:9000"
    with captured(host.right, tmp_path / "bare.pcap", "udp") as seen:
        send(host.guest, (SERVER, 9000))
    assert [dscp for *_, dscp in seen] == [TOP]


def test_bad_input_names_the_field(host: Host) -> None:
    done = host.flow(host.guest, "mark", "--to", "10.9.0.2:70000", "--size", "1KB")
    assert done.returncode == 1 and "to: port '70000' is not from 1 to 65535" in done.stderr
    done = host.flow(host.guest, "mark", "--to", SERVER, "--size", "1MB", "--deadline", "1ms")
    assert done.returncode == 1 and "--deadline (ms): 1000000 bytes in 1 ms are 8,000 Mb/s" in done.stderr


def until_known(host: Host, address: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while ip_address(address) not in host.addresses.found.ports:
        assert time.monotonic() < end_s, f"{address} is not known"
        time.sleep(0.02)


class TestAttacks:
    """What a guest tries for another's address, or against the agent."""

    def test_nobody_marks_for_another_and_a_host_of_the_fabric_for_nobody(self, host: Host) -> None:
        host.bridged.ping(host.guest, HOST)
        done = host.flow(host.other, "mark", "--to", SERVER, "--size", "1KB")
        assert done.returncode == 0, done.stderr
        for words, why in ((("--from", GUESTS[0]), "Cannot assign"), ((), "")):
            done = host.flow(host.other, "mark", *words, "--to", SERVER, "--size", "1KB")
            assert (done.returncode != 0) == bool(why) and why in done.stderr
        with inside(host.other), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar:
            liar.settimeout(2)
            liar.connect((HOST, PORT))
            fields: dict[str, Any] = {"from": GUESTS[0], "to": SERVER, "size_bytes": 1}
            liar.send(json.dumps(fields).encode())
            liar.send(json.dumps(fields | json.loads(liar.recv(1500))).encode())
            assert json.loads(liar.recv(1500))["refused"] == "foreign"
        done = host.flow(host.right, "mark", "--to", GUESTS[0], "--size", "1KB")
        assert done.returncode == 1 and "not known behind this host's bridge" in done.stderr
        refused = host.counts()["refusals"]
        assert refused["foreign"] == 1 and refused["unknown"] >= 1

    def test_a_guest_that_forges_another_ones_packets_does_not_get_its_mark(self, host: Host, tmp_path: Path) -> None:
        host.marked(host.guest, "--to", f"{SERVER}:9000", "--deadline", "4s")
        with captured(host.right, tmp_path / "forged.pcap", "udp") as seen:
            send(host.guest, (SERVER, 9000), source_port=4000)
            with inside(host.other), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as forger:
                forger.bind(("eth0", 0))
                network = IP(src=GUESTS[0], dst=SERVER) / UDP(sport=4001, dport=9000) / Raw(bytes(9))
                forger.send(bytes(Ether(src="02:00:00:00:00:66", dst="ff:ff:ff:ff:ff:ff") / network))
            time.sleep(0.1)
        assert [(source, port, dscp) for source, port, _, dscp in seen] == [(GUESTS[0], 4000, TOP), (GUESTS[0], 4001, FIRST)]

    def test_a_flood_costs_the_agent_a_bounded_number_of_looks(self, host: Host) -> None:
        before = host.guests.desk.challenged
        begun = end_s = time.monotonic()
        with inside(host.other), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flooder:
            flooder.connect((HOST, PORT))
            flooder.setblocking(False)
            while (end_s := time.monotonic()) < begun + 1:
                for _ in range(50):
                    try:
                        flooder.send(b'{"to":"10.9.0.2","size_bytes":1}')
                    except OSError:
                        break
        answered = host.guests.desk.challenged - before
        assert 0 < answered <= (end_s - begun) * LOOKS * MOST + 2 * MOST


class TestOperator:
    """On the host, by the socket in the run directory."""

    def test_the_operator_marks_a_guests_flows_and_takes_the_mark_away(self, host: Host, tmp_path: Path) -> None:
        host.marked(host.left, "--from", GUESTS[0], "--to", SERVER, "--deadline", "4s", "--for", "1min")
        with captured(host.right, tmp_path / "operator.pcap", "udp") as seen:
            send(host.guest, (SERVER, 9000), source_port=4000)
            done = host.flow(host.left, "list")
            assert f"{GUESTS[0]} -> {SERVER}: deadline 4000 ms" in done.stdout and "1 held" in done.stdout
            assert host.flow(host.left, "unmark", "--from", GUESTS[0], "--to", SERVER).returncode == 0
            send(host.guest, (SERVER, 9000), source_port=4000)
        assert [dscp for *_, dscp in seen] == [TOP, FIRST]

    def test_without_a_port_no_guest_is_heard_and_the_operator_is(self, tmp_path: Path) -> None:
        with bridged() as made:
            host = Host(made, tmp_path / "run", port=0)
            try:
                done = host.flow(host.guest, "mark", "--to", SERVER, "--size", "1KB")
                assert done.returncode == 1 and "Connection refused" in done.stderr
                host.marked(host.left, "--from", GUESTS[0], "--to", SERVER, "--size", "1KB")
            finally:
                host.close()

    def test_others_on_the_host_may_not_ask(self, host: Host) -> None:
        (path,) = host.run_dir.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        host.stop()
        host.guests.close()
        assert not path.exists()
        done = host.flow(host.left, "list")
        assert done.returncode == 1 and "no agent with --guests runs here" in done.stderr
