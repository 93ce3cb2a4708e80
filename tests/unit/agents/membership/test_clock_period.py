"""How often an agent asks for the leader's time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.loop.clock import Clock
from agents.membership.clock_sync import FIRST_PING_NS, FIRST_PINGS, PING_NS, ClockSync
from protocol.messages import Welcome


@pytest.mark.parametrize(("report_ns", "period_ns"), [(50_000_000, PING_NS), (500_000_000, 500_000_000), (10**10, 10**10)])
def test_where_reports_come_seldom_it_asks_less_often_but_at_first_quickly(report_ns: int, period_ns: int) -> None:
    agent = SimpleNamespace(clock=Clock(), member=True, send=lambda message: None, send_stamped=lambda message: None)
    part = ClockSync(agent, lambda: 0)
    part.handlers[Welcome](Welcome(1, 1, 0, 0, 0, 0, 0, report_ns), 0)
    waited = []
    for _ in range(FIRST_PINGS + 3):
        now = part.next_due_ns() or 0
        part.advance(now)
        waited.append((part.next_due_ns() or 0) - now)
    assert waited[:FIRST_PINGS] == [FIRST_PING_NS] * FIRST_PINGS
    assert waited[FIRST_PINGS] <= period_ns and waited[FIRST_PINGS + 1 :] == [period_ns] * 2
