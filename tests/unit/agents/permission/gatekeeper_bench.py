"""A gatekeeper against fake gates that count bytes as a token bucket does."""

from agents.permission.gatekeeper import Gatekeeper
from protocol.messages import Ack, Backlog, Directive, Grant, Yield
from tests.unit.agents.fake_gates import FakeGates

MS = 1_000_000


class Bench:
    """A gatekeeper with fake gates, and the messages that it sent."""

    def __init__(self, *regulated: int) -> None:
        self.now = 0
        self.gates = FakeGates()
        self.sent: list[Ack | Backlog | Yield] = []
        self.keeper = Gatekeeper(
            self.gates,
            self.send,
            to_local=lambda t: t,
            to_coordinator=lambda t: t,
            clock=lambda: self.now,
            link_bps=100_000_000,
        )
        self.keeper.enforce(0)
        self.keeper.regulate(frozenset(regulated), 0)

    def send(self, message: Ack | Backlog | Yield) -> None:
        self.sent.append(message)
        self.gates.wake_queues()  # a frame through the interface

    def grant(self, destination: int, slot: int, start: int, end: int, size: int, rate: int = 0) -> None:
        self.keeper.directive(Directive((Grant(destination, slot, start, end, size, rate),)), self.now)

    def to(self, now: int) -> None:
        while (due := self.keeper.next_due_ns()) is not None and due <= now:
            self.now = max(self.now, due)
            self.keeper.advance(self.now)
        self.now = now
        self.keeper.advance(now)

    def of(self, kind: type) -> list[Ack | Backlog | Yield]:
        return [message for message in self.sent if isinstance(message, kind)]
