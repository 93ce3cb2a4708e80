"""The gatekeeper's gates: they let pass what slots and rates grant, when these begin, and no longer than they last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.permission.rate_use import IDLE_NS
from protocol.messages import Ack, Backlog, Yield
from tests.unit.agents.fake_gates import OPEN
from tests.unit.agents.permission.gatekeeper_bench import MS, Bench


def test_an_unregulated_gate_stays_open() -> None:
    bench = Bench(16)
    assert bench.gates.at(17).credit == OPEN
    assert bench.gates.at(16).credit == 0


def test_a_gate_that_the_kernel_refuses_to_open_keeps_no_other_shut_and_no_slot_shuts_one_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(16, 17, 18)
    for node in (16, 17, 18):
        bench.gates.at(node).queue = 100_000
        bench.grant(node, node, 0, 4 * MS, 24_000)
    opened = bench.gates.open_gate

    def refuse(node: int) -> None:
        if node == 17:
            raise OSError("there is no such qdisc")
        opened(node)

    monkeypatch.setattr(bench.gates, "open_gate", refuse)
    with pytest.raises(OSError, match="no such qdisc"):
        bench.keeper.release()
    assert [bench.gates.at(node).passed for node in (16, 18)] == [100_000, 100_000]
    bench.to(5 * MS)
    assert [bench.gates.at(node).credit > 0 for node in (16, 18)] == [True, True]


def test_a_slot_waits_for_its_start_and_passes_its_bytes_only() -> None:
    bench = Bench(16)
    bench.gates.at(16).queue = 100_000
    bench.grant(16, 1, 2 * MS, 4 * MS, 24_000)
    assert bench.gates.at(16).passed == 0
    bench.to(2 * MS)
    assert bench.gates.at(16).passed == 24_000
    assert bench.of(Ack) == [Ack(1, 16, 0, 2 * MS)]


def test_credit_that_was_not_spent_is_void_at_the_end_of_the_lease() -> None:
    bench = Bench(16)
    bench.gates.at(16).queue = 3000
    bench.keeper.hysteresis_ns = 10 * MS
    bench.grant(16, 1, 0, 2 * MS, 24_000)
    bench.to(2 * MS)
    bench.gates.at(16).queue = 9000
    bench.gates.wake_queues()
    assert bench.gates.at(16).passed == 3000


def test_a_revoked_slot_never_opens() -> None:
    bench = Bench(16)
    bench.gates.at(16).queue = 3000
    bench.grant(16, 1, 2 * MS, 4 * MS, 24_000)
    bench.grant(16, 1, 2 * MS, 4 * MS, 0)
    bench.to(5 * MS)
    assert bench.gates.at(16).passed == 0


def test_a_revoked_slot_that_runs_is_shut_and_what_waits_is_reported() -> None:
    bench = Bench(16)
    bench.grant(16, 1, 0, 100 * MS, 0, 20_000_000)
    bench.gates.at(16).queue = 7000
    bench.gates.at(16).credit = 0
    bench.grant(16, 1, 0, 100 * MS, 0)
    assert bench.gates.at(16).credit == 0
    assert bench.of(Backlog)[-1].entries == ((16, 7000, 0),)
    assert not bench.keeper.table.open


def test_a_directive_received_after_its_lease_ended_is_void() -> None:
    bench = Bench(16)
    bench.gates.at(16).queue = 3000
    bench.now = 5 * MS
    bench.grant(16, 1, 2 * MS, 4 * MS, 24_000)
    assert bench.gates.at(16).passed == 0


def test_a_repeated_directive_with_an_earlier_start_replaces_the_waiting_one() -> None:
    bench = Bench(16)
    bench.gates.at(16).queue = 100_000
    bench.grant(16, 1, 4 * MS, 6 * MS, 24_000)
    bench.grant(16, 1, 1 * MS, 3 * MS, 24_000)
    bench.to(7 * MS)
    assert bench.gates.at(16).passed == 24_000
    assert [ack.opened_ns for ack in bench.of(Ack)] == [1 * MS]


def test_release_opens_every_gate_at_once_and_wakes_the_queues() -> None:
    bench = Bench(16, 17)
    bench.gates.at(16).queue = bench.gates.at(17).queue = 50_000
    bench.keeper.release()
    assert bench.gates.at(16).queue == bench.gates.at(17).queue == 0


def test_after_a_release_directives_are_not_obeyed_until_membership_returns() -> None:
    bench = Bench(16)
    bench.keeper.release()
    bench.grant(16, 1, 0, 2 * MS, 24_000)
    assert bench.gates.at(16).credit == OPEN
    bench.keeper.enforce(1)
    assert bench.gates.at(16).credit == 0


def test_a_rate_lease_closes_the_gate_when_it_is_not_renewed() -> None:
    bench = Bench(16)
    bench.grant(16, 1, 0, 100 * MS, 0, 20_000_000)
    assert bench.gates.at(16).credit == 20_000_000
    bench.to(101 * MS)
    assert bench.gates.at(16).credit == 0


def test_a_renewed_rate_lease_does_not_touch_the_gate() -> None:
    bench = Bench(16)
    bench.grant(16, 1, 0, 100 * MS, 0, 20_000_000)
    bench.gates.at(16).credit, bench.gates.at(16).queue = 7, 10**6
    bench.to(50 * MS)
    bench.grant(16, 2, 50 * MS, 150 * MS, 0, 20_000_000)
    bench.to(120 * MS)
    assert bench.gates.at(16).passed == 7


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 4), st.integers(1514, 30_000), st.booleans()), max_size=40
    ),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60_000)), max_size=40),
)
def test_never_more_leaves_than_was_granted(
    grants: list[tuple[int, int, int, bool]], arrivals: list[tuple[int, int]]
) -> None:
    """For any grants, lost, repeated or late: the bytes that pass are at most the bytes granted."""
    bench = Bench(16)
    waiting = sorted(arrivals)
    total = 0
    for slot, (start, length, size, lost) in enumerate(sorted(grants)):
        now = start * MS // 4
        while waiting and waiting[0][0] * MS // 10 <= now:
            bench.gates.at(16).queue += waiting.pop(0)[1]
        bench.to(max(bench.now, now))
        if not lost:
            total += size
            bench.grant(16, slot, bench.now, bench.now + length * MS, size)
    bench.to(bench.now + 100 * MS)
    assert bench.gates.at(16).passed <= total


def test_a_rate_that_takes_the_place_of_a_slot_is_looked_at_as_a_rate() -> None:
    """Otherwise the slot's look gives it back within 0.3 ms."""
    bench = Bench(16)
    bench.gates.at(16).queue = 1000
    bench.grant(16, 1, 0, 10 * MS, 9000)
    bench.grant(16, 2, 0, 50 * MS, 0, rate=10_000_000)
    bench.to(IDLE_NS - 1)
    assert not bench.of(Yield)


