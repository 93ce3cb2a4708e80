"""The agent's estimate of the coordinator's clock."""

from hypothesis import given
from hypothesis import strategies as st

from agents.loop.clock import Clock


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
    assert abs(clock.coordinator(clock.local(now)) - now) <= 1


@given(
    st.integers(-15_000, 15_000),
    st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 60_000)), min_size=1, max_size=300),
    st.integers(0, 3 * 10**9),
)
def test_with_a_drift_too_and_also_later(drift_ppb: int, delays: list[tuple[int, int]], later: int) -> None:
    clock, now = Clock(), 10**16
    begin = now

    def true_offset(at: int) -> int:
        return 7_000_000 + (at - begin) * drift_ppb // 10**9

    for out, back in delays:
        now += 2 * 10**8
        received = now + out
        its_time = received + true_offset(received)
        clock.sample(now, its_time, its_time, received + back)
    now += later
    shown = now + true_offset(now)
    assert abs(clock.coordinator(now) - shown) <= clock.uncertainty_ns(now) + 5
    assert abs(clock.local(shown) - now) <= clock.uncertainty_ns(now) + 5
    assert abs(clock.coordinator(clock.local(shown)) - shown) <= 1


def test_a_known_drift_keeps_a_good_sample_good() -> None:
    drift_ppb, quick, slow = 12_000, 5_000, 40_000
    clock, began = Clock(), 10**16
    for number in range(200):
        now = began + number * 2 * 10**8
        way = slow if number % 16 or number > 170 else quick  # for the last six seconds there was no quick one
        its_time = now + way + (now + way - began) * drift_ppb // 10**9
        clock.sample(now, its_time, its_time, now + 2 * way)
    assert abs(clock.coordinator(now) - now - (now - began) * drift_ppb // 10**9) < 2_000
    assert clock.uncertainty_ns(now) < 3 * quick


def test_a_drift_that_changes_is_learnt_anew() -> None:
    clock, now, offset = Clock(), 10**16, 0
    for drift_ppb in (10_000, -10_000):
        for _ in range(400):
            now += 2 * 10**8
            offset += 2 * 10**8 * drift_ppb // 10**9
            exchange(clock, offset, now, 4_000, 0, 4_000)
            assert abs(clock.coordinator(now) - now - offset) <= 500_000
        assert abs(clock.coordinator(now) - now - offset) <= clock.uncertainty_ns(now) + 10


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


@given(st.sampled_from([-3 * 10**9, -10**6, 10**6, 3 * 10**9]), st.integers(1, 200))
def test_when_one_of_the_clocks_jumps_the_next_exchange_is_believed(jump: int, exchanges: int) -> None:
    """The host of one of them was suspended: only one clock went on."""
    clock, now, offset = Clock(), 10**16, 5 * 10**9
    for number in range(exchanges):
        now += 2 * 10**8
        exchange(clock, offset, now, 20_000 + 700 * (number % 16), 500, 30_000)
    for _ in range(3):
        now += 2 * 10**8
        exchange(clock, offset + jump, now, 90_000, 500, 80_000)
        assert clock.synchronised
        assert abs(clock.coordinator(now) - now - offset - jump) <= clock.uncertainty_ns(now) + 1
