"""How often something may be tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webui.access.limiter import LOOKED_AT, Limiter

SECOND = 1_000_000_000


class TestLimiter:
    """A burst, then as fast as it is filled again, for each name alone."""

    def test_a_burst_then_one_for_each_refill(self) -> None:
        limiter = Limiter(burst=3, refill_ns=SECOND)
        assert [limiter.wait_ns("a", now_ns=0) for _ in range(4)] == [0, 0, 0, SECOND]
        assert limiter.wait_ns("a", now_ns=SECOND) == 0
        assert limiter.wait_ns("a", now_ns=SECOND) > 0

    def test_a_clock_that_is_set_back_keeps_nobody_out_for_longer_than_one_refill(self) -> None:
        limiter = Limiter(burst=3, refill_ns=SECOND)
        assert limiter.wait_ns("a", now_ns=10**6 * SECOND) == 0
        assert limiter.wait_ns("a", now_ns=0) <= SECOND
        assert limiter.wait_ns("a", now_ns=SECOND) == 0
        assert 0 < limiter.wait_ns("a", now_ns=SECOND) <= SECOND

    def test_another_name_has_its_own_tries(self) -> None:
        limiter = Limiter(burst=1, refill_ns=SECOND)
        assert limiter.wait_ns("a", now_ns=0) == limiter.wait_ns("b", now_ns=0) == 0

    def test_who_is_forgiven_has_all_tries_again(self) -> None:
        limiter = Limiter(burst=1, refill_ns=SECOND)
        limiter.wait_ns("a", now_ns=0)
        limiter.forgive("a")
        assert limiter.wait_ns("a", now_ns=0) == 0

    @given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3 * SECOND)), max_size=60))
    def test_never_more_than_the_burst_and_the_refill(self, tries: list[tuple[str, int]]) -> None:
        limiter, now, let = Limiter(burst=5, refill_ns=SECOND), 0, 0
        for name, pause in tries:
            now += pause
            if limiter.wait_ns(name, now_ns=now) == 0 and name == "a":
                let += 1
        assert let <= 5 + now // SECOND

    def test_many_names_take_bounded_memory_and_do_not_free_the_one_that_is_guessed_at(self) -> None:
        limiter = Limiter(burst=4, refill_ns=SECOND, kept=10)
        while limiter.wait_ns("admin", now_ns=0) == 0:
            pass
        for number in range(1_000):
            limiter.wait_ns(str(number), now_ns=0)
        assert len(limiter) <= 10
        assert limiter.wait_ns("admin", now_ns=0) > 0

    def test_a_name_that_was_tried_lately_is_kept_though_it_came_first_and_has_most_left(self) -> None:
        limiter = Limiter(burst=3, refill_ns=SECOND, kept=LOOKED_AT + 1)
        limiter.wait_ns("first", now_ns=0)
        for name in map(str, range(LOOKED_AT)):
            assert [limiter.wait_ns(name, now_ns=0) for _ in range(3)] == [0, 0, 0]
        limiter.wait_ns("first", now_ns=0)
        limiter.wait_ns("another", now_ns=0)
        assert [limiter.wait_ns("first", now_ns=0) for _ in range(2)] == [0, SECOND]

    def test_a_name_that_was_not_tried_for_long_has_a_burst_and_no_more(self) -> None:
        limiter = Limiter(burst=3, refill_ns=SECOND)
        limiter.wait_ns("a", now_ns=0)
        assert [limiter.wait_ns("a", now_ns=100 * SECOND) for _ in range(4)] == [0, 0, 0, SECOND]

    def test_a_burst_of_0_is_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match="burst"):
            Limiter(burst=0, refill_ns=1)
