"""How often an agent looks at its set-up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.loop.pace import MOST_NS, NEWS_REPORTS, Pace
from protocol.messages import Welcome
from protocol.units import SECOND_NS


def welcome(report_ns: int) -> Welcome:
    return Welcome(1, 1, 0, 0, 0, 0, 0, report_ns)


@given(st.integers(0, 10**15), st.integers(0, SECOND_NS - 1))
def test_where_reports_come_often_it_keeps_its_own_period(now_ns: int, report_ns: int) -> None:
    pace = Pace(SECOND_NS)
    assert pace.after(now_ns) == now_ns + SECOND_NS
    pace.welcomed(welcome(report_ns), 0)
    assert pace.after(now_ns) == now_ns + SECOND_NS


@given(st.integers(0, 10**15), st.integers(2 * SECOND_NS + 1, 10**12))
def test_where_they_come_seldom_looks_of_different_periods_come_together(now_ns: int, report_ns: int) -> None:
    one, other = Pace(SECOND_NS), Pace(2 * SECOND_NS)
    for pace in (one, other):
        pace.welcomed(welcome(report_ns), 0)
        assert 0 < pace.after(now_ns) - now_ns <= pace.period_ns == min(report_ns, MOST_NS)
    assert one.after(now_ns) == other.after(now_ns)
    assert pace.after(pace.after(now_ns)) == pace.after(now_ns) + pace.period_ns


def test_with_reports_each_second_looks_of_longer_periods_come_with_those_of_a_second() -> None:
    paces = Pace(SECOND_NS // 5), Pace(SECOND_NS), Pace(2 * SECOND_NS)
    for pace in paces:
        pace.welcomed(welcome(SECOND_NS), 0)
    assert [pace.after(3_300_000_000) for pace in paces] == [4 * SECOND_NS, 4 * SECOND_NS, 4 * SECOND_NS]


@given(st.integers(0, 10**15), st.integers(0, 10**12))
def test_what_informs_operators_alone_comes_once_in_eight_reports_at_most(now_ns: int, report_ns: int) -> None:
    pace = Pace(2 * SECOND_NS, NEWS_REPORTS)
    pace.welcomed(welcome(report_ns), 0)
    assert pace.period_ns == max(2 * SECOND_NS, min(MOST_NS, 8 * report_ns))
    assert 0 < pace.after(now_ns) - now_ns <= pace.period_ns
    assert pace.after(pace.after(now_ns)) - pace.after(now_ns) == pace.period_ns
