"""Coordination on demand: which links are contended, and so which pairs need permission. Pure.

Input: of every node what its large flows sent to each destination in the last period and what waits there (`report`), and of
every link what it carried and dropped (`ports`). Rates are bit/s, times integer nanoseconds; links are named as the network
names them.

*Demand.* A pair wants what it sent plus what waits, as if that were to be sent within `drain_ns`. The demand of a link is the
sum of the demands of the pairs across it and of what hosts without an agent take of it (`set_unmanaged`), or what its port
counted, if that is more. A pair is *large* from `large_bps` on, or while anything waits. A node *floods* a link when it alone
sends more than the link has for members: its own rate (or its first link's) and its demand are above that.

*Losses.* Where no counter shows what a link drops, hosts do: their TCP sends again, or cuts its rate for a mark. A node loses
across a link when a pair of its lost `LOST_MIN` segments or more there in a report, and one in `LOST_PART` of those sent. Which
link of a path it was is not known: those that are contended already, else all of them.

*Contended* is a link whose demand passes `contend_fraction` of its capacity, or which dropped packets since the last reading,
or across which at least two nodes, and half of those with large pairs, lost in the last `LOSS_NS`, if at least two nodes have
large pairs across it or one floods it. So a node's first link is never contended: only the node itself sends there, and its own
queues order that.

*Released* is a link that was calm for `quiet_ns` without a break: its demand stayed below `release_fraction` and nothing was
dropped, or fewer than two nodes (and none that floods it) have large pairs across it.

*Regulated* are all pairs of members whose path crosses a contended link, whether they send or not: the mice allowance of the
hosts keeps small flows free of it, and a sender that is new on a contended link is under the schedule from its first large
packet on. In the mode `always` all pairs of members are regulated.

Paths follow a spanning tree, so a directed link has members before it and members behind it, and the pairs across it are
exactly those from the former to the latter. Both sets are found with the paths to and from one member.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from controller.config.settings import CoordinatorSettings
from controller.policies.base import Network
from protocol.units import FRAME_BYTES, SECOND_NS

NOBODY: frozenset[int] = frozenset()
LOSS_NS = SECOND_NS
LOST_MIN = 2
LOST_PART = 2_000


class Change(NamedTuple):
    """The changes of an update."""

    contended: frozenset[Hashable]
    """Links that became contended."""
    released: frozenset[Hashable]
    regulated: dict[int, frozenset[int]]
    """By node whose regulated destinations changed: all of them now."""


@dataclass(slots=True)
class _Link:
    """What is known of one link."""

    capacity_bps: int
    demand_bps: int = 0
    by_node: dict[int, int] = field(default_factory=dict)
    """The demand of every node's pairs."""
    large: set[int] = field(default_factory=set)
    """The nodes with a large pair across it."""
    port_bps: int = 0
    unmanaged_bps: int = 0
    """What hosts without an agent take of it."""
    dropped: bool = False
    lost_ns: dict[int, int] = field(default_factory=dict)
    """When each node's pairs across it lost last."""
    contended: bool = False
    calm_ns: int | None = None
    """Since when a contended link is calm."""


