"""What the counters conclude."""

from __future__ import annotations

from agents.permission.counters import ANSWERS, Counters


def test_the_usual_answer_is_the_median_of_the_last_ones() -> None:
    counters = Counters()
    assert counters.usual_answer_ns() == 0
    counters.backlog_to_directive_ns += [50] * ANSWERS
    assert counters.usual_answer_ns() == 50
    counters.backlog_to_directive_ns += [500] * (ANSWERS // 2 + 1)
    assert counters.usual_answer_ns() == 500
    counters.backlog_to_directive_ns += [50] * (ANSWERS // 2 + 1)
    assert counters.usual_answer_ns() == 50
