"""Records a peer of the wire's version 2: what the agent and the leader of that time said to each other, frame by frame.

Run it in a tree of that time, commit ed75939 (git archive ed75939 | tar -x -C DIRECTORY), once, and keep what it prints:
`cd DIRECTORY && PYTHONPATH=. python .../record.py > .../frames.json`. Agent and coordinator are the real ones, without wire and
kernel (bench/fuzz/receivers.py), under a known key, epoch and clock, and known addresses. `messages` has one frame of every
type and what it says in words; `agent` and `leader` have the frames of a few seconds, one of each type
and length, in the order in which they were sent.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

MS = 1_000_000
COMMIT = "ed75939"
SECRET = bytes(range(32))
AGENT_NAME, NEIGHBOUR, NEIGHBOURS_NODE = "h1", 2, 16


class Clock:
    """A clock that stands still until it is moved on."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000 * MS

    def __call__(self) -> int:
        return self.now_ns


CLOCK = Clock()
time.monotonic_ns = CLOCK  # type: ignore[assignment]
time.time_ns = lambda: CLOCK.now_ns + 1_700_000_000_000 * MS  # type: ignore[assignment]

# The modules of that time, with that clock.
from agents.agent import Agent  # noqa: E402
from agents.config import AgentConfig  # noqa: E402
from agents.membership.keys import Keys  # noqa: E402
from bench.fuzz.receivers import (  # noqa: E402
    EPOCH,
    LEADER_MAC,
    DiscardingBridge,
    FakeControlSocket,
    FakeHost,
    FixedLeadership,
    frame,
    mac,
)
from bench.fuzz.seeds import SEEDS  # noqa: E402
from controller.config.settings import CoordinatorSettings  # noqa: E402
from controller.coordinator.coordinator import Coordinator  # noqa: E402
from controller.members.part import periods  # noqa: E402
from protocol import messages as m  # noqa: E402
from protocol.bodies import host_state as health  # noqa: E402
from protocol.bodies import pfc  # noqa: E402
from protocol.bodies.host_link import HostLink  # noqa: E402
from protocol.key import Key  # noqa: E402
from protocol.keyring import KeyRing  # noqa: E402
from protocol.messages import HEARTBEAT_MAC, GateKind, Kind, Ping, Register, decode  # noqa: E402
from topology import shapes  # noqa: E402

RING = KeyRing(Key(SECRET))
DISTINCT = (
    m.Register("host", 3, 5, SEEDS[0].addresses, GateKind.TBF | GateKind.PLUG, "1"),  # type: ignore[union-attr]
    m.Welcome(3, 16, 5, 7, 11, 13, 17, 19),
    m.Directory(7, 1, 3, SEEDS[3].entries),  # type: ignore[union-attr]
    m.Regulate(7, 1, 3, (16, 17)),
    m.Backlog(7, 1, 3, ((16, 60_000, 1514), (17, 5, 3))),
    m.Directive((m.Grant(16, 3, 5, 7, 24_224, 0), m.Grant(17, 11, 13, 19, 0, 10**8))),
    m.Yield(16, 3, 5, 7),
    m.Ack(3, 16, 5, 7),
    m.Report(10**8, 1, 3, (m.FlowReport(16, 3, 5),), ((5, 7),), 11),
    m.Heartbeat(m.Override.FREE, 3, 5, 7),
    m.Coflows(7, 1, 3, ((7, 1), (9, 2))),
    m.Paths(7, 1, 3, 10**10, 30_000, ((16, 10**9, 20_000),)),
    pfc.PfcReport(
        3, pfc.PauseResult.DONE, pfc.Mode.SOFTWARE, 5, 7, 11, 13,
        tuple(pfc.PfcClass(*range(5 * at, 5 * at + 5)) for at in range(8)),
    ),
    health.HostState(3, 5, 7, 11, 13, 17, "6.18", ("none",)),
    HostLink(10**10, 2 * 10**9, 1500, 60, 3, 1),
)  # fmt: skip
"""In place of the fuzzers' examples, where those have one value in two fields."""


