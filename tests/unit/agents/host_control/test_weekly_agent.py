"""Weeks at the agent: each day is executed once and at its time, by the leader's clock, and nothing is sent as another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.host_control.weekly import Weekly
from agents.loop.clock import Clock
from agents.permission.rules import Rule, Rules
from protocol.bodies.host_control import FlowKey, Transport, Week
from protocol.messages import Cause
from tests.unit.agents.fake_gates import FakeGates

US, MS = 1_000, 1_000_000
DAY = 200 * US
OFFSET = 7_000_000_000
"""The leader's clock minus ours."""
NODES = tuple(range(16, 80))


@dataclass
class Gates(FakeGates):
    """That write down when which gate was opened and closed."""

    now: int = 0
    log: list[tuple[int, int, bool]] = field(default_factory=list)

    def open(self, destination: int) -> None:
        super().open(destination)
        self.log.append((self.now, destination, True))

    def close_gate(self, destination: int) -> None:
        super().close_gate(destination)
        self.log.append((self.now, destination, False))

    def opened(self) -> set[int]:
        return {destination for destination, gate in self.gates.items() if gate.credit}


class Bench:
    """A part `Weekly` in an agent whose time is ours to say."""

    def __init__(self, nodes: Iterable[int] = NODES) -> None:
        self.gates = Gates()
        for node in nodes:
            self.gates.at(node)
        self.rules = Rules(self.gates, known=lambda: list(self.gates.gates))
        self.clock = Clock()
        self.clock.sample(0, OFFSET, OFFSET, 0)
        self.nodes = set(nodes)
        self.obeying = True
        self.refused: list[Cause] = []
        self.refuse = self.refused.append
        self.part = Weekly(self, lambda: self.gates.now, 10_000_000_000)  # type: ignore[arg-type]  # what it uses of an agent

    def say(self, week: Week) -> None:
        self.part.handlers[Week](week, self.gates.now)

    def to(self, now: int) -> None:
        """Lets time pass, with the agent awake whenever something is due."""
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
    """One with a start by our clock."""
    fields = {"lease_ns": 100 * MS, "key": FlowKey.DESTINATION, "transport": Transport.SCHEDULE, **changes}
    return Week(number, start + OFFSET, day, night, flows=tuple(flows), days=tuple(days), **fields)  # type: ignore[arg-type]


def turns_of(count: int) -> list[int]:
    return [1 << bit for bit in range(count)]


class TestDays:
    """Which flow is open when."""

    @given(st.integers(1, 64), st.integers(0, 199), st.integers(1, 5))
    @settings(max_examples=30, deadline=None)
    def test_every_day_is_executed_once_and_never_with_two_flows_when_the_schedule_has_one(
        self, count: int, night_us: int, weeks: int
    ) -> None:
        bench, flows = Bench(), NODES[:count]
        for number in range(weeks):
            bench.say(week(number, MS + number * count * DAY, flows, turns_of(count), night=night_us * US))
        for step in range(weeks * count):
            start = MS + step * DAY
            assert bench.open_at(start) & set(flows) == {flows[step % count]}
            assert bench.open_at(start + DAY - night_us * US - 1) & set(flows) == {flows[step % count]}
            if night_us:
                assert not bench.open_at(start + DAY - night_us * US) & set(flows)
        bench.to(MS + weeks * count * DAY)
        assert not bench.gates.opened() & set(flows)
        counters = bench.part.counters
        assert (counters.weeks, counters.days, counters.missed_days) == (weeks, weeks * count, 0)
        opened = [destination for _, destination, up in bench.gates.log if up]
        assert opened == list(flows) * weeks

    @given(st.lists(st.integers(0, 255), min_size=1, max_size=64))
    @settings(max_examples=30, deadline=None)
    def test_any_masks_are_obeyed_day_by_day(self, masks: list[int]) -> None:
        bench = Bench()
        bench.say(week(1, MS, NODES[:8], masks))
        for day, mask in enumerate(masks):
            expected = {node for bit, node in enumerate(NODES[:8]) if mask >> bit & 1}
            assert bench.open_at(MS + day * DAY + DAY // 2) & set(NODES[:8]) == expected
        assert not bench.open_at(MS + len(masks) * DAY) & set(NODES[:8])

    def test_who_is_not_scheduled_is_never_touched(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, NODES[:2], turns_of(2)))
        bench.to(2 * MS)
        assert {destination for _, destination, _ in bench.gates.log} == set(NODES[:2])

    def test_a_day_that_is_over_when_the_agent_wakes_is_missed_not_moved(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, NODES[:3], turns_of(3)))
        bench.to(MS)
        bench.gates.now = MS + 2 * DAY + DAY // 2  # it slept through the second day, and half of the third
        bench.part.advance(bench.gates.now)
        assert bench.gates.opened() & set(NODES[:3]) == {NODES[2]}
        assert (bench.part.counters.days, bench.part.counters.missed_days) == (2, 1)

    def test_times_follow_the_leaders_clock_as_it_is_known_at_each_step(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, NODES[:2], turns_of(2)))
        bench.to(MS)
        bench.clock.reset()
        bench.clock.sample(0, OFFSET + 50 * US, OFFSET + 50 * US, 0)
        bench.part.advance(MS)
        bench.part._plan()
        assert bench.part.next_due_ns() == MS + DAY - 50 * US


