"""A part of the coordinator, with messages, documents and periodic calls of its own and its share of the status. Pure.

The coordinator is a list of parts: messages, documents, periodic calls and members that join or leave all go through the list.
A part sends only through what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from types import MappingProxyType
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.registry import Member
from protocol.timers import REFRESH_NS, Timers
from protocol.units import MILLISECOND_NS

NOTHING: Mapping[Any, Any] = MappingProxyType({})
SWEEP_NS = 24 * MILLISECOND_NS
"""As often as every second heartbeat, unless configured otherwise: calls that are due together wake the process once."""
STATUS_NS = 250 * MILLISECOND_NS
"""How often the documents for operators are published."""
SUMMARY_NS = 2 * STATUS_NS
"""How often those are published that nobody waits for."""


def periods(settings: CoordinatorSettings) -> dict[int, int]:
    """How often a coordinator makes the calls of certain periods where heartbeats, reports and silence are longer than usual.

    What follows from the hosts' reports need not be looked at, published or repeated more often than they come.
    """
    return {
        SWEEP_NS: max(SWEEP_NS, min(2 * settings.heartbeat_ns, settings.report_ns, settings.silence_ns // 10)),
        **{period_ns: max(period_ns, settings.report_ns) for period_ns in (STATUS_NS, SUMMARY_NS, REFRESH_NS)},
    }


class Part:
    """What the coordinator asks of a part. A subclass states only what it does; all else does nothing."""

    handlers: Mapping[type, Callable[[Member, Any, int], None]] = NOTHING
    """By type of message: called with the member that sent it, the verified message and the time (ns)."""
    documents: Mapping[str, Callable[[Any, int], None]] = NOTHING
    """By name of what the store bridge tells (see controller/coordinator/store_bridge.py): called with it and the time (ns)."""
    periodic: Sequence[tuple[int, Callable[[int], None]]] = ()
    """Calls with the period (ns) of each: made once when the coordinator begins to lead, and then once a period."""

    def joined(self, node: int) -> None:
        """A member registered: for the first time, anew, or with other addresses."""

    def left(self, node: int, now_ns: int) -> None:
        """A member left, or fell silent. It is in the registry no more."""

    def reported(self, node: int, sent: Mapping[int, int], regulated: Set[int]) -> None:
        """What a member's large flows sent since its last report, in bytes by destination, and the destinations that it needed
        permission for."""

    def contended(self, links: frozenset[Any], now_ns: int) -> None:
        """Links were found contended: the pairs across them are regulated next."""

    def tell(self, member: Member) -> None:
        """Sends a member in full what it may have missed: it asked for that."""

    def status(self) -> dict[str, Any]:
        """This part's fields of the coordinator's status, as JSON values."""
        return {}

    def of_member(self, node: int) -> dict[str, Any]:
        """This part's fields of a present member's document, as JSON values."""
        return {}

    def warnings(self) -> list[str]:
        """What an operator should look at in the fabric, as lines: what is wrong; what to do."""
        return []

    def warnings_of(self, node: int) -> list[str]:
        """The same, of a present member."""
        return []


HEARD = ("joined", "left", "reported", "contended", "tell", "of_member", "warnings_of")
"""What comes for each member, or again and again: parts that do nothing then are not called."""


class Parts:
    """All parts of a coordinator: each event goes to every part, in the order in which they were added, whatever one of them
    raises; its error is raised afterwards, those of several parts as one `ExceptionGroup`."""

    def __init__(self) -> None:
        self.handlers: dict[type, Callable[[Member, Any, int], None]] = {}
        self._parts: list[Part] = []
        self._hear: dict[str, list[Callable[..., Any]]] = {name: [] for name in HEARD}
        """By event or question: of those parts that hear it, what they have for it."""

    def add(self, *parts: Part) -> None:
        """Appends parts; of two handlers of one type of message the later one counts."""
        for part in parts:
            self._parts.append(part)
            self.handlers.update(part.handlers)
            for name, calls in self._hear.items():
                if getattr(type(part), name) is not getattr(Part, name):
                    calls.append(getattr(part, name))

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def begin(self, timers: Timers, now_ns: int, periods: Mapping[int, int] = NOTHING) -> None:
        """Has every periodic call made from now on, with another period where `periods` has one in place of the part's own."""
        for part in self._parts:
            for period_ns, call in part.periodic:
                timers.every(now_ns, periods.get(period_ns, period_ns), call)

    def take(self, line: Mapping[str, Any], now_ns: int) -> None:
        """Gives a line of the store bridge, {name: document}, to all parts that know a document of that name."""
        told = ((part.documents[name], line[name]) for name in line for part in self._parts if name in part.documents)
        _call_all((partial(take, document) for take, document in told), now_ns)

    def joined(self, node: int) -> None:
        _call_all(self._hear["joined"], node)

    def left(self, node: int, now_ns: int) -> None:
        _call_all(self._hear["left"], node, now_ns)

    def reported(self, node: int, sent: Mapping[int, int], regulated: Set[int]) -> None:
        _call_all(self._hear["reported"], node, sent, regulated)

    def contended(self, links: frozenset[Any], now_ns: int) -> None:
        _call_all(self._hear["contended"], links, now_ns)

    def tell(self, member: Member) -> None:
        _call_all(self._hear["tell"], member)

    def status(self) -> dict[str, Any]:
        """The fields of all parts, and their `warnings`."""
        found: dict[str, Any] = {"warnings": [line for part in self._parts for line in part.warnings()]}
        for part in self._parts:
            found |= part.status()
        return found

    def of_member(self, node: int) -> dict[str, Any]:
        """The fields of all parts for one member, and their `warnings`."""
        found: dict[str, Any] = {"warnings": [line for warnings_of in self._hear["warnings_of"] for line in warnings_of(node)]}
        for of_member in self._hear["of_member"]:
            found |= of_member(node)
        return found


def _call_all(calls: Iterable[Callable[..., object]], *what: object) -> None:
    """Calls all of them, whatever one raises. Raises the error, or all errors in a group."""
    failed: list[Exception] = []
    for call in calls:
        try:
            call(*what)
        except Exception as error:
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup("several parts failed", failed)
