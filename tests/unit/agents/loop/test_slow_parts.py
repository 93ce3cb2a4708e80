"""What an agent does in turns, where something is urgent: its reports, and its look at what was set up."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from agents.kernel.netlink import NetlinkError
from agents.loop.throttle import Throttle
from agents.membership.reporting import FIRST_PERIOD_NS, Reporting
from agents.membership.upkeep import CHECK_NS, Upkeep
from protocol.bodies.flows.losses import LOSSES_MAX, Losses
from protocol.messages import Welcome
from protocol.units import SECOND_NS

STEP_NS, NODES = 30_000, range(16, 80)
LATE_NS = 3 * FIRST_PERIOD_NS


class Host:
    """An agent as these parts see it, on a clock that goes on with every step."""

    count = 1000

    def __init__(self, *, busy: bool) -> None:
        self.now, self.steps, self.repaired, self.differs = 1_000_000, 0, 0, list[str]()
        self.throttle = Throttle(lambda: self.now, lambda: busy)
        self.member, self.sent = True, list[Any]()
        self.send = self.sent.append
        self.refreshed = list[int]()
        self.armed = list[int]()
        self.flows = SimpleNamespace(
            sent_bytes=self.counts, lost_segments=lambda node: node % 2, forget=None, arm=self.armed.append, repair=list,
            warnings=list,
        )
        self.queues = SimpleNamespace(
            backlog=lambda node: (0, node),
            drift_steps=self.steps_of_a_check,
            collect_steps=lambda now_ns: self.steps_of_a_check(),
            repair=self.repair,
            version=1,
        )
        self.regulated = set[int]()
        self.rebuilt = list[int]()
        self.keeper = SimpleNamespace(
            refresh=self.refreshed.append, rebuilt=self.rebuilt.append, regulates=self.regulated.__contains__
        )
        self.guard = SimpleNamespace(refused={})
        self.rules = SimpleNamespace(reapply=lambda: None)
        self.parts = SimpleNamespace(repair=list, warnings=list)

    def counts(self) -> Iterator[tuple[int, int]]:
        for node in NODES:
            self.now += STEP_NS
            yield node, self.count

    def steps_of_a_check(self) -> Generator[None, None, list[Any]]:
        for _ in NODES:
            self.now += STEP_NS
            self.steps += 1
            yield
        found, self.differs = self.differs, []
        return found

    def repair(self) -> list[str]:
        self.repaired += 1
        return ["eth0: qdisc tbf 10: is missing"]


@pytest.mark.parametrize("busy", [False, True])
def test_a_report_tells_of_all_the_time_since_the_last_one_however_long_it_took(busy: bool) -> None:
    host = Host(busy=busy)
    part = Reporting(host, host, host.keeper, host.guard, host.throttle)  # type: ignore[arg-type]  # what it uses of each
    host.now += LATE_NS
    turns = 0
    while not host.sent:
        before = host.now
        part.advance(host.now)
        assert not busy or host.now - before < 10 * STEP_NS
        turns += 1
        host.now = max(host.now, part.next_due_ns())
    assert turns == 1 if not busy else turns > 10
    assert [entry.destination for entry in host.sent[0].entries] == list(NODES)
    assert host.sent[0].period_ns == LATE_NS
    part.advance(host.now)
    assert host.refreshed
    losses = next(message for message in host.sent if isinstance(message, Losses))
    assert set(losses.entries) <= {(node, 1, 1000) for node in NODES if node % 2}
    assert len(losses.entries) == min(LOSSES_MAX, sum(node % 2 for node in NODES))


@pytest.mark.parametrize("busy", [False, True])
def test_a_look_takes_turns_and_what_differs_is_put_back(busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(busy=busy)
    monkeypatch.setattr("agents.membership.upkeep.time", SimpleNamespace(monotonic_ns=lambda: host.now))
    host.member = False
    part = Upkeep(host, host, host.keeper, host.parts, host.guard, host.throttle)  # type: ignore[arg-type]  # what it uses of each
    host.differs = ["eth0: qdisc tbf 10: is missing"]
    host.now += CHECK_NS
    turns = 0
    while host.steps < 2 * len(NODES):
        before = host.now
        part.advance(host.now)
        assert not busy or host.now - before < 10 * STEP_NS
        turns += 1
        host.now = max(host.now, part.next_due_ns())
    assert turns == 1 if not busy else turns > 20
    assert host.repaired == 1


def test_gates_that_were_made_before_the_kernel_refused_one_are_closed() -> None:
    host = Host(busy=False)

    def refused() -> list[str]:
        host.queues.version += 1
        raise NetlinkError(errno.ENOENT, "no such class")

    host.queues.repair = refused
    part = Upkeep(host, host, host.keeper, host.parts, host.guard, host.throttle)  # type: ignore[arg-type]  # what it uses of each
    part.on_kernel_refusal(NetlinkError(errno.ENOENT, "no such qdisc"), 5)
    assert host.rebuilt == [5]


@pytest.mark.parametrize(("report_ns", "states"), [(50_000_000, 20), (SECOND_NS, 5)])
def test_a_leader_that_wants_reports_seldom_hears_of_the_host_itself_once_in_eight(
    report_ns: int, states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(busy=False)
    host.member = True
    monkeypatch.setattr("agents.membership.upkeep.time", SimpleNamespace(monotonic_ns=lambda: host.now))
    monkeypatch.setattr(Upkeep, "_state", lambda *_: "state")
    part = Upkeep(host, host, host.keeper, host.parts, host.guard, host.throttle)  # type: ignore[arg-type]  # what it uses of each
    part.handlers[Welcome](Welcome(1, 1, 0, 0, 0, 0, 0, report_ns), host.now)
    until_ns = host.now + 40 * SECOND_NS
    while host.now < until_ns:
        part.advance(host.now)
        host.now = max(host.now + 1, part.next_due_ns())
    assert abs(host.sent.count("state") - states) <= 1
