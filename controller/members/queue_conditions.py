"""The operator's conditions of hosts' queues: CONDITIONS to the hosts. Sends only through what it is given.

The store's document is {host: {queue: [condition]}}: a queue is a destination host's name or a class from "0" to "7", a
condition {"number", "from_ns", "until_ns", "rate_bps"} by the store's clock (ns since 1970; null: always). A queue with an
empty list is paused; one that is not mentioned is free. Each host is sent all of its conditions when the document changes, and
every second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from controller.members.part import Part
from controller.members.registry import Members
from protocol.bodies.host_control import FOREVER_NS, Conditions, QueueCondition
from protocol.messages import Message
from protocol.paging import paginate
from protocol.pfc import CLASSES
from protocol.timers import REFRESH_NS, Timers


class QueueConditions(Part):
    """The conditions in force."""

    def __init__(self, members: Members, timers: Timers, send: Callable[[Message, bytes], None]) -> None:
        self.documents = {"queues": self.take}
        self.periodic = ((REFRESH_NS, self.advance),)
        self._members = members
        self._timers = timers
        self._send = send
        self._document: Mapping[str, Mapping[str, list[dict[str, Any]]]] = {}
        self._ahead_ns = 0
        self._version = time.time_ns()
        self._ruled: set[str] = set()
        """Hosts that were sent conditions: when they have none any more they must be sent that, too."""

    # -- conditions -----------------------------------------------------------------------------------------------------

    def take(self, document: Mapping[str, Any], now_ns: int) -> None:
        """Takes {"hosts": the store's document, "ahead_ns": how far the store's clock is ahead of ours}."""
        self._document, self._ahead_ns = document["hosts"], int(document["ahead_ns"])
        self._version += 1
        self._timers.repeat(now_ns, self.advance)

    def advance(self, now_ns: int) -> None:
        """Sends them to every host that has conditions, or had some."""
        if not self._document and not self._ruled:
            return
        nodes = {member.name: member.node for member in self._members.present()}
        for member in self._members.present():
            queues = self._document.get(member.name, {})
            if not queues and member.name not in self._ruled:
                continue
            self._ruled.add(member.name)
            entries = tuple(
                entry for queue, conditions in queues.items() for entry in self._entries(queue, conditions, nodes)
            )
            for page in paginate(Conditions(self._version, 0, 1, entries)):
                self._send(page, member.mac)

    def _entries(self, queue: str, conditions: list[dict[str, Any]], nodes: Mapping[str, int]) -> list[QueueCondition]:
        number = int(queue) if queue.isdecimal() and int(queue) < CLASSES else nodes.get(queue)
        if number is None:  # not a member just now
            return []
        if not conditions:
            return [QueueCondition(number, 0, 0, 0)]
        return [
            QueueCondition(
                number,
                condition["number"],
                self._ours(condition["from_ns"], 0),
                self._ours(condition["until_ns"], FOREVER_NS),
                condition["rate_bps"],
            )
            for condition in conditions
        ]

    def _ours(self, store_ns: int | None, otherwise: int) -> int:
        return otherwise if store_ns is None else max(0, store_ns - self._ahead_ns)
