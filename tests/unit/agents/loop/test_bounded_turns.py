"""Whatever floods an agent or a coordinator, each turn of its loop ends soon, and timers are served in between."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.agent import MOST_EVENTS, Agent
from agents.agent import MOST_FRAMES as AGENTS_MOST
from agents.config import AgentConfig
from agents.queues.classifier import Backlogged, NewFlow
from agents.queues.host import Host
from bench.fuzz.receivers import DiscardingBridge, FakeControlSocket, FakeHost, FixedLeadership, mac
from controller.config.settings import CoordinatorSettings
from controller.coordinator import candidate as standing_by
from controller.coordinator import coordinator as leading
from controller.coordinator import intake
from protocol.auth import Guard
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.link import ControlSocket

FLOOD = 20_000
KEY = Key(bytes(32))


class Flooded(FakeControlSocket):
    """A control socket in which more frames wait than any turn may take."""

    def __init__(self, address: bytes) -> None:
        super().__init__(address)
        self.left, self.deferred = FLOOD, FLOOD

    def receive(self) -> bytes | None:
        self.left -= self.left > 0
        return b"?" if self.left else None

    def deferred_frames(self, most: int = 1024) -> list[tuple[bytes, int]]:
        taken = min(most, self.deferred)
        self.deferred -= taken
        return [(b"?", 0)] * taken


def agent(link: Flooded) -> Agent:
    host: Any = FakeHost(mac(1))
    host.link = link
    return Agent(AgentConfig("eth1", 10**8, Path("/nonexistent"), name="h1"), KEY, cast(Host, host))


def test_an_agent_serves_its_timers_between_two_batches_of_frames() -> None:
    link = Flooded(mac(1))
    target, served = agent(link), list[int]()
    target.keeper.advance = lambda now_ns: served.append(link.left)  # type: ignore[method-assign]
    for _ in range(3):
        target._serve(link=True, events=False, readable=[], due_ns=0)
    assert served == [FLOOD - turn * AGENTS_MOST for turn in (1, 2, 3)]


def test_an_agent_makes_the_queues_of_new_flows_in_turns_and_forgets_none() -> None:
    target = agent(Flooded(mac(1)))
    made, flows = list[int](), [NewFlow(IPv4Address(number), IPv4Address(1), 17) for number in range(10 * MOST_EVENTS)]
    target._queues = cast(Any, SimpleNamespace(ensure_flow=lambda source, *_: made.append(int(source))))
    waiting = [list(flows)]
    target._flows = cast(Any, SimpleNamespace(events=lambda: waiting.pop() if waiting else []))
    for turn in range(1, 11):
        target._serve(link=False, events=turn == 1, readable=[], due_ns=1 << 62)
        assert made == list(range(turn * MOST_EVENTS)), "those that came first"
        assert (target._next_ns() == 0) == (turn < 10), "it does not sleep while some are left"


@pytest.mark.parametrize("regulated", [False, True])
def test_the_first_packet_to_a_node_that_needs_no_permission_makes_a_report_due_at_once(regulated: bool) -> None:
    target, asked = agent(Flooded(mac(1))), list[int]()
    target.keeper.regulates = lambda node: regulated  # type: ignore[method-assign]
    target.keeper.backlogged = lambda node, *_, **__: bool(asked.append(node))  # type: ignore[method-assign]
    reporting = target._reporting
    reporting._sparing_until_ns = 0
    reporting._due_ns = 1 << 62
    target._flows = cast(Any, SimpleNamespace(events=lambda: [Backlogged(7)]))
    target._serve(link=False, events=True, readable=[], due_ns=1 << 62)
    assert asked == ([7] if regulated else [])
    assert (reporting.next_due_ns() < 1 << 62) != regulated
    assert (target._next_ns() < 1 << 62) or regulated, "the loop does not sleep over it"


class Turns(FixedLeadership):
    """Leads for some turns of the loop."""

    def __init__(self, turns: int, each: Callable[[], None]) -> None:
        super().__init__()
        self.turns, self.each = turns, each
        self.lines = cast(Any, object())

    def due_ns(self) -> int:
        return 1 << 62

    def serve(self, readable: bool) -> bool:
        self.each()
        self.turns -= 1
        return self.turns > 0


def test_a_coordinator_serves_its_timers_and_its_lease_between_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    link, left = Flooded(mac(9)), list[tuple[int, int]]()
    timeouts = list[float]()

    def select(sources: list[Any], _: object, __: object, timeout: float) -> tuple[list[Any], list[Any], list[Any]]:
        timeouts.append(timeout)
        return [link], [], []

    monkeypatch.setattr(leading.select, "select", select)
    settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=Path("/nowhere"), store="")
    made = leading.Coordinator(
        settings, KEY, cast(ControlSocket, link), cast(Any, DiscardingBridge()),
        Turns(3, lambda: left.append((link.left, link.deferred))), cast(Any, None),
    )  # fmt: skip
    made.timers.run = lambda now_ns: None  # type: ignore[method-assign]
    made.run()
    most = intake.MOST_FRAMES
    assert left == [(FLOOD - turn * most, FLOOD - turn * most) for turn in (1, 2, 3)]
    assert timeouts[1:] == [0, 0], "it does not sleep while frames of a deferred kind are left"


def test_a_candidate_looks_after_its_lease_between_two_batches() -> None:
    link = Flooded(mac(9))
    target = standing_by.Candidate.__new__(standing_by.Candidate)
    target.link, target.guard = cast(Any, link), Guard(KeyRing(KEY))
    target._listen(0)
    assert link.left == FLOOD - standing_by.MOST_FRAMES
