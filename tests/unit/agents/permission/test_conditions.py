"""Dequeue conditions: what each lets through, and that no gate is open against a rule, whoever wants it open."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agents.host_control.queue_conditions import QueueConditions
from agents.loop.clock import Clock
from agents.permission.conditions import SHUT, Condition, ConditionSet
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rule, Rules
from protocol.bodies.host_control import FOREVER_NS, Conditions, QueueCondition
from protocol.messages import Cause, Directive, Grant
from tests.unit.agents.fake_gates import OPEN, FakeGates

MS = 1_000_000
LINK = 100_000_000


class Bench:
    """A gatekeeper above rules above fake gates, as in an agent, and what a part sees of it."""

    def __init__(self, *regulated: int) -> None:
        self.now = 0
        self.gates = FakeGates({16: FakeGates().at(16), 17: FakeGates().at(17)})
        self.rules = Rules(self.gates, known=lambda: list(self.gates.gates))
        self.keeper = Gatekeeper(
            self.rules,
            lambda _: self.gates.kick(),
            to_local=lambda t: t,
            to_coordinator=lambda t: t,
            clock=lambda: self.now,
            link_bps=LINK,
        )
        self.rules.on_freed = self.keeper.resume
        self.keeper.obey(0)
        self.keeper.regulate(frozenset(regulated), 0)
        self.clock = Clock()
        self.clock.sample(0, 0, 0, 0)
        self.nodes = {16, 17}
        self.obeying = True
        self.refused: list[Cause] = []
        self.refuse = self.refused.append

    def grant(self, destination: int, slot: int, start: int, end: int, size: int, rate: int = 0) -> None:
        self.keeper.directive(Directive((Grant(destination, slot, start, end, size, rate),)), self.now)

    def credit(self, destination: int) -> int:
        return self.gates.at(destination).credit


class TestConditionSets:
    """The full state of one authority's conditions."""

    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5)), min_size=1), st.integers(0, 60))
    def test_a_queue_sends_at_the_best_rate_of_the_conditions_that_are_met(
        self, windows: list[tuple[int, int, int]], now: int
    ) -> None:
        conditions = ConditionSet()
        conditions.replace(
            Condition(16, number, begin, begin + length, rate_bps=rate) for number, (begin, length, rate) in enumerate(windows)
        )
        met = [rate for begin, length, rate in windows if begin <= now < begin + length]
        expected = SHUT if not met else None if 0 in met else max(met)
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
    """What a rule shuts stays shut until that rule frees it, and then is what the gatekeeper wants it to be."""

    def test_a_rule_shuts_a_free_gate_and_opens_it_again(self) -> None:
        bench = Bench()
        bench.rules.shut(Rule.PAUSE, [16])
        assert bench.credit(16) == 0
        kicks = bench.gates.kicks
        bench.rules.free(Rule.PAUSE, [16])
        assert bench.credit(16) == OPEN
        assert bench.gates.kicks == kicks + 1

    def test_what_two_rules_shut_opens_when_both_have_freed_it(self) -> None:
        bench = Bench()
        bench.rules.shut(Rule.PAUSE, [16])
        bench.rules.shut(Rule.WEEK, [16])
        bench.rules.free(Rule.PAUSE, [16])
        assert bench.credit(16) == 0
        bench.rules.free(Rule.WEEK, [16])
        assert bench.credit(16) == OPEN

    def test_freed_without_permission_it_stays_shut(self) -> None:
        bench = Bench(16)
        bench.rules.shut(Rule.QUEUE, [16])
        bench.rules.free(Rule.QUEUE, [16])
        assert bench.credit(16) == 0

    def test_a_slot_paused_in_its_midst_has_the_rest_of_its_bytes_when_it_is_resumed(self) -> None:
        bench = Bench(16)
        bench.gates.at(16).queue = 100_000
        bench.grant(16, 1, 0, 10 * MS, 50_000)
        gate = bench.gates.at(16)
        gate.passed, gate.credit, gate.queue = 20_000, 30_000, 80_000  # so much has left when the pause comes
        bench.rules.shut(Rule.PAUSE, [16])
        assert gate.credit == 0
        bench.rules.free(Rule.PAUSE, [16])
        assert gate.passed == 50_000

    def test_a_slot_that_begins_while_its_queue_is_paused_opens_when_it_is_resumed_within_its_lease(self) -> None:
        bench = Bench(16)
        bench.rules.shut(Rule.PAUSE, [16])
        bench.gates.at(16).queue = 100_000
        bench.grant(16, 1, 0, 10 * MS, 24_000)
        assert bench.gates.at(16).passed == 0
        bench.now = 5 * MS
        bench.rules.free(Rule.PAUSE, [16])
        assert bench.gates.at(16).passed == 24_000

    def test_a_class_stands_for_the_destinations_mapped_to_it_and_class_0_for_the_rest(self) -> None:
        bench = Bench()
        bench.rules.map({17: 3})
        bench.rules.shut(Rule.PAUSE, [3])
        assert (bench.credit(16), bench.credit(17)) == (OPEN, 0)
        bench.rules.shut(Rule.PAUSE, [0])
        assert (bench.credit(16), bench.credit(17)) == (0, 0)
        bench.rules.map({16: 3, 17: 1})
        assert (bench.credit(16), bench.credit(17)) == (0, OPEN)

    def test_a_weeks_classes_go_before_others_and_what_was_comes_back(self) -> None:
        bench = Bench()
        bench.rules.map({16: 1})
        bench.rules.map({16: 5}, Rule.WEEK)
        assert bench.rules.class_of(16) == 5
        bench.rules.map({}, Rule.WEEK)
        assert bench.rules.class_of(16) == 1

    def test_a_limit_bounds_open_gates_and_leased_rates_and_credits_take_their_time(self) -> None:
        bench = Bench(16)
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
        bench = Bench()
        bench.rules.shut(Rule.WEEK, [16])
        bench.gates.open(16)
        bench.rules.enforce(16)
        assert bench.credit(16) == 0
        bench.gates.open(16)
        bench.rules.enforce()
        assert bench.credit(16) == 0

    def test_release_opens_all_at_once(self) -> None:
        bench = Bench(16)
        bench.rules.shut(Rule.WEEK, [16, 17])
        bench.keeper.release()
        bench.rules.release()
        assert (bench.credit(16), bench.credit(17)) == (OPEN, OPEN)
        assert not bench.rules.restrained


