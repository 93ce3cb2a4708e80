"""PING and PONG: whose time is believed, and that a late wake-up is nobody's time."""

from __future__ import annotations

import time
from types import SimpleNamespace

from agents.loop.clock import Clock
from agents.membership.clock_sync import ClockSync
from protocol.messages import Cause, Directive, Grant, Ping, Pong
from protocol.units import SECOND_NS
from tests.unit.agents.membership.test_agent_heartbeats import World

AHEAD = 1_000_000
"""The leader's clock before ours (ns)."""


def test_the_offset_is_by_when_the_answer_arrived_however_late_it_is_read() -> None:
    agent = SimpleNamespace(clock=Clock(), member=True, sent=[])
    agent.send_stamped = lambda message: agent.sent.append(message(100))
    part = ClockSync(agent, lambda: 300)
    part.advance(90)
    assert agent.sent == [Ping(100)]
    part.handlers[Pong](Pong(100, 190 + AHEAD, 210 + AHEAD), 90_000)  # read 89.7 us late; 90 ns each way
    assert (agent.clock.offset_ns, agent.clock.uncertainty_ns(300)) == (AHEAD, 90)


def test_no_slot_is_taken_by_the_clock_of_a_leader_before() -> None:
    agent, now_ns = World().agent, time.monotonic_ns()
    agent.keeper.regulate(frozenset({17}), now_ns)
    directive = Directive((Grant(17, 1, now_ns + SECOND_NS, now_ns + 2 * SECOND_NS, 10_000, 0),))
    agent._on_directive(directive, now_ns)
    assert not agent.keeper.table.waiting and agent.guard.refused[Cause.CLOCK] == 1
    agent.clock.sample(now_ns, now_ns, now_ns, now_ns)
    agent._on_directive(directive, now_ns)
    assert list(agent.keeper.table.waiting) == [1]
    agent.parts.new_leader(now_ns)
    agent.keeper.table.clear(17)
    agent._on_directive(directive, now_ns)
    assert not agent.keeper.table.waiting and agent.guard.refused[Cause.CLOCK] == 2
