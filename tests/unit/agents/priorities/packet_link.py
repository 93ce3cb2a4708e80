"""One switch port, packet by packet: strict priorities over a shared buffer; flows with deadlines by mcp_model.py in the first
queue, long DCTCP flows (RFC 8257) below. Marking is that of controller/switch_queues/model.py, the buffer with one share for
both queues. Receivers of flows with deadlines acknowledge every packet, or several together, as Linux does every two.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.priorities.mcp_settings import McpSettings
from tests.unit.agents.priorities.mcp_model import (
    US_PER_S,
    McpFlow,
    McpWindow,
    expected_rate,
    in_flight,
    queueing_us,
    start,
    step,
    time_left,
    time_of_chance,
)

MSS, FRAME = 1448, 1514
SHARE = 8
GAIN = 1 / 16
FIRST_WINDOW = 10
HOLD_US = 40_000


@dataclass
class Deadline:
    """A flow with a size and a deadline; its end in us after its start."""

    size: int
    deadline_us: int
    start_us: int = 0
    done_us: float | None = None
    lost: int = 0

    @property
    def met(self) -> bool:
        return self.done_us is not None and self.done_us <= self.deadline_us


@dataclass
class Port:
    """The port, and what happens at which time (us)."""

    settings: McpSettings
    buffer: int = 100
    base_us: float = 200
    together: int = 1
    """Packets that receivers acknowledge together, or HOLD_US after the first."""
    now: float = 0.0
    queues: list[deque[tuple[bool, Callable[[bool], None]]]] = field(default_factory=lambda: [deque(), deque()])
    drops: list[int] = field(default_factory=lambda: [0, 0])
    longest: list[int] = field(default_factory=lambda: [0, 0])
    busy: bool = False
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _number: int = 0

    def at(self, when: float, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, call))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, call = heapq.heappop(self._events)
            call()

    def send(self, queue: int, acked: Callable[[bool], None], lost: Callable[[], None]) -> None:
        """One frame; `acked(marked)` or `lost()` is called when its sender learns of it."""
        total = sum(map(len, self.queues))
        if total >= self.buffer or len(self.queues[queue]) >= SHARE * (self.buffer - total):
            self.drops[queue] += 1
            self.at(self.now + self.base_us + total * FRAME / self.settings.link_rate * US_PER_S, lost)
            return
        marked = (total + 1) > self.settings.marking_packets
        self.queues[queue].append((marked, acked))
        self.longest[queue] = max(self.longest[queue], len(self.queues[queue]))
        if not self.busy:
            self._next()

    def _next(self) -> None:
        queue = next((queue for queue in self.queues if queue), None)
        self.busy = queue is not None
        if queue is not None:
            marked, acked = queue.popleft()
            done = self.now + FRAME / self.settings.link_rate * US_PER_S
            self.at(done, self._next)
            self.at(done + self.base_us, lambda: acked(marked))


class Dctcp:
    """A long flow."""

    def __init__(self, port: Port, queue: int = 1) -> None:
        self._port, self._queue = port, queue
        self.cwnd, self.alpha, self.flying, self.total = float(FIRST_WINDOW), 1.0, 0, 0
        self._seen = self._marked = 0
        self._slow_start = True
        port.at(port.now, self._fill)

    def _fill(self) -> None:
        while self.flying < int(self.cwnd):
            self.flying += 1
            self._port.send(self._queue, self._acked, self._lost)

    def _acked(self, marked: bool) -> None:
        self.flying -= 1
        self.total += 1
        self._seen += 1
        self._marked += marked
        if marked:
            self._slow_start = False
        elif self._slow_start:
            self.cwnd += 1
        if self._seen >= int(self.cwnd):
            share = self._marked / self._seen
            self.alpha += GAIN * (share - self.alpha)
            if share:
                self.cwnd = max(2.0, self.cwnd * (1 - self.alpha / 2))
            elif not self._slow_start:
                self.cwnd += 1
            self._seen = self._marked = 0
        self._fill()

    def _lost(self) -> None:
        self.flying -= 1
        self.cwnd = max(2.0, self.cwnd / 2)
        self._slow_start = False
        self._fill()


class Mcp:
    """A flow with a deadline; past it, it is DCTCP in the queue below, as the tagger and baton_mcp have it."""

    def __init__(self, port: Port, flow: Deadline) -> None:
        self._port, self.flow, self._set = port, flow, port.settings
        self._left = self._unacked = -(-flow.size // MSS)
        self._flying = 0
        self._rtt = port.base_us + 100.0
        self._least = float("inf")
        self.state: McpFlow | None = None
        self._began, self._due, self._waiting = 0.0, 0.0, False
        self._sent, self._acked_count, self._round_sent, self._marked = 0, 0, 0, 0
        self._halved_to = 0
        self._rounds = 0
        self._late = False
        self._cwnd = float(FIRST_WINDOW)
        self._held: list[tuple[int, float, bool]] = []
        self._missing = self._unacked
        port.at(flow.start_us, self._handshake)

    def _handshake(self) -> None:
        sent = self._port.now

        def arrived(_: bool) -> None:
            self._rtt = self._least = self._port.now - sent
            self.state = start(self._set, self._window())
            self._begin()
            self._due = self._port.now
            self._pace()

        def lost() -> None:
            self._port.at(self._port.now + 10_000, self._handshake)

        self._port.send(0, arrived, lost)

    def _elapsed(self) -> float:
        return self._port.now - self.flow.start_us

    def _window(self) -> McpWindow:
        left_us = time_left(self._set, self.flow.deadline_us, int(self._elapsed()), int(self._rtt))
        expected = expected_rate(self._unacked * MSS + MSS, left_us, int(self._rtt))
        acked = self._acked_count
        left = int(self.flow.deadline_us - self._elapsed())
        chance_us = time_of_chance(self._set, self._unacked * MSS, left)
        rate = self.state.rate if self.state else 0
        queue_us = queueing_us(int(self._rtt), int(self._least), rate, MSS)
        elapsed_us = int(self._port.now - self._began)
        counts = (acked, self._marked, MSS)
        return McpWindow(expected, elapsed_us, acked * MSS, int(self._rtt), *counts, queue_us, chance_us)

    def _begin(self) -> None:
        self._began, self._acked_count, self._marked = self._port.now, 0, 0
        self._round_sent = self._sent

    def _limit(self) -> int:
        assert self.state is not None
        if self._late:
            return int(self._cwnd)
        return in_flight(self._set, self.state, self._window())

    def _pace(self) -> None:
        """Sends what the window takes, a gap of the rate apart."""
        assert self.state is not None
        if self._waiting or self._left <= 0 or self._flying >= self._limit():
            return
        if self._port.now < self._due:
            self._waiting = True

            def go() -> None:
                self._waiting = False
                self._pace()

            self._port.at(self._due, go)
            return
        self._left -= 1
        self._flying += 1
        self._sent += 1
        number, sent = self._sent, self._port.now
        gap = 0 if self._late else FRAME / self.state.rate * US_PER_S
        self._due = self._port.now + gap
        self._port.send(int(self._late), lambda marked: self._arrived(number, sent, marked), lambda: self._lost(number))
        self._pace()

    def _arrived(self, number: int, sent: float, marked: bool) -> None:
        """The receiver acknowledges the packet and those held back, or holds it back; the way back is part of `base_us`."""
        self._held.append((number, sent, marked))
        self._missing -= 1
        if self._missing == 0:
            self.flow.done_us = self._elapsed()
        if len(self._held) >= self._port.together:
            self._acked()
        elif len(self._held) == 1:
            self._port.at(self._port.now + HOLD_US, lambda: self._held_long(number))

    def _held_long(self, number: int) -> None:
        if self._held and self._held[0][0] == number:
            self._acked()

    def _acked(self) -> None:
        """As in Linux, the round trip time is the first packet's, and the shortest one is found from the last's."""
        held, self._held = self._held, []
        self._flying -= len(held)
        self._unacked -= len(held)
        self._acked_count += len(held)
        marked = any(one[2] for one in held)
        self._marked += sum(one[2] for one in held)
        number = held[-1][0]
        self._rtt += (self._port.now - held[0][1] - self._rtt) / 8
        self._least = min(self._least, self._port.now - held[-1][1])
        if self._unacked == 0:
            return
        if not self._late and self._elapsed() >= self.flow.deadline_us:
            self._late, self._cwnd = True, max(2.0, self._flying)
        if self._late:
            self._cwnd = max(2.0, self._cwnd - 0.5) if marked else self._cwnd + 1 / self._cwnd
        elif number > self._round_sent or self._rounds == 0:
            assert self.state is not None
            if self._rounds:
                self.state = step(self._set, self.state, self._window())
            self._rounds += 1
            self._begin()
        self._pace()

    def _lost(self, number: int) -> None:
        assert self.state is not None
        self.flow.lost += 1
        self._flying -= 1
        self._left += 1
        if number > self._halved_to:
            self._halved_to = self._sent
            self.state = McpFlow(max(MSS * 10, self.state.rate // 2), self.state.behind)
            self._cwnd = max(2.0, self._cwnd / 2)
        self._pace()


def run(
    settings: McpSettings, flows: Sequence[Deadline], *, others: int = 0, until_us: float = 1_000_000, together: int = 1
) -> Port:
    """Runs all flows through one port; fills in their ends."""
    port = Port(settings, together=together)
    for _ in range(others):
        Dctcp(port)
    for flow in flows:
        Mcp(port, flow)
    port.run(until_us)
    return port