class Congestion:
    """Contended links and regulated pairs. Events change what is known; `update` draws the conclusions."""

    def __init__(
        self,
        *,
        contend_fraction: float = 0.9,
        release_fraction: float = 0.7,
        quiet_ns: int = 2 * SECOND_NS,
        large_bps: int = 1_000_000,
        drain_ns: int = 50_000_000,
        always: bool = False,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        for name, good, wanted in (
            ("contend_fraction", contend_fraction > 0, "above 0"),
            ("release_fraction", 0 < release_fraction <= contend_fraction, "above 0 and at most contend_fraction"),
            ("quiet_ns", quiet_ns >= 0, "at least 0"),
            ("drain_ns", drain_ns > 0, "positive"),
        ):
            if not good:
                raise ValueError(f"{name} must be {wanted}")
        self.contend_fraction = contend_fraction
        self.release_fraction = release_fraction
        self.quiet_ns = quiet_ns
        self.large_bps = large_bps
        self.drain_ns = drain_ns
        self.always = always
        self._network: Network | None = None
        self._members: frozenset[int] = NOBODY
        self._sides: dict[Hashable, tuple[frozenset[int], frozenset[int]]] = {}
        self._reports: dict[int, Mapping[int, tuple[int, int]]] = {}
        self._touched: dict[int, list[Hashable]] = {}
        """The links on which a node has a demand."""
        self._links: dict[Hashable, _Link] = {}
        self._dirty: set[Hashable] = set()
        """Links to judge anew."""
        self._contended: frozenset[Hashable] = frozenset()
        self._assumed: frozenset[Hashable] = frozenset()
        self._regulated: dict[int, frozenset[int]] = {}
        self._stale = True

    @classmethod
    def from_settings(cls, settings: CoordinatorSettings) -> Self:
        """Made from the coordinator's settings.

        Raises:
            ValueError: an unknown mode, or a number out of its range; names the field.
        """
        if settings.mode not in ("on_demand", "always"):
            raise ValueError(f"mode must be on_demand or always, not {settings.mode!r}")
        return cls(
            contend_fraction=settings.contend_fraction,
            release_fraction=settings.release_fraction,
            quiet_ns=settings.quiet_ns,
            large_bps=settings.mice_rate_bps,
            drain_ns=settings.report_ns,
            always=settings.mode == "always",
        )

    # -- events -------------------------------------------------------------------------------------------------------

    def assume(self, links: Iterable[Hashable]) -> None:
        """Takes the links that were contended under the leader before: each is contended as soon as the network has it, until
        it was calm for `quiet_ns`."""
        self._assumed = frozenset(links)

    def set_network(self, network: Network, nodes: Iterable[int], *, now_ns: int) -> None:
        """Takes a new fabric, tree or membership. A link that is still there stays contended; reported demands move to the new
        paths."""
        before = self._links
        self._network = network
        self._members = frozenset(nodes)
        self._links = {}
        self._sides = self._find_sides(network)
        self._touched = {}
        self._reports = {node: report for node, report in self._reports.items() if node in self._members}
        for link in self._sides:
            here = self._links[link] = _Link(network.capacity_bps(link))
            if (old := before.get(link)) is not None:
                here.port_bps, here.dropped, here.unmanaged_bps = old.port_bps, old.dropped, old.unmanaged_bps
                here.contended, here.calm_ns, here.lost_ns = old.contended, old.calm_ns, old.lost_ns
            elif link in self._assumed:
                here.contended = True
        self._assumed -= self._links.keys()
        for node, report in self._reports.items():
            self._put(node, report)
        self._dirty.update(self._links)
        self._stale = True

    def report(self, node: int, flows: Mapping[int, tuple[int, int]], *, now_ns: int) -> None:
        """Takes what a node's large flows do: {destination: (rate in bit/s, bytes waiting)}, in full."""
        self._reports[node] = dict(flows)
        self._put(node, flows)

    def lost(self, node: int, entries: Iterable[tuple[int, int, int]], *, now_ns: int) -> None:
        """Takes what a node's large flows lost lately: (destination, segments lost or marked, bytes sent meanwhile)."""
        for destination, segments, sent in entries:
            if segments >= LOST_MIN and segments * LOST_PART >= sent // FRAME_BYTES:
                self._lose(node, destination, now_ns)

    def ports(self, document: Mapping[str, Any], *, now_ns: int) -> None:
        """Takes counters of the switches' ports: {"links": [{"source", "target", "load_bps", "dropped"}, ...]}, `dropped` since
        the reading before. Unknown links are ignored."""
        for reading in document.get("links", ()):
            self.counters(
                (reading["source"], reading["target"]), int(reading["load_bps"]), int(reading["dropped"]), now_ns=now_ns
            )

    def counters(self, name: Hashable, load_bps: int, dropped: int, *, now_ns: int) -> None:
        """Takes what one link carried, and how many packets it dropped, since the reading before."""
        link = self._links.get(name)
        if link is not None:
            link.port_bps = load_bps
            link.dropped = dropped > 0
            self._dirty.add(name)

    def set_unmanaged(self, taken_bps: Mapping[Any, int]) -> None:
        """Takes what hosts without an agent take of links, in full."""
        for name, link in self._links.items():
            taken = taken_bps.get(name, 0)
            if link.unmanaged_bps != taken:
                link.unmanaged_bps = taken
                self._dirty.add(name)

    def left(self, node: int, *, now_ns: int) -> None:
        """Forgets a node at once."""
        self._take_off(node)
        self._reports.pop(node, None)
        self._members -= {node}
        self._sides = {link: (before - {node}, behind - {node}) for link, (before, behind) in self._sides.items()}
        for link in self._links.values():
            link.lost_ns.pop(node, None)
        self._stale = True

    # -- conclusions --------------------------------------------------------------------------------------------------

    def update(self, *, now_ns: int) -> Change:
        """Contends and releases links by what is known, and returns what changed since the last call."""
        contended = {name for name in self._contended if name in self._links}
        due = {name for name in contended if self._is_due(self._links[name], now_ns)}
        for name in self._dirty | due:
            if (link := self._links.get(name)) is not None:
                self._judge(link, now_ns)
                (contended.add if link.contended else contended.discard)(name)
        self._dirty.clear()
        before, self._contended = self._contended, frozenset(contended)
        changed: dict[int, frozenset[int]] = {}
        if self._stale or self._contended != before:
            self._stale = False
            was, self._regulated = self._regulated, self._regulate()
            for node in was.keys() | self._regulated.keys():
                now = self._regulated.get(node, NOBODY)
                if now != was.get(node, NOBODY):
                    changed[node] = now
        return Change(self._contended - before, before - self._contended, changed)

    def regulated(self, *, now_ns: int) -> Mapping[int, frozenset[int]]:
        """The pairs that need permission now, in full: {node: destinations}; a node without any is missing."""
        self.update(now_ns=now_ns)
        return self._regulated

    def contended(self) -> frozenset[Hashable]:
        """The links that were contended at the last update."""
        return self._contended

    def losing(self, name: Hashable, *, now_ns: int) -> bool:
        """Whether the nodes with large pairs across a link lose there, as far as hosts can tell."""
        return name in self._links and self._losing(self._links[name], now_ns)

    def busiest(self) -> float:
        """The load of the link that carried most of its capacity at the last reading of the ports; 0 before any."""
        return max((link.port_bps / link.capacity_bps for link in self._links.values()), default=0.0)

    def next_event_ns(self) -> int | None:
        """When the next link is released unless something new is heard; None while none is calm."""
        calm = (link.calm_ns for link in self._links.values() if link.contended and link.calm_ns is not None)
        return min((since_ns + self.quiet_ns for since_ns in calm), default=None)

    def _is_due(self, link: _Link, now_ns: int) -> bool:
        return link.calm_ns is not None and now_ns - link.calm_ns >= self.quiet_ns

    def _judge(self, link: _Link, now_ns: int) -> None:
        shared = len(link.large) > 1 or any(self._floods(node, link) for node in link.large)
        demand_bps = max(link.demand_bps + link.unmanaged_bps, link.port_bps)
        losing = self._losing(link, now_ns)
        if shared and (link.dropped or losing or demand_bps > self.contend_fraction * link.capacity_bps):
            link.contended, link.calm_ns = True, None
        elif link.contended:
            if shared and (link.dropped or losing or demand_bps >= self.release_fraction * link.capacity_bps):
                link.calm_ns = None
            elif link.calm_ns is None:
                link.calm_ns = now_ns
            if self._is_due(link, now_ns):
                link.contended, link.calm_ns = False, None

    def _losing(self, link: _Link, now_ns: int) -> bool:
        losing = [node for node in link.large if now_ns - link.lost_ns.get(node, now_ns - LOSS_NS) < LOSS_NS]
        return len(losing) > 1 and 2 * len(losing) >= len(link.large)

    def _lose(self, node: int, destination: int, now_ns: int) -> None:
        """Notes on which links a pair may have lost."""
        if self._network is None or not {node, destination} <= self._members:
            return
        path = self._network.path(node, destination)
        for name in [name for name in path if self._links[name].contended] or path:
            self._links[name].lost_ns[node] = now_ns
            self._dirty.add(name)

    def _floods(self, node: int, link: _Link) -> bool:
        return min(link.by_node[node], self._rate_bps(node)) > link.capacity_bps - link.unmanaged_bps

    def _regulate(self) -> dict[int, frozenset[int]]:
        if self.always:
            return {node: self._members - {node} for node in self._members if len(self._members) > 1}
        crossing: dict[int, list[Hashable]] = {}
        for name in self._contended:
            for node in self._sides[name][0]:
                crossing.setdefault(node, []).append(name)
        # Most members are before the same links: one set serves them all.
        behind: dict[tuple[Hashable, ...], frozenset[int]] = {}
        regulated: dict[int, frozenset[int]] = {}
        for node, names in crossing.items():
            key = tuple(names)
            if key not in behind:
                behind[key] = NOBODY.union(*(self._sides[name][1] for name in names))
            if behind[key]:
                regulated[node] = behind[key]
        return regulated

    # -- demands on links ---------------------------------------------------------------------------------------------

    def _put(self, node: int, flows: Mapping[int, tuple[int, int]]) -> None:
        """Takes a node's old demands off the links and puts the new ones on."""
        self._take_off(node)
        if self._network is None or node not in self._members:
            return
        touched: dict[Hashable, None] = {}
        for destination, (rate_bps, waiting) in flows.items():
            bps = rate_bps + waiting * 8 * SECOND_NS // self.drain_ns
            if not bps or destination not in self._members:
                continue
            for name in self._network.path(node, destination):
                link = self._links[name]
                touched[name] = None
                link.demand_bps += bps
                link.by_node[node] = link.by_node.get(node, 0) + bps
                if rate_bps >= self.large_bps or waiting > 0:
                    link.large.add(node)
        self._touched[node] = list(touched)
        self._dirty.update(touched)

    def _take_off(self, node: int) -> None:
        for name in self._touched.pop(node, ()):
            link = self._links[name]
            link.demand_bps -= link.by_node.pop(node)
            link.large.discard(node)
            self._dirty.add(name)

    def _rate_bps(self, node: int) -> int:
        """What a node can put on a link behind its own."""
        assert self._network is not None
        try:
            rate_bps = self._network.node_rate_bps(node)
        except KeyError:
            return 0
        other = next(iter(self._members - {node}), node)
        first = self._network.path(node, other)[:1]
        return min([rate_bps, *(self._network.capacity_bps(link) for link in first)])

    def _find_sides(self, network: Network) -> dict[Hashable, tuple[frozenset[int], frozenset[int]]]:
        """Of every link: the members before it, and those behind it."""
        if not self._members:
            return {}
        pivot = min(self._members)
        before: dict[Hashable, set[int]] = {}
        behind: dict[Hashable, set[int]] = {}
        for node in self._members - {pivot}:
            for link in network.path(node, pivot):
                before.setdefault(link, set()).add(node)
            for link in network.path(pivot, node):
                behind.setdefault(link, set()).add(node)
        sides = {link: (frozenset(nodes), self._members - nodes) for link, nodes in before.items()}
        sides.update((link, (self._members - nodes, frozenset(nodes))) for link, nodes in behind.items())
        return sides
