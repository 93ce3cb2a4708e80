"""A gate whose rate changes again and again passes what the rates allow, though each change fills its bucket."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agents.permission.rate_credit import AGAIN_NS, LEAST_PART, REPAY_NS, RateCredit
from protocol.units import FRAME_BYTES, SECOND_NS
from protocol.units import MILLISECOND_NS as MS

MBIT = 1_000_000


def bucket_of(rate_bps: int) -> int:
    """Of half a millisecond, as agents/queues/gates.py has it."""
    return max(3200, rate_bps // 16_000)


class Gate:
    """A token bucket whose queue is never empty, by a host that is told rates."""

    def __init__(self, rate_bps: int) -> None:
        self.passed, self.allowed, self.now_ns, self.changes = 0, 0.0, 0, 0
        self.credit = RateCredit(rate_bps, bucket_of(rate_bps), 0, 0)
        self._set(rate_bps)

    def _set(self, rate_bps: int) -> None:
        self.rate_bps, self.changes = rate_bps, self.changes + 1
        self.passed += bucket_of(rate_bps)

    def runs(self, time_ns: int) -> None:
        """Lets time go by; the gate gets its rate in full when it is due."""
        until_ns = self.now_ns + time_ns
        while self.credit.whole_ns is not None and self.credit.whole_ns < until_ns:
            self._pass(self.credit.whole_ns - self.now_ns)
            self.told(self.credit.rate_bps)
        self._pass(until_ns - self.now_ns)

    def _pass(self, time_ns: int) -> None:
        self.now_ns += time_ns
        self.passed += self.rate_bps * time_ns // 8 // SECOND_NS
        self.allowed += self.credit.rate_bps * time_ns / 8 / SECOND_NS

    def told(self, rate_bps: int) -> None:
        wanted = self.credit.change(rate_bps, bucket_of(rate_bps), self.passed, self.now_ns)
        if wanted is not None:
            self._set(wanted)


def test_five_hundred_changes_a_second_pass_no_more_than_the_rates() -> None:
    gate, random = Gate(200 * MBIT), Random(1)
    for _ in range(2000):
        gate.runs(2 * MS)
        gate.told(random.choice((199, 200, 201)) * MBIT)
    assert gate.changes > 1000
    assert 0.99 * gate.allowed < gate.passed < 1.02 * gate.allowed


def test_what_changes_give_waits_in_a_buffer_that_holds_a_hundred_packets() -> None:
    """Senders who share 1 Gb/s, as one gate. Spread over 50 ms, what they owed together was 625 KB."""
    gate, most = Gate(1000 * MBIT), 0.0
    for change in range(500):
        gate.runs(5 * MS)
        gate.told(1000 * MBIT - change % 2)
        most = max(most, gate.passed - gate.allowed)
    assert most < 140_000
    assert gate.passed > 0.99 * gate.allowed


def test_what_a_larger_bucket_holds_more_is_given() -> None:
    """Else a host never makes up for the time between another's end and its own rise."""
    credit = RateCredit(100 * MBIT, bucket_of(100 * MBIT), 0, 0)
    assert credit.change(900 * MBIT, bucket_of(900 * MBIT), 0, 0) == 900 * MBIT and credit.whole_ns is None
    fell = credit.change(100 * MBIT, bucket_of(100 * MBIT), bucket_of(900 * MBIT), 0)
    assert fell is not None and fell < 100 * MBIT and credit.whole_ns is not None


def test_a_rate_that_stays_is_used_in_full_once_what_was_owed_is_repaid() -> None:
    gate = Gate(100 * MBIT)
    for _ in range(20):  # renewals
        gate.runs(50 * MS)
        gate.told(100 * MBIT)
    assert gate.changes <= 5, "each change costs a message to the kernel"
    assert gate.credit.whole_ns is None and gate.rate_bps == 100 * MBIT
    before, allowed = gate.passed, gate.allowed
    gate.runs(SECOND_NS)
    assert gate.passed - before >= 0.99 * (gate.allowed - allowed)


