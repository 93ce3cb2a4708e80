"""Gates at rates: which changes reach the kernel, and when what is owed is repaid."""

from __future__ import annotations

from agents.permission.rate_gates import RateGates
from tests.unit.agents.fake_gates import FakeGates

MBIT = 1_000_000
MS = 1_000_000
BUCKET = 10_000


class Recorder(FakeGates):
    """Gates that note the rates that they are set to."""

    def __init__(self) -> None:
        super().__init__(bucket=BUCKET)
        self.rates: list[tuple[int, int]] = []

    def rate(self, destination: int, rate_bps: int) -> None:
        self.rates.append((destination, rate_bps))


class Bench:
    """Gates whose time and passed bytes a test sets."""

    def __init__(self) -> None:
        self.gates, self.now_ns = Recorder(), 0
        self.rates = RateGates(self.gates, lambda: self.now_ns)

    def set(self, destination: int, mbps: int, passed: int = 0) -> list[int]:
        """What the gate is set to then, in bit/s."""
        self.gates.at(destination).passed += passed
        self.gates.rates.clear()
        self.rates.set(destination, mbps * MBIT)
        return [rate_bps for _, rate_bps in self.gates.rates]


def test_a_first_rate_is_set_in_full_and_the_same_one_again_is_not_set() -> None:
    bench = Bench()
    assert not bench.rates
    assert bench.set(16, 100) == [100 * MBIT] and bench.rates
    assert bench.set(16, 100) == [] and bench.rates.next_due_ns() is None


def test_another_rate_is_set_and_what_its_full_bucket_gives_is_taken_off() -> None:
    bench = Bench()
    bench.set(16, 100)
    assert bench.set(16, 50) == [50 * MBIT], "nothing has passed"
    (gate_bps,) = bench.set(16, 60, passed=BUCKET)
    assert gate_bps < 60 * MBIT and bench.rates.next_due_ns() is not None


def test_a_rate_that_is_renewed_while_too_much_is_owed_leaves_the_gate_as_it_is() -> None:
    bench = Bench()
    bench.set(16, 100)
    bench.set(16, 50, passed=BUCKET)
    assert bench.set(16, 50, passed=BUCKET) == []


def test_a_gate_gets_its_rate_in_full_when_it_is_due_and_the_queues_are_woken() -> None:
    bench = Bench()
    bench.set(16, 100)
    bench.set(16, 50, passed=BUCKET)
    due_ns = bench.rates.next_due_ns()
    assert due_ns is not None
    bench.gates.rates.clear()
    bench.now_ns = due_ns - 1
    bench.rates.advance(bench.now_ns)
    assert not bench.gates.rates and not bench.gates.wakeups
    bench.now_ns = due_ns
    bench.rates.advance(bench.now_ns)
    assert bench.gates.rates == [(16, 50 * MBIT)] and bench.gates.wakeups == 1
    assert bench.rates.next_due_ns() is None


def test_the_next_gate_that_is_due_comes_first_and_a_whole_one_never() -> None:
    bench = Bench()
    due_ns = []
    for destination in (16, 17):
        bench.set(destination, 100)
        bench.set(destination, 50, passed=BUCKET)
        due_ns.append(bench.rates.accounts[destination].whole_ns)
        bench.now_ns += MS
    bench.set(18, 100)
    assert due_ns[0] != due_ns[1] and bench.rates.next_due_ns() == due_ns[0]


def test_a_gate_that_was_at_no_rate_meanwhile_owes_nothing() -> None:
    bench = Bench()
    bench.set(16, 100)
    bench.set(16, 50, passed=BUCKET)
    bench.rates.forget(16)
    assert not bench.rates and bench.rates.next_due_ns() is None
    assert bench.set(16, 60, passed=BUCKET) == [60 * MBIT]
