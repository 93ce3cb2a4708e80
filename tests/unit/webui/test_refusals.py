"""What is told of refused logins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webui.access.refusals import KEPT, PERIOD_NS, SINGLE, Refusals


class TestRefusals:
    """A flood leaves a few lines and its size."""

    def test_the_first_are_told_and_the_others_summed(self) -> None:
        refusals = Refusals()
        told = [refusals.note("ann", f"10.0.0.{at % 3}", now_ns=at) for at in range(SINGLE + 5)]
        assert told == [*range(1, SINGLE + 1), 0, 0, 0, 0, 0]
        assert refusals.sum(now_ns=PERIOD_NS - 1) == ""
        assert "5 more logins were refused within 60 s, from 3 addresses for 1 users" in refusals.sum(now_ns=PERIOD_NS)
        assert refusals.sum(now_ns=2 * PERIOD_NS) == "" and refusals.end_ns() is None
        assert refusals.note("ann", "10.0.0.1", now_ns=2 * PERIOD_NS) == 1

    def test_a_clock_that_is_set_back_holds_the_sum_back_no_longer_than_a_period(self) -> None:
        refusals = Refusals()
        for _ in range(SINGLE + 1):
            refusals.note("ann", "10.0.0.1", now_ns=1_000 * PERIOD_NS)
        refusals.note("ann", "10.0.0.1", now_ns=0)
        assert "2 more logins were refused" in refusals.sum(now_ns=PERIOD_NS)

    def test_many_addresses_take_bounded_memory(self) -> None:
        refusals = Refusals()
        for at in range(SINGLE + 1_000):
            refusals.note(str(at), str(at), now_ns=0)
        assert f"1000 more logins were refused within 60 s, from at least {KEPT} addresses" in refusals.sum(now_ns=PERIOD_NS)

    @given(st.lists(st.integers(0, PERIOD_NS // 2), max_size=80))
    def test_every_refusal_is_told_or_summed(self, pauses: list[int]) -> None:
        refusals, now_ns, singles, summed = Refusals(), 0, 0, 0
        for pause_ns in pauses:
            now_ns += pause_ns
            text = refusals.sum(now_ns=now_ns)
            summed += int(text.split()[0]) if text else 0
            singles += refusals.note("a", "b", now_ns=now_ns) > 0
        text = refusals.sum(now_ns=now_ns + PERIOD_NS)
        assert singles + summed + (int(text.split()[0]) if text else 0) == len(pauses)