class RulesAndPermission(RuleBasedStateMachine):
    """Whatever rules, slots, classes and overrides come in whatever order: a gate that a rule shuts lets nothing pass."""

    nodes = st.integers(16, 17)
    queues = st.sampled_from([0, 1, 7, 16, 17])
    rules = st.sampled_from(list(Rule))

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(16)
        self.shut: set[tuple[Rule, int]] = set()
        self.classes: dict[int, int] = {}

    @rule(by=rules, queue=queues)
    def shuts(self, by: Rule, queue: int) -> None:
        self.bench.rules.shut(by, [queue])
        self.shut.add((by, queue))

    @rule(by=rules, queue=queues)
    def frees(self, by: Rule, queue: int) -> None:
        self.bench.rules.free(by, [queue])
        self.shut.discard((by, queue))

    @rule(by=rules)
    def clears(self, by: Rule) -> None:
        self.bench.rules.clear(by)
        self.shut = {held for held in self.shut if held[0] is not by}

    @rule(classes=st.dictionaries(nodes, st.sampled_from([0, 1, 7])))
    def maps(self, classes: dict[int, int]) -> None:
        self.bench.rules.map(classes)
        self.classes = classes

    @rule(size=st.integers(1514, 50_000), length=st.integers(1, 5))
    def grants(self, size: int, length: int) -> None:
        self.bench.now += MS
        self.bench.grant(16, self.bench.now, self.bench.now, self.bench.now + length * MS, size)

    @rule(length=st.integers(1, 5))
    def passes_time(self, length: int) -> None:
        self.bench.now += length * MS
        self.bench.keeper.advance(self.bench.now)

    @rule(regulated=st.sampled_from([(), (16,), (16, 17)]))
    def regulates(self, regulated: tuple[int, ...]) -> None:
        self.bench.keeper.regulate(frozenset(regulated), self.bench.now)

    @rule()
    def releases(self) -> None:
        self.bench.keeper.release()
        self.bench.rules.release()
        self.shut.clear()
        self.bench.keeper.obey(self.bench.now)

    def held(self, node: int) -> bool:
        return any(queue in (node, self.classes.get(node, 0)) for _, queue in self.shut)

    @invariant()
    def what_is_held_is_shut_and_what_is_not_is_as_permission_says(self) -> None:
        keeper = self.bench.keeper
        for node in (16, 17):
            if self.held(node):
                assert self.bench.credit(node) == 0
            elif not keeper.obeying or node not in keeper.regulated:
                assert self.bench.credit(node) == OPEN
            elif node not in keeper.table.open:
                assert self.bench.credit(node) == 0


TestRulesAndPermission = RulesAndPermission.TestCase


class TestTheMessage:
    """CONDITIONS at the agent."""

    def made(self) -> tuple[Bench, QueueConditions]:
        bench = Bench()
        return bench, QueueConditions(bench, LINK)  # type: ignore[arg-type]  # what it uses of an agent

    def say(self, part: QueueConditions, version: int, *entries: QueueCondition, now: int = 0) -> None:
        part.handlers[Conditions](Conditions(version, 0, 1, entries), now)

    def test_removing_the_condition_is_pausing_and_a_queue_not_mentioned_is_free(self) -> None:
        bench, part = self.made()
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == 0
        self.say(part, 2)
        assert bench.credit(16) == OPEN

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
        bench.obeying = False
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == OPEN
        bench.obeying = True
        self.say(part, 1, QueueCondition(16, 1, 0, FOREVER_NS, 5_000_000))
        bench.rules.release()
        part.released(1)
        assert bench.credit(16) == OPEN
        assert part.next_due_ns() is None
        self.say(part, 1, QueueCondition(16, 0, 0, 0))
        assert bench.credit(16) == 0


def test_times_are_the_leaders_clock() -> None:
    bench = Bench()
    bench.clock = SimpleNamespace(local=lambda t: t - 100 * MS)  # type: ignore[assignment]  # the leader is ahead of us
    part = QueueConditions(bench, LINK)  # type: ignore[arg-type]  # what it uses of an agent
    part.handlers[Conditions](Conditions(1, 0, 1, (QueueCondition(16, 1, 103 * MS, 105 * MS),)), 0)
    assert part.next_due_ns() == 3 * MS
