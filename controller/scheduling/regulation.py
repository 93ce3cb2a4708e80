"""Which pairs need permission: REPORT messages and port readings go in, GROUPS_CHANGE and REGULATE come out. Sends only through
what it is given.

Who is regulated is known by contended link (controller/policies/groups.py), and told to all as that: what changed, and again
with the changes of the next looks. Who missed it hears another version in the heartbeats, asks, and gets the difference. A host
whose agent is older does not ask, and is sent its destinations one by one (controller/told/destinations.py).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import SWEEP_NS, Part, Parts
from controller.members.registry import Member, Members
from controller.policies.groups import Destinations, Groups
from controller.scheduling.congestion import Congestion
from controller.scheduling.granting import Granting
from controller.told.destinations import ToldDestinations
from controller.told.groups import ToldGroups
from protocol.bodies.flows.losses import Losses
from protocol.bodies.groups import GroupsRequest
from protocol.bodies.nodes import NodeSet
from protocol.messages import HEARTBEAT_MAC, Message, Report
from protocol.paging import Reassemblers
from protocol.timers import Timers
from protocol.units import COUNT_MAX, SECOND_NS

COUNTERS_KEPT = 64
"""Of a member's counters of refused frames: more than there are causes."""
CONGESTION_SETTINGS = ("mode", "contend_fraction", "release_fraction", "quiet_ns")
TELLS = 3
"""How often a change of the groups is told: a frame may be lost."""
ANSWERED_EVERY_NS, MANY = 24_000_000, 3
"""The least time between answers to who asks for the groups; so many that have missed the same are answered together. An answer
to one takes 60 us, and thousands ask when they join."""
TOLD_EVERY_NS = 1_000_000
"""Changes that come sooner after one another are told together."""
DRAWN_EVERY_NS = 5_000
"""Conclusions are drawn from reports at most so often, times the members (a change concerns them all): each 24 ms for 4,800."""
REST = 4
"""After conclusions none are drawn for so many times as long as they took, but for a change of policy, override or fabric."""
NONE = Groups()


