"""Who does not keep to what was permitted: the bytes that were, the verdicts, and what a suspect still gets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policies.base import Slot
from controller.scheduling.misbehaviour import AFTER, CLEAR, HostWindow, LinkWindow, Misbehaviour
from controller.slots.permitted import KEPT_NS, Permitted

SECOND = 1_000_000_000
MS = 1_000_000
CAPACITY = 12_500_000
"""Bytes that 100 Mbit/s carry in a second."""


def credit(number: int, start_ns: int, size: int, node: int = 16, destination: int = 21) -> Slot:
    return Slot(number, node, destination, start_ns, start_ns + 2 * MS, size, 0, 0)


def rate(number: int, start_ns: int, end_ns: int, rate_bps: int) -> Slot:
    return Slot(number, 16, 21, start_ns, end_ns, 0, rate_bps, rate_bps)


def grant(permitted: Permitted, slot: Slot, now_ns: int) -> None:
    permitted.granted(slot, slot.end_ns, now_ns)


class TestPermitted:
    """A credit counts when its slot begins, less what is yielded; a rate as long as it is in force."""

    def test_a_credit_counts_once_and_in_the_window_in_which_it_begins(self) -> None:
        permitted = Permitted()
        grant(permitted, credit(1, 10 * MS, 24_000), 8 * MS)
        assert permitted.take(9 * MS) == ({}, {})
        assert permitted.take(11 * MS) == ({(16, 21): 24_000}, {})
        assert permitted.take(12 * MS) == ({}, {})

    def test_what_is_granted_again_before_it_begins_counts_as_it_was_granted_last(self) -> None:
        permitted = Permitted()
        grant(permitted, credit(1, 10 * MS, 24_000), 5 * MS)
        grant(permitted, credit(1, 8 * MS, 12_000), 6 * MS)
        assert permitted.take(11 * MS).credits == {(16, 21): 12_000}

    @pytest.mark.parametrize("yielded_ns", [11 * MS, 13 * MS])
    def test_what_is_yielded_does_not_count(self, yielded_ns: int) -> None:
        permitted = Permitted()
        grant(permitted, credit(1, 10 * MS, 24_000), 8 * MS)
        grant(permitted, credit(2, 10 * MS, 24_000), 8 * MS)
        if yielded_ns > 12 * MS:
            assert permitted.take(12 * MS).credits == {(16, 21): 48_000}
        permitted.yielded(1, (16, 21), 20_000, 0, yielded_ns)
        grant(permitted, credit(3, 13 * MS, 24_000), 13 * MS)
        assert permitted.take(14 * MS).credits == {(16, 21): 4_000 if yielded_ns > 12 * MS else 52_000}

    def test_what_was_revoked_before_it_began_was_never_permitted(self) -> None:
        permitted = Permitted()
        grant(permitted, credit(1, 10 * MS, 24_000), 8 * MS)
        permitted.revoked(1, 9 * MS)
        assert permitted.take(20 * MS) == ({}, {})

    def test_a_rate_counts_while_it_is_in_force_however_often_it_is_renewed(self) -> None:
        permitted = Permitted()
        for at_ms in range(0, 100, 10):
            grant(permitted, rate(1, at_ms * MS, (at_ms + 50) * MS, 80_000_000), at_ms * MS)
        assert permitted.take(100 * MS) == ({}, {(16, 21): pytest.approx(1_000_000, rel=0.001)})
        assert permitted.take(SECOND) == ({}, {(16, 21): pytest.approx(400_000, rel=0.001)})

    def test_leases_that_overlap_under_numbers_of_their_own_count_once(self) -> None:
        """As the rate-limit policy renews them: when half of each is over."""
        permitted = Permitted()
        for number in range(10):
            at = number * 50 * MS
            grant(permitted, rate(number, at, at + 100 * MS, 80_000_000), at)
        assert permitted.take(500 * MS).rates == {(16, 21): pytest.approx(5_000_000, rel=0.001)}
        assert permitted.take(SECOND).rates == {(16, 21): pytest.approx(500_000, rel=0.001)}

    def test_a_rate_that_begins_when_the_one_before_ends_takes_nothing_of_it(self) -> None:
        permitted = Permitted()
        grant(permitted, rate(1, 0, 10 * MS, 80_000_000), 0)
        grant(permitted, rate(2, 10 * MS, 20 * MS, 40_000_000), 5 * MS)
        assert permitted.take(20 * MS).rates == {(16, 21): 100_000 + 50_000}

    def test_who_left_is_forgotten(self) -> None:
        permitted = Permitted()
        grant(permitted, credit(1, 0, 1000), 0)
        grant(permitted, rate(2, 0, 10 * MS, 80_000_000), 0)
        permitted.left(16)
        assert permitted.take(20 * MS) == ({}, {})

    @given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50), st.integers(1, 10**6)), max_size=30))
    def test_never_more_than_was_granted_and_never_less_than_nothing(self, grants: list[tuple[int, int, int]]) -> None:
        permitted, total = Permitted(), 0
        for at, (number, start, size) in enumerate(grants):
            grant(permitted, credit(number, start * MS, size), at * MS)
            total += size
            if at % 3 == 0:
                permitted.yielded(number, (16, 21), size // 2, 0, at * MS)
        sums = permitted.take(SECOND)
        assert 0 <= sum(sums.credits.values()) <= total and not sums.rates

    def test_old_slots_are_forgotten(self) -> None:
        permitted = Permitted()
        for number in range(1_000):
            grant(permitted, credit(number, number, 1), 0)
        permitted.take(1_000)
        permitted.take(10 * MS + KEPT_NS)
        assert not permitted._open


def host(seen: float, permitted: float, free: float = 0, yields: int = 0, credited: float | None = None) -> HostWindow:
    sizes = (int(part * CAPACITY) for part in (seen, permitted, permitted if credited is None else credited, free))
    return HostWindow("h1", CAPACITY, *sizes, yields)


def judge(misbehaviour: Misbehaviour, window: HostWindow, times: int = 1) -> list[Any]:
    return [finding for _ in range(times) for finding in misbehaviour.window({16: window}, {}, SECOND)]


class TestHosts:
    """A verdict needs several bad windows, and as many good ones and more to be lifted."""

    @pytest.mark.parametrize(
        ("window", "charge"),
        [
            (host(0.9, 0.2), "sends outside its slots"),
            (host(0.0, 0.2), "does not use its slots"),
            (host(0.6, 0.2, free=0.2), "sends outside its slots"),
        ],
    )
    def test_a_liar_is_found_after_some_windows_and_told_once(self, window: HostWindow, charge: str) -> None:
        misbehaviour = Misbehaviour()
        assert judge(misbehaviour, window, AFTER - 1) == [] and misbehaviour.suspects() == frozenset()
        found = judge(misbehaviour, window, 5)
        assert len(found) == 1 and found[0].severity == "warning" and charge in found[0].text
        assert charge in misbehaviour.lines(16)[0] and misbehaviour.suspects() == {16}

    @pytest.mark.parametrize(
        "window",
        [
            host(0.2, 0.2),
            host(0.19, 0.2),  # a directive in twenty was lost
            host(0.15, 0.2, yields=30),
            host(0.9, 0.2, free=0.7),  # the rest went where nobody needs permission
            host(0.25, 0.2),  # small flows and acknowledgements
            host(0.0, 0.0),
            host(0.0, 0.01),  # so little was permitted that it says nothing
            host(0.05, 0.2, credited=0),  # a rate of which it needs a quarter
        ],
    )
    def test_an_honest_host_is_never_suspected(self, window: HostWindow) -> None:
        misbehaviour = Misbehaviour()
        assert judge(misbehaviour, window, 50) == [] and misbehaviour.suspects() == frozenset()

    def test_single_bad_windows_accuse_nobody(self) -> None:
        misbehaviour = Misbehaviour()
        for _ in range(20):
            judge(misbehaviour, host(0.9, 0.2), AFTER - 1)
            judge(misbehaviour, host(0.2, 0.2))
        assert misbehaviour.suspects() == frozenset()

    def test_the_verdict_is_lifted_when_the_host_behaves_for_a_while(self) -> None:
        misbehaviour = Misbehaviour()
        judge(misbehaviour, host(0.0, 0.2), AFTER)
        judge(misbehaviour, host(0.2, 0.2), CLEAR - 1)
        assert misbehaviour.suspects() == {16}
        assert [finding.severity for finding in judge(misbehaviour, host(0.2, 0.2))] == ["info"]
        assert misbehaviour.lines(16) == []

    def test_the_little_that_a_suspect_is_granted_must_be_used(self) -> None:
        misbehaviour = Misbehaviour()
        judge(misbehaviour, host(0.0, 0.2), AFTER)
        judge(misbehaviour, host(0.0, 0.01), 3 * CLEAR)
        assert misbehaviour.suspects() == {16}
        judge(misbehaviour, host(0.01, 0.01), CLEAR)
        assert misbehaviour.suspects() == frozenset()

    def test_who_left_is_forgotten_after_a_while(self) -> None:
        misbehaviour = Misbehaviour()
        judge(misbehaviour, host(0.0, 0.2), AFTER)
        misbehaviour.left(16)
        assert misbehaviour.suspects() == frozenset()
        misbehaviour.came(16)
        assert misbehaviour.suspects() == {16}
        misbehaviour.left(16)
        for _ in range(CLEAR):
            misbehaviour.window({}, {}, SECOND)
        misbehaviour.came(16)
        assert misbehaviour.suspects() == frozenset()

    def test_nobody_escapes_the_verdict_by_leaving_and_coming_back_before_it(self) -> None:
        misbehaviour = Misbehaviour()
        for _ in range(AFTER):
            judge(misbehaviour, host(0.0, 0.2))
            misbehaviour.left(16)
            misbehaviour.came(16)
        assert misbehaviour.suspects() == {16}


class TestBypass:
    """What crosses a contended link without permission is counted, to the byte, and alarmed when it is much."""

    def test_regulated_and_uncoordinated_bytes_are_counted(self) -> None:
        misbehaviour = Misbehaviour()
        misbehaviour.window({}, {("s1", "h6"): LinkWindow("s1 > h6", CAPACITY, 12_000_000, 0, 9_000_000)}, SECOND)
        misbehaviour.window({}, {("s1", "h6"): LinkWindow("s1 > h6", CAPACITY, 8_000_000, 0, 9_000_000)}, SECOND)
        crossed = misbehaviour.crossed["s1", "h6"]
        assert (crossed.regulated, crossed.uncoordinated, crossed.alarm) == (17_000_000, 3_000_000, False)

    @pytest.mark.parametrize(("dropped", "outside"), [(5_000_000, 0), (0, 5_000_000)])
    def test_a_full_link_does_not_hide_it(self, dropped: int, outside: int) -> None:
        misbehaviour = Misbehaviour()
        window = LinkWindow("s1 > h6", CAPACITY, 12_000_000, dropped, 12_000_000, outside)
        misbehaviour.window({}, {("s1", "h6"): window}, SECOND)
        assert misbehaviour.crossed["s1", "h6"].uncoordinated == 5_000_000

    def test_much_is_alarmed_and_the_alarm_ends(self) -> None:
        misbehaviour, link = Misbehaviour(), ("s1", "h6")
        bad = {link: LinkWindow("s1 > h6", CAPACITY, 12_000_000, 0, 6_000_000)}
        good = {link: LinkWindow("s1 > h6", CAPACITY, 12_000_000, 0, 11_900_000)}
        found = [finding for _ in range(AFTER) for finding in misbehaviour.window({}, bad, SECOND)]
        assert len(found) == 1 and "48.0 Mbit/s of 96.0 Mbit/s crosses it without permission" in found[0].text
        assert misbehaviour.crossed[link].alarm
        for _ in range(CLEAR):
            misbehaviour.window({}, good, SECOND)
        assert not misbehaviour.crossed[link].alarm

    def test_a_link_that_is_contended_no_more_alarms_no_more(self) -> None:
        misbehaviour, link = Misbehaviour(), ("s1", "h6")
        for _ in range(AFTER):
            misbehaviour.window({}, {link: LinkWindow("s1 > h6", CAPACITY, 12_000_000, 0, 0)}, SECOND)
        misbehaviour.keep_links(())
        assert not misbehaviour.crossed[link].alarm and misbehaviour.crossed[link].uncoordinated == 36_000_000
