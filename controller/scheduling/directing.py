"""Plans carried out: directives to members, and word of each slot to all listeners. Sends only through what it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from controller.frames.book import Book, rows
from controller.frames.told import Planned
from controller.members.registry import Member, Members
from controller.policies.base import Plan, Slot
from controller.scheduling.telemetry import Telemetry
from controller.slots.slot_events import SlotListener
from protocol.bodies.host_control import Week
from protocol.messages import Directive, Grant, Message


class Exchange(Protocol):
    """What takes and sends frames in batches (controller/frames/exchange.py)."""

    book: Book

    def set_terms(self, grace_ns: int, late_ns: int) -> None: ...

    def direct(self, revoked: NDArray[Any], granted: NDArray[Any], watched: int, now_ns: int) -> list[int]: ...

    def forget(self, node: int) -> None: ...

    def has_later(self, node: int, then_ns: int) -> bool: ...


class Directing:
    """Sends what a plan says, by the exchange or one by one.

    Args:
        listeners: hear of every slot that is sent one by one; of the others the exchange keeps account, and `telemetry` hears
            of as many as it has room for.
        on_week: called with every week that a member is sent, and the time (ns).
    """

    def __init__(
        self,
        members: Members,
        send: Callable[[Message, bytes], None],
        telemetry: Telemetry,
        listeners: Sequence[SlotListener],
        exchange: Exchange | None,
        on_week: Callable[[Member, Week, int], None],
    ) -> None:
        self._members = members
        self._send = send
        self._telemetry = telemetry
        self._listeners = listeners
        self._exchange = exchange
        self._on_week = on_week
        self.grace_ns = 0
        """How much longer than its slot a lease lasts."""

    def carry_out(self, plan: Plan, now_ns: int) -> None:
        """Sends a plan."""
        if self._exchange is not None:
            self.direct(self._exchange, rows(plan.revokes), rows(plan.grants), now_ns)
        else:
            for slot in plan.revokes:
                self._revoke(slot, now_ns)
            for slot in plan.grants:
                self._grant(slot, now_ns)
        for node, week in plan.weeks:
            if (member := self._members.get(node)) is not None:
                self._send(week, member.mac)
                self._on_week(member, week, now_ns)

    def direct(self, exchange: Exchange, revoked: NDArray[Any], granted: NDArray[Any], now_ns: int) -> None:
        """Sends a plan (arrays of SLOT) by the exchange; what that leaves over goes out one by one."""
        revokes, telemetry = len(revoked), self._telemetry
        if not revokes and not len(granted):
            return
        watched = min(len(granted), telemetry.room())
        self._watch(revoked, granted[:watched], now_ns)
        telemetry.leave_out(len(granted) - watched)
        for at in exchange.direct(revoked, granted, watched, now_ns):
            self._tell(Slot(*(revoked[at] if at < revokes else granted[at - revokes]).tolist()), revoked=at < revokes)

    def carried_out(self, plan: Planned, now_ns: int) -> None:
        """Takes what the loop tells of a plan that it has sent; sends what it has left over."""
        self._watch(plan.revoked, plan.granted, now_ns)
        self._telemetry.leave_out(plan.left_out)
        for others, revoked in ((plan.others_revoked, True), (plan.others_granted, False)):
            for fields in others.tolist():
                self._tell(Slot(*fields), revoked=revoked)

    def _revoke(self, slot: Slot, now_ns: int) -> None:
        if self._members.get(slot.node) is None:
            return
        for listener in self._listeners:
            listener.revoked(slot.slot, now_ns)
        self._tell(slot, revoked=True)

    def _grant(self, slot: Slot, now_ns: int) -> None:
        if self._members.get(slot.node) is None:
            return
        for listener in self._listeners:
            listener.granted(slot, self._lease_end_ns(slot), now_ns)
        self._tell(slot, revoked=False)

    def _lease_end_ns(self, slot: Slot) -> int:
        return slot.end_ns + (0 if slot.rate_bps else self.grace_ns)

    def _watch(self, revoked: NDArray[Any], granted: NDArray[Any], now_ns: int) -> None:
        """Has the dashboard shown what becomes of these slots."""
        here, telemetry = self._members.get, self._telemetry
        for number, node in zip(revoked["slot"].tolist(), revoked["node"].tolist(), strict=True):
            if here(node) is not None:
                telemetry.revoked(number, now_ns)
        for fields in granted.tolist():
            slot = Slot(*fields)
            if here(slot.node) is not None:
                telemetry.granted(slot, self._lease_end_ns(slot), now_ns)

    def _tell(self, slot: Slot, *, revoked: bool) -> None:
        """Sends a directive that is kept account of already."""
        if (member := self._members.get(slot.node)) is None:
            return
        if revoked:
            grant = Grant(slot.destination, slot.slot, slot.start_ns, slot.end_ns, 0, 0)
        else:
            member.figures.slots += 1
            grant = Grant(
                slot.destination, slot.slot, slot.start_ns, self._lease_end_ns(slot), slot.bytes, slot.rate_bps
            )
        self._send(Directive((grant,)), member.mac)
