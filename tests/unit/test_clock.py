"""The agent's estimate of the coordinator's clock."""

from hypothesis import given
from hypothesis import strategies as st

from agents.clock import Clock


def exchange(clock: Clock, offset: int, sent: int, out: int, served: int, back: int) -> None:
    received = sent + out + offset
    clock.sample(sent, received, received + served, sent + out + served + back)


def test_an_unsynchronised_clock_says_so() -> None:
    assert not Clock().synchronised


@given(st.integers(-(10**15), 10**15), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1))
def test_the_error_is_within_the_stated_uncertainty(offset: int, delays: list[tuple[int, int]]) -> None:
    clock = Clock()
    now = 10**16
    for out, back in delays:
        now += 10**7
        exchange(clock, offset, now, out, 500, back)
    assert abs(clock.offset_ns - offset) <= clock.uncertainty_ns(now) + 1
    assert abs(clock.coordinator(clock.local(now)) - now) == 0


def test_a_slow_exchange_does_not_displace_a_quick_one() -> None:
    clock = Clock()
    exchange(clock, 1_000, 0, 10, 5, 10)
    exchange(clock, 1_000, 1_000_000, 900_000, 5, 10)
    assert clock.offset_ns == 1_000


def test_another_coordinator_starts_afresh() -> None:
    clock = Clock()
    exchange(clock, 1_000, 0, 10, 5, 10)
    clock.reset()
    exchange(clock, -7_000, 1_000_000, 50_000, 5, 50_000)
    assert clock.offset_ns == -7_000
