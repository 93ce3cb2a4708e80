"""PING and PONG: whose time is believed, and that a late wake-up is nobody's time."""

from __future__ import annotations

from types import SimpleNamespace

from agents.loop.clock import Clock
from agents.membership.clock_sync import ClockSync
from protocol.messages import Ping, Pong

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