class TestWeeks:
    """Flows change hands between weeks, and schedules end."""

    def test_in_a_week_that_follows_flows_not_in_it_are_free_and_new_ones_held(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.say(week(2, MS + 2 * DAY, (17, 18), (1, 2)))
        assert bench.open_at(MS) & {16, 17, 18} == {16, 18}
        assert bench.open_at(MS + 2 * DAY) & {16, 17, 18} == {16, 17}

    def test_classes_change_hands_only_while_every_flow_of_both_weeks_is_shut(self) -> None:
        """64 flows on 8 classes: eight weeks, each with other flows in the same classes; what is open is the day's flow."""
        bench = Bench()
        mapped: list[tuple[dict[int, int], set[int]]] = []
        real = bench.rules.map

        def watching(classes: dict[int, int], by: Rule = Rule.PAUSE) -> None:
            mapped.append((dict(classes), bench.gates.opened()))
            real(classes, by)
            mapped.append((dict(classes), bench.gates.opened()))

        bench.rules.map = watching  # type: ignore[method-assign, assignment]
        for number in range(8):
            active = [1 << bit for bit in range(8 * number, 8 * number + 8)]
            start = MS + number * 8 * DAY
            bench.say(week(number, start, NODES, active))
        for day in range(64):
            assert bench.open_at(MS + day * DAY + DAY // 2) == {NODES[day]}
            assert bench.rules.class_of(NODES[day]) == day % 8
        assert len(mapped) == 16
        assert all(not opened for _, opened in mapped)
        assert all(sorted(classes.values()) == list(range(8)) for classes, _ in mapped)

    def test_a_lease_that_nobody_renews_ends_and_frees_all(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, (16, 17), (1, 2), lease_ns=2 * MS))
        assert not bench.open_at(MS + 2 * DAY) & {16, 17}
        assert bench.open_at(3 * MS) >= {16, 17}
        assert bench.part.week is None
        assert bench.part.next_due_ns() is None

    def test_a_week_without_flows_frees_all_and_takes_back_what_was_announced(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.say(week(2, MS + 2 * DAY, (16, 17), (1, 2)))
        bench.to(MS)
        bench.say(week(3, MS, (), ()))
        bench.say(week(2, MS + 2 * DAY, (16, 17), (1, 2)))  # told twice, and late
        assert bench.open_at(2 * MS) >= {16, 17}
        assert not bench.refused

    def test_a_release_frees_all_and_the_next_week_is_taken_again(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.to(MS)
        bench.rules.release()
        bench.part.released(MS)
        assert bench.open_at(3 * MS) >= {16, 17}
        bench.say(week(2, 4 * MS, (16, 17), (1, 2)))
        assert bench.open_at(4 * MS) & {16, 17} == {16}

    def test_another_leader_may_begin_with_a_lower_number(self) -> None:
        bench = Bench()
        bench.say(week(100, MS, (16, 17), (1, 2)))
        bench.to(MS)
        bench.part.new_leader(MS)
        bench.rules.release()
        bench.say(week(1, 2 * MS, (16, 17), (2, 1)))
        assert bench.open_at(2 * MS) & {16, 17} == {17}


class TestByPfc:
    """Frames open and close; the agent holds the flows from the last night until classes have changed hands."""

    def test_flows_with_a_day_are_free_for_frames_in_the_week_and_shut_in_its_last_night(self) -> None:
        bench = Bench()
        pfc = {"transport": Transport.PFC, "night": 50 * US}
        bench.say(week(1, MS, (16, 17, 18), (1, 2), **pfc))  # type: ignore[arg-type]
        assert bench.open_at(MS) & {16, 17, 18} == {16, 17}
        assert [bench.rules.class_of(node) for node in (16, 17)] == [0, 1]
        assert not bench.open_at(MS + 2 * DAY - 50 * US) & {16, 17, 18}

    def test_a_frame_that_comes_early_opens_nobody_elses_queue(self) -> None:
        bench = Bench()
        pfc = {"transport": Transport.PFC, "night": 50 * US}
        bench.say(week(1, MS, (16, 17), (1, 0), **pfc))  # type: ignore[arg-type]
        bench.say(week(2, MS + 2 * DAY, (18, 19), (1, 2), **pfc))  # type: ignore[arg-type]
        bench.to(MS)
        bench.rules.shut(Rule.PAUSE, range(8))
        bench.to(MS + 2 * DAY - 10 * US)
        bench.rules.free(Rule.PAUSE, [0])  # the new week's first day, 10 us early by our clock
        assert not bench.gates.opened() & {16}
        bench.to(MS + 2 * DAY)
        assert bench.gates.opened() & {16, 18, 19} >= {18}
        assert 19 not in bench.gates.opened()

    def test_a_night_shorter_than_our_clock_is_uncertain_is_refused(self) -> None:
        bench = Bench()
        bench.clock.reset()
        bench.clock.sample(0, OFFSET + 100 * US, OFFSET + 100 * US, 200 * US)
        bench.say(week(1, MS, (16,), (1,), transport=Transport.PFC, night=50 * US))
        assert bench.refused == [Cause.CLOCK]


class TestRefusal:
    """What cannot be executed is counted, and every queue stays as it was."""

    def refused(self, bench: Bench, wrong: Week, cause: Cause) -> None:
        before = (bench.gates.opened(), bench.part.next_due_ns(), len(bench.gates.log))
        bench.say(wrong)
        assert bench.refused == [cause]
        assert (bench.gates.opened(), bench.part.next_due_ns(), len(bench.gates.log)) == before

    def test_unknown_flows(self) -> None:
        self.refused(Bench(), week(1, MS, (16, 999), (1, 2)), Cause.SCHEDULE)

    def test_flows_by_tos_where_there_are_no_queues_for_them(self) -> None:
        self.refused(Bench(), week(1, MS, (10,), (1,), key=FlowKey.TOS), Cause.SCHEDULE)

    def test_days_over_those_of_another_week(self) -> None:
        for start in (MS, MS + DAY, MS - DAY):
            bench = Bench()
            bench.say(week(1, MS, (16, 17), (1, 2)))
            self.refused(bench, week(2, start, (16, 17), (1, 2)), Cause.SCHEDULE)

    def test_days_over_those_of_the_week_that_is_being_executed(self) -> None:
        bench = Bench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.to(MS)
        self.refused(bench, week(2, MS + DAY, (16, 17), (1, 2)), Cause.SCHEDULE)

    def test_a_week_that_is_over_or_far_ahead(self) -> None:
        bench = Bench()
        bench.gates.now = 10 * MS
        self.refused(bench, week(1, MS, (16, 17), (1, 2)), Cause.CLOCK)
        self.refused(Bench(), week(1, 61 * 10**9, (16, 17), (1, 2)), Cause.CLOCK)

    def test_any_week_before_the_leaders_clock_is_known(self) -> None:
        bench = Bench()
        bench.clock.reset()
        self.refused(bench, week(1, MS, (16, 17), (1, 2)), Cause.CLOCK)

    def test_weeks_under_the_override_are_not_taken(self) -> None:
        bench = Bench()
        bench.obeying = False
        bench.say(week(1, MS, (16, 17), (1, 2)))
        assert bench.part.next_due_ns() is None
        assert not bench.refused
