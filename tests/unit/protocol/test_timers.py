"""Timers: each call is made once, at its time and in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.timers import REPEATS_NS, Timers


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 60))
def test_calls_that_are_due_are_made_in_order_of_time_and_then_of_asking(times: list[int], now_ns: int) -> None:
    timers, made = Timers(), []
    for number, when in enumerate(times):
        timers.at(when, lambda _, what=(when, number): made.append(what))
    timers.run(now_ns)
    assert made == sorted((when, number) for number, when in enumerate(times) if when <= now_ns)


def test_a_period_begins_at_once_and_each_time_when_the_call_was_made() -> None:
    timers, made = Timers(), []
    timers.every(100, 10, made.append)
    for now_ns in (100, 105, 113, 120, 123):
        timers.run(now_ns)
    assert made == [100, 113, 123]
    assert timers.next_ns() == 133


def test_what_is_repeated_is_said_at_once_and_twice_more() -> None:
    timers, made = Timers(), []
    timers.repeat(0, made.append)
    assert made == [0]
    timers.run(REPEATS_NS[0] - 1)
    assert made == [0]
    for delay_ns in REPEATS_NS:
        timers.run(delay_ns)
    assert made == [0, *REPEATS_NS]