class TestRates:
    """A rate is given back by a queue that stays empty, and its end is seen."""

    def test_an_idle_rate_is_given_back_and_the_next_packet_is_asked_for(self) -> None:
        bench = Bench(16)
        bench.grant(16, 1, 0, 100 * MS, 0, rate=10**7)
        bench.gates.at(16).armed = False
        bench.to(3 * IDLE_NS)
        assert bench.of(Yield) == [Yield(16, 1, 0, 0)]
        assert bench.gates.at(16).armed and bench.gates.at(16).credit == 0
        assert 16 not in bench.keeper.table.open

    def test_a_rate_stays_idle_for_as_long_as_answers_take(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue = 1500
        bench.keeper.backlogged(16, bench.now)
        bench.to(8 * MS)
        bench.grant(16, 1, bench.now, 100 * MS, 0, rate=10**8)  # the answer, after 8 ms
        bench.gates.at(16).serve()
        bench.to(15 * MS)
        assert not bench.of(Yield)
        bench.to(8 * MS + 2 * 8 * MS + IDLE_NS)
        assert [message.slot for message in bench.of(Yield)] == [1]

    def test_a_rate_that_was_given_back_is_set_again_when_it_is_granted_again(self) -> None:
        """Also the same one: the gate was shut meanwhile."""
        bench = Bench(16)
        bench.grant(16, 1, 0, 100 * MS, 0, rate=10**7)
        bench.to(3 * IDLE_NS)
        bench.grant(16, 2, bench.now, 100 * MS, 0, rate=10**7)
        assert bench.gates.at(16).credit == 10**7

    def test_what_a_changed_gate_lets_pass_at_once_is_taken_off_its_rate(self) -> None:
        """Else rates that change all the time pass more than they allow: here two thirds of it again."""
        bench = Bench(16)
        bench.gates.bucket, gate = 10_000, bench.gates.at(16)
        passed = 0.0
        for slot in range(400):
            bench.grant(16, slot + 1, bench.now, bench.now + 100 * MS, 0, rate=40_000_000 + slot % 2)
            passed += 10_000 + gate.credit * 3 * MS / 8e9  # a full bucket, then the gate's rate
            gate.passed, gate.queue = round(passed), 10**6
            bench.to(bench.now + 3 * MS)
        assert passed <= 1.05 * 40_000_000 * bench.now / 8e9

    def test_a_gate_gets_its_rate_in_full_as_soon_as_it_has_repaid(self) -> None:
        """And no later than it is renewed, which may be in nearly a second."""
        bench = Bench(16)
        bench.gates.bucket, gate = 10_000, bench.gates.at(16)
        for slot in range(2):
            gate.passed, gate.queue = 10_000 * slot, 1
            bench.grant(16, slot + 1, 0, 800 * MS, 0, rate=40_000_000 - slot)
        assert gate.credit < 39_000_000
        woken, now_ns, rate = bench.gates.wakeups, 0, gate.credit
        passed = float(gate.passed + 10_000)
        while bench.keeper.rates.accounts[16].whole_ns is not None:
            due_ns = bench.keeper.next_due_ns()
            assert due_ns is not None and now_ns < due_ns < 50 * MS, "the loop is told when"
            passed += rate * (due_ns - now_ns) / 8e9
            gate.passed, gate.queue, now_ns = round(passed), 1, due_ns
            bench.to(now_ns)
        assert gate.credit == 40_000_000 - 1 - 1 and bench.gates.wakeups == woken + 1, "what waited left when it was woken"
        assert 10_000 + 40_000_000 * now_ns / 8e9 - 2 * 1514 <= passed + 10_000 <= 10_000 + 40_000_000 * now_ns / 8e9

    def test_a_resumed_rate_is_set_in_full_on_an_account_of_its_own(self) -> None:
        """After an operator's limit ended: what was owed before counts no more."""
        bench = Bench(16)
        bench.gates.bucket, gate = 10_000, bench.gates.at(16)
        for slot in range(2):
            gate.passed, gate.queue = 10_000 * slot, 10**6
            bench.grant(16, slot + 1, 0, 100 * MS, 0, rate=40_000_000 - slot)
        assert gate.credit < 40_000_000 - 1
        bench.keeper.resume(16)
        assert gate.credit == 40_000_000 - 1 and bench.keeper.rates.accounts[16].whole_ns is None

    def test_a_rate_stays_while_packets_wait_or_pass(self) -> None:
        for waiting in (True, False):
            bench = Bench(16)
            bench.gates.at(16).credit, bench.gates.at(16).queue = 0, 9000 if waiting else 0
            bench.grant(16, 1, 0, 200 * MS, 0, rate=1)
            for now in range(0, 150 * MS, IDLE_NS // 2):
                bench.gates.at(16).passed += 0 if waiting else 1514
                bench.to(now)
            assert 16 in bench.keeper.table.open and not bench.of(Yield), waiting

    def test_a_renewal_does_not_put_the_look_off(self) -> None:
        """Rates that change more often than queues are looked at would never be given back."""
        bench = Bench(16)
        for slot in range(20):
            bench.grant(16, slot + 1, bench.now, bench.now + 100 * MS, 0, rate=10**7 + slot)
            bench.to(bench.now + IDLE_NS // 3)
            if bench.of(Yield):
                break
        assert len(bench.of(Yield)) == 1 and bench.now <= 3 * IDLE_NS

    def test_an_empty_queue_at_a_rate_is_reported_as_empty(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue = 9000
        bench.keeper.backlogged(16, 0)
        bench.grant(16, 1, 0, 100 * MS, 0, rate=10**7)
        bench.gates.at(16).queue = 0
        bench.keeper.refresh(IDLE_NS // 2)
        assert bench.of(Backlog)[-1].entries == ()
        assert 16 in bench.keeper.table.open and not bench.of(Yield)

    def test_after_the_end_of_a_rate_the_next_packet_is_asked_for_or_what_waits_is_reported(self) -> None:
        for waiting in (0, 3000):
            bench = Bench(16)
            bench.grant(16, 1, 0, 100 * MS, 0, rate=10**7)
            bench.gates.at(16).armed = False
            while bench.now < 101 * MS:  # it is used until its end
                bench.gates.at(16).passed += 1
                bench.gates.at(16).queue = waiting if bench.now > 99 * MS else 0
                bench.to(bench.now + IDLE_NS // 2)
            assert bench.gates.at(16).credit == 0
            assert bench.gates.at(16).armed == (not waiting)
            assert not waiting or bench.of(Backlog)[-1].entries == ((16, waiting, 0),)


class TestFreedSenders:
    """While slots come, as much of a connection may wait at the gate as twice the largest of them."""

    def test_twice_the_largest_of_three_slots_may_wait_and_nothing_elsewhere(self) -> None:
        bench = Bench(16, 17)
        for slot, size in enumerate((15_140, 60_560, 3028)):
            bench.grant(16, slot, slot * MS, (slot + 1) * MS, size)
            bench.to((slot + 1) * MS)
        assert bench.gates.at(16).outstanding == 2 * 60_560
        assert bench.gates.at(17).outstanding == 0

    def test_with_a_rate_nothing_more_may_wait(self) -> None:
        """Where the gate never closes, the host's queue holds the sender back as it does without Baton."""
        bench = Bench(16)
        bench.grant(16, 1, 0, MS, 15_140)
        bench.grant(16, 2, MS, 2 * MS, 0, 10**7)
        bench.to(MS)
        assert bench.gates.at(16).outstanding == 0

    def test_an_open_gate_frees_none(self) -> None:
        bench = Bench(16)
        bench.grant(16, 1, 0, MS, 15_140)
        bench.keeper.regulate(frozenset(), 2 * MS)
        assert bench.gates.at(16).outstanding == 0
        bench.keeper.regulate(frozenset({16}), 3 * MS)
        bench.grant(16, 2, 3 * MS, 4 * MS, 15_140)
        bench.keeper.release()
        assert bench.gates.at(16).outstanding == 0
