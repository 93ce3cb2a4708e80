"""When a destination gives back a rate: soon after its queue has emptied, and later where the queue asks again at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.permission.rate_use import IDLE_NS, LONGEST_IDLE_NS, LONGEST_LOOK_NS, RateUse
from protocol.units import MILLISECOND_NS as MS

RATE_BPS = 100_000_000


def given_back_ns(use: RateUse, used_ns: int, now_ns: int = 0) -> tuple[int, int]:
    """When a rate that is used up to `used_ns` and then not is given back, and after how many looks."""
    look_ns: int | None = use.began(0, 0, RATE_BPS, now_ns)
    looks = 0
    while look_ns is not None:
        now_ns, looks = look_ns, looks + 1
        busy = now_ns < used_ns
        look_ns = use.looked(min(now_ns, used_ns), 15_000 if busy else 0, RATE_BPS, now_ns)
    return now_ns, looks


def test_what_is_lost_at_the_end_is_a_small_part_of_the_time_in_use() -> None:
    for used_ns in (2 * MS, 10 * MS, 50 * MS, 200 * MS, 2000 * MS):
        end_ns, _ = given_back_ns(RateUse(), used_ns)
        assert 0 < end_ns - used_ns <= 3 * IDLE_NS + min(used_ns // 8, LONGEST_LOOK_NS + LONGEST_LOOK_NS // 8)


def test_a_rate_in_use_is_seldom_looked_at() -> None:
    """Each look is a turn of the agent's loop."""
    _, early = given_back_ns(RateUse(), 1000 * MS)
    _, later = given_back_ns(RateUse(), 2000 * MS)
    assert later - early <= 1000 * MS / LONGEST_LOOK_NS + 2


def test_no_look_comes_before_what_waits_can_have_left() -> None:
    use = RateUse()
    look_ns = use.looked(0, 100_000, RATE_BPS, use.began(0, 1000, RATE_BPS, 0))
    assert look_ns is not None and look_ns - IDLE_NS == 8.08 * MS  # 101 KB at 100 Mb/s


def test_a_queue_that_asks_again_and_again_is_idle_for_milliseconds_at_most() -> None:
    """Its share is unused meanwhile: with 32 ms large flows took half as long again where many short ones came at random."""
    use, now_ns = RateUse(), 0
    for _ in range(20):
        ended_ns, _ = given_back_ns(use, 0, now_ns)
        assert ended_ns - now_ns <= 10 * MS
        now_ns = ended_ns


def test_a_queue_that_was_empty_soon_after_its_rate_began_gives_it_back_at_the_first_look() -> None:
    use = RateUse()
    look_ns = use.began(7000, 3000, RATE_BPS, 0)
    assert look_ns == IDLE_NS + 240_000  # 3 KB at 100 Mb/s
    assert use.looked(10_000, 0, RATE_BPS, look_ns) is None
    assert RateUse().looked(10_001, 0, RATE_BPS, RateUse().began(7000, 3000, RATE_BPS, 0)) is not None


def gives_back(use: RateUse, gap_ns: int, packets: int) -> int:
    """How often a rate is given back while a packet comes and leaves each `gap_ns`; it is asked for again by the next one."""
    count, look_ns = 0, use.began(0, 1, RATE_BPS, 0)
    for packet in range(1, packets):
        next_ns = packet * gap_ns
        while look_ns is not None and look_ns < next_ns:
            look_ns = use.looked(packet, 0, RATE_BPS, look_ns)
        if look_ns is None:
            count += 1
            look_ns = use.began(packet, 1, RATE_BPS, next_ns)
    return count


def test_a_queue_that_sends_little_but_regularly_keeps_its_rate() -> None:
    assert gives_back(RateUse(), 5 * IDLE_NS // 2, 1000) <= 20


def test_a_queue_that_pauses_for_long_gives_its_rate_back_each_time() -> None:
    assert gives_back(RateUse(), 100 * MS, 50) == 49


@given(st.lists(st.tuples(st.integers(0, 100 * MS), st.integers(0, 2), st.booleans()), max_size=60))
def test_the_times_stay_within_their_bounds(events: list[tuple[int, int, bool]]) -> None:
    use, now_ns, passed = RateUse(), 0, 0
    look_ns: int | None = None
    for pause_ns, packets, waits in events:
        if look_ns is None:
            now_ns += pause_ns
            look_ns = use.began(passed, 3000 * packets, RATE_BPS, now_ns)
            assert IDLE_NS <= look_ns - now_ns <= LONGEST_IDLE_NS + 6000 * 8 * 10
        now_ns, passed = look_ns, passed + packets
        look_ns = use.looked(passed, 3000 * waits, RATE_BPS, now_ns)
        assert look_ns is None or 0 < look_ns - now_ns <= max(LONGEST_LOOK_NS, LONGEST_IDLE_NS)
        assert look_ns is not None or (not waits and not packets)


def test_a_rate_is_not_given_back_before_it_was_idle_for_as_long_as_asking_for_it_takes() -> None:
    for answer_ns, least_ns in ((0, IDLE_NS), (IDLE_NS // 2, IDLE_NS), (9 * MS, 9 * MS), (100 * MS, LONGEST_LOOK_NS)):
        use = RateUse()
        assert use.began(0, 0, RATE_BPS, 0, answer_ns) == least_ns
        assert use.looked(1000, 0, RATE_BPS, least_ns) == 2 * least_ns  # a packet has passed meanwhile
        assert use.looked(1000, 0, RATE_BPS, 2 * least_ns) is None
        assert use.began(1000, 0, RATE_BPS, 3 * least_ns, 0) - 3 * least_ns <= max(LONGEST_IDLE_NS, least_ns)


def test_when_answers_are_quick_again_so_are_rates_given_back() -> None:
    use = RateUse()
    use.looked(0, 0, RATE_BPS, use.began(0, 0, RATE_BPS, 0, 9 * MS))
    assert use.began(0, 0, RATE_BPS, 1000 * MS, MS) == 1001 * MS
