"""When the gatekeeper looks at an open slot, and gives it back."""

from protocol.messages import Yield
from tests.unit.agents.fake_gates import OPEN, FakeGates
from tests.unit.agents.permission.gatekeeper_bench import MS, Bench


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
        bench.gates.at(16).queue = 11_000  # that the link carries in less than a millisecond
        bench.grant(16, 2, 2 * MS, 4 * MS, 20_000)
        bench.gates.asked = 0  # type: ignore[attr-defined]
        bench.to(3 * MS - 1)
        assert bench.gates.asked == 0  # type: ignore[attr-defined]
        bench.gates.at(16).queue += 30_000
        bench.gates.wake_queues()
        bench.to(4 * MS - 1)
        assert bench.gates.asked == 1  # type: ignore[attr-defined]
        bench.to(4 * MS)
        bench.grant(16, 3, 4 * MS, 14 * MS, 200_000)
        bench.gates.at(16).queue = 0
        bench.to(14 * MS)
        assert [message.slot for message in bench.of(Yield)] == [3]

    def test_one_with_more_waiting_than_the_link_carries_in_it_is_left_alone(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.gates.at(16).queue = 140_000
        bench.grant(16, 2, 2 * MS, 12 * MS, 125_000)
        bench.gates.asked = 0  # type: ignore[attr-defined]
        bench.to(12 * MS - 1)
        assert bench.gates.asked == 0 and not bench.of(Yield)  # type: ignore[attr-defined]

    def test_one_that_takes_the_place_of_a_slot_in_use_is_that_of_a_destination_that_uses_its_slots(self) -> None:
        bench = self.bench()
        bench.gates.at(16).queue = 50_000
        for number in (1, 2):
            bench.grant(16, number, (number - 1) * 9 * MS, number * 10 * MS, 20_000)
            bench.to(number * 9 * MS)
        assert bench.keeper.used_up.keys() == {16} and not bench.of(Yield)

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

    def test_gates_that_were_made_with_all_others_close_like_them(self) -> None:
        bench = self.bench()
        bench.keeper.regulate(range(16, 20), 0)
        bench.keeper._gated = lambda: (17, 30)
        bench.keeper.rebuilt(2 * MS)
        assert bench.keeper.regulated == {17}
        assert [bench.gates.at(node).credit for node in (17, 30)] == [0, OPEN]

    def test_what_passed_is_asked_again_when_the_last_slot_is_long_ago(self) -> None:
        bench = self.bench()
        self.used_up(bench)
        bench.to(1000 * MS)
        bench.gates.asked = 0  # type: ignore[attr-defined]
        bench.grant(16, 2, 1000 * MS, 1002 * MS, 20_000)
        assert bench.gates.asked == 1  # type: ignore[attr-defined]
