"""A coordinator and an agent without wire and kernel, to which the fuzzer gives control frames.

The coordinator has its parts, a fabric and members; the agent its gatekeeper, its rules and the parts that need no interface.
The control socket keeps what they send; the host's queues accept every order and do nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from agents.agent import Agent
from agents.config import AgentConfig
from agents.host_control.queue_conditions import QueueConditions
from agents.host_control.week_schedule import WeekSchedule
from agents.membership.keys import Keys
from agents.queues.host import Host
from bench.fuzz.link import PairedLink
from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from controller.election.leadership import Leadership
from controller.election.rules import Election
from controller.processes.jsonlines import JsonLines
from protocol.auth import Guard, KeyRing
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keys.hosts import Credentials, Master
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, GateKind, Message, Register, encode
from protocol.units import SECOND_NS
from protocol.wire import Prover
from topology import shapes

EPOCH = 5
LEADER_MAC = bytes.fromhex("0200000000fe")
HOSTS = 4
SALT = bytes(8)


def mac(number: int) -> bytes:
    """The MAC address of host `number`."""
    return bytes((2, 0, 0, 0, 0, number))


class FakeControlSocket:
    """A control socket that keeps what is sent."""

    def __init__(self, address: bytes) -> None:
        self.address = self.present = address
        self.interface = "eth1"
        self.sent: list[bytes] = []

    def renew_address(self) -> bool:
        """Takes `present` as the address; returns whether it is another one."""
        before, self.address = self.address, self.present
        return self.address != before

    def send(self, frame: bytes) -> None:
        """Keeps the last hundred."""
        self.sent = [*self.sent[-99:], frame]

    def send_stamped(self, frame: Callable[[int], bytes]) -> None:
        """Keeps the frame, stamped now."""
        self.send(frame(time.monotonic_ns()))

    def receive(self) -> bytes | None:
        """No frame arrives by itself."""
        return None

    def arrived_ns(self) -> int:
        """Now."""
        return time.monotonic_ns()

    def deferred_frames(self, most: int = 0) -> list[tuple[bytes, int]]:
        """No frame was deferred."""
        return []

    def fileno(self) -> int:
        """No descriptor: `select` cannot wait for it."""
        return -1


class DiscardingBridge:
    """A store bridge that discards every line."""

    def read(self) -> list[dict[str, Any]]:
        """Nothing comes."""
        return []

    def write(self, value: Mapping[str, Any]) -> bool:
        """Discards the line."""
        return True


class FixedLeadership(Leadership):
    """A leadership that never ends."""

    def __init__(self) -> None:
        election = Election(lease_ns=SECOND_NS, heard_ns=SECOND_NS, standby=False, now_ns=0)
        super().__init__(election, cast(JsonLines, DiscardingBridge()))

    @property
    def epoch(self) -> int:
        """Always `EPOCH`."""
        return EPOCH

    def may_speak(self) -> bool:
        """Always true."""
        return True

    def until_ns(self) -> int:
        """Never."""
        return 1 << 62

    def heard(self, epoch: int, now_ns: int) -> None:
        """Ignores other leaders."""


class FakeHost:
    """A host's queues, gates and flow table that accept every order and hold nothing."""

    def __init__(self, address: bytes) -> None:
        self.link = FakeControlSocket(address)
        self.queues = self.flows = self
        self.gate_kind = "tbf"
        self.dscp = ()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def backlog(self, destination: int) -> tuple[int, int]:
        """(bytes sent, bytes queued)."""
        return 0, 0

    state = backlog

    def urgent(self, destination: int) -> int:
        """Queued bytes of flows with a deadline."""
        return 0

    def destinations(self) -> dict[int, list[Any]]:
        """No destination has a gate."""
        return {}

    def sent_bytes(self) -> dict[int, int]:
        """No bytes were sent."""
        return {}

    def events(self) -> tuple[()]:
        """No events."""
        return ()

    def collect(self, now_ns: int) -> tuple[()]:
        """No flow is old."""
        return ()

    def repair(self) -> list[str]:
        """Nothing drifted."""
        return []


class Receiver:
    """A receiver of frames: its guard, the call that gives it a frame, and the addresses and the key of frames to it."""

    def __init__(
        self, guard: Guard, take: Callable[[bytes, int], None], address: bytes, source: bytes, sender: int, key: Prover
    ) -> None:
        self.key = key
        self.guard = guard
        self.take = take
        self.address = address
        self.source = source
        self.sender = sender


