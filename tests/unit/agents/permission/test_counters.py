"""What the counters conclude."""

from __future__ import annotations

from agents.permission.counters import ANSWERS, Counters


def test_answers_are_soon_if_half_of_the_last_ones_were() -> None:
    counters = Counters()
    assert counters.answered_within(100)
    counters.backlog_to_directive_ns += [50] * ANSWERS
    assert counters.answered_within(100)
    counters.backlog_to_directive_ns += [500] * (ANSWERS // 2 + 1)
    assert not counters.answered_within(100)
    counters.backlog_to_directive_ns += [50] * (ANSWERS // 2 + 1)
    assert counters.answered_within(100)
