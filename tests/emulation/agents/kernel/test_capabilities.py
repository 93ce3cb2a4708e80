"""A real agent gives up its capabilities and still does all of its work: gates, eBPF tables, repair, and the way back."""

from __future__ import annotations

import os
import platform
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from cli.machine import unit_files
from protocol.auth import Guard
from protocol.bodies.host_state import HostState
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys import host_file
from protocol.keys.authentication import LeaderAuthentication
from protocol.keys.hosts import HostSecret, Master, Speaker
from protocol.link import ControlSocket
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Ack,
    Backlog,
    Directive,
    Directory,
    Grant,
    Heartbeat,
    Message,
    Override,
    Ping,
    Pong,
    Register,
    Regulate,
    Thresholds,
    Welcome,
    encode,
)
from tests.emulation.namespaces import Pair, inside, pair, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts an agent that gives root's rights up")
ROOT = Path(__file__).parents[4]
RATE = 100_000_000
KEPT = {"cap_net_admin": 12, "cap_net_raw": 13, "cap_sys_nice": 23, "cap_bpf": 39}
MS = 1_000_000
NODE, OTHER = 16, 17


class Leader:
    """A coordinator's side of the wire, at the right end of a pair."""

    def __init__(self, namespace: str, host: HostSecret, master: Master) -> None:
        with inside(namespace):
            self._link = ControlSocket("eth0")
        self._way = LeaderAuthentication(
            KeyRing(master), lambda data, _: [Speaker(host.at(data[6:12]))], lambda to: host.at(to).from_leader
        )
        self._guard = Guard(master, epoch=1, leader=True, address=self._link.address, ways={NEWEST: self._way})
        self._sequence = time.time_ns()
        self.heard: list[Message] = []
        self.member = HEARTBEAT_MAC

    def say(self, message: Message, to: bytes | None = None) -> None:
        self._sequence += 1
        self._link.send(
            encode(
                message,
                key=self._way,
                destination=to or self.member,
                source=self._link.address,
                sender=COORDINATOR,
                epoch=1,
                sequence=self._way.place() if isinstance(message, Heartbeat) else self._sequence,
            )
        )

    def until(self, condition: Callable[[], bool], what: str, patience_s: float = 8.0) -> None:
        """Leads until the condition holds: heartbeats, and an answer to who registers or asks for the time."""
        deadline = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {patience_s} s: {what}; heard {self.heard[-5:]}"
            self.say(Heartbeat(Override.COORDINATE, 1, 1, 1), HEARTBEAT_MAC)
            select.select([self._link], (), (), 0.02)
            while (raw := self._link.receive()) is not None:
                if (frame := self._guard.accept(raw)) is not None:
                    self.heard.append(frame.message)
                    if isinstance(frame.message, Register):
                        self.member = frame.source
                        self.say(Welcome(frame.message.nonce, NODE, 10 * MS, 2000 * MS, MS, 0, 0, 50 * MS))
                    if isinstance(frame.message, Ping):
                        now = time.monotonic_ns()
                        self.say(Pong(frame.message.sent_ns, now, now), frame.source)

    def got(self, kind: type) -> bool:
        return any(isinstance(message, kind) for message in self.heard)

    def close(self) -> None:
        self._link.close()


@pytest.fixture
def ends() -> Iterator[Pair]:
    with pair() as made:
        yield made


def of_the_unit() -> list[str]:
    """The capabilities that the agent's systemd unit leaves it, as setpriv(1) names them."""
    text = unit_files.agent(["/baton"], interface="eth0", arguments=(), writable=(), priorities=True).text
    return [name.removeprefix("CAP_").lower() for name in re.findall(r"CAP_\w+", text)]


def memory_may_be_freed() -> bool:
    """Whether the limit of locked memory may be lifted: if there is none, since the unit gives no CAP_SYS_RESOURCE."""
    return resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] == resource.RLIM_INFINITY


def status_of(thread: Path) -> dict[str, int]:
    """The sets of capabilities, as numbers, and no_new_privs."""
    text = (thread / "status").read_text()
    sets = {name: int(value, 16) for name, value in re.findall(r"^(Cap\w+):\s+([0-9a-f]+)$", text, re.MULTILINE)}
    return sets | {name: int(value) for name, value in re.findall(r"^(NoNewPrivs|Seccomp):\s+(\d)$", text, re.MULTILINE)}