def test_a_slow_rate_is_whole_again_soon_after_it_changed_all_the_time() -> None:
    """Two packets at each change are more than the rate itself."""
    gate = Gate(2 * MBIT)
    for _ in range(2000):
        gate.runs(MS)
        gate.told(2 * MBIT + gate.changes % 2)
    assert gate.rate_bps < MBIT
    for _ in range(4):  # renewals
        gate.runs(50 * MS)
        gate.told(gate.credit.rate_bps)
    assert gate.rate_bps > 1.8 * MBIT


def test_what_was_not_used_is_not_kept_beyond_a_bucket() -> None:
    credit = RateCredit(100 * MBIT, bucket_of(100 * MBIT), 0, 0)
    assert credit.change(50 * MBIT, bucket_of(50 * MBIT), 0, SECOND_NS) == 50 * MBIT  # nothing passed in a second
    owed = 20 * bucket_of(50 * MBIT)
    changed = credit.change(40 * MBIT, bucket_of(40 * MBIT), owed, SECOND_NS + MS)
    assert changed is not None and changed < 40 * MBIT


def test_what_was_sent_too_much_counts_as_six_milliseconds_at_the_rate_at_most() -> None:
    credit = RateCredit(100 * MBIT, bucket_of(100 * MBIT), 0, 0)
    assert credit.change(101 * MBIT, bucket_of(101 * MBIT), 10**9, 0) == 101 * MBIT // LEAST_PART
    assert credit.whole_ns is not None and credit.whole_ns < 1.5 * REPAY_NS


def test_a_rate_that_is_renewed_is_set_anew_once_half_a_bucket_is_saved_up() -> None:
    rate_bps, bucket = 100 * MBIT, bucket_of(100 * MBIT)
    for spent, is_set in ((bucket // 2 - 1, True), (bucket // 2 + 1, False)):
        credit = RateCredit(rate_bps, bucket, 0, 0)
        assert (credit.change(rate_bps, bucket, spent, 0) is not None) is is_set


def test_a_gate_is_whole_when_it_has_saved_what_is_owed_a_bucket_and_a_packet() -> None:
    credit, bucket = RateCredit(100 * MBIT, bucket_of(100 * MBIT), 0, 0), bucket_of(50 * MBIT)
    gate_bps = credit.change(50 * MBIT, bucket, bucket_of(100 * MBIT), 0)  # the first bucket was used up
    assert gate_bps is not None and credit.whole_ns is not None
    saved = (50 * MBIT - gate_bps) * credit.whole_ns / 8 / SECOND_NS
    assert abs(saved - (2 * bucket + FRAME_BYTES)) < 1


def test_a_gate_is_looked_at_again_after_a_millisecond_at_the_earliest() -> None:
    """At 10 Gb/s half a bucket is saved up within 0.3 ms."""
    rate_bps, bucket = 10_000 * MBIT, bucket_of(10_000 * MBIT)
    credit, now_ns = RateCredit(rate_bps - 1, bucket, 0, 0), REPAY_NS + 200_000
    credit.change(rate_bps, bucket, 10**9, 0)
    assert credit.change(rate_bps, bucket, 10**9, now_ns) is None
    assert credit.whole_ns == now_ns + AGAIN_NS


@given(
    st.integers(1, 400_000 * MBIT),
    st.lists(
        st.tuples(st.integers(1, 400_000 * MBIT), st.integers(0, 10 * REPAY_NS), st.integers(0, 1 << 40)), max_size=30
    ),
)
def test_a_gate_never_gets_more_than_its_rate_nor_less_than_a_part_of_it(first: int, then: list[tuple[int, int, int]]) -> None:
    credit, now_ns, passed = RateCredit(first, bucket_of(first), 0, 0), 0, 0
    for rate_bps, time_ns, more in then:
        now_ns, passed, changes = now_ns + time_ns, passed + more, rate_bps != credit.rate_bps
        gate_bps = credit.change(rate_bps, bucket_of(rate_bps), passed, now_ns)
        assert gate_bps is not None or not changes
        assert gate_bps is None or max(1, rate_bps // LEAST_PART) <= gate_bps <= rate_bps