class Regulation(Part):
    """The regulated pairs as last concluded from `congestion`, and as sent to every member.

    Args:
        granting: its policy hears of every change.
        parts: all of the coordinator's parts, which hear what members report.
        assumed: the links that were contended under the leader before.
        on_busiest: hears the load of the busiest link, as a share of its capacity, after each reading of the ports.
        behind: whether frames of members wait unread.
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
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self.handlers = {Report: self._on_report, Losses: self._on_losses, GroupsRequest: self._on_groups_request}
        self.documents = {"ports": self._on_ports}
        self._destinations = ToldDestinations(members, timers, send, lambda: self.regulated, behind)
        self.periodic = ((SWEEP_NS, self._tell_groups), *self._destinations.periodic)
        self.congestion = Congestion.from_settings(settings)
        self.congestion.assume(assumed)
        self.regulated = NONE
        self._contended: frozenset[Hashable] = frozenset()
        """The contended links that the policy knows."""
        self.told = ToldGroups()
        self._bases: deque[int] = deque([0] * TELLS, maxlen=TELLS)
        """The version of the groups at each of the last looks."""
        self._joined, self._met_ns = False, -SWEEP_NS
        """Whether members joined of which the policy has not heard yet; and when it heard of such last."""
        self._drawn_ns = -SECOND_NS
        """When conclusions were drawn last."""
        self._took_ns = 0
        """How long that took."""
        self._drawing = False
        """Whether they will be, soon."""
        self._told_ns = -TOLD_EVERY_NS
        self._telling = False
        self._asked: dict[int, int] = {}
        """By member that asked for the groups and waits for an answer: the version that it has."""
        self._answered_ns = -ANSWERED_EVERY_NS
        self._answering = False
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

    @property
    def version(self) -> int:
        """Grows with every change of the groups."""
        return self.told.version

    # -- what is heard --------------------------------------------------------------------------------------------------

    def joined(self, node: int) -> None:
        """Drops the pages of a report that the member sent before it registered anew."""
        self._reports.clear(node)
        self._destinations.joined(node)
        self._joined = True

    def left(self, node: int, now_ns: int) -> None:
        self._reports.clear(node)
        self._destinations.left(node, now_ns)
        self.congestion.left(node, now_ns=now_ns)

    def _on_report(self, member: Member, message: Report, now_ns: int) -> None:
        pages = self._reports.add(member.node, message)
        if pages is None:
            return
        here, period_ns = self._members.get, max(1, pages[0].period_ns)
        sent, sent_bps, rates = dict[int, int](), dict[int, int](), dict[int, tuple[int, int]]()
        for destination, size, waiting in chain.from_iterable(page.entries for page in pages):
            if here(destination) is not None:
                sent[destination] = size
                sent_bps[destination] = bps = min(COUNT_MAX, size * 8 * SECOND_NS // period_ns)
                rates[destination] = bps, waiting
        member.sent_bps = sent_bps
        member.refused = dict([counter for page in pages for counter in page.counters][:COUNTERS_KEPT])
        for destination, waiting in member.backlog.items():
            rates[destination] = sent_bps.get(destination, 0), waiting
        self._parts.reported(member.node, sent, Destinations(self.regulated, member.node))
        self._granting.sent(member, now_ns)
        self.congestion.report(member.node, rates, now_ns=now_ns)
        self.draw_soon(now_ns)

    def _on_losses(self, member: Member, message: Losses, now_ns: int) -> None:
        self.congestion.lost(member.node, message.entries, now_ns=now_ns)
        self.draw_soon(now_ns)

    def _on_ports(self, document: Mapping[str, Any], now_ns: int) -> None:
        self.congestion.ports(document, now_ns=now_ns)
        self._on_busiest(self.congestion.busiest())

    # -- conclusions ----------------------------------------------------------------------------------------------------

    def draw_soon(self, now_ns: int) -> None:
        """Draws the conclusions now, or a little later together with those of other members' reports."""
        due_ns = self._drawn_ns + max(DRAWN_EVERY_NS * len(self._members), REST * self._took_ns)
        if now_ns >= due_ns:
            self.update(now_ns)
        elif not self._drawing:
            self._drawing = True
            self._timers.at(due_ns, self.update)

    def update(self, now_ns: int) -> None:
        """Draws the conclusions from what was heard, and tells the members and the policy that they concern."""
        self._drawing, self._drawn_ns = False, now_ns
        began_ns = time.perf_counter_ns()
        self._conclude(now_ns)
        self._took_ns = time.perf_counter_ns() - began_ns

    def _conclude(self, now_ns: int) -> None:
        granting = self._granting
        if granting.policy.has_own_schedule:
            granting.policy.set_regulated(self.congestion.regulated(now_ns=now_ns), now_ns=now_ns)
            if granting.due_ns is None:
                granting.plan(now_ns)
        wanted = self.congestion.regulated(now_ns=now_ns) if granting.policy.needs_permission else NONE
        if (contended := self.congestion.contended()) != self._contended:
            before, self._contended = self._contended, contended
            granting.policy.set_contended(contended)
            if granting.policy.needs_permission and (new := contended - before):
                self._parts.contended(new, now_ns)
        if wanted.same(self.regulated):
            # Policies may have written down who was there.
            if self._joined and wanted and now_ns >= self._met_ns + SWEEP_NS // 2:
                self._joined, self._met_ns = False, now_ns
                self._destinations.changed(wanted.senders(), now_ns)
                granting.policy.set_regulated(wanted, now_ns=now_ns)
                granting.plan(now_ns)
            return
        self._joined = False
        changed = wanted.changed_nodes(self.regulated)
        self.regulated = wanted
        self._tell_soon(changed, now_ns)
        granting.policy.set_regulated(wanted, now_ns=now_ns)
        granting.plan(now_ns)

    def _tell_soon(self, nodes: NodeSet, now_ns: int) -> None:
        """Tells all the groups, and of these members those their destinations that know no groups."""
        if not self._telling:
            self._telling = True
            self._timers.at(max(now_ns, self._told_ns + TOLD_EVERY_NS), self._tell_groups)
        self._destinations.changed(nodes, now_ns)

    def _tell_groups(self, now_ns: int) -> None:
        """Sends all members the last changes of the groups."""
        self._telling, self._told_ns = False, now_ns
        self.told.update(self.regulated)
        base = self._bases[0]
        self._bases.append(self.told.version)
        if base != self.told.version:
            for page in self.told.since(base):
                self._send(page, HEARTBEAT_MAC)

    def _on_groups_request(self, member: Member, message: GroupsRequest, now_ns: int) -> None:
        """Has a member told what it has missed of the groups, or all of them."""
        self._destinations.knows_groups(member.node)
        self._asked[member.node] = message.version
        if not self._answering:
            self._answering = True
            self._timers.at(max(now_ns, self._answered_ns + ANSWERED_EVERY_NS), self._answer)

    def _answer(self, now_ns: int) -> None:
        """Answers those that asked: each by itself, or all at once where `MANY` or more have missed the same."""
        self._answering, self._answered_ns = False, now_ns
        asked, self._asked = self._asked, {}
        askers: dict[int, list[bytes]] = {}
        for node, version in asked.items():
            if (member := self._members.get(node)) is not None:
                askers.setdefault(version, []).append(member.mac)
        for version, macs in askers.items():
            for page in self.told.since(version):
                for mac in macs if len(macs) < MANY else [HEARTBEAT_MAC]:
                    self._send(page, mac)

    def tell(self, member: Member) -> None:
        """Sends a member all of its regulated destinations, if it knows no groups."""
        self._destinations.tell(member)

    # -- for the store --------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The contended links, and the groups of members (first and last node id of each interval) before and behind each."""
        links = sorted((link, sides) for link, sides in self.regulated.products() if isinstance(link, tuple))
        return {
            "contended": sorted(list(link) for link in self.congestion.contended() if isinstance(link, tuple)),
            "regulated": [
                {"link": list(link), "senders": sides.before.intervals(), "receivers": sides.behind.intervals()}
                for link, sides in links
            ],
        }

    def of_member(self, node: int) -> dict[str, Any]:
        """Of the destinations that it sends to or has a backlog for: those for which it needs permission."""
        member, its = self._members.get(node), Destinations(self.regulated, node)
        known = () if member is None else member.sent_bps.keys() | member.backlog.keys()
        return {"regulated": sorted(destination for destination in known if destination in its)}
