"""The order of coflows, told to every member: COFLOWS messages. Sends only through what it is given.

A member that missed one sends a coflow's packets in another queue than its peers do, so a change is told three times, and all
is told again each second. One frame to the group address reaches everybody, whatever the number of members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.priorities.coflows import Coflow, CoflowOrder
from protocol.messages import HEARTBEAT_MAC, Coflows, Message
from protocol.paging import paginate
from protocol.timers import Timers


class CoflowTelling:
    """The queues of the open coflows as last worked out, and as told."""

    def __init__(self, timers: Timers, send: Callable[[Message, bytes], None]) -> None:
        self.queues: dict[int, int] = {}
        """Of every coflow that is not in the last queue, by id."""
        self._order = CoflowOrder()
        self._timers = timers
        self._send = send
        self._version = 0

    def opened(self, documents: Mapping[str, Mapping[str, Any]], ahead_ns: int, now_ns: int) -> None:
        """Takes the open coflows as the store has them, whose clock is `ahead_ns` before ours."""
        self._order.update(_coflow(int(number), document, ahead_ns) for number, document in documents.items())
        self.update(now_ns)

    def update(self, now_ns: int) -> None:
        """Works the order out again, for time changes it too, and tells it if it is another."""
        queues = self._order.queues(now_ns=now_ns)
        if queues == self.queues:
            return
        self.queues = queues
        self._version += 1
        self._timers.repeat(now_ns, self.tell)

    def tell(self, _: int) -> None:
        """Tells everybody in full."""
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