def coordinator(ring: KeyRing[Any], *, compiled: bool = False) -> Receiver:
    """A coordinator that leads, with a fabric and members; frames come from its first member. `compiled`: by the library."""
    settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=nowhere(), store="")
    paired = PairedLink(LEADER_MAC) if compiled else None
    link, bridge = cast(ControlSocket, paired or FakeControlSocket(LEADER_MAC)), cast(JsonLines, DiscardingBridge())
    made = Coordinator(settings, ring, link, bridge, FixedLeadership(), no_tuner, compiled=compiled)
    if made.exchange is not None:
        made.exchange.frames.terms.most_said = 0  # a fuzzer says more than any host
    fabric = shapes.build("star", hosts=HOSTS, rate_bps=10**8)
    for number in range(1, HOSTS + 1):
        register = Register(f"h{number}", number, 10**8, tuple(fabric.addresses(f"h{number}")), GateKind.TBF, "1")
        key = host_key(ring, number)
        sequence = time.time_ns() if isinstance(ring.sending, Master) else 1  # a host's own key has one series of numbers
        made.reception.receive(frame(register, key, source=mac(number), destination=LEADER_MAC, sender=0, sequence=sequence), 0)
    made.take([{"fabric": {"fabric": fabric.to_dict(), "blocked": []}}], 0)

    def take(raw: bytes, now_ns: int) -> None:
        if paired is None or made.exchange is None:
            made.reception.receive(raw, now_ns)
        else:
            paired.delivered()
            box = paired.deliver(raw)
            while made.intake.batch(made.exchange, box, now_ns) is not None:
                pass
        made.publication.publish(now_ns)
        for part in made.parts:
            for _, call in part.periodic:
                call(now_ns)
        if made.granting.due_ns is not None and made.granting.due_ns <= now_ns:
            made.granting.plan(now_ns)

    return Receiver(made.guard, take, LEADER_MAC, mac(1), 16, host_key(ring, 1))


def agent(ring: KeyRing[Any]) -> Receiver:
    """An agent that has a leader."""
    host = FakeHost(mac(1))
    config = AgentConfig("eth1", 10**8, nowhere(), name="h1")
    made = Agent(config, ring, cast(Host, host))
    made.add(WeekSchedule(made, lambda: 0, config.rate_bps))
    made.add(QueueConditions(made, config.rate_bps))
    made.add(Keys(made, ring, config.key_file, lambda path: ring.sending))  # no file is there to read

    def take(raw: bytes, now_ns: int) -> None:
        made._receive(raw, now_ns)
        made.keeper.advance(now_ns)
        made.parts.advance(now_ns)
        made._keep_watch(now_ns)

    return Receiver(made.guard, take, mac(1), LEADER_MAC, COORDINATOR, ring.sending.from_leader)


def bare_guard(ring: KeyRing[Any]) -> Receiver:
    """Only a guard, that of a member."""
    guard = Guard(ring, epoch=EPOCH, address=mac(1))
    take = guard.accept
    return Receiver(guard, lambda raw, _: void(take(raw)), mac(1), LEADER_MAC, COORDINATOR, ring.sending.from_leader)


def host_key(ring: KeyRing[Any], number: int) -> Prover:
    """The key of a host's frames to a leader that has these keys."""
    keys = ring.sending
    return keys.enroll(f"h{number}", SALT).at(mac(number)).to_leader if isinstance(keys, Master) else keys


def masters(ring: KeyRing[Key]) -> KeyRing[Master]:
    """These keys as a fabric's master keys."""
    return KeyRing(Master(ring.sending), None if ring.other is None else Master(ring.other))


def credentials(ring: KeyRing[Key]) -> KeyRing[Credentials]:
    """The first host's keys in a fabric with these master keys."""
    of = masters(ring)
    other = None if of.other is None else of.other.enroll("h1", SALT).at(mac(1))
    return KeyRing(of.sending.enroll("h1", SALT).at(mac(1)), other)


RECEIVERS: Mapping[str, Callable[[KeyRing[Key]], Receiver]] = {
    "guard": bare_guard,
    "coordinator": coordinator,
    "agent": agent,
    "guard with a host's key": lambda ring: bare_guard(credentials(ring)),
    "coordinator with a master key": lambda ring: coordinator(masters(ring)),
    "coordinator in batches": lambda ring: coordinator(masters(ring), compiled=True),
    "agent with a host's key": lambda ring: agent(credentials(ring)),
}
"""The first three with one key for all, as in version 2 of the wire."""


def frame(
    message: Message,
    key: Prover | KeyRing[Key],
    *,
    source: bytes,
    destination: bytes,
    sender: int,
    sequence: int,
    version: int = NEWEST,
) -> bytes:
    """An authentic frame of epoch `EPOCH`."""
    return encode(
        message,
        key=key.sending if isinstance(key, KeyRing) else key,
        destination=destination,
        source=source,
        sender=sender,
        epoch=EPOCH,
        sequence=sequence,
        version=version,
    )


def void(_: object) -> None:
    """Discards a value."""


def nowhere() -> Path:
    """The path of a key file that does not exist, so that no test changes a file."""
    return Path(tempfile.gettempdir()) / "baton-fuzz-no-such-directory" / "key"


def no_tuner() -> JsonLines:
    """There is no tuner: OSError, as if it could not be started."""
    raise OSError("the fuzzer has no tuner")
