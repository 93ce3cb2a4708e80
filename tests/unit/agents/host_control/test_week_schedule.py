"""Weeks at the agent: each day is executed once, at its time by the leader's clock; no flow is sent under another's class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.host_control.week_queues import FIRST_DSCP_NODE, WeekQueues
from agents.host_control.week_schedule import WeekSchedule
from agents.permission.rules import Rule
from protocol.bodies.host_control import Transport, Week, WeekKey
from protocol.messages import Cause
from tests.unit.agents.host_control.week_bench import DAY, MS, NODES, OFFSET, US, WeekBench, turns_of, week


class TestDays:
    """Which flow is open when."""

    @given(st.integers(1, 64), st.integers(0, 199), st.integers(1, 5))
    @settings(max_examples=30, deadline=None)
    def test_every_day_is_executed_once_and_never_with_two_flows_when_the_schedule_has_one(
        self, count: int, night_us: int, weeks: int
    ) -> None:
        bench, flows = WeekBench(), NODES[:count]
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
        bench = WeekBench()
        bench.say(week(1, MS, NODES[:8], masks))
        for day, mask in enumerate(masks):
            expected = {node for bit, node in enumerate(NODES[:8]) if mask >> bit & 1}
            assert bench.open_at(MS + day * DAY + DAY // 2) & set(NODES[:8]) == expected
        assert not bench.open_at(MS + len(masks) * DAY) & set(NODES[:8])

    def test_who_is_not_scheduled_is_never_touched(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, NODES[:2], turns_of(2)))
        bench.to(2 * MS)
        assert {destination for _, destination, _ in bench.gates.log} == set(NODES[:2])

    def test_a_day_that_is_over_when_the_agent_wakes_is_missed_not_moved(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, NODES[:3], turns_of(3)))
        bench.to(MS)
        bench.gates.now = MS + 2 * DAY + DAY // 2  # it slept through the second day, and half of the third
        bench.part.advance(bench.gates.now)
        assert bench.gates.opened() & set(NODES[:3]) == {NODES[2]}
        assert (bench.part.counters.days, bench.part.counters.missed_days) == (2, 1)

    def test_times_follow_the_leaders_clock_as_it_is_known_at_each_step(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, NODES[:2], turns_of(2)))
        bench.to(MS)
        bench.clock.reset()
        bench.clock.sample(0, OFFSET + 50 * US, OFFSET + 50 * US, 0)
        bench.part.advance(MS)
        bench.part._plan()
        assert bench.part.next_due_ns() == MS + DAY - 50 * US

    @pytest.mark.parametrize(("night", "gap"), [(50 * US, 0), (0, DAY)])
    def test_a_clock_that_is_corrected_before_the_next_week_ends_no_schedule(self, night: int, gap: int) -> None:
        """What was planned is the next week's beginning; by the newer estimate it is a little later."""
        bench = WeekBench()
        bench.say(week(1, MS, (16, 17), (1, 2), night=night))
        bench.say(week(2, MS + 2 * DAY + gap, (16, 17), (1, 2), night=night))
        bench.to(MS + 2 * DAY - night)
        planned = bench.part.next_due_ns()
        assert planned is not None
        assert not bench.gates.opened() & {16, 17}
        bench.clock.reset()
        bench.clock.sample(0, OFFSET - 5 * US, OFFSET - 5 * US, 0)
        before = len(bench.gates.log)
        bench.to(planned)
        assert bench.gates.log[before:] == []
        assert bench.part.next_due_ns() == planned + 5 * US
        assert bench.open_at(planned + 5 * US) & {16, 17} == {16}
        assert bench.part.counters.weeks == 2


