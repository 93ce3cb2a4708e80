"""The reflex with each kind of gate: a gate that it closes lets no more packets pass, and one that it opens lets all pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.permission.conditions import Step
from agents.permission.rules import Rule, Rules
from agents.reflex.reflex import Reflex
from tests.emulation.agents.queues.gated_wire import OTHER, Wire, gated_wire
from tests.emulation.namespaces import inside

SOON_NS = 20_000_000
LEAD_NS = 100_000
"""A step begins as much early as the ones before took at least, so one that takes less is done before its time."""


@pytest.fixture(params=["tbf", "plug"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Wire]:
    yield from gated_wire(request.param, tmp_path)


def test_a_night_and_the_day_after_it_are_made_in_one_wait(wire: Wire) -> None:
    host = wire.host
    rules = Rules(host, known=host.queues.destinations)
    with inside(wire.pair.left):
        nobody = SimpleNamespace(link=host.link, enforcing=False)
        keeper = SimpleNamespace(enforcing=False, regulated=frozenset())
        reflex = Reflex(host, rules, keeper, nobody)  # type: ignore[arg-type]
    try:
        rules.block(Rule.WEEK, [17])
        wire.send(5, OTHER)
        assert wire.received() == 0
        night_ns = time.monotonic_ns() + SOON_NS
        day_ns = night_ns + 300_000
        reflex.steps = lambda: (Step(night_ns, frozenset({16}), frozenset()), Step(day_ns, frozenset(), frozenset({17})))
        assert reflex.plan()
        assert reflex.wait((), day_ns + SOON_NS, poll=False) == []
        assert rules.step_done_ns >= day_ns - LEAD_NS
        rules.block(Rule.WEEK, [16])
        rules.unblock(Rule.WEEK, [17])
        rules.reconcile()
        assert wire.received() == 5
        wire.send(20)
        wire.send(5, OTHER)
        assert wire.received() == 5
        rules.unblock(Rule.WEEK, [16])
        assert wire.received() == 20
    finally:
        reflex.close()
