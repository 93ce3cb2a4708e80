"""A leader whose frames come and go by socket pairs, by the library or one by one, and the hosts that speak to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, cast

from bench.fuzz.link import PairedLink
from bench.fuzz.receivers import EPOCH, LEADER_MAC, DiscardingBridge, FixedLeadership, no_tuner, nowhere
from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from controller.members.registry import FIRST_NODE, Figures
from protocol.bodies.versions import NEWEST
from protocol.key import TAG_BYTES, Key
from protocol.keyring import KeyRing
from protocol.keys.hosts import Credentials, Master
from protocol.messages import HEARTBEAT_MAC, Directive, GateKind, Grant, Message, Pong, Register, Welcome, decode, encode
from topology import shapes

MASTER = Master(Key(bytes(range(32))))
FIRST_SEQUENCE = 10**18


def mac(number: int) -> bytes:
    """The MAC address of host `number`, from 1 on."""
    return b"\x02" + number.to_bytes(5)


class Leader:
    """A coordinator with members FIRST_NODE and up. `compiled`: its frames go by the library; `mode`: as the setting."""

    def __init__(self, *, compiled: bool, hosts: int, policy: str, mode: str = "always") -> None:
        settings = CoordinatorSettings(
            interface="c0", attachment="s1:c0", key_file=nowhere(), store="", policy=policy, mode=mode
        )
        self.link = PairedLink(LEADER_MAC)
        self.coordinator = Coordinator(
            settings, KeyRing(MASTER), cast(Any, self.link), cast(Any, DiscardingBridge()), FixedLeadership(), no_tuner,
            compiled=compiled,
        )  # fmt: skip
        if self.coordinator.exchange is not None:
            self.coordinator.exchange.frames.terms.most_said = 0  # a test says more than any host
        fabric = shapes.build("star", hosts=hosts, rate_bps=10**9)
        for number in range(1, hosts + 1):
            name = f"h{number}"
            register = Register(name, number, 10**9, tuple(fabric.addresses(name)), GateKind.TBF, "1")
            raw = frame(register, number, sequence=FIRST_SEQUENCE, sender=0)
            self.coordinator.reception.receive(raw, 0)
        self.coordinator.take([{"fabric": {"fabric": fabric.to_dict(), "blocked": []}}], 0)
        self.settle(0)
        self.link.delivered()
        self.frames = 0
        """How many frames `answers` found the last time."""

    def hear(self, frames: list[bytes], now_ns: int) -> None:
        """The leader receives these frames."""
        coordinator = self.coordinator
        if coordinator.exchange is None:
            for raw in frames:
                coordinator.reception.receive(raw, now_ns)
            return
        for box in {self.link.deliver(raw): None for raw in frames}:
            while coordinator.intake.batch(coordinator.exchange, box, now_ns) is not None:
                pass

    def settle(self, now_ns: int) -> None:
        """Who is a member comes into force, and rows for the dashboard leave: so there is room for more."""
        self.coordinator.policy.update(now_ns)
        self.coordinator.granting._telemetry.flush(now_ns)

    def plan(self, now_ns: int) -> None:
        """Time passes until `now_ns`."""
        granting = self.coordinator.granting
        if granting.due_ns is not None and granting.due_ns <= now_ns:
            granting.plan(now_ns)

    def answers(self) -> dict[int, list[Message | Grant]]:
        """What went out since the last call, by host: grants one by one, whatever frames they came in."""
        found: dict[int, list[Message | Grant]] = {}
        delivered = self.link.delivered()
        self.frames = len(delivered)
        for raw in delivered:
            if raw[:6] != HEARTBEAT_MAC:
                message = decode(raw, _AnyKey()).message
                found.setdefault(int.from_bytes(raw[1:6]), []).extend(_parts(message))
        return found

    def known(self) -> list[int]:
        """The nodes whose frames the library takes."""
        exchange = self.coordinator.exchange
        return [] if exchange is None else sorted(exchange._known)

    def account(self) -> dict[str, Any]:
        """All that frames change: counters, windows, figures, backlogs."""
        guard, granting = self.coordinator.guard, self.coordinator.granting
        members = {
            member.node: (
                *(getattr(member.figures, name) for name in Figures.__slots__),
                dict(member.backlog),
                member.sent_bps,
            )
            for member in self.coordinator.members.present()
        }  # fmt: skip
        tallies = granting.tallies
        return {
            "accepted": guard.accepted,
            "refused": dict(guard.refused),
            "windows": {identity: (window.highest, window.seen) for identity, window in guard._windows.items()},
            "members": members,
            "tallies": (tallies.slots, tallies.acks, tallies.late, tallies.lost_slots, tallies.yields),
            "delays": (granting.delays.told, granting.delays.longest_ns),
            "rows": self._rows(),
        }

    def _rows(self) -> Any:  # noqa: ANN401
        telemetry = self.coordinator.granting._telemetry
        return sorted(telemetry._rows), telemetry.latency.to_dict(), telemetry.waiting.to_dict(), telemetry.waiting_us


@cache
def credentials(number: int, enrolment: int = 0) -> Credentials:
    """The keys of host `number`; each `enrolment` is another key."""
    return MASTER.enroll(f"h{number}", bytes([enrolment]) * 8).at(mac(number))


def frame(
    message: Message, number: int, *, sequence: int, sender: int | None = None, epoch: int = EPOCH, enrolment: int = 0,
    destination: bytes = LEADER_MAC, version: int = NEWEST,
) -> bytes:  # fmt: skip
    """An authentic frame of host `number`, which is member FIRST_NODE + number - 1."""
    return encode(
        message, key=credentials(number, enrolment).to_leader, destination=destination, source=mac(number),
        sender=FIRST_NODE + number - 1 if sender is None else sender, epoch=epoch, sequence=sequence, version=version,
    )  # fmt: skip


def _parts(message: Message) -> tuple[Message | Grant, ...]:
    """Without what differs from leader to leader: times of clocks, and the heartbeats' chain."""
    if isinstance(message, Pong):
        return (Pong(message.sent_ns, 0, 0),)
    if isinstance(message, Welcome):
        return (replace(message, place=0, value=bytes(16)),)
    return message.grants if isinstance(message, Directive) else (message,)


class _AnyKey:
    """Verifies what the leader says to a host under one of its keys."""

    def tag_bytes(self, _: bytes) -> int:
        """Of a frame to a host."""
        return TAG_BYTES

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether one of the host's keys made it."""
        return any(credentials(int.from_bytes(data[1:6]), enrolment).from_leader.proves(data, tag) for enrolment in (0, 1))
