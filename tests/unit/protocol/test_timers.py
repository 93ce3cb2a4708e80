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


def test_a_call_comes_at_whole_periods_and_what_was_missed_is_not_made_up_for() -> None:
    timers, made = Timers(), []
    timers.every(100, 10, made.append)
    for now_ns in (100, 105, 113, 120, 123, 155):
        timers.run(now_ns)
    assert made == [100, 113, 120, 155]
    assert timers.next_ns() == 160


@given(st.lists(st.integers(0, 9), min_size=10, max_size=30))
def test_periods_that_divide_one_another_come_together_however_late_each_turn_is(late: list[int]) -> None:
    timers, often, seldom = Timers(), list[int](), list[int]()
    timers.every(0, 20, often.append)
    timers.every(0, 40, seldom.append)
    for late_ns in late:
        timers.run(timers.next_ns() + late_ns)
    assert seldom == often[::2]


def test_what_is_repeated_is_said_at_once_and_twice_more() -> None:
    timers, made = Timers(), []
    timers.repeat(0, made.append)
    assert made == [0]
    timers.run(REPEATS_NS[0] - 1)
    assert made == [0]
    for delay_ns in REPEATS_NS:
        timers.run(delay_ns)
    assert made == [0, *REPEATS_NS]


def test_calls_that_take_long_leave_the_others_for_the_next_run() -> None:
    """A lease must be renewed meanwhile."""
    timers, made = Timers(), list[int]()
    for number in range(5):
        timers.at(number, lambda _, number=number: made.append(number))
    timers.run(10, lambda: len(made) % 2 == 0)
    assert made == [0, 1]
    timers.run(10, lambda: len(made) % 2 == 0)
    assert made == [0, 1, 2, 3]
    timers.run(10)
    assert made == [0, 1, 2, 3, 4] and not timers
