"""A link that was just found contended is granted less for a moment, so that its buffer empties."""

from __future__ import annotations

import pytest

from controller.scheduling.links.drain import DRAIN_NS, PAUSE_NS, Drains
from tests.unit.controller.scheduling.links.test_capacities import LINK, MBIT, World


def contended(world: World) -> None:
    """h1 and h2 send what they can to h4, and the coordinator hears of it."""
    for node in (16, 17):
        world.regulation.congestion.report(node, {18: (95 * MBIT, 0)}, now_ns=world.now_ns)
    world.regulation.update(world.now_ns)


def test_a_link_that_was_found_contended_is_granted_less_for_a_moment() -> None:
    world = World()
    assert world.left_mbps() == 100
    contended(world)
    assert LINK in world.regulation.congestion.contended()
    assert world.left_mbps() == 75
    world.timers.run(world.now_ns + DRAIN_NS - 1)
    assert world.left_mbps() == 75
    world.timers.run(world.now_ns + DRAIN_NS)
    assert world.left_mbps() == 100


def test_where_nobody_needs_permission_nothing_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(type(world.granting.policy), "needs_permission", False)
    contended(world)
    assert world.left_mbps() == 100


def test_a_contended_link_that_drops_is_drained_again_and_not_too_often() -> None:
    world = World()
    contended(world)
    world.read({"h1": 50, "h2": 48})
    world.timers.run(world.now_ns)
    drained = []
    for _ in range(12):
        world.read({"h1": 50, "h2": 48}, dropped=3)
        drained.append(world.left_mbps() == 75)
        world.timers.run(world.now_ns + DRAIN_NS)
        assert world.left_mbps() == 100
    assert 2 <= sum(drained) <= 3, "once a second"
    world.now_ns += PAUSE_NS
    world.read({"h1": 50, "h2": 48})
    assert world.left_mbps() == 100, "no drops"


def test_what_hosts_without_an_agent_take_is_taken_off_beside_it() -> None:
    world = World()
    for _ in range(8):
        world.read({"h1": 40, "h2": 20, "h3": 30})
    left = world.left_mbps()
    assert 60 < left < 75
    contended(world)
    assert world.left_mbps() == left - 25


def test_a_link_is_drained_once_in_a_while() -> None:
    drains = Drains[str]()
    assert drains.begin(["a"], 0) == {"a"}
    assert drains.begin(["a", "b"], DRAIN_NS // 2) == {"b"}
    assert drains.active(DRAIN_NS // 2) == {"a", "b"}
    assert drains.active(DRAIN_NS) == {"b"}
    assert drains.begin(["a"], PAUSE_NS - 1) == frozenset()
    assert drains.begin(["a"], PAUSE_NS) == {"a"}
