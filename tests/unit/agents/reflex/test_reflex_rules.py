"""Changes that the reflex made before the rules: the rules do not repeat them, and undo wrong ones in the same turn."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from agents.permission.conditions import Step
from agents.permission.rules import Rule
from protocol.bodies.host_control import Transport
from protocol.pfc import CLASSES
from tests.unit.agents.host_control.week_bench import NODES, WeekBench, turns_of, week
from tests.unit.agents.permission.rules_bench import MS, RulesAndPermission, RulesBench

PRIORITIES = st.sampled_from([0, 1, 7])


def closable(bench: RulesBench, priority: int) -> list[int]:
    return [node for node in bench.rules.destinations_of(priority) if bench.rules.unblocked_by_others(node, Rule.PAUSE)]


def may_open(bench: RulesBench, node: int, by: Rule) -> bool:
    """As `Reflex._may_open`."""
    keeper = bench.keeper
    return bench.rules.sole_rule(node, by) and not (keeper.enforcing and node in keeper.regulated)


def wide(bench: RulesBench, priority: int) -> list[int]:
    """The destinations that the reflex opens when the class is resumed, as `Reflex._prepare_classes`."""
    return [node for node in closable(bench, priority) if may_open(bench, node, Rule.PAUSE)]


class WithReflex(RulesAndPermission):
    """The same, but the reflex handles pauses and conditions first, and anything may happen before the rules handle them."""

    def did(self, shut: list[int], opened: list[int]) -> None:
        for node in shut:
            self.bench.gates.close_gate(node)
        for node in opened:
            self.bench.gates.open_gate(node)
        self.bench.rules.reflex_applied(shut, opened, 1)

    def meanwhile(self, what: int) -> None:
        if what == 1:
            self.grants(20_000, 2)
        elif what == 2:
            self.passes_time(3)
        elif what == 3:
            self.shuts(Rule.QUEUE, 16)
            self.shuts(Rule.QUEUE, 17)
        elif what == 4:
            self.frees(Rule.QUEUE, 16)
            self.frees(Rule.QUEUE, 17)
        elif what == 5:
            self.regulates((16, 17))
        elif what == 6:
            self.regulates(())

    @rule(priority=PRIORITIES, what=st.integers(0, 6))
    def pauses(self, priority: int, what: int) -> None:
        if (Rule.PAUSE, priority) not in self.shut:
            self.did(closable(self.bench, priority), [])
            self.meanwhile(what)
            self.shuts(Rule.PAUSE, priority)
            self.bench.rules.reconcile()

    @rule(wanted=st.sets(st.sampled_from([16, 17])), what=st.integers(0, 6))
    def says_conditions(self, wanted: set[int], what: int) -> None:
        """A CONDITIONS message with destinations only, as for `LeaderConditions`."""
        rules = self.bench.rules
        held = {queue for by, queue in self.shut if by is Rule.QUEUE}
        if any(queue < CLASSES for queue in held):
            return
        assert held == {node for node in (16, 17) if rules.blocked_by(node, Rule.QUEUE)}
        shut = [node for node in sorted(wanted - held) if rules.unblocked_by_others(node, Rule.QUEUE)]
        self.did(shut, [node for node in sorted(held - wanted) if may_open(self.bench, node, Rule.QUEUE)])
        self.meanwhile(what)
        for node in sorted(wanted):
            self.shuts(Rule.QUEUE, node)
        for node in {16, 17} - wanted:
            self.frees(Rule.QUEUE, node)
        rules.reconcile()

    @rule(which=st.integers(0, 2), what=st.integers(0, 6))
    def resumes(self, which: int, what: int) -> None:
        paused = sorted(queue for by, queue in self.shut if by is Rule.PAUSE and queue < CLASSES)
        if paused:
            priority = paused[which % len(paused)]
            self.did([], wide(self.bench, priority))
            self.meanwhile(what)
            self.frees(Rule.PAUSE, priority)
            self.bench.rules.reconcile()

    @rule(priority=PRIORITIES, what=st.integers(0, 6))
    def pauses_for_an_instant(self, priority: int, what: int) -> None:
        """Both frames arrived in one wait: for the rules nothing has changed."""
        if (Rule.PAUSE, priority) not in self.shut:
            self.did(closable(self.bench, priority), wide(self.bench, priority))
            self.meanwhile(what)
            self.bench.rules.reconcile()

    @rule(priority=PRIORITIES, paused=st.booleans())
    def is_refused_by_the_kernel(self, priority: int, paused: bool) -> None:
        by = (Rule.PAUSE, priority)
        if paused is (by in self.shut):
            return
        self.bench.rules.reflex_applied(closable(self.bench, priority), wide(self.bench, priority), 1, trusted=False)
        (self.shuts if paused else self.frees)(*by)
        self.bench.rules.reconcile()


TestWithReflex = WithReflex.TestCase
TestWithReflex.settings = settings(max_examples=200, deadline=None)


class TestOnce:
    """The rules repeat no change of the reflex."""

    def test_what_the_reflex_shut_and_opened_is_left_alone(self) -> None:
        bench = RulesBench()
        bench.rules.reflex_applied([16, 17], [], 5)
        bench.gates.gates[16].credit = bench.gates.gates[17].credit = 77  # would be 0 if it were shut again
        bench.rules.block(Rule.PAUSE, [0])
        assert bench.rules.step_done_ns == 5
        bench.rules.reconcile()
        assert (bench.credit(16), bench.rules.step_done_ns) == (77, 0)
        wakeups = bench.gates.wakeups
        bench.rules.reflex_applied([], [16, 17], 6)
        bench.rules.unblock(Rule.PAUSE, [0])
        bench.rules.reconcile()
        assert (bench.credit(16), bench.gates.wakeups) == (77, wakeups)

    def test_a_limit_that_came_in_between_holds(self) -> None:
        bench = RulesBench()
        bench.rules.block(Rule.PAUSE, [0])
        bench.rules.reflex_applied([], [16, 17], 1)
        bench.rules.limit(Rule.QUEUE, 16, 5_000_000)
        bench.rules.unblock(Rule.PAUSE, [0])
        bench.rules.reconcile()
        assert bench.credit(16) == 5_000_000

    def test_what_a_rule_shut_in_between_is_shut_when_the_turn_is_over(self) -> None:
        bench = RulesBench()
        bench.rules.block(Rule.PAUSE, [0])
        bench.gates.open_gate(17)
        bench.rules.reflex_applied([], [17], 0)
        bench.rules.block(Rule.QUEUE, [17])  # it is shut, as far as rules know
        bench.rules.unblock(Rule.PAUSE, [0])
        bench.rules.reconcile()
        assert bench.credit(17) == 0

    def test_a_gate_made_anew_is_shut_whatever_was_done_to_the_one_before(self) -> None:
        bench = RulesBench()
        bench.rules.block(Rule.QUEUE, [16])
        bench.rules.reflex_applied([16], [], 0)
        bench.gates.open_gate(16)  # made anew
        bench.rules.reapply()
        bench.rules.reconcile()
        assert bench.credit(16) == 0

    def test_what_a_permission_holds_is_opened_by_nobody_but_the_gatekeeper(self) -> None:
        bench = RulesBench(16)
        bench.rules.block(Rule.PAUSE, [0])
        assert wide(bench, 0) == [17]
        bench.grant(16, 1, 0, 9 * MS, 30_000)
        bench.rules.unblock(Rule.PAUSE, [0])
        assert bench.credit(16) == 30_000


class TestDays:
    """The steps that the reflex gets are the changes that the week makes at those times."""

    def test_each_day_and_each_night_is_told_beforehand_and_nothing_else_is(self) -> None:
        bench, day, night = WeekBench(), 200_000, 50_000
        flows = set(NODES[:4])
        bench.say(week(1, MS, NODES[:3], turns_of(3), day=day, night=night, lease_ns=4 * MS))
        bench.say(week(2, MS + 3 * day, NODES[1:4], turns_of(3), day=day, night=night, lease_ns=4 * MS))
        made: list[Step] = []
        announced: Sequence[Step] = ()
        while (due := bench.part.next_due_ns()) is not None and due < 4 * MS:
            announced, steps = announced[1:], bench.part.next_steps()
            before = frozenset(bench.gates.opened() & flows)
            bench.to(due)
            after = frozenset(bench.gates.opened() & flows)
            if steps:
                freed = frozenset(NODES[:1]) if due == MS + 3 * day else frozenset()  # it is of no week any more
                assert steps[0] == Step(due, before - after, after - before - freed)
                assert not announced or announced[0] == steps[0]
                announced = steps
                made.append(steps[0])
            else:
                assert after <= before  # flows of a coming week are shut
        expected = []
        for at, flow in enumerate([*NODES[:3], *NODES[1:4]]):
            start, its = MS + at * day, frozenset({flow})
            expected += [Step(start, frozenset(), its), Step(start + day - night, its, frozenset())]
        assert made == expected

    def test_without_nights_a_day_ends_as_the_next_begins(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, NODES[:2], turns_of(2)))
        bench.to(MS)
        assert bench.part.next_steps() == (Step(MS + 200_000, frozenset(NODES[:1]), frozenset(NODES[1:2])),)

    def test_a_week_by_pfc_has_one_long_day_and_one_night_after_which_its_part_decides(self) -> None:
        bench, length = WeekBench(), 4 * 200_000
        for number in (1, 2):
            start = MS + (number - 1) * length
            bench.say(week(number, start, NODES[:4], turns_of(4), transport=Transport.PFC, night=20_000))
        bench.to(MS - 1)
        assert bench.part.next_steps() == (Step(MS, frozenset(), frozenset(NODES[:4])),)
        bench.to(MS)
        assert bench.part.next_steps() == (Step(MS + length - 20_000, frozenset(NODES[:4]), frozenset()),)

    def test_a_week_that_begins_while_a_class_is_paused_is_left_to_the_rules(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, NODES[:2], turns_of(2)))
        bench.to(MS - 1)
        assert bench.part.next_steps() == (Step(MS, frozenset(), frozenset(NODES[:1])),)
        bench.rules.block(Rule.PAUSE, [3])
        assert bench.part.next_steps() == ()

    def test_a_steps_lateness_is_when_the_reflex_took_it_not_when_python_heard(self) -> None:
        bench = WeekBench()
        bench.say(week(1, MS, NODES[:1], [1, 1]))
        bench.to(MS - 1)
        bench.rules.reflex_applied([], [NODES[0]], MS + 7)
        bench.gates.now = MS + 90_000
        bench.part.advance(bench.gates.now)
        assert bench.part.counters.lateness_ns == [7]
