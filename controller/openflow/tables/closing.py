"""Which switches have been told to close ports and have not said yet that they did. Pure.

A link that leaves the spanning tree is closed before another one joins it: with both open, broadcasts go round. One end that is
closed is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from controller.openflow.intake.hosts import PortRef
from controller.openflow.tables.flowtable import IN_PORT, Ports
from controller.openflow.view import Link
from protocol.units import MILLISECOND_NS

ANSWER_NS = 30_000 * MILLISECOND_NS
"""How long links that might make a loop with the ports of a switch stay closed while it does not say that it has closed these,
though it answers other messages. It has been asked for two signs of life meanwhile (controller/openflow/framework.py)."""
SILENT_NS = 75_000 * MILLISECOND_NS
"""The same, of a switch that answers nothing, or has its whole table to put: as long as it may owe signs of life."""


class _Told(NamedTuple):
    """A switch answers `barrier` when it has closed these ports (IN_PORT: when it sends frames back no more); None: it could
    not be told yet. `since_ns`: when it was asked for the last of them; `whole`: it has its whole table to put, too."""

    barrier: int | None
    ports: Ports
    since_ns: int
    whole: bool


class Closing:
    """What switches still have to close, by datapath id."""

    def __init__(self) -> None:
        self._told: dict[int, _Told] = {}
        self._far: dict[PortRef, PortRef] = {}
        """Where the link of a port ends, or did the last time that it had one."""

    def __bool__(self) -> bool:
        return bool(self._told)

    def linked(self, links: Iterable[Link]) -> None:
        """Notes where links end."""
        for link in links:
            self._far[link.a], self._far[link.b] = link.b, link.a

    @property
    def awaits_answer(self) -> bool:
        """Whether a switch owes the answer to a barrier."""
        return any(told.barrier is not None for told in self._told.values())

    def told(self, dpid: int, barrier: int, ports: Ports, now_ns: int, *, whole: bool = False) -> None:
        """A switch has been told to close ports."""
        before = self._told.get(dpid, _Told(None, frozenset(), now_ns, whole=False))
        self._told[dpid] = _Told(barrier, before.ports | ports, now_ns, before.whole or whole)

    def cannot_tell(self, dpid: int, ports: Ports, now_ns: int) -> None:
        """A switch is to close ports, but does not read; or it may have them open, and has not been sent its table yet."""
        before = self._told.get(dpid, _Told(None, frozenset(), now_ns, whole=False))
        since_ns = before.since_ns if ports <= before.ports else now_ns
        self._told[dpid] = before._replace(barrier=None, ports=before.ports | ports, since_ns=since_ns)

    @property
    def untold(self) -> set[int]:
        """The switches that could not be told."""
        return {dpid for dpid, told in self._told.items() if told.barrier is None}

    def passed(self, dpid: int, barrier: int) -> None:
        """A switch has answered a barrier."""
        if dpid in self._told and self._told[dpid].barrier == barrier:
            del self._told[dpid]

    def forget(self, dpid: int) -> None:
        """A switch's connection has ended."""
        self._told.pop(dpid, None)

    def forget_all(self) -> None:
        """After a change of leader."""
        self._told.clear()

    def is_late(self, dpid: int, now_ns: int, *, silent: bool) -> bool:
        """Whether a switch has not closed its ports for longer than it may take; `silent`: it answers nothing else either."""
        told = self._told.get(dpid)
        return told is not None and now_ns - told.since_ns >= (SILENT_NS if silent or told.whole else ANSWER_NS)

    def unclosed(self, in_tree: Callable[[PortRef], bool], is_known: Callable[[int], bool]) -> tuple[set[int], set[int]]:
        """The switches at which a link that leaves the tree may be open yet, as it may be at its other end, and those that may
        send back yet, as a root does.

        `in_tree`: whether a port is to be in the tree; `is_known`: whether a switch is connected and what it holds is known.
        """
        unclosed = {PortRef(dpid, number) for dpid, told in self._told.items() for number in told.ports}

        def is_closed(ref: PortRef | None) -> bool:
            return ref is not None and is_known(ref.dpid) and ref not in unclosed and not in_tree(ref)

        ports = [ref for ref in unclosed if ref.number != IN_PORT and not in_tree(ref)]
        links = {ref.dpid for ref in ports if not is_closed(self._far.get(ref))}
        return links, {ref.dpid for ref in unclosed if ref.number == IN_PORT}
