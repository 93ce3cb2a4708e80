"""The gatekeeper against fake gates that count bytes as a token bucket does."""

from hypothesis import given
from hypothesis import strategies as st

from agents.permission.gatekeeper import Gatekeeper
from protocol.messages import Ack, Backlog, Directive, Grant, Yield
from protocol.units import FRAME_BYTES
from tests.unit.agents.fake_gates import OPEN, FakeGates

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


def test_an_unregulated_gate_stays_open() -> None:
    bench = Bench(16)
    assert bench.gates.at(17).credit == OPEN
    assert bench.gates.at(16).credit == 0


def test_backlog_at_a_closing_gate_is_reported_at_once() -> None:
    bench = Bench()
    bench.gates.at(16).queue = 9000
    bench.gates.at(16).credit = 0
    bench.keeper.regulate(frozenset({16}), 5)
    assert bench.of(Backlog)[-1].entries == ((16, 9000, 0),)


class TestDeadlines:
    """The gatekeeper reports the backlog of flows with a deadline in time for the next slot, and does not repeat itself."""

    def test_what_waits_is_reported_with_how_much_of_it_has_a_deadline(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue, bench.gates.at(16).urgent = 9000, 3000
        bench.keeper.backlogged(16, 1)
        assert bench.of(Backlog)[-1].entries == ((16, 9000, 3000),)
        assert not bench.gates.at(16).armed_for_urgent

    def test_while_none_waits_the_first_one_that_comes_is_asked_for_and_reported(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue = 9000
        bench.keeper.backlogged(16, 1)
        assert bench.gates.at(16).armed_for_urgent
        bench.keeper.backlogged(16, 2, urgent=True)
        assert bench.of(Backlog)[-1].entries == ((16, 9000, FRAME_BYTES),)

    def test_one_that_comes_while_the_slot_runs_is_reported_at_its_end_if_it_still_waits(self) -> None:
        bench = Bench(16)
        gate = bench.gates.at(16)
        gate.queue = 90_000
        bench.keeper.backlogged(16, 0)
        bench.grant(16, 1, 0, 2 * MS, 20_000)
        reports = len(bench.of(Backlog))
        gate.urgent = 30_000
        bench.keeper.backlogged(16, MS, urgent=True)
        assert len(bench.of(Backlog)) == reports
        bench.to(2 * MS)
        assert bench.of(Backlog)[-1].entries == ((16, gate.queue, 30_000),)

    def test_the_end_of_a_slot_is_not_reported_when_no_deadline_waits(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue = 90_000
        bench.keeper.backlogged(16, 0)
        bench.grant(16, 1, 0, 2 * MS, 20_000)
        reports = len(bench.of(Backlog))
        bench.to(3 * MS)
        assert len(bench.of(Backlog)) == reports
        assert bench.gates.at(16).armed_for_urgent

    def test_a_refresh_tells_what_is_left(self) -> None:
        bench = Bench(16)
        gate = bench.gates.at(16)
        gate.queue, gate.urgent = 9000, 3000
        bench.keeper.backlogged(16, 1)
        gate.urgent = 0
        bench.keeper.refresh(2)
        assert bench.of(Backlog)[-1].entries == ((16, 9000, 0),)
        assert gate.armed_for_urgent

    def test_more_destinations_than_a_frame_holds_are_reported_in_pages(self) -> None:
        bench = Bench(*range(16, 116))
        for node in range(16, 116):
            bench.gates.at(node).queue = 9000
        bench.keeper.refresh(1)
        pages = bench.of(Backlog)[-2:]
        assert [page.page for page in pages] == [0, 1]
        assert sum(len(page.entries) for page in pages) == 100


class TestPolling:
    """The agent polls for the answer to a report, and rehearses handling it."""

    def test_only_a_destination_that_awaits_a_directive_is_worth_polling_for(self) -> None:
        bench = Bench(16)
        assert not bench.keeper.backlogged(17, 1)  # it needs no permission
        assert bench.keeper.backlogged(16, 1)
        bench.gates.at(16).queue = 90_000
        bench.grant(16, 1, 0, 2 * MS, 20_000)
        bench.keeper.refresh(1)
        assert not bench.keeper.backlogged(16, 2, urgent=True)  # it is open: nothing was reported
        bench.keeper.release()
        assert not bench.keeper.backlogged(16, 3)

    def test_rehearsing_asks_the_kernel_and_changes_nothing(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue = 9000
        bench.keeper.backlogged(16, 1)
        asked: list[int] = []
        state = bench.gates.state
        keeper, sent = bench.keeper, len(bench.sent)
        before = (bench.gates.at(16).credit, bench.gates.at(16).queue, keeper.next_due_ns())
        bench.gates.state = lambda destination: asked.append(destination) or state(destination)  # type: ignore[method-assign]
        keeper.rehearse()
        assert asked == [16]
        assert (bench.gates.at(16).credit, bench.gates.at(16).queue, keeper.next_due_ns()) == before
        assert len(bench.sent) == sent


def test_the_first_packet_at_an_armed_gate_is_reported_even_before_it_is_queued() -> None:
    bench = Bench(16)
    assert bench.gates.at(16).armed
    bench.keeper.backlogged(16, 1)
    assert bench.of(Backlog)[-1].entries == ((16, FRAME_BYTES, 0),)


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


def test_an_unused_slot_is_yielded_after_the_hysteresis_and_the_gate_is_armed_again() -> None:
    bench = Bench(16)
    bench.gates.at(16).queue = 3000
    bench.gates.at(16).armed = False
    bench.grant(16, 1, 0, 10 * MS, 24_000)
    bench.to(1 * MS)
    assert bench.of(Yield) == [Yield(16, 1, 21_000, 0)]
    assert bench.gates.at(16).armed
    assert bench.gates.at(16).credit == 0


def test_a_slot_whose_queue_moves_is_not_yielded() -> None:
    bench = Bench(16)
    bench.grant(16, 1, 0, 2 * MS, 24_000)
    for step in range(20):
        bench.gates.at(16).passed += 1000  # the queue is refilled and drained between looks
        bench.to(step * 100_000)
    assert not bench.of(Yield)


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
    bench.gates.at(16).credit = 7
    bench.to(50 * MS)
    bench.grant(16, 2, 50 * MS, 150 * MS, 0, 20_000_000)
    bench.to(120 * MS)
    assert bench.gates.at(16).credit == 7


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


class TestLooks:
    """How often the gatekeeper checks an open slot: each check is a turn of the agent's loop."""

    class Counting(FakeGates):
        """Counts the reads of the state."""

        asked = 0

        def state(self, destination: int) -> tuple[int, int]:
            self.asked += 1
            return super().state(destination)

    def bench(self) -> Bench:
        bench = Bench(16)
        bench.gates = bench.keeper._gates = self.Counting(bench.gates.gates)  # type: ignore[assignment]
        return bench

    def test_a_slot_that_is_hardly_used_is_given_back_at_the_first_pause(self) -> None:
        bench = self.bench()
        bench.gates.at(16).queue = 1500
        bench.grant(16, 1, 0, 10 * MS, 10**6)
        for now in range(0, 10 * MS, MS // 10):
            bench.to(now)
            if not now % MS:  # a packet each millisecond
                bench.gates.at(16).queue += 1500
                bench.gates.at(16).serve()
            if bench.of(Yield):
                break
        assert bench.now < MS

    def used_up(self, bench: Bench) -> None:
        bench.gates.at(16).queue = 50_000
        bench.grant(16, 1, 0, 2 * MS, 20_000)
        bench.to(2 * MS)
        assert bench.gates.at(16).queue == 30_000 and not bench.of(Yield)

    def test_whose_slot_was_used_up_is_left_alone_for_half_of_the_next_if_it_is_short(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.grant(16, 2, 2 * MS, 4 * MS, 20_000)
        bench.gates.asked = 0  # type: ignore[attr-defined]
        bench.to(3 * MS - 1)
        assert bench.gates.asked == 0  # type: ignore[attr-defined]
        bench.to(4 * MS - 1)
        assert bench.gates.asked == 1  # type: ignore[attr-defined]
        bench.to(4 * MS)
        bench.grant(16, 3, 4 * MS, 14 * MS, 200_000)
        bench.gates.at(16).queue = 0
        bench.to(14 * MS)
        assert [message.slot for message in bench.of(Yield)] == [3]

    def test_one_that_stands_empty_is_given_back_at_that_look(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.gates.at(16).queue = 0
        bench.grant(16, 2, 2 * MS, 4 * MS, 20_000)
        bench.to(3 * MS + MS // 10)
        assert len(bench.of(Yield)) == 1, "who stopped holds the link for half a slot, not for all that it is granted"

    def test_a_longer_one_is_looked_at_after_2_and_6_ms(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.grant(16, 2, 2 * MS, 12 * MS, 60_000)
        bench.gates.asked, looks = 0, []  # type: ignore[attr-defined]
        for now in range(2 * MS, 12 * MS, MS // 10):
            bench.gates.at(16).queue += 1500
            bench.gates.at(16).serve()
            bench.to(now)
            if bench.gates.asked > len(looks):  # type: ignore[attr-defined]
                looks.append((now - 2 * MS) // MS)
        assert looks == [2, 6] and not bench.of(Yield)

    def test_one_that_has_the_end_of_a_message_left_is_given_back_once_that_has_passed(self) -> None:
        bench = self.bench()
        bench.gates.at(16).queue = 21_500
        bench.grant(16, 1, 0, 2 * MS, 20_000)
        bench.to(2 * MS)
        bench.grant(16, 2, 2 * MS, 4 * MS, 20_000)
        bench.to(2 * MS + 700_000)
        assert [(message.slot, message.unspent_bytes) for message in bench.of(Yield)] == [(2, 18_500)]

    def test_its_credit_is_voided_at_the_end_all_the_same(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.gates.at(16).queue = 5000
        bench.grant(16, 2, 2 * MS, 4 * MS, 20_000)
        bench.to(4 * MS)
        bench.gates.at(16).queue = 9000
        bench.gates.wake_queues()
        assert bench.gates.at(16).queue == 9000 and bench.keeper.counters.voided_bytes == 15_000

    def test_what_passed_is_asked_again_when_gates_were_made_anew(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.gates.at(16).passed = 0
        bench.keeper.rebuilt(2 * MS)
        bench.gates.asked = 0  # type: ignore[attr-defined]
        bench.grant(16, 2, 2 * MS, 4 * MS, 20_000)
        assert bench.gates.asked == 1  # type: ignore[attr-defined]

    def test_what_passed_is_asked_again_when_the_last_slot_is_long_ago(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.to(1000 * MS)
        bench.gates.asked = 0  # type: ignore[attr-defined]
        bench.grant(16, 2, 1000 * MS, 1002 * MS, 20_000)
        assert bench.gates.asked == 1  # type: ignore[attr-defined]


def test_a_rate_that_takes_the_place_of_a_slot_is_not_given_back_when_the_queue_is_idle() -> None:
    """Otherwise its gate is closed, and a renewal of the same rate does not open it again."""
    bench = Bench(16)
    bench.gates.at(16).queue = 1000
    bench.grant(16, 1, 0, 10 * MS, 9000)
    bench.grant(16, 2, 0, 50 * MS, 0, rate=10_000_000)
    bench.to(40 * MS)
    assert not bench.of(Yield)
    bench.grant(16, 2, 0, 90 * MS, 0, rate=10_000_000)
    assert bench.gates.at(16).credit == 10_000_000


class TestRates:
    """A rate is no slot to give back: what waits at it is reported as it is, and its end is seen."""

    def test_an_empty_queue_at_a_rate_is_reported_as_empty_and_the_rate_stays(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue = 9000
        bench.keeper.backlogged(16, 0)
        bench.grant(16, 1, 0, 100 * MS, 0, rate=10**7)
        bench.gates.at(16).queue = 0
        bench.keeper.refresh(50 * MS)
        assert bench.of(Backlog)[-1].entries == ()
        assert 16 in bench.keeper.table.open and not bench.of(Yield)

    def test_after_the_end_of_a_rate_the_next_packet_is_asked_for_or_what_waits_is_reported(self) -> None:
        for waiting in (0, 3000):
            bench = Bench(16)
            bench.grant(16, 1, 0, 100 * MS, 0, rate=10**7)
            bench.gates.at(16).armed = False
            bench.gates.at(16).queue = waiting
            bench.to(101 * MS)
            assert bench.gates.at(16).credit == 0
            assert bench.gates.at(16).armed == (not waiting)
            assert not waiting or bench.of(Backlog)[-1].entries == ((16, waiting, 0),)


class TestFreedSenders:
    """While slots come, as much of a connection may wait at the gate as twice the largest of them."""

    def test_the_largest_slot_decides(self) -> None:
        bench = Bench(16, 17)
        for slot, size in enumerate((15_140, 60_560, 3028)):
            bench.grant(16, slot, slot * MS, (slot + 1) * MS, size)
            bench.to((slot + 1) * MS)
        assert bench.gates.at(16).outstanding == 2 * 60_560
        assert bench.gates.at(17).outstanding == 0

    def test_a_rate_frees_none(self) -> None:
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
