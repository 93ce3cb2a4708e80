"""The coordinator's part for coflows: documents and reports in, COFLOWS messages and verdicts out. Sends only through what it
is given.

A member that missed an order sends a coflow's packets in another queue than its peers do, so a change is sent three times, and
all is sent again each second. One frame to the group address reaches all members, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.coflows.deadlines import Verdict
from controller.coflows.order import CoflowOrder, Place
from controller.coflows.queues import LAST_QUEUE
from controller.coflows.reading import Reading
from controller.coflows.tree_ways import Network, TreeWays
from controller.members.part import SWEEP_NS, Part
from controller.members.registry import LAST_NODE, Member, Members
from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.messages import HEARTBEAT_MAC, Coflows, Message
from protocol.paging import paginate
from protocol.timers import REFRESH_NS, Timers

MOST_IN_LAST = 256
"""Of the coflows from this place on, those in the last queue are not told: there may be very many."""
MOST_SHOWN = 100
"""Coflows in the status."""


class CoflowQueues(Part):
    """The order of the open coflows as last worked out, and as sent."""

    def __init__(
        self,
        timers: Timers,
        members: Members,
        send: Callable[[Message, bytes], None],
        write: Callable[[dict[str, Any]], object],
        network: Callable[[], Network | None] = lambda: None,
    ) -> None:
        """`write` takes lines for the store bridge; `network` returns the network in force, or None."""
        self.handlers = {CoflowReport: self._on_report}
        self.documents = {"coflows": self._take}
        self.periodic = ((SWEEP_NS, self.update), (REFRESH_NS, self._tell_all))
        self.queues: dict[int, int] = {}
        """The queue of every coflow that is told, by id."""
        self._places: list[Place] = []
        self._ways = TreeWays(members, network)
        self._reading = Reading(self._ways.called)
        self._order = CoflowOrder(self._ways)
        self._timers, self._members, self._send, self._write = timers, members, send, write
        self._version = 0
        self._again_ns = 0

    def opened(self, documents: Mapping[str, Mapping[str, Any]], ahead_ns: int, now_ns: int) -> None:
        """Takes the open coflows as the store has them; its clock is `ahead_ns` ahead of ours."""
        if documents:
            self._follow()
        coflows = self._reading.take(documents, ahead_ns, self._ways.changes)
        for coflow, verdict in self._order.update(coflows).items():
            self._publish(coflow, verdict)
        self.update(now_ns)

    def update(self, now_ns: int) -> None:
        """Works the order out again, since time, reports and the tree change it, too, and sends it if it has changed."""
        if self._places:  # without coflows nobody's way is of interest
            self._follow()
        for coflow, verdict in self._order.admit_later(now_ns).items():
            self._publish(coflow, verdict)
        if not self._order.changed and now_ns < self._again_ns:
            return
        self._again_ns = self._order.next_ns(now_ns)
        self._places = self._order.places(now_ns=now_ns)
        queues = {
            place.coflow: place.queue
            for at, place in enumerate(self._places)
            if place.queue != LAST_QUEUE or at < MOST_IN_LAST
        }
        if queues == self.queues:
            return
        self.queues = queues
        self._version += 1
        self._timers.repeat(now_ns, self._tell_all)

    def status(self) -> dict[str, Any]:
        """`coflows`: queue by id. `coflow_order`: the first coflows in their order, with what the place of each goes by, and
        whether its deadline (None: it has none) is kept, and why."""
        return {"coflows": self.queues, "coflow_order": [self._shown(place) for place in self._places[:MOST_SHOWN]]}

    def _shown(self, place: Place) -> dict[str, Any]:
        deadline, why = self._order.deadlines.verdict(place.coflow) or (None, "")
        sent_bytes = self._order.sent.total(place.coflow)
        return {
            "id": place.coflow, "queue": place.queue, "by": place.by, "sent_bytes": sent_bytes,
            "deadline": deadline, "why": why,
        }  # fmt: skip

    def _take(self, document: Mapping[str, Any], now_ns: int) -> None:
        self.opened(document["open"], document["ahead_ns"], now_ns)

    def _on_report(self, member: Member, message: CoflowReport, now_ns: int) -> None:
        """Takes what a member has sent. Bytes towards a node that there cannot be are nothing: each would be remembered."""
        for coflow, node, size_bytes in message.entries:
            if node > LAST_NODE:
                continue
            destination = self._members.get(node)
            name = "" if destination is None else destination.name
            self._order.report(coflow, member.name, name, size_bytes, now_ns, node)

    def _publish(self, coflow: int, verdict: Verdict) -> None:
        self._write({"coflow_verdict": [coflow, {"deadline": verdict.deadline, "why": verdict.why}]})

    def _follow(self) -> None:
        if self._ways.look():
            self._order.reroute()
        self._order.follow()

    def _tell_all(self, _: int) -> None:
        for page in paginate(Coflows(self._version, 0, 1, tuple(sorted(self.queues.items())))):
            self._send(page, HEARTBEAT_MAC)