class Record(FakeControlSocket):
    """A control socket that keeps all that is sent through it."""

    def __init__(self, address: bytes) -> None:
        super().__init__(address)
        self.all: list[bytes] = []
        self.taken = 0

    def send(self, raw: bytes) -> bool:
        self.all.append(raw)
        return True

    def send_stamped(self, made: Any) -> bool:  # noqa: ANN401 -- see ControlSocket
        return self.send(made(CLOCK()))

    def arrived_ns(self) -> int:
        return CLOCK()

    def next(self) -> list[bytes]:
        """What was sent since the last call."""
        found, self.taken = self.all[self.taken :], len(self.all)
        return found

    def kept(self) -> list[str]:
        """The first frame of each type and length, to or from the agent."""
        found: dict[tuple[int, int], str] = {}
        for raw in self.all:
            if raw[:6] in (HEARTBEAT_MAC, LEADER_MAC, mac(1)):
                found.setdefault((raw[17], len(raw)), raw.hex())
        return list(found.values())


def made_leader() -> tuple[Coordinator, Record]:
    settings = CoordinatorSettings(
        interface="c0", attachment="s1:c0", key_file=Path("/nowhere/key"), store="", mode="always", policy="timeslice"
    )
    link = Record(LEADER_MAC)
    leader = Coordinator(settings, RING, link, DiscardingBridge(), FixedLeadership(), None)  # type: ignore[arg-type]
    fabric = shapes.build("star", hosts=2, rate_bps=10**8)
    leader.take([{"fabric": {"fabric": fabric.to_dict(), "blocked": []}}], CLOCK())
    name = f"h{NEIGHBOUR}"
    register = Register(name, 9, 10**8, tuple(fabric.addresses(name)), GateKind.TBF, "0.1.0")
    words = {"source": mac(NEIGHBOUR), "destination": LEADER_MAC, "sender": 0}
    leader._receive(frame(register, RING, **words, sequence=1), CLOCK())
    leader.timers.every(CLOCK(), settings.heartbeat_ns, leader._heartbeat)
    leader.parts.begin(leader.timers, CLOCK(), periods(settings))
    link.next()
    return leader, link


def made_agent() -> tuple[Agent, Record]:
    host: Any = FakeHost(mac(1))
    link = host.link = Record(mac(1))
    addresses = tuple(shapes.build("star", hosts=2, rate_bps=10**8).addresses(AGENT_NAME))
    agent = Agent(AgentConfig("eth1", 10**8, Path("/nowhere/key"), name=AGENT_NAME, addresses=addresses), RING.sending, host)
    agent.add(Keys(agent, agent.guard.ring, Path("/nowhere/key")))
    return agent, link


def main() -> None:
    """Lets both talk, and prints what they said."""
    logging.disable()
    (leader, from_leader), (agent, from_agent) = made_leader(), made_agent()
    for step in range(5_000):
        CLOCK.now_ns += MS
        now_ns = CLOCK()
        leader.timers.run(now_ns)
        if leader.granting.due_ns is not None and now_ns >= leader.granting.due_ns:
            leader.granting.plan(now_ns)
        if step == 1_000:
            leader.take([{"override": "free"}, {"override": "coordinate"}], now_ns)
        if step == 1_500:
            leader.take([{"rotation": {"step": "accept", "old": f"{RING.sending.fingerprint:016x}", "new": "0" * 16}}], now_ns)
        for _ in range(4):
            for raw in from_leader.next():
                if raw[:6] in (HEARTBEAT_MAC, mac(1)):
                    agent._receive(raw, now_ns)
            agent.keeper.advance(now_ns)
            agent.parts.advance(now_ns)
            agent._keep_watch(now_ns)
            for raw in from_agent.next():
                leader._receive(raw, now_ns)
        if step % 100 == 50:
            agent.keeper.backlogged(NEIGHBOURS_NODE, now_ns)
            words = {"source": mac(NEIGHBOUR), "destination": LEADER_MAC, "sender": NEIGHBOURS_NODE}
            leader._receive(frame(Ping(1), RING, **words, sequence=2 + step), now_ns)
    agent.membership.leave(CLOCK())
    messages = {}
    for at, message in enumerate((*SEEDS, *DISTINCT)):
        raw = frame(message, RING, source=LEADER_MAC, destination=mac(1), sender=1, sequence=at + 1)
        assert decode(raw, RING.sending).message == message
        messages[Kind(raw[17]).name] = {"frame": raw.hex(), "says": repr(message)}
    record = {
        "commit": COMMIT, "key": SECRET.hex(), "epoch": EPOCH, "leader_mac": LEADER_MAC.hex(), "agent_mac": mac(1).hex(),
        "messages": messages, "agent": from_agent.kept(), "leader": from_leader.kept(),
    }  # fmt: skip
    json.dump(record, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
