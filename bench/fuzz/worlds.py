"""A coordinator and an agent as they run, but for the wire and the kernel: what control frames are thrown at.

The coordinator has its parts, a fabric and members; the agent its gatekeeper, its rules and the parts that need no interface.
What they send is kept; the host's queues do whatever they are told.
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
from agents.host_control.weekly import Weekly
from agents.membership.keys import Keys
from agents.queues.host import Host
from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from controller.election.leadership import Leadership
from controller.election.rules import Election
from controller.processes.jsonlines import JsonLines
from protocol.auth import Guard, KeyRing
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, Gates, Message, Register, encode
from protocol.units import SECOND_NS
from topology import shapes

EPOCH = 5
LEADER_MAC = bytes.fromhex("0200000000fe")
HOSTS = 4


def mac(number: int) -> bytes:
    """Of host `number`."""
    return bytes((2, 0, 0, 0, 0, number))


class Wire:
    """A control socket that keeps what is sent."""

    def __init__(self, address: bytes) -> None:
        self.address = address
        self.sent: list[bytes] = []

    def send(self, frame: bytes) -> None:
        """Keeps the last hundred."""
        self.sent = [*self.sent[-99:], frame]

    def send_stamped(self, frame: Callable[[int], bytes]) -> None:
        """Keeps it, too."""
        self.send(frame(time.monotonic_ns()))

    def receive(self) -> bytes | None:
        """Nothing comes by itself."""
        return None

    def arrived_ns(self) -> int:
        """When that came."""
        return time.monotonic_ns()

    def patient(self) -> list[tuple[bytes, int]]:
        """Nor what may wait."""
        return []

    def fileno(self) -> int:
        """None that could be waited for."""
        return -1


class Lines:
    """A courier that takes everything."""

    def write(self, value: Mapping[str, Any]) -> bool:
        """Takes it."""
        return True


class Term(Leadership):
    """A leadership that is never in doubt."""

    def __init__(self) -> None:
        election = Election(lease_ns=SECOND_NS, heard_ns=SECOND_NS, standby=False, now_ns=0)
        super().__init__(election, cast(JsonLines, Lines()))

    @property
    def epoch(self) -> int:
        """Ours."""
        return EPOCH

    def may_speak(self) -> bool:
        """Always."""
        return True

    def heard(self, epoch: int, now_ns: int) -> None:
        """Another leader: not in doubt."""


class Queues:
    """A host's queues, gates and flow table that take every order and hold nothing."""

    def __init__(self, address: bytes) -> None:
        self.link = Wire(address)
        self.queues = self.flows = self
        self.gate = "tbf"
        self.dscp = ()
        self.destinations: set[int] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def backlog(self, destination: int) -> tuple[int, int]:
        """(bytes that passed, bytes that wait)."""
        return 0, 0

    state = backlog

    def urgent(self, destination: int) -> int:
        """Bytes that wait of flows with a deadline."""
        return 0

    def sent_bytes(self) -> dict[int, int]:
        """Nothing was sent."""
        return {}

    def events(self) -> tuple[()]:
        """Nothing happened."""
        return ()

    def collect(self, now_ns: int) -> tuple[()]:
        """Nothing is old."""
        return ()

    def repair(self) -> list[str]:
        """Nothing drifted."""
        return []


class Target:
    """One receiver: its guard, how it takes a frame, and the addresses that its frames bear."""

    def __init__(self, guard: Guard, take: Callable[[bytes, int], None], address: bytes, source: bytes, sender: int) -> None:
        self.guard = guard
        self.take = take
        self.address = address
        self.source = source
        self.sender = sender


def coordinator(ring: KeyRing) -> Target:
    """One that leads, with a fabric and members; frames come from its first member."""
    settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=_nowhere(), store="")
    made = Coordinator(
        settings, ring, cast(ControlSocket, Wire(LEADER_MAC)), cast(JsonLines, Lines()), Term(), _no_tuner
    )
    fabric = shapes.build("star", hosts=HOSTS, rate_bps=10**8)
    for number in range(1, HOSTS + 1):
        register = Register(f"h{number}", number, 10**8, tuple(fabric.addresses(f"h{number}")), Gates.TBF, "1")
        made._receive(frame(register, ring, source=mac(number), destination=LEADER_MAC, sender=0, sequence=1), 0)
    made.take([{"fabric": {"fabric": fabric.to_dict(), "blocked": []}}], 0)

    def take(raw: bytes, now_ns: int) -> None:
        made._receive(raw, now_ns)
        made._sweep(now_ns)
        made._status(now_ns)
        for part in made.parts:
            part.advance(now_ns)
        if made.granting.due_ns is not None and made.granting.due_ns <= now_ns:
            made.granting.plan(now_ns)

    return Target(made.guard, take, LEADER_MAC, mac(1), 16)


def agent(ring: KeyRing) -> Target:
    """One that hears a leader."""
    host = Queues(mac(1))
    config = AgentConfig("eth1", 10**8, _nowhere(), name="h1")
    made = Agent(config, ring.sending, cast(Host, host))
    made.guard.ring = ring
    made.add(Weekly(made, lambda: 0, config.rate_bps))
    made.add(QueueConditions(made, config.rate_bps))
    made.add(Keys(made, ring, config.key_file))

    def take(raw: bytes, now_ns: int) -> None:
        made._receive(raw, now_ns)
        made.keeper.advance(now_ns)
        made.parts.advance(now_ns)
        made._keep_watch(now_ns)

    return Target(made.guard, take, mac(1), LEADER_MAC, COORDINATOR)


def bystander(ring: KeyRing) -> Target:
    """A bare guard, of a member."""
    guard = Guard(ring, epoch=EPOCH, address=mac(1))
    return Target(guard, lambda raw, _: void(guard.accept(raw)), mac(1), LEADER_MAC, COORDINATOR)


TARGETS: Mapping[str, Callable[[KeyRing], Target]] = {"guard": bystander, "coordinator": coordinator, "agent": agent}


def frame(message: Message, ring: KeyRing, *, source: bytes, destination: bytes, sender: int, sequence: int) -> bytes:
    """An authentic frame of this epoch."""
    return encode(
        message,
        key=ring.sending,
        destination=destination,
        source=source,
        sender=sender,
        epoch=EPOCH,
        sequence=sequence,
    )


def void(_: object) -> None:
    """Takes what is not wanted."""


def _nowhere() -> Path:
    """A key file that is not there: nothing on disk is to be changed."""
    return Path(tempfile.gettempdir()) / "baton-fuzz-no-such-directory" / "key"


def _no_tuner() -> JsonLines:
    raise OSError("the fuzzer has no tuner")
