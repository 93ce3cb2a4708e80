"""What the gatekeeper reports of the backlog at its gates, and when an answer is worth polling for."""

from protocol.messages import Backlog
from protocol.units import FRAME_BYTES
from tests.unit.agents.permission.gatekeeper_bench import MS, Bench


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
