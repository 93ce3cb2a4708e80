"""One link as a fluid, in steps of time: flows with deadlines by mcp_model.py, others as DCTCP's fluid
(RFC 8257).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.priorities.mcp_settings import McpSettings
from tests.unit.agents.priorities.mcp_model import (
    US_PER_S,
    McpFlow,
    McpWindow,
    expected_rate,
    gives_up,
    start,
    step,
    time_left,
)

MSS = 1448
GAIN = 1 / 16


@dataclass
class Deadline:
    """A flow with a size and a deadline; its end, or when it was given up, in us after its start."""

    size: int
    deadline_us: int
    start_us: int = 0
    done_us: float | None = None
    given_up: bool = False


@dataclass
class Outcome:
    """The result of a run: bytes of all DCTCP flows together, the longest queue in bytes, the rates after each update."""

    background: float = 0.0
    longest: float = 0.0
    rates: list[int] = field(default_factory=list)


def run(
    settings: McpSettings,
    flows: Sequence[Deadline],
    *,
    others: int = 0,
    base_us: int = 200,
    buffer_packets: int = 100,
    until_us: int = 1_000_000,
) -> Outcome:
    """Runs all flows over one link, a fluid of `settings.link_rate`, until `until_us`; fills in the flows' ends."""
    link, outcome = settings.link_rate, Outcome()
    threshold, buffer = settings.marking_packets * MSS, buffer_packets * MSS
    queue, now, dt = 0.0, 0.0, base_us / 2
    mcp = [_Mcp(settings, flow, outcome) for flow in flows]
    dctcp = [_Dctcp() for _ in range(others)]
    while now < until_us:
        rtt = base_us + queue / link * US_PER_S
        active = [flow for flow in mcp if flow.is_active(now)]
        everyone: list[_Mcp | _Dctcp] = [*active, *dctcp]
        rates = [flow.rate(now, rtt) for flow in everyone]
        offered = sum(rates)
        carried = link if queue > 0 else min(offered, link)
        for flow, rate in zip(everyone, rates, strict=True):
            if offered:
                flow.deliver(now, rtt, rate / offered * carried * dt / US_PER_S, queue > threshold)
        queue = min(max(queue + (offered - link) * dt / US_PER_S, 0.0), buffer)
        outcome.longest = max(outcome.longest, queue)
        now += dt
    outcome.background = sum(flow.total for flow in dctcp)
    return outcome


class _Window:
    """The counts of one round trip."""

    def __init__(self) -> None:
        self.began, self.bytes, self.marked = 0.0, 0.0, 0.0

    def add(self, amount: float, is_marked: bool) -> None:
        self.bytes += amount
        self.marked += amount if is_marked else 0.0


class _Mcp:
    def __init__(self, settings: McpSettings, flow: Deadline, outcome: Outcome) -> None:
        self.settings, self.flow, self.outcome = settings, flow, outcome
        self.left = float(flow.size)
        self.state: McpFlow | None = None
        self.window = _Window()

    def is_active(self, now: float) -> bool:
        return now >= self.flow.start_us and self.flow.done_us is None and not self.flow.given_up

    def _window(self, now: float, rtt: float) -> McpWindow:
        left_us = time_left(self.settings, self.flow.deadline_us, int(now - self.flow.start_us), int(rtt))
        expected = expected_rate(int(self.left), left_us, int(rtt))
        counts = (int(self.window.bytes), int(self.window.marked))
        return McpWindow(expected, int(now - self.window.began), counts[0], int(rtt), *counts, MSS)

    def rate(self, now: float, rtt: float) -> float:
        if self.state is None:
            self.window.began = now
            self.state = start(self.settings, self._window(now, rtt))
        return float(self.state.rate)

    def deliver(self, now: float, rtt: float, amount: float, is_marked: bool) -> None:
        self.left -= amount
        self.window.add(amount, is_marked)
        if self.left <= 0:
            self.flow.done_us = now - self.flow.start_us
        elif self.state is not None and now - self.window.began >= rtt:
            window = self._window(now, rtt)
            self.state = step(self.settings, self.state, window)
            self.outcome.rates.append(self.state.rate)
            self.window = _Window()
            self.window.began = now
            to_deadline = int(self.flow.deadline_us - (now - self.flow.start_us))
            self.flow.given_up = gives_up(self.settings, self.state, window, int(self.left), max(to_deadline, 0))


class _Dctcp:
    def __init__(self) -> None:
        self.cwnd, self.alpha, self.total, self.window = 10.0 * MSS, 1.0, 0.0, _Window()

    def rate(self, now: float, rtt: float) -> float:
        return self.cwnd / rtt * US_PER_S

    def deliver(self, now: float, rtt: float, amount: float, is_marked: bool) -> None:
        self.total += amount
        self.window.add(amount, is_marked)
        if now - self.window.began >= rtt:
            fraction = self.window.marked / self.window.bytes
            self.alpha += GAIN * (fraction - self.alpha)
            self.cwnd = max(self.cwnd * (1 - self.alpha / 2), 2 * MSS) if fraction else self.cwnd + MSS
            self.window = _Window()
            self.window.began = now