def test_an_agent_keeps_four_capabilities_and_works_and_puts_everything_back(ends: Pair, tmp_path: Path) -> None:
    master = Master(Key(b"m" * 32))
    host_file.save(host := master.enroll("host"), tmp_path / "key")
    before = ends.found()
    command = ["agent", "--interface", "eth0", "--rate", str(RATE), "--key", str(tmp_path / "key"), "--priorities"]
    command += ["--address", "10.9.0.1", "--run-dir", str(tmp_path / "run"), "--realtime", "1"]
    start = [sys.executable, "-c", "from cli.main import main; main()", *command]
    log = (tmp_path / "log").open("wb")
    # Not `ip netns exec`, which hides the cgroups. With no more than the unit gives.
    cage = ("setpriv", "--inh-caps=-all", f"--bounding-set=-all{''.join(f',+{name}' for name in of_the_unit())}", "--")
    agent = subprocess.Popen(("nsenter", f"--net=/run/netns/{ends.left}", *cage, *start), stderr=log, cwd=ROOT)
    leader = Leader(ends.right, host, master)
    try:
        leader.until(lambda: leader.got(Register), "it registers", 30)

        threads = list(Path(f"/proc/{agent.pid}/task").iterdir())
        kept = {**KEPT, **({} if memory_may_be_freed() else {"cap_ipc_lock": 14})}
        wanted = sum(1 << number for number in kept.values())
        for thread in threads:
            found = status_of(thread)
            assert found["CapEff"] == found["CapPrm"] == found["CapBnd"] == wanted
            assert found["CapInh"] == found["CapAmb"] == 0
            assert (found["NoNewPrivs"], found["Seccomp"]) == (1, 2)
        decoded = subprocess.run(("capsh", f"--decode={wanted:016x}"), capture_output=True, text=True, check=False).stdout
        assert not decoded or set(decoded.strip().partition("=")[2].split(",")) == set(kept)

        # eBPF tables: members, thresholds (the tagger's, and MCP's settings, whoever has loaded it)
        leader.say(Directory(1, 0, 1, ((NODE, (IPv4Address("10.9.0.1"),)), (OTHER, (IPv4Address("10.9.0.2"),)))))
        leader.say(Thresholds(1, 10**9, 2, 1, (1000,), (2000,)))
        leader.say(Regulate(1, 0, 1, (OTHER,)))
        leader.until(lambda: "thresholds version 1" in (tmp_path / "log").read_text(), "thresholds are in force")

        # a gate: shut without permission, open with it
        with inside(ends.left):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with inside(ends.right):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind(("10.9.0.2", 7))
            receiver.settimeout(0.3)

        def send() -> bool:
            sender.sendto(bytes(1400), ("10.9.0.2", 7))
            return leader.got(Backlog)

        leader.until(send, "it asks for permission")
        start_ns = time.monotonic_ns()
        while time.monotonic_ns() - start_ns < 300 * MS and drained(receiver):
            leader.until(lambda: True, "")
        assert not drained(receiver)
        sender.sendto(bytes(1400), ("10.9.0.2", 7))

        def grant() -> bool:
            now = time.monotonic_ns()
            leader.say(Directive((Grant(OTHER, now, now, now + 500 * MS, 100_000, 0),)))
            return leader.got(Ack)

        leader.until(grant, "it acknowledges a permission")
        leader.until(lambda: drained(receiver) > 0, "what waited arrives")

        # repair: the root qdisc, and the filters of the tagger and the classifier
        run("ip", "netns", "exec", ends.left, "tc", "qdisc", "del", "dev", "eth0", "root")
        leader.until(lambda: "htb" in {qdisc["kind"] for qdisc in ends.tc("qdisc", "show", "dev", "eth0", "root")}, "repaired")
        run("ip", "netns", "exec", ends.left, "tc", "filter", "del", "dev", "eth0", "egress", "pref", "47808")
        leader.until(lambda: "tagger's filter was missing" in (tmp_path / "log").read_text(), "the tagger is put back")
        run("ip", "netns", "exec", ends.left, "tc", "filter", "del", "dev", "eth0", "egress", "pref", "47809")
        leader.until(lambda: "classify" in ends.found(), "the classifier is put back")

        # and the leader hears of it
        def told() -> list[str]:
            return [line for message in leader.heard if isinstance(message, HostState) for line in message.lines]

        gone = "eth0: qdisc htb 1: is missing, and "
        leader.until(lambda: any(line.startswith(gone) for line in told()), "told of the qdisc")
        leader.until(lambda: "the tagger's filter was missing" in told(), "told of the tagger")
        leader.until(lambda: "eth0: the classifier is missing" in told(), "told of the classifier")
        state = [message for message in leader.heard if isinstance(message, HostState)][-1]
        assert (state.kernel, state.fingerprint) == (platform.release(), master.fingerprint)
        assert state.put_back == len(state.lines) == 3

        sender.close()
        receiver.close()
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(10) == 0, (tmp_path / "log").read_text()
        assert ends.found() == before
        assert not list((tmp_path / "run").iterdir())
    finally:
        leader.close()
        if agent.poll() is None:
            agent.kill()
            agent.wait()
        log.close()


def drained(receiver: socket.socket) -> int:
    """How many datagrams came."""
    count = 0
    try:
        while receiver.recv(2048):
            count += 1
    except TimeoutError:
        return count
