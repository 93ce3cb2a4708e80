"""Dequeue conditions: what each lets through, and that no gate is open while a rule blocks it."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host_control.queue_conditions import QueueConditions
from agents.kernel.netlink import NetlinkError
from agents.permission.conditions import BLOCKED, Condition, ConditionSet
from agents.permission.rules import Rule
from protocol.bodies.host_control import FOREVER_NS, Conditions, QueueCondition
from protocol.messages import Cause
from tests.unit.agents.fake_gates import OPEN
from tests.unit.agents.permission.rules_bench import LINK, MS, RulesAndPermission, RulesBench


class TestConditionSets:
    """All conditions of one source."""

    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5)), min_size=1), st.integers(0, 60))
    def test_a_queue_sends_at_the_best_rate_of_the_conditions_that_are_met(
        self, windows: list[tuple[int, int, int]], now: int
    ) -> None:
        conditions = ConditionSet()
        conditions.replace(
            Condition(16, number, begin, begin + length, rate_bps=rate) for number, (begin, length, rate) in enumerate(windows)
        )
        met = [rate for begin, length, rate in windows if begin <= now < begin + length]
        expected = BLOCKED if not met else None if 0 in met else max(met)
        assert conditions.limits(now) == {16: expected}

    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5))))
    def test_between_two_changes_nothing_changes(self, windows: list[tuple[int, int, int]]) -> None:
        conditions = ConditionSet()
        conditions.replace(
            Condition(16, number, begin, begin + length, rate_bps=rate) for number, (begin, length, rate) in enumerate(windows)
        )
        now = 0
        while (change := conditions.next_change_ns(now)) is not None:
            assert all(conditions.limits(at) == conditions.limits(now) for at in range(now, change))
            now = change
        assert conditions.limits(now) == conditions.limits(10**9)


class TestRules:
    """A gate that a rule blocks stays closed until that rule unblocks it; then the gatekeeper decides."""

    def test_a_rule_shuts_a_free_gate_and_opens_it_again(self) -> None:
        bench = RulesBench()
        bench.rules.block(Rule.PAUSE, [16])
        assert bench.credit(16) == 0
        wakeups = bench.gates.wakeups
        bench.rules.unblock(Rule.PAUSE, [16])
        assert bench.credit(16) == OPEN
        assert bench.gates.wakeups == wakeups + 1

    def test_what_two_rules_shut_opens_when_both_have_freed_it(self) -> None:
        bench = RulesBench()
        bench.rules.block(Rule.PAUSE, [16])
        bench.rules.block(Rule.WEEK, [16])
        bench.rules.unblock(Rule.PAUSE, [16])
        assert bench.credit(16) == 0
        bench.rules.unblock(Rule.WEEK, [16])
        assert bench.credit(16) == OPEN

    def test_freed_without_permission_it_stays_shut(self) -> None:
        bench = RulesBench(16)
        bench.rules.block(Rule.QUEUE, [16])
        bench.rules.unblock(Rule.QUEUE, [16])
        assert bench.credit(16) == 0

    def test_a_slot_paused_in_its_midst_has_the_rest_of_its_bytes_when_it_is_resumed(self) -> None:
        bench = RulesBench(16)
        bench.gates.at(16).queue = 100_000
        bench.grant(16, 1, 0, 10 * MS, 50_000)
        gate = bench.gates.at(16)
        gate.passed, gate.credit, gate.queue = 20_000, 30_000, 80_000  # so much has left when the pause comes
        bench.rules.block(Rule.PAUSE, [16])
        assert gate.credit == 0
        bench.rules.unblock(Rule.PAUSE, [16])
        assert gate.passed == 50_000

    def test_a_slot_that_begins_while_its_queue_is_paused_opens_when_it_is_resumed_within_its_lease(self) -> None:
        bench = RulesBench(16)
        bench.rules.block(Rule.PAUSE, [16])
        bench.gates.at(16).queue = 100_000
        bench.grant(16, 1, 0, 10 * MS, 24_000)
        assert bench.gates.at(16).passed == 0
        bench.now = 5 * MS
        bench.rules.unblock(Rule.PAUSE, [16])
        assert bench.gates.at(16).passed == 24_000

    def test_a_class_stands_for_the_destinations_mapped_to_it_and_class_0_for_the_rest(self) -> None:
        bench = RulesBench()
        bench.rules.map_classes({17: 3})
        bench.rules.block(Rule.PAUSE, [3])
        assert (bench.credit(16), bench.credit(17)) == (OPEN, 0)
        bench.rules.block(Rule.PAUSE, [0])
        assert (bench.credit(16), bench.credit(17)) == (0, 0)
        bench.rules.map_classes({16: 3, 17: 1})
        assert (bench.credit(16), bench.credit(17)) == (0, OPEN)

    def test_a_weeks_classes_go_before_others_and_what_was_comes_back(self) -> None:
        bench = RulesBench()
        bench.rules.map_classes({16: 1})
        bench.rules.map_classes({16: 5}, Rule.WEEK)
        assert bench.rules.class_of(16) == 5
        bench.rules.map_classes({}, Rule.WEEK)
        assert bench.rules.class_of(16) == 1

    def test_a_limit_bounds_open_gates_and_leased_rates_and_credits_take_their_time(self) -> None:
        bench = RulesBench(16)
        bench.rules.limit(Rule.QUEUE, 17, 5_000_000)
        assert bench.credit(17) == 5_000_000
        bench.rules.limit(Rule.QUEUE, 16, 8_000_000)
        bench.gates.at(16).queue = 100_000
        bench.grant(16, 1, 0, 10 * MS, 3_000)
        assert bench.keeper.table.open[16].end_ns == 3 * MS
        assert bench.keeper.table.open[16].must_close
        bench.grant(16, 2, 0, 100 * MS, 0, 20_000_000)
        assert bench.credit(16) == 8_000_000

    def test_a_gate_made_anew_is_shut_again(self) -> None:
        bench = RulesBench()
        bench.rules.block(Rule.WEEK, [16])
        bench.gates.open_gate(16)
        bench.rules.reapply(16)
        assert bench.credit(16) == 0
        bench.gates.open_gate(16)
        bench.rules.reapply()
        assert bench.credit(16) == 0

    def test_release_opens_all_at_once(self) -> None:
        bench = RulesBench(16)
        bench.rules.block(Rule.WEEK, [16, 17])
        bench.keeper.release()
        bench.rules.release()
        assert (bench.credit(16), bench.credit(17)) == (OPEN, OPEN)
        assert not bench.rules.restricted


TestRulesAndPermission = RulesAndPermission.TestCase


class TestTheMessage:
    """CONDITIONS at the agent."""

    def made(self) -> tuple[RulesBench, QueueConditions]:
        bench = RulesBench()
        return bench, QueueConditions(bench, LINK)  # type: ignore[arg-type]  # what it uses of an agent

    def say(self, part: QueueConditions, version: int, *entries: QueueCondition, now: int = 0) -> None:
        part.handlers[Conditions](Conditions(version, 0, 1, entries), now)

    def test_removing_the_condition_is_pausing_and_a_queue_not_mentioned_is_free(self) -> None:
        bench, part = self.made()
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == 0
        self.say(part, 2)
        assert bench.credit(16) == OPEN

    def test_an_older_message_that_comes_late_changes_nothing_until_another_leader_counts_anew(self) -> None:
        bench, part = self.made()
        self.say(part, 7)
        self.say(part, 6, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == OPEN
        part.new_leader(0)
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == 0

    def test_a_window_opens_and_closes_at_its_times(self) -> None:
        bench, part = self.made()
        self.say(part, 1, QueueCondition(16, 1, 5 * MS, 9 * MS))
        seen = []
        for now in range(12):
            due = part.next_due_ns()
            if due is not None and due <= now * MS:
                part.advance(now * MS)
            seen.append(bench.credit(16) == OPEN)
        assert seen == [5 <= now < 9 for now in range(12)]
        assert part.next_due_ns() is None

    def test_a_rate_is_a_rate_and_a_class_is_all_of_it(self) -> None:
        bench, part = self.made()
        self.say(part, 1, QueueCondition(0, 1, rate_bps=7_000_000))
        assert (bench.credit(16), bench.credit(17)) == (7_000_000, 7_000_000)

    def test_a_state_with_anything_wrong_is_refused_once_and_changes_no_queue(self) -> None:
        bench, part = self.made()
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        for wrong in (QueueCondition(17, 1, rate_bps=LINK + 1), QueueCondition(99, 1, 0, 0)):
            self.say(part, wrong.queue, QueueCondition(17, 2, 0, 0), wrong)
            self.say(part, wrong.queue, QueueCondition(17, 2, 0, 0), wrong)
        assert bench.refused == [Cause.CONDITION] * 2
        assert (bench.credit(16), bench.credit(17)) == (0, OPEN)

    def test_under_the_override_nothing_is_taken_and_after_a_release_all_is_to_be_said_again(self) -> None:
        bench, part = self.made()
        bench.enforcing = False
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == OPEN
        bench.enforcing = True
        self.say(part, 1, QueueCondition(16, 1, 0, FOREVER_NS, 5_000_000))
        bench.rules.release()
        part.released(1)
        assert bench.credit(16) == OPEN
        assert part.next_due_ns() is None
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == 0


    def test_a_queue_that_was_blocked_while_the_kernel_refused_is_free_once_no_message_names_it(self) -> None:
        bench, part = self.made()
        close = bench.gates.close_gate

        def refused(destination: int) -> None:
            close(destination)
            raise NetlinkError(errno.ENOENT, "another gate was gone")

        bench.gates.close_gate = refused  # type: ignore[method-assign]
        with pytest.raises(NetlinkError):
            self.say(part, 1, QueueCondition(16, 0, 0, 0), QueueCondition(17, 0, 0, 0))
        bench.gates.close_gate = close  # type: ignore[method-assign]
        self.say(part, 2, QueueCondition(17, 0, 0, 0))
        assert (bench.credit(16), bench.credit(17)) == (OPEN, 0)


def test_times_wait_for_the_leaders_clock_and_what_names_none_does_not() -> None:
    """Our clock shows 1,000 s when the leader's shows 10 ms: without it a queue that is to be open would be blocked."""
    bench, ours = RulesBench(), 1_000_000 * MS
    bench.clock.reset()
    part = QueueConditions(bench, LINK)  # type: ignore[arg-type]  # what it uses of an agent
    say, window = part.handlers[Conditions], QueueCondition(16, 1, 5 * MS, 60_000 * MS)
    say(Conditions(1, 0, 1, (QueueCondition(17, 0, 0, 0),)), ours)
    assert (bench.credit(16), bench.credit(17)) == (OPEN, 0) and not part.has_conditions()
    say(Conditions(2, 0, 1, (window, QueueCondition(17, 0, 0, 0))), ours)
    part.advance(ours)
    assert bench.credit(16) == OPEN, "it is not blocked by a clock that is not the leader's"
    bench.clock.sample(ours, 10 * MS, 10 * MS, ours)
    part.advance(ours)
    assert (bench.credit(16), bench.credit(17)) == (OPEN, 0) and part.has_conditions()
    assert part.next_due_ns() == ours + 59_990 * MS


def test_times_are_the_leaders_clock() -> None:
    bench = RulesBench()
    bench.clock = SimpleNamespace(local=lambda t: t - 100 * MS, synchronised=True)  # type: ignore[assignment]  # the leader is ahead of us
    part = QueueConditions(bench, LINK)  # type: ignore[arg-type]  # what it uses of an agent
    part.handlers[Conditions](Conditions(1, 0, 1, (QueueCondition(16, 1, 103 * MS, 105 * MS),)), 0)
    assert part.next_due_ns() == 3 * MS