class TestWeeks:
    """Classes change owners between weeks, and schedules end."""

    def test_in_a_week_that_follows_flows_not_in_it_are_free_and_new_ones_held(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.say(week(2, MS + 2 * DAY, (17, 18), (1, 2)))
        assert bench.open_at(MS) & {16, 17, 18} == {16, 18}
        assert bench.open_at(MS + 2 * DAY) & {16, 17, 18} == {16, 17}

    def test_classes_change_hands_only_while_every_flow_of_both_weeks_is_shut(self) -> None:
        """64 flows on 8 classes: eight weeks, each with other flows in the same classes; what is open is the day's flow."""
        bench = WeekBench()
        mapped: list[tuple[dict[int, int], set[int]]] = []
        real = bench.rules.map_classes

        def watching(classes: dict[int, int], by: Rule = Rule.PAUSE) -> None:
            mapped.append((dict(classes), bench.gates.opened()))
            real(classes, by)
            mapped.append((dict(classes), bench.gates.opened()))

        bench.rules.map_classes = watching  # type: ignore[method-assign, assignment]
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
        bench = WeekBench()
        bench.say(week(1, MS, (16, 17), (1, 2), lease_ns=2 * MS))
        assert not bench.open_at(MS + 2 * DAY) & {16, 17}
        assert bench.open_at(3 * MS) >= {16, 17}
        assert bench.part.week is None
        assert bench.part.next_due_ns() is None

    def test_a_week_without_flows_frees_all_and_takes_back_what_was_announced(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.say(week(2, MS + 2 * DAY, (16, 17), (1, 2)))
        bench.to(MS)
        bench.say(week(3, MS, (), ()))
        bench.say(week(2, MS + 2 * DAY, (16, 17), (1, 2)))  # told twice, and late
        assert bench.open_at(2 * MS) >= {16, 17}
        assert not bench.refused

    def test_a_release_frees_all_and_the_next_week_is_taken_again(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.to(MS)
        bench.rules.release()
        bench.part.released(MS)
        assert bench.open_at(3 * MS) >= {16, 17}
        bench.say(week(2, 4 * MS, (16, 17), (1, 2)))
        assert bench.open_at(4 * MS) & {16, 17} == {16}

    def test_a_week_whose_queues_the_kernel_refuses_is_not_taken_and_the_present_one_goes_on(self) -> None:
        bench = WeekBench()

        class Refusing:
            refuses = False

            def __call__(self, wanted: Week, now_ns: int) -> tuple[int, ...]:
                if self.refuses:
                    raise OSError("no such qdisc")
                return wanted.flows

            def keep(self, weeks: object) -> None:
                """Has no DSCPs."""

        queues = Refusing()
        bench.part._queues = queues
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.to(MS)
        queues.refuses = True
        with pytest.raises(OSError, match="no such qdisc"):
            bench.say(week(2, MS + 2 * DAY, (16, 17), (1, 2)))
        assert bench.open_at(MS + DAY) & {16, 17} == {17}
        queues.refuses = False
        bench.say(week(2, MS + 2 * DAY, (16, 17), (1, 2)))
        assert bench.open_at(MS + 2 * DAY) & {16, 17} == {16}

    def test_another_leader_may_begin_with_a_lower_number(self) -> None:
        bench = WeekBench()
        bench.say(week(100, MS, (16, 17), (1, 2)))
        bench.to(MS)
        bench.part.new_leader(MS)
        bench.rules.release()
        bench.say(week(1, 2 * MS, (16, 17), (2, 1)))
        assert bench.open_at(2 * MS) & {16, 17} == {17}

    @pytest.mark.parametrize("end", ["lease", "release"])
    def test_packets_of_its_dscps_wait_at_their_destinations_gates_again_once_it_is_over(self, end: str) -> None:
        bench, mapped = by_tos()
        bench.say(week(1, MS, (46,), (1, 1), lease_ns=2 * MS, key=WeekKey.TOS))
        bench.to(2 * MS)
        assert mapped[-1] == {46: FIRST_DSCP_NODE + 46}
        if end == "lease":
            bench.say(week(2, 4 * MS, (46,), (1, 1), lease_ns=2 * MS, key=WeekKey.TOS))
            bench.to(5 * MS)
            assert mapped[-1] == {46: FIRST_DSCP_NODE + 46}, "the following week has them"
            bench.to(7 * MS)
        else:
            bench.part.released(2 * MS)
        assert mapped[-1] == {}

    def test_the_announcement_of_other_dscps_takes_none_from_the_week_that_is_executed(self) -> None:
        bench, mapped = by_tos()
        bench.say(week(1, MS, (46, 10), (1, 2), key=WeekKey.TOS))
        bench.to(MS)
        bench.say(week(2, 2 * MS, (12,), (1,), key=WeekKey.TOS))
        assert mapped[-1].keys() == {46, 10, 12}
        bench.to(2 * MS)
        bench.say(week(3, 3 * MS, (), (), key=WeekKey.TOS))
        assert mapped[-1].keys() == {12}, "week 2 goes on until the end of the schedule"
        bench.to(3 * MS)
        assert mapped[-1] == {}


def by_tos() -> tuple[WeekBench, list[dict[int, int]]]:
    """A bench with queues by DSCP, and all maps from DSCPs to queues that it has made."""
    bench, mapped = WeekBench(), [{0: 0}]
    flows = SimpleNamespace(set_scheduled_dscps=mapped.append)
    host: Any = SimpleNamespace(flows=flows, queues=SimpleNamespace(ensure_destination=lambda node: False))
    keeper: Any = None
    bench.part = WeekSchedule(bench, lambda: bench.gates.now, 10**10, WeekQueues(host, keeper, bench.rules))  # type: ignore[arg-type]
    return bench, mapped


class TestByPfc:
    """Pause frames open and close; the agent blocks the flows from the last night until classes have changed owners."""

    def test_flows_with_a_day_are_free_for_frames_in_the_week_and_shut_in_its_last_night(self) -> None:
        bench = WeekBench()
        pfc = {"transport": Transport.PFC, "night": 50 * US}
        bench.say(week(1, MS, (16, 17, 18), (1, 2), **pfc))  # type: ignore[arg-type]
        assert bench.open_at(MS) & {16, 17, 18} == {16, 17}
        assert [bench.rules.class_of(node) for node in (16, 17)] == [0, 1]
        assert not bench.open_at(MS + 2 * DAY - 50 * US) & {16, 17, 18}

    def test_a_frame_that_comes_early_opens_nobody_elses_queue(self) -> None:
        bench = WeekBench()
        pfc = {"transport": Transport.PFC, "night": 50 * US}
        bench.say(week(1, MS, (16, 17), (1, 0), **pfc))  # type: ignore[arg-type]
        bench.say(week(2, MS + 2 * DAY, (18, 19), (1, 2), **pfc))  # type: ignore[arg-type]
        bench.to(MS)
        bench.rules.block(Rule.PAUSE, range(8))
        bench.to(MS + 2 * DAY - 10 * US)
        bench.rules.unblock(Rule.PAUSE, [0])  # the new week's first day, 10 us early by our clock
        assert not bench.gates.opened() & {16}
        bench.to(MS + 2 * DAY)
        assert bench.gates.opened() & {16, 18, 19} >= {18}
        assert 19 not in bench.gates.opened()

    def test_a_night_shorter_than_our_clock_is_uncertain_is_refused(self) -> None:
        bench = WeekBench()
        bench.clock.reset()
        bench.clock.sample(0, OFFSET + 100 * US, OFFSET + 100 * US, 200 * US)
        bench.say(week(1, MS, (16,), (1,), transport=Transport.PFC, night=50 * US))
        assert bench.refused == [Cause.CLOCK]


class TestRefusal:
    """The agent counts a week that it cannot execute, and every queue stays as it was."""

    def refused(self, bench: WeekBench, wrong: Week, cause: Cause) -> None:
        before = (bench.gates.opened(), bench.part.next_due_ns(), len(bench.gates.log))
        bench.say(wrong)
        assert bench.refused == [cause]
        assert (bench.gates.opened(), bench.part.next_due_ns(), len(bench.gates.log)) == before

    def test_a_week_with_a_flow_that_the_host_does_not_know_is_refused(self) -> None:
        self.refused(WeekBench(), week(1, MS, (16, 999), (1, 2)), Cause.SCHEDULE)

    def test_flows_by_tos_where_there_are_no_queues_for_them(self) -> None:
        self.refused(WeekBench(), week(1, MS, (10,), (1,), key=WeekKey.TOS), Cause.SCHEDULE)

    def test_days_over_those_of_another_week(self) -> None:
        for start in (MS, MS + DAY, MS - DAY):
            bench = WeekBench()
            bench.say(week(1, MS, (16, 17), (1, 2)))
            self.refused(bench, week(2, start, (16, 17), (1, 2)), Cause.SCHEDULE)

    def test_days_over_those_of_the_week_that_is_being_executed(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, (16, 17), (1, 2)))
        bench.to(MS)
        self.refused(bench, week(2, MS + DAY, (16, 17), (1, 2)), Cause.SCHEDULE)

    def test_a_week_that_is_over_or_far_ahead(self) -> None:
        bench = WeekBench()
        bench.gates.now = 10 * MS
        self.refused(bench, week(1, MS, (16, 17), (1, 2)), Cause.CLOCK)
        self.refused(WeekBench(), week(1, 61 * 10**9, (16, 17), (1, 2)), Cause.CLOCK)

    def test_any_week_before_the_leaders_clock_is_known(self) -> None:
        bench = WeekBench()
        bench.clock.reset()
        self.refused(bench, week(1, MS, (16, 17), (1, 2)), Cause.CLOCK)

    def test_weeks_under_the_override_are_not_taken(self) -> None:
        bench = WeekBench()
        bench.enforcing = False
        bench.say(week(1, MS, (16, 17), (1, 2)))
        assert bench.part.next_due_ns() is None
        assert not bench.refused
