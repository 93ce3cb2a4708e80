"""Rules between the gatekeeper and the gates: which changes reach the kernel, how often it is woken, what the reflex did."""

from __future__ import annotations

import pytest

from agents.permission.rules import Rule, Rules
from tests.unit.agents.fake_gates import OPEN, FakeGates

MBIT = 1_000_000


class Recorder(FakeGates):
    """Gates that note each change."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[str] = []

    def open_gate(self, destination: int) -> None:
        super().open_gate(destination)
        self.changes.append(f"{destination} opens")

    def close_gate(self, destination: int) -> None:
        super().close_gate(destination)
        self.changes.append(f"{destination} closes")

    def rate(self, destination: int, rate_bps: int) -> None:
        super().rate(destination, rate_bps)
        self.changes.append(f"{destination} at {rate_bps // MBIT}")

    def wake_queues(self) -> None:
        super().wake_queues()
        self.changes.append("woken")

    def taken(self) -> list[str]:
        """The changes since the last call."""
        found, self.changes = self.changes, []
        return found


@pytest.fixture
def gates() -> Recorder:
    return Recorder()


@pytest.fixture
def rules(gates: Recorder) -> Rules:
    """Of two destinations; one that is freed opens, or gets its limit, as where nothing is regulated."""
    made = Rules(gates, known=lambda: (16, 17), on_freed=lambda destination: made.open_gate(destination))
    return made


class TestLimits:
    """A queue at a rate."""

    def test_a_limit_is_set_and_its_queues_are_woken_once(self, rules: Rules, gates: Recorder) -> None:
        rules.limit(Rule.QUEUE, 16, 10 * MBIT)
        assert gates.taken() == ["16 at 10", "woken"]
        rules.limit(Rule.QUEUE, 16, 10 * MBIT)
        assert gates.taken() == [], "it has that rate"

    def test_the_least_of_several_limits_counts_and_a_block_above_all(self, rules: Rules, gates: Recorder) -> None:
        rules.limit(Rule.QUEUE, 16, 10 * MBIT)
        rules.limit(Rule.WEEK, 16, 5 * MBIT)
        assert rules.restricted == {16: 5 * MBIT}
        rules.block(Rule.PAUSE, [0])
        gates.taken()
        rules.unblock(Rule.WEEK, [16])
        assert gates.taken() == [] and gates.at(16).credit == 0
        rules.unblock(Rule.PAUSE, [0])
        assert gates.taken() == ["16 at 10", "17 opens", "woken"]

    def test_a_permitted_rate_is_at_most_the_limit(self, rules: Rules, gates: Recorder) -> None:
        rules.limit(Rule.QUEUE, 16, 10 * MBIT)
        gates.taken()
        for mbps, given in ((5, 5), (20, 10)):
            rules.rate(16, mbps * MBIT)
            assert gates.taken() == [f"16 at {given}"]

    def test_a_slot_at_a_limit_lasts_as_long_as_its_bytes_take(self, rules: Rules) -> None:
        rules.limit(Rule.QUEUE, 16, 8 * MBIT)
        assert rules.grant(16, 1_000) == 1_000_000

    @pytest.mark.parametrize("queue", [8, 16])
    def test_a_queue_from_8_on_is_a_destination(self, queue: int) -> None:
        gates = FakeGates()
        Rules(gates, known=lambda: (16,)).block(Rule.QUEUE, [queue])
        assert gates.at(queue).credit == 0


class TestChanges:
    """What the reflex is told, and when the kernel looks at gates."""

    def test_queues_whose_rules_change_are_noted_for_the_reflex(self, rules: Rules) -> None:
        for change in (
            lambda: rules.block(Rule.PAUSE, [3]),
            lambda: rules.unblock(Rule.PAUSE, [3]),
            lambda: rules.limit(Rule.QUEUE, 3, MBIT),
        ):
            rules.changed.clear()
            change()
            assert rules.changed == {3}

    def test_queues_are_woken_once_after_several_were_freed_and_not_after_none(self, rules: Rules, gates: Recorder) -> None:
        rules.block(Rule.PAUSE, [16, 17])
        gates.taken()
        rules.unblock(Rule.PAUSE, [16, 17, 5])
        assert gates.taken() == ["16 opens", "17 opens", "woken"]
        rules.unblock(Rule.PAUSE, [16, 17])
        assert gates.taken() == []

    def test_a_release_opens_all_that_the_kernel_lets_it_open(self) -> None:
        gates = FakeGates()

        def freed(destination: int) -> None:
            if destination == 16:
                raise OSError("there is no such qdisc")
            gates.open_gate(destination)

        rules = Rules(gates, on_freed=freed)
        rules.block(Rule.QUEUE, [16, 17])
        with pytest.raises(OSError, match="no such qdisc"):
            rules.release()
        assert gates.at(17).credit == OPEN and gates.wakeups == 1

    def test_a_release_opens_all_that_was_restricted_and_forgets_every_rule(self, rules: Rules, gates: Recorder) -> None:
        rules.block(Rule.PAUSE, [16])
        rules.limit(Rule.QUEUE, 17, MBIT)
        gates.taken()
        rules.release()
        assert gates.taken() == ["16 opens", "17 opens", "woken"]
        assert not rules.holds() and not any(rules.has_rule(rule) for rule in Rule)

    def test_a_weeks_class_overrides_that_of_a_pause_and_a_change_of_class_wakes(self, rules: Rules, gates: Recorder) -> None:
        rules.block(Rule.PAUSE, [3])
        rules.map_classes({16: 3})
        assert gates.taken() == ["16 closes"]
        rules.map_classes({16: 5}, Rule.WEEK)
        assert rules.class_of(16) == 5 and gates.taken() == ["16 opens", "woken"]
        rules.map_classes({16: 4})
        assert rules.class_of(16) == 5 and gates.taken() == []

    def test_rules_are_applied_anew_to_a_gate_that_was_just_made(self, rules: Rules, gates: Recorder) -> None:
        rules.block(Rule.PAUSE, [16])
        gates.gates.clear()
        gates.taken()
        rules.reapply(16)
        assert gates.taken() == ["16 closes"] and gates.at(17).credit == OPEN

    def test_which_rules_hold_a_destination_is_known_apart(self, rules: Rules) -> None:
        rules.block(Rule.PAUSE, [0])
        assert rules.sole_rule(16, Rule.PAUSE) and rules.unblocked_by_others(16, Rule.PAUSE)
        assert not rules.blocked_by(16, Rule.PAUSE), "its class is"
        rules.limit(Rule.WEEK, 16, MBIT)
        assert rules.unblocked_by_others(16, Rule.PAUSE) and not rules.sole_rule(16, Rule.PAUSE)
        rules.block(Rule.WEEK, [16])
        assert rules.blocked_by(16, Rule.WEEK) and not rules.unblocked_by_others(16, Rule.PAUSE)


class TestTheReflex:
    """It changes gates before Python has heard why."""

    def test_a_gate_that_it_has_closed_is_not_closed_again(self, rules: Rules, gates: Recorder) -> None:
        rules.reflex_applied([16], [], 5)
        rules.block(Rule.PAUSE, [16, 17])
        rules.reconcile()
        assert gates.taken() == ["17 closes"] and rules.restricted.keys() == {16, 17}

    def test_a_gate_that_it_has_opened_is_not_opened_again_nor_woken(self, rules: Rules, gates: Recorder) -> None:
        rules.block(Rule.PAUSE, [16])
        gates.taken()
        rules.reflex_applied([], [16], 5)
        rules.unblock(Rule.PAUSE, [16])
        rules.reconcile()
        assert gates.taken() == []

    def test_what_no_rule_confirms_is_undone_at_the_end_of_the_turn(self, rules: Rules, gates: Recorder) -> None:
        rules.block(Rule.PAUSE, [16])
        gates.taken()
        rules.reflex_applied([17], [16], 5)
        assert rules.step_done_ns == 5
        rules.reconcile()
        assert gates.taken() == ["17 opens", "16 closes", "woken"] and rules.step_done_ns == 0
        rules.reconcile()
        assert gates.taken() == []

    def test_a_blocked_gate_that_it_closed_stays_closed_unless_the_kernel_may_have_refused(
        self, rules: Rules, gates: Recorder
    ) -> None:
        rules.block(Rule.PAUSE, [16])
        gates.taken()
        rules.reflex_applied([16], [], 0)
        rules.reconcile()
        assert gates.taken() == []
        rules.reflex_applied([16], [], 0, trusted=False)
        rules.reconcile()
        assert gates.taken() == ["16 closes"]

    def test_a_step_is_over_at_the_end_of_the_turn_also_when_it_changed_no_gate(self, rules: Rules) -> None:
        rules.reflex_applied([], [], 5)
        rules.reconcile()
        assert rules.step_done_ns == 0
