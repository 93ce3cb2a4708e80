"""Gates that count bytes as a token bucket does."""

from __future__ import annotations

from dataclasses import dataclass, field

OPEN = 10**18


@dataclass
class Gate:
    """A bucket of credit before a queue."""

    credit: int = OPEN
    queue: int = 0
    passed: int = 0
    armed: bool = False
    armed_for_urgent: bool = False
    urgent: int = 0
    outstanding: int = 0

    def serve(self) -> None:
        size = min(self.credit, self.queue)
        self.credit -= size
        self.queue -= size
        self.passed += size


@dataclass
class FakeGates:
    """The host's gates; nothing leaves before a wake-up, as with the kernel's token bucket."""

    gates: dict[int, Gate] = field(default_factory=dict)
    wakeups: int = 0
    bucket: int = 0
    """What passes at once at each change of a rate."""

    def at(self, destination: int) -> Gate:
        return self.gates.setdefault(destination, Gate())

    def grant(self, destination: int, credit_bytes: int) -> int | None:
        self.at(destination).credit = credit_bytes
        return None

    def rate(self, destination: int, rate_bps: int) -> None:
        self.at(destination).credit = rate_bps

    def bucket_bytes(self, destination: int, rate_bps: int) -> int:
        return self.bucket

    def open_gate(self, destination: int) -> None:
        self.at(destination).credit = OPEN

    def close_gate(self, destination: int) -> None:
        self.at(destination).credit = 0

    def state(self, destination: int) -> tuple[int, int]:
        return self.at(destination).passed, self.at(destination).queue

    def urgent(self, destination: int) -> int:
        return min(self.at(destination).urgent, self.at(destination).queue)

    def arm(self, destination: int, *, urgent: bool = False) -> None:
        if urgent:
            self.at(destination).armed_for_urgent = True
        else:
            self.at(destination).armed = True

    def free_senders(self, destination: int, outstanding_bytes: int) -> None:
        self.at(destination).outstanding = outstanding_bytes

    def wake_queues(self) -> None:
        self.wakeups += 1
        for gate in self.gates.values():
            gate.serve()
