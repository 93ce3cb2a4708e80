"""Runs coflows over an emulated fabric, and closes each when its last byte has arrived, as its application would. An edge.

It opens sockets in the hosts' namespaces. Who orders the coflows is given: `emulation.traffic.coflow_control`. Open loop: a
coflow is opened at its time, whether or not others have completed.
"""

from __future__ import annotations

import heapq
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from agents.priorities.tagger import Tagger
from controller.coflows.coflow import Flow
from emulation.fabric.fabric import EmulatedFabric
from emulation.measuring.wakeful import wakeful
from emulation.netns import network_of
from emulation.traffic.coflow_control import Control
from emulation.traffic.flow_load import PRIORITY, Receiving, Sending

PORT = 6000
BEGIN_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class ScheduledCoflow:
    """A coflow: opened `start_ns` after the beginning; its flows by pair of hosts. Numbers begin at 1."""

    number: int
    start_ns: int
    flows: tuple[Flow, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of all its flows."""
        return sum(flow.size_bytes for flow in self.flows)


@dataclass(frozen=True, slots=True)
class CoflowResult:
    """`late_ns`: how much later than scheduled it was opened, or its flows began after that, whichever is more; `cct_ns`: from
    its opening to its last byte at its last receiver; None if that did not arrive."""

    coflow: ScheduledCoflow
    late_ns: int
    cct_ns: int | None


@contextmanager
def taggers_at(emulated: EmulatedFabric) -> Iterator[dict[str, Tagger]]:
    """A tagger at every host's egress, by host. Raises BuildError, BpfError."""
    with ExitStack() as stack:
        found = {}
        for host in emulated.fabric.hosts:
            with network_of(emulated.node(host).pid):
                found[host] = Tagger(emulated.interface(host))
            stack.callback(found[host].close)
        yield found


def run(
    emulated: EmulatedFabric,
    coflows: Sequence[ScheduledCoflow],
    *,
    control: Control | None = None,
    drain_s: float = 5.0,
    host_queues: bool = True,
) -> tuple[CoflowResult, ...]:
    """Runs the coflows, and waits up to `drain_s` after the last one opens for those still under way.

    Args:
        control: who orders them; None: nobody, and flows are not marked.
        host_queues: whether the hosts' interfaces are the experiment's own; False with agents.
    """
    emulated.verify(hosts=host_queues)
    with _Run(emulated, control or Control()) as running, wakeful(), _urgent():
        return running.run(coflows, drain_s)


@contextmanager
def _urgent() -> Iterator[None]:
    """Runs this process at the traffic programs' real-time priority, if allowed."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


@dataclass(slots=True)
class _Open:
    """A coflow that is under way."""

    coflow: ScheduledCoflow
    mark: int
    opened_ns: int
    late_ns: int
    left: int
    sending: list[Sending] = field(default_factory=list)


class _Run:
    def __init__(self, emulated: EmulatedFabric, control: Control) -> None:
        self._emulated, self._control = emulated, control
        self._addresses = {name: str(address) for name, address in emulated.endpoints().items()}
        self._poll = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        self._sending: dict[int, Sending] = {}
        self._receiving: dict[int, Receiving] = {}
        self._open: dict[int, _Open] = {}
        self._of_flow: dict[int, int] = {}
        self._results: dict[int, CoflowResult] = {}
        self._buffer = bytearray(1 << 18)

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        for coflow in self._open.values():
            for flow in coflow.sending:
                flow.sock.close()
        for receiving in self._receiving.values():
            receiving.sock.close()
        for listener in self._listeners.values():
            listener.close()
        self._poll.close()
        self._control.end()

    def run(self, coflows: Sequence[ScheduledCoflow], drain_s: float) -> tuple[CoflowResult, ...]:
        for name in sorted({target for coflow in coflows for _, target, _ in coflow.flows}):
            self._listen(name)
        begin_ns = time.monotonic_ns() + BEGIN_NS
        due = [(begin_ns + coflow.start_ns, coflow.number, coflow) for coflow in coflows]
        heapq.heapify(due)
        until_ns = max(due)[0] + round(drain_s * 1e9)
        while (due or self._open) and (now_ns := time.monotonic_ns()) < until_ns:
            while due and due[0][0] <= now_ns:
                wanted_ns, _, coflow = heapq.heappop(due)
                if coflow.number in self._open:
                    self._start(self._open[coflow.number], wanted_ns)
                else:
                    self._opened(coflow, now_ns, now_ns - wanted_ns)
                    heapq.heappush(due, (now_ns + self._control.delay_ns, coflow.number, coflow))
            wake_ns = min(due[0][0] if due else until_ns, self._control.serve(now_ns))
            for descriptor, events in self._poll.poll(max(0, wake_ns - time.monotonic_ns()) / 1e9):
                self._event(descriptor, events)
        lost = {number: CoflowResult(one.coflow, one.late_ns, None) for number, one in self._open.items()}
        return tuple(result for _, result in sorted({**lost, **self._results}.items()))

    def _listen(self, name: str) -> None:
        with network_of(self._emulated.node(name).pid):
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._emulated.congestion_control.encode())
        listener.bind(("", PORT))
        listener.listen(1024)
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self._poll.register(listener, select.EPOLLIN)

    def _opened(self, coflow: ScheduledCoflow, now_ns: int, late_ns: int) -> None:
        mark = self._control.open(coflow.number, coflow.flows, now_ns)
        self._open[coflow.number] = _Open(coflow, mark, now_ns, late_ns, len(coflow.flows))

    def _start(self, opened: _Open, wanted_ns: int) -> None:
        coflow = opened.coflow
        for source, target, size in coflow.flows:
            number = len(self._of_flow)
            self._of_flow[number] = coflow.number
            wanted: dict[str, Any] = {"flow": number, "start_ns": wanted_ns, "to": self._addresses[target], "port": PORT}
            with network_of(self._emulated.node(source).pid):
                flow = Sending({**wanted, "size": size, "mark": opened.mark, "dscp": None, "control": None})
            opened.sending.append(flow)
            self._sending[flow.sock.fileno()] = flow
            self._poll.register(flow.sock, select.EPOLLOUT)

    def _event(self, descriptor: int, events: int) -> None:
        if descriptor in self._listeners:
            with suppress(BlockingIOError):
                while True:
                    flow = Receiving(self._listeners[descriptor].accept()[0], 0, 0)
                    flow.sock.setblocking(False)
                    self._receiving[flow.sock.fileno()] = flow
                    self._poll.register(flow.sock, select.EPOLLIN)
        elif descriptor in self._sending:
            if self._sending[descriptor].write():
                self._poll.unregister(descriptor)
                del self._sending[descriptor]
        elif (received := self._receiving[descriptor]).read(self._buffer):
            self._poll.unregister(descriptor)
            del self._receiving[descriptor]
            received.sock.close()
            if received.row["complete"]:
                self._ended(self._of_flow[received.row["flow"]], received.row["last_ns"])

    def _ended(self, number: int, last_ns: int) -> None:
        opened = self._open[number]
        opened.left -= 1
        if opened.left:
            return
        del self._open[number]
        for flow in opened.sending:
            flow.sock.close()
        late_ns = max(opened.late_ns, *(flow.row["late_ns"] for flow in opened.sending))
        self._results[number] = CoflowResult(opened.coflow, late_ns, last_ns - opened.opened_ns)
        self._control.close(number, time.monotonic_ns())
