"""Who orders the coflows of an experiment: nobody, the controller's order in this process, or the controller itself. An edge.

`InProcess` gives the queues of `controller.coflows.order` to the hosts' taggers `CONTROL_NS` later, which is what the way
through store, coordinator and agents takes, and reads from the taggers what the agents would report. `ThroughStore` is what
an application does: it opens and closes coflows at the store, and the rest is Baton's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from agents.priorities.tagger import Tagger
from agents.queues.classifier import Address
from controller.coflows.client import CoflowClient, OpenCoflow
from controller.coflows.coflow import Coflow, Flow
from controller.coflows.order import CoflowOrder
from protocol.flowmark import CoflowMark

CONTROL_NS = 5_000_000
SWEEP_NS = 20_000_000
"""How often the coordinator computes the order again, and hosts report bytes."""
NEVER_NS = 1 << 62


class Told(Enum):
    """What applications tell of a coflow when they open it: nothing, the sum of its bytes, or those of each pair of hosts."""

    NOTHING = "nothing"
    SUM = "sum"
    FLOWS = "flows"


class Control:
    """No order: flows are not marked."""

    delay_ns = 0
    """How long an application waits from opening a coflow until it sends: until then its packets would go to the last queue."""

    def open(self, number: int, flows: tuple[Flow, ...], now_ns: int) -> int:
        """Opens a coflow; returns the mark of its sockets."""
        return 0

    def close(self, number: int, now_ns: int) -> None:
        """Closes a coflow: its last byte has arrived."""

    def serve(self, now_ns: int) -> int:
        """Does what is due; returns when it must be called next."""
        return NEVER_NS

    def end(self) -> None:
        """Takes back what it has told."""


class InProcess(Control):
    """The controller's order in this process."""

    delay_ns = CONTROL_NS

    def __init__(
        self, order: CoflowOrder, taggers: Mapping[str, Tagger], hosts: Mapping[Address, str], told: Told
    ) -> None:
        """`hosts`: by address."""
        self._order, self._taggers, self._hosts, self._told = order, taggers, hosts, told
        self._addresses = {host: address for address, host in hosts.items()}
        self._open: dict[int, Coflow] = {}
        self._flows: dict[int, tuple[Flow, ...]] = {}
        self._sweep_ns = 0
        self._queues: dict[int, int] = {}
        self._to_tell: list[tuple[int, dict[int, int]]] = []

    def open(self, number: int, flows: tuple[Flow, ...], now_ns: int) -> int:
        size = sum(flow.size_bytes for flow in flows) if self._told is Told.SUM else None
        known = flows if self._told is Told.FLOWS else ()
        self._flows[number] = flows
        self._open[number] = Coflow(number, now_ns, NEVER_NS, size_bytes=size, flows=known)
        self._changed(now_ns)
        return CoflowMark(number).encode()

    def close(self, number: int, now_ns: int) -> None:
        self._read(now_ns)
        del self._open[number]
        for source, destination, _ in self._flows.pop(number):
            self._taggers[source].forget_coflow_bytes(number, self._addresses[destination])
        self._changed(now_ns)

    def serve(self, now_ns: int) -> int:
        if now_ns >= self._sweep_ns:
            if self._open:
                self._read(now_ns)
            self._reorder(now_ns)
        while self._to_tell and self._to_tell[0][0] <= now_ns:
            _, queues = self._to_tell.pop(0)
            for tagger in self._taggers.values():
                tagger.set_coflows(queues)
        return min(self._sweep_ns, self._to_tell[0][0]) if self._to_tell else self._sweep_ns

    def end(self) -> None:
        for tagger in self._taggers.values():
            tagger.set_coflows({})

    def _read(self, now_ns: int) -> None:
        for source, tagger in self._taggers.items():
            for (coflow, address), size in tagger.coflow_bytes().items():
                self._order.report(coflow, source, self._hosts.get(address, ""), size, now_ns)

    def _changed(self, now_ns: int) -> None:
        self._order.update(self._open.values())
        self._reorder(now_ns)

    def _reorder(self, now_ns: int) -> None:
        self._sweep_ns = now_ns + SWEEP_NS
        queues = self._order.queues(now_ns=now_ns)
        if queues != self._queues:
            self._queues = queues
            self._to_tell.append((now_ns + CONTROL_NS, queues))


class ThroughStore(Control):
    """The controller that runs, by way of its store; its agents tag."""

    def __init__(self, client: CoflowClient, told: Told) -> None:
        self._client, self._told = client, told
        self._open: dict[int, OpenCoflow] = {}

    def open(self, number: int, flows: tuple[Flow, ...], now_ns: int) -> int:
        size = sum(flow.size_bytes for flow in flows) if self._told is Told.SUM else None
        known = flows if self._told is Told.FLOWS else ()
        opened = self._open[number] = self._client.open(str(number), size_bytes=size, flows=known)
        return CoflowMark(opened.id).encode()

    def close(self, number: int, now_ns: int) -> None:
        self._open.pop(number).close()

    def end(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
