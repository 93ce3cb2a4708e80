"""The order of coflows, sent to every member: COFLOWS messages. Sends only through what it is given.

A member that missed one sends a coflow's packets in another queue than its peers do, so a change is sent three times, and all
is sent again each second. One frame to the group address reaches all members, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.members.part import SWEEP_NS, Part
from controller.priorities.coflows import Coflow, CoflowOrder
from protocol.messages import HEARTBEAT_MAC, Coflows, Message
from protocol.paging import paginate
from protocol.timers import REFRESH_NS, Timers


class CoflowQueues(Part):
    """The queues of the open coflows as last worked out, and as sent."""

    def __init__(self, timers: Timers, send: Callable[[Message, bytes], None]) -> None:
        self.documents = {"coflows": self._take}
        self.periodic = ((SWEEP_NS, self.update), (REFRESH_NS, self._tell_all))
        self.queues: dict[int, int] = {}
        """The queue of every coflow that is not in the last one, by id."""
        self._order = CoflowOrder()
        self._timers = timers
        self._send = send
        self._version = 0

    def opened(self, documents: Mapping[str, Mapping[str, Any]], ahead_ns: int, now_ns: int) -> None:
        """Takes the open coflows as the store has them; its clock is `ahead_ns` ahead of ours."""
        self._order.update(_coflow(int(number), document, ahead_ns) for number, document in documents.items())
        self.update(now_ns)

    def update(self, now_ns: int) -> None:
        """Works the order out again, since time alone changes it too, and sends it if it has changed."""
        queues = self._order.queues(now_ns=now_ns)
        if queues == self.queues:
            return
        self.queues = queues
        self._version += 1
        self._timers.repeat(now_ns, self._tell_all)

    def status(self) -> dict[str, Any]:
        return {"coflows": self.queues}

    def _take(self, document: Mapping[str, Any], now_ns: int) -> None:
        self.opened(document["open"], document["ahead_ns"], now_ns)

    def _tell_all(self, _: int) -> None:
        for page in paginate(Coflows(self._version, 0, 1, tuple(sorted(self.queues.items())))):
            self._send(page, HEARTBEAT_MAC)


def _coflow(number: int, document: Mapping[str, Any], ahead_ns: int) -> Coflow:
    deadline_ns = document["deadline_ns"]
    return Coflow(
        coflow=number,
        opened_ns=document["opened_ns"] - ahead_ns,
        expires_ns=document["expires_ns"] - ahead_ns,
        deadline_ns=None if deadline_ns is None else deadline_ns - ahead_ns,
        size_bytes=document["size_bytes"],
    )
