"""An agent's part for weeks on fake gates, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.host_control.week_schedule import WeekSchedule
from agents.loop.clock import Clock
from agents.permission.rules import Rules
from protocol.bodies.host_control import Transport, Week, WeekKey
from protocol.messages import Cause
from tests.unit.agents.fake_gates import FakeGates

US, MS = 1_000, 1_000_000
DAY = 200 * US
OFFSET = 7_000_000_000
"""The leader's clock minus the host's."""
NODES = tuple(range(16, 80))


@dataclass
class LoggedGates(FakeGates):
    """Fake gates that log when each gate was opened and closed."""

    now: int = 0
    log: list[tuple[int, int, bool]] = field(default_factory=list)

    def open_gate(self, destination: int) -> None:
        super().open_gate(destination)
        self.log.append((self.now, destination, True))

    def close_gate(self, destination: int) -> None:
        super().close_gate(destination)
        self.log.append((self.now, destination, False))

    def opened(self) -> set[int]:
        return {destination for destination, gate in self.gates.items() if gate.credit}


class WeekBench:
    """A part `WeekSchedule` in an agent whose clock the test sets."""

    def __init__(self, nodes: Iterable[int] = NODES) -> None:
        self.gates = LoggedGates()
        for node in nodes:
            self.gates.at(node)
        self.rules = Rules(self.gates, known=lambda: list(self.gates.gates))
        self.clock = Clock()
        self.clock.sample(0, OFFSET, OFFSET, 0)
        self.nodes = set(nodes)
        self.enforcing = True
        self.refused: list[Cause] = []
        self.refuse = self.refused.append
        self.part = WeekSchedule(self, lambda: self.gates.now, 10_000_000_000)  # type: ignore[arg-type]  # what it uses of an agent

    def say(self, week: Week) -> None:
        self.part.handlers[Week](week, self.gates.now)

    def to(self, now: int) -> None:
        """Lets time pass, and calls the part whenever it is due."""
        while (due := self.part.next_due_ns()) is not None and due <= now:
            self.gates.now = max(self.gates.now, due)
            self.part.advance(self.gates.now)
        self.gates.now = now

    def open_at(self, now: int) -> set[int]:
        self.to(now)
        return self.gates.opened()


def week(
    number: int, start: int, flows: Iterable[int], days: Iterable[int], *, day: int = DAY, night: int = 0, **changes: object
) -> Week:
    """A week with a start by the host's clock."""
    fields = {"lease_ns": 100 * MS, "key": WeekKey.DESTINATION, "transport": Transport.SCHEDULE, **changes}
    return Week(number, start + OFFSET, day, night, flows=tuple(flows), days=tuple(days), **fields)  # type: ignore[arg-type]


def turns_of(count: int) -> list[int]:
    return [1 << bit for bit in range(count)]
