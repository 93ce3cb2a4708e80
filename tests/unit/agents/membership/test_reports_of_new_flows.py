"""The first large flow to a host that was sent nothing is reported within milliseconds, with its rate."""

from __future__ import annotations

from agents.membership.reporting import FIRST_PERIOD_NS, SOON_NS, SPARING, Reporting
from protocol.messages import Report
from tests.unit.agents.loop.test_slow_parts import NODES, STEP_NS, Host

WORK_NS = len(NODES) * STEP_NS


def reporting() -> tuple[Host, Reporting]:
    """A host that has sent nothing for a period, and has reported that."""
    host = Host(busy=False)
    host.count = 0
    part = Reporting(host, host, host.keeper, host.guard, host.throttle)  # type: ignore[arg-type]  # what it uses of each
    turn(host, part)
    return host, part


def turn(host: Host, part: Reporting) -> None:
    host.now = max(host.now, part.next_due_ns())
    part.advance(host.now)


def reports(host: Host) -> list[Report]:
    return [message for message in host.sent if isinstance(message, Report)]


def test_it_asks_for_the_first_packet_to_hosts_that_were_sent_nothing_and_need_no_permission() -> None:
    host, part = reporting()
    assert host.armed == list(NODES)
    turn(host, part)
    assert host.armed == list(NODES), "once"
    part.woken(NODES[3], host.now)
    turn(host, part)
    assert host.armed == [*NODES, NODES[3]]


def test_of_hosts_that_need_permission_it_does_not_ask() -> None:
    host = Host(busy=False)
    host.count = 0
    host.regulated = {NODES[0]}
    host.keeper.regulates = host.regulated.__contains__
    part = Reporting(host, host, host.keeper, host.guard, host.throttle)  # type: ignore[arg-type]  # what it uses of each
    turn(host, part)
    assert host.armed == list(NODES[1:])
    host.regulated.clear()
    turn(host, part)
    assert host.armed == [*NODES[1:], NODES[0]]


def test_the_first_packet_brings_a_report_at_once_and_one_of_the_rate_soon_after() -> None:
    host, part = reporting()
    host.now += 10_000_000
    woken_ns = host.now
    part.woken(NODES[3], host.now)
    assert part.next_due_ns() == woken_ns
    turn(host, part)
    host.count = 60_000
    turn(host, part)
    assert len(reports(host)) == 3
    assert host.now - woken_ns < SOON_NS + 2 * WORK_NS
    assert SOON_NS <= reports(host)[-1].period_ns <= SOON_NS + WORK_NS, "the time that its bytes are of"
    assert part.next_due_ns() > host.now + FIRST_PERIOD_NS - 2 * WORK_NS, "then as ever"


def test_such_reports_are_few_however_many_flows_begin() -> None:
    host, part = reporting()
    begun_ns, before = host.now, len(reports(host))
    while host.now < begun_ns + 20 * FIRST_PERIOD_NS:
        part.woken(NODES[3], host.now)
        turn(host, part)
    periods = (host.now - begun_ns) / FIRST_PERIOD_NS
    assert len(reports(host)) - before <= periods + 2 * (periods / SPARING + 1)
