"""Which pairs need permission: REPORT messages and port readings go in, REGULATE messages come out. Sends only through what it
is given.

A host that misses a REGULATE stays free on a contended link, so a change is sent three times, and all is sent again each
second.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import Part, Parts
from controller.members.registry import Member, Members
from controller.scheduling.congestion import Congestion
from controller.scheduling.granting import Granting
from protocol.bodies.losses import Losses
from protocol.messages import Message, Regulate, Report
from protocol.paging import Reassemblers, paginate
from protocol.timers import REFRESH_NS, Timers
from protocol.units import SECOND_NS

COUNTERS_KEPT = 64
"""Of a member's counters of refused frames: more than there are causes."""
CONGESTION_SETTINGS = ("mode", "contend_fraction", "release_fraction", "quiet_ns")


class Regulation(Part):
    """The regulated pairs as last concluded from `congestion`, and as sent to every member.

    Args:
        granting: its policy hears of every change.
        parts: all of the coordinator's parts, which hear what members report.
        assumed: the links that were contended under the leader before.
        on_busiest: hears the load of the busiest link, as a share of its capacity, after each reading of the ports.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        timers: Timers,
        send: Callable[[Message, bytes], None],
        granting: Granting,
        parts: Parts,
        assumed: Iterable[tuple[str, ...]] = (),
        on_busiest: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.handlers = {Report: self._on_report, Losses: self._on_losses}
        self.documents = {"ports": self._on_ports}
        self.periodic = ((REFRESH_NS, self._refresh),)
        self.congestion = Congestion.from_settings(settings)
        self.congestion.assume(assumed)
        self.regulated: dict[int, frozenset[int]] = {}
        self._contended: frozenset[Hashable] = frozenset()
        """The contended links that the policy knows."""
        self.version = 0
        self._settings = settings
        self._members = members
        self._timers = timers
        self._send = send
        self._granting = granting
        self._parts = parts
        self._on_busiest = on_busiest
        self._reports: Reassemblers[Report] = Reassemblers()

    def renew(self, settings: CoordinatorSettings) -> None:
        """Takes changed settings; after a change of `CONGESTION_SETTINGS` it begins with nothing known."""
        if any(getattr(settings, name) != getattr(self._settings, name) for name in CONGESTION_SETTINGS):
            self.congestion = Congestion.from_settings(settings)
        self._settings = settings

    # -- what is heard --------------------------------------------------------------------------------------------------

    def joined(self, node: int) -> None:
        """Drops the pages of a report that the member sent before it registered anew."""
        self._reports.clear(node)

    def left(self, node: int, now_ns: int) -> None:
        self._reports.clear(node)
        self.congestion.left(node, now_ns=now_ns)
        self.regulated.pop(node, None)

    def _on_report(self, member: Member, message: Report, now_ns: int) -> None:
        pages = self._reports.add(member.node, message)
        if pages is None:
            return
        here, period_ns = self._members.get, pages[0].period_ns
        flows = [flow for page in pages for flow in page.entries if here(flow.destination) is not None]
        member.sent_bps = {flow.destination: flow.bytes * 8 * SECOND_NS // max(1, period_ns) for flow in flows}
        member.refused = dict([counter for page in pages for counter in page.counters][:COUNTERS_KEPT])
        waiting = {flow.destination: flow.backlog_bytes for flow in flows}
        rates = {d: (rate, waiting.get(d, 0)) for d, rate in member.sent_bps.items()}
        for destination, size in member.backlog.items():
            rates[destination] = (rates.get(destination, (0, 0))[0], size)
        sent = {flow.destination: flow.bytes for flow in flows}
        self._parts.reported(member.node, sent, self.regulated.get(member.node, frozenset()))
        self._granting.sent(member, now_ns)
        self.congestion.report(member.node, rates, now_ns=now_ns)
        self.update(now_ns)

    def _on_losses(self, member: Member, message: Losses, now_ns: int) -> None:
        self.congestion.lost(member.node, message.entries, now_ns=now_ns)
        self.update(now_ns)

    def _on_ports(self, document: Mapping[str, Any], now_ns: int) -> None:
        self.congestion.ports(document, now_ns=now_ns)
        self._on_busiest(self.congestion.busiest())

    # -- conclusions ----------------------------------------------------------------------------------------------------

    def update(self, now_ns: int) -> None:
        """Draws the conclusions from what was heard, and tells the members and the policy that they concern."""
        granting = self._granting
        if granting.policy.has_own_schedule:
            granting.policy.set_regulated(self.congestion.regulated(now_ns=now_ns), now_ns=now_ns)
            if granting.due_ns is None:
                granting.plan(now_ns)
        wanted = self.congestion.regulated(now_ns=now_ns) if granting.policy.needs_permission else {}
        if (contended := self.congestion.contended()) != self._contended:
            before, self._contended = self._contended, contended
            granting.policy.set_contended(contended)
            if granting.policy.needs_permission and (new := contended - before):
                self._parts.contended(new, now_ns)
        if wanted == self.regulated:
            return
        changed = [n for n in wanted.keys() | self.regulated.keys() if wanted.get(n) != self.regulated.get(n)]
        self.regulated = dict(wanted)
        self.version += 1
        self._timers.repeat(now_ns, lambda _: self._tell_nodes(changed))
        granting.policy.set_regulated(self.regulated, now_ns=now_ns)
        granting.plan(now_ns)

    def tell(self, member: Member) -> None:
        """Sends a member all of its regulated destinations."""
        destinations = tuple(sorted(self.regulated.get(member.node, frozenset())))
        for page in paginate(Regulate(self.version, 0, 1, destinations)):
            self._send(page, member.mac)

    def _refresh(self, _: int) -> None:
        self._tell_nodes(member.node for member in self._members.present())

    def _tell_nodes(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if (member := self._members.get(node)) is not None:
                self.tell(member)

    # -- for the store --------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The links that are contended now."""
        return {"contended": sorted(list(link) for link in self.congestion.contended() if isinstance(link, tuple))}

    def of_member(self, node: int) -> dict[str, Any]:
        return {"regulated": sorted(self.regulated.get(node, ()))}
