"""A gatekeeper on rules on fake gates, and a state machine that calls them in any order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agents.loop.clock import Clock
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rule, Rules
from protocol.messages import Cause, Directive, Grant
from tests.unit.agents.fake_gates import OPEN, FakeGates

MS = 1_000_000
LINK = 100_000_000


class RulesBench:
    """A gatekeeper on rules on fake gates, as in an agent, with the surroundings that a part needs."""

    def __init__(self, *regulated: int) -> None:
        self.now = 0
        self.gates = FakeGates({16: FakeGates().at(16), 17: FakeGates().at(17)})
        known, on_freed = lambda: list(self.gates.gates), lambda destination: self.keeper.resume(destination)
        self.rules = Rules(self.gates, known=known, on_freed=on_freed)
        self.keeper = Gatekeeper(
            self.rules,
            lambda _: self.gates.wake_queues(),
            to_local=lambda t: t,
            to_coordinator=lambda t: t,
            clock=lambda: self.now,
            link_bps=LINK,
        )
        self.keeper.enforce(0)
        self.keeper.regulate(frozenset(regulated), 0)
        self.clock = Clock()
        self.clock.sample(0, 0, 0, 0)
        self.nodes = {16, 17}
        self.enforcing = True
        self.refused: list[Cause] = []
        self.refuse = self.refused.append

    def grant(self, destination: int, slot: int, start: int, end: int, size: int, rate: int = 0) -> None:
        self.keeper.directive(Directive((Grant(destination, slot, start, end, size, rate),)), self.now)

    def credit(self, destination: int) -> int:
        return self.gates.at(destination).credit


class RulesAndPermission(RuleBasedStateMachine):
    """For any order of rules, slots, classes and overrides: a gate that a rule blocks lets nothing pass."""

    nodes = st.integers(16, 17)
    queues = st.sampled_from([0, 1, 7, 16, 17])
    rules = st.sampled_from(list(Rule))

    def __init__(self) -> None:
        super().__init__()
        self.bench = RulesBench(16)
        self.shut: set[tuple[Rule, int]] = set()
        self.classes: dict[int, int] = {}

    @rule(by=rules, queue=queues)
    def shuts(self, by: Rule, queue: int) -> None:
        self.bench.rules.block(by, [queue])
        self.shut.add((by, queue))

    @rule(by=rules, queue=queues)
    def frees(self, by: Rule, queue: int) -> None:
        self.bench.rules.unblock(by, [queue])
        self.shut.discard((by, queue))

    @rule(by=rules)
    def clears(self, by: Rule) -> None:
        self.bench.rules.clear(by)
        self.shut = {held for held in self.shut if held[0] is not by}

    @rule(classes=st.dictionaries(nodes, st.sampled_from([0, 1, 7])))
    def maps(self, classes: dict[int, int]) -> None:
        self.bench.rules.map_classes(classes)
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
        self.bench.keeper.enforce(self.bench.now)

    def held(self, node: int) -> bool:
        return any(queue in (node, self.classes.get(node, 0)) for _, queue in self.shut)

    @invariant()
    def what_is_held_is_shut_and_what_is_not_is_as_permission_says(self) -> None:
        keeper = self.bench.keeper
        for node in (16, 17):
            if self.held(node):
                assert self.bench.credit(node) == 0
            elif not keeper.enforcing or node not in keeper.regulated:
                assert self.bench.credit(node) == OPEN
            elif node not in keeper.table.open:
                assert self.bench.credit(node) == 0
