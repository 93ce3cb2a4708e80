"""A host that honours pauses at one end of a real link, and its link partner at the other; scapy builds the frames."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

from scapy.config import conf
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from agents.host_control.pfc import PfcPart
from agents.loop.clock import Clock
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rules
from agents.queues.classifier import NewFlow
from agents.queues.host import Host
from agents.reflex.reflex import Reflex
from protocol.auth import Guard, Key
from protocol.bodies.pfc import Action, class_mask
from protocol.link import ControlSocket
from protocol.messages import Cause, Message, PfcPause, PfcReport, PfcSettings
from tests.emulation.namespaces import Pair, inside, pair

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
FRAME, PAYLOAD = 1514, 1472
RATE = 100_000_000
QUANTUM_NS = 5_120
"""512 bits at `RATE`."""
LONGEST_S = 65_535 * QUANTUM_NS / 1e9
RIGHT, OTHER = IPv4Address("10.9.0.2"), IPv4Address("10.9.0.3")
CLASSES = {16: 3, 17: 5}
"""Node 16 is `RIGHT`, 17 `OTHER`."""
PARTNER, STRANGER = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
S = 1_000_000_000
KEY, EPOCH = Key(b"k" * 32), 5


def pfc(quanta: dict[int, int], source: str = PARTNER, destination: str = "01:80:c2:00:00:01", opcode: int = 0x0101) -> Packet:
    """A PFC frame as scapy builds it, without any code of Baton."""
    enabled = sum(1 << priority for priority in quanta)
    times = b"".join(quanta.get(priority, 0).to_bytes(2) for priority in range(8))
    body = opcode.to_bytes(2) + enabled.to_bytes(2) + times
    return Ether(dst=destination, src=source, type=0x8808) / Raw(body.ljust(46, b"\0"))


@dataclass
class Surroundings:
    """What a part uses of an agent, around a real interface."""

    rules: Rules
    link: ControlSocket
    guard: Guard
    leader_mac: bytes = bytes(6)
    nodes: Container[int] = frozenset({16, 17})
    enforcing: bool = True
    clock: Clock = field(default_factory=Clock)
    member: bool = True
    idle: bool = True
    sent: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def refuse(self, cause: Cause) -> None:
        raise AssertionError(cause)


@dataclass
class Wire:
    """A host that honours pauses at the left, its link partner at the right."""

    pair: Pair
    host: Host
    agent: Surroundings
    keeper: Gatekeeper
    reflex: Reflex | None
    part: PfcPart
    sender: socket.socket
    receiver: socket.socket
    partner: object

    def serve(self, seconds: float) -> None:
        """Runs the part as an agent's loop does."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            due = self.part.next_due_ns()
            wait = end - now if due is None else min(end - now, max(0.0, due / S - now))
            if self.reflex is None:
                readable, _, _ = select.select(list(self.part.descriptors), (), (), wait)
            else:
                until_ns = time.monotonic_ns() + int(wait * S)
                readable = self.reflex.wait(list(self.part.descriptors), until_ns, poll=False)
            for descriptor in readable:
                self.part.descriptors[descriptor](time.monotonic_ns())
            self.part.advance(time.monotonic_ns())
            self.agent.rules.reconcile()

    def frame(self, packet: Packet) -> None:
        """The partner sends a frame, and the host handles it."""
        self.partner.send(packet)
        self.serve(0.02)

    def settings(self, *, detection: float = 60, restoration: float = 0.1, accept_from: tuple[bytes, ...] = ()) -> None:
        times = ((int(detection * S),) * 8, (int(restoration * S),) * 8)
        self.part.handlers[PfcSettings](
            PfcSettings(Action.DROP, *times, accept_from, tuple(CLASSES.items())), time.monotonic_ns()
        )

    def directive(self, number: int, classes: tuple[int, ...], seconds: float) -> None:
        self.part.handlers[PfcPause](PfcPause(number, class_mask(classes), int(seconds * S)), time.monotonic_ns())

    def send(self, count: int, to: IPv4Address = RIGHT) -> None:
        for _ in range(count):
            self.sender.sendto(bytes(PAYLOAD), (str(to), 7))

    def received(self, wait_s: float = 0.1) -> int:
        """The number of datagrams that arrive, with turns of the part, until none has arrived for `wait_s`."""
        self.receiver.setblocking(False)
        count, end = 0, time.monotonic() + wait_s
        while time.monotonic() < end:
            self.serve(0.005)
            try:
                while True:
                    self.receiver.recv(65536)
                    count, end = count + 1, time.monotonic() + wait_s
            except BlockingIOError:
                continue
        return count

    def waiting(self, node: int) -> int:
        """Packets that wait at a node's gate, as tc shows."""
        gates = [qdisc for qdisc in self.pair.tc("qdisc", "show", "dev", "eth0") if qdisc["handle"] == f"{node:x}:"]
        return int(gates[0]["qlen"])

    def report(self) -> PfcReport:
        """The part's next report."""
        self.agent.sent.clear()
        while not self.agent.sent:
            self.serve(0.05)
        report = self.agent.sent[-1]
        assert isinstance(report, PfcReport)
        return report


@contextmanager
def wired(run_dir: Path, *, reflex: bool) -> Iterator[Wire]:
    """The two ends, with two known destinations at the host; restores the host's interface afterwards."""
    with pair() as ends:
        before = ends.found()
        with inside(ends.right):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
            receiver.bind(("", 7))
            partner = conf.L2socket(iface="eth0")
        with inside(ends.left):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
            host = Host("eth0", RATE, gate_kind="tbf", run_dir=run_dir)
            guard = Guard(KEY, epoch=EPOCH, address=host.link.address)
            rules = Rules(host, known=host.queues.destinations, on_freed=lambda destination: keeper.resume(destination))
            agent = Surroundings(rules, host.link, guard)
            keeper = Gatekeeper(
                agent.rules,
                lambda _: host.wake_queues(),
                to_local=int,
                to_coordinator=int,
                clock=time.monotonic_ns,
                link_bps=RATE,
            )
            made_reflex = Reflex(host, agent.rules, keeper, agent) if reflex else None
            part = PfcPart(agent, "eth0", RATE, time.monotonic_ns, reflex=made_reflex)
        try:
            host.flows.set_directory({16: [RIGHT], 17: [OTHER]})
            made = Wire(ends, host, agent, keeper, made_reflex, part, sender, receiver, partner)
            made.settings()
            made.send(2)
            made.send(2, OTHER)
            time.sleep(0.02)
            for event in host.flows.events():
                if isinstance(event, NewFlow):
                    host.queues.ensure_flow(event.source, event.target, event.destination)
            made.received()
            yield made
        finally:
            with inside(ends.left):  # the snapshot looks for the interface here
                part.close()
                if made_reflex is not None:
                    made_reflex.close()
                host.close()
            for opened in (sender, receiver, partner):
                opened.close()
        assert ends.found() == before, "the interface is not as it was found"
