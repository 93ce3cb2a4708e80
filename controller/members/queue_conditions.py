"""The operator's conditions of hosts' queues: CONDITIONS to the hosts. Sends only through what it is given.

The store's document is {host: {queue: [condition]}}: a queue is a destination host's name or a class from "0" to "7", a
condition {"number", "from_ns", "until_ns", "rate_bps"} by the store's clock (ns since 1970; null: always). A queue with an
empty list is paused; one that is not mentioned is free. Each host is sent all of its conditions when the document changes, and
every second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from controller.members.part import Part
from controller.members.registry import Members
from protocol.bodies.host_control import CONDITION, FOREVER_NS, Conditions, QueueCondition, check_condition
from protocol.bodies.text import printable
from protocol.messages import Message
from protocol.paging import paginate
from protocol.pfc import CLASSES
from protocol.timers import REFRESH_NS, Timers

log = logging.getLogger("baton.coordinator")

CLASS_NAMES = frozenset(map(str, range(CLASSES)))


class QueueConditions(Part):
    """The conditions in force."""

    def __init__(self, members: Members, timers: Timers, send: Callable[[Message, bytes], None]) -> None:
        self.documents = {"queues": self.take}
        self.periodic = ((REFRESH_NS, self.advance),)
        self._members = members
        self._timers = timers
        self._send = send
        self._document: dict[str, dict[str, list[QueueCondition]]] = {}
        """By host and queue; the number of the queue is not in them yet."""
        self._wrong: set[str] = set()
        """What of the document made no sense."""
        self._version = time.time_ns()
        self._ruled: set[str] = set()
        """Hosts that were sent conditions: when they have none any more they must be sent that, too."""

    # -- conditions -----------------------------------------------------------------------------------------------------

    def take(self, document: Mapping[str, Any], now_ns: int) -> None:
        """Takes {"hosts": the store's document, "ahead_ns": how far the store's clock is ahead of ours}. A condition that makes
        no sense is told, and left out; a queue that has no other is free."""
        self._document = self._read(document["hosts"], int(document["ahead_ns"]))
        self._version += 1
        self._timers.repeat(now_ns, self.advance)

    def advance(self, now_ns: int) -> None:
        """Sends them to every host that has conditions, or had some."""
        if not self._document and not self._ruled:
            return
        nodes = self._members.by_name()
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

    def _entries(
        self, queue: str, conditions: list[QueueCondition], nodes: Mapping[str, list[int]]
    ) -> Iterator[QueueCondition]:
        """The conditions of a queue; of a host that is a member by several interfaces, of the queue of each."""
        for number in [int(queue)] if queue in CLASS_NAMES else nodes.get(queue, ()):
            for condition in conditions or (QueueCondition(0, 0, 0, 0),):
                yield replace(condition, queue=number)

    def _read(self, hosts: Mapping[str, Any], ahead_ns: int) -> dict[str, dict[str, list[QueueCondition]]]:
        found: dict[str, dict[str, list[QueueCondition]]] = {}
        wrong: dict[str, str] = {}
        for host, queues in hosts.items():
            if not isinstance(queues, dict):
                wrong[f"what the document has of {host}"] = "it is no mapping of queues"
                continue
            for queue, conditions in queues.items():
                good = []
                for at, condition in enumerate(conditions if isinstance(conditions, list) else [conditions]):
                    try:
                        good.append(_condition(condition, ahead_ns))
                    except (KeyError, TypeError, ValueError) as error:
                        wrong[f"condition {at} of queue {queue} of {host}"] = f"{type(error).__name__}: {error}"
                if good or conditions == []:
                    found.setdefault(host, {})[queue] = good
        for what, why in wrong.items():
            if what not in self._wrong:
                log.warning("%s", printable(f"{what} makes no sense, and is left out; give it by `baton queue` ({why})"))
        self._wrong = set(wrong)
        return found


def _condition(condition: Mapping[str, Any], ahead_ns: int) -> QueueCondition:
    """A condition of the document, by our clock. Raises KeyError, TypeError, ValueError: it is none that hosts can be told."""

    def ours(store_ns: int | None, otherwise: int) -> int:
        return otherwise if store_ns is None else max(0, store_ns - ahead_ns)

    from_ns, until_ns = ours(condition["from_ns"], 0), ours(condition["until_ns"], FOREVER_NS)
    found = QueueCondition(0, condition["number"], from_ns, until_ns, condition["rate_bps"])
    check_condition(found)
    CONDITION.pack("condition", *CONDITION.values(found))
    return found
