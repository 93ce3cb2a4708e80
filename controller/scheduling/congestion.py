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

*Released* is a link that was calm for `quiet_ns` without a break: its demand stayed below `release_fraction`, nothing was
dropped and nobody starved there, or fewer than two nodes (and none that floods it) have large pairs across it. Nodes *starve*
across a link while more waits there than was sent in a period, and the link would take longer than `STARVED_NS` for it. Then
they send little because they are given little, as when the coordinator has no processor for a second: freed, they collide.

*Regulated* are all pairs of members whose path crosses a contended link, whether they send or not: the mice allowance of the
hosts keeps small flows free of it, and a sender that is new on a contended link is under the schedule from its first large
packet on. In the mode `always` all pairs of members are regulated.

Who is regulated is never a list of pairs, but the links that are contended (controller/policies/groups.py). A report costs what
it names, a link is known from its first demand or reading on, and a member that joins changes nothing here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Self

from controller.config.settings import CoordinatorSettings
from controller.policies.groups import GroupedNetwork, Groups
from protocol.units import FRAME_BYTES, MILLISECOND_NS, SECOND_NS

LOSS_NS = 2 * SECOND_NS
"""Two TCP connections that share a link lose some 1 to 2 s apart where the link's queue takes 20 ms to empty."""
STARVED_NS = 10 * MILLISECOND_NS
"""More than a switch's queue holds, mostly."""
LOST_MIN = 2
LOST_PART = 2_000
MOVED_FIRST, MOVED_NEXT = 256, 32
"""To move a node's demands to its new paths takes some 8 us."""


class Change(NamedTuple):
    """The changes of an update."""

    contended: frozenset[Hashable]
    """Links that became contended."""
    released: frozenset[Hashable]


class _Demand(NamedTuple):
    """What a node's pairs across a link demand of it: rate (bit/s), what waits (bytes), and whether one of them is large."""

    bps: int
    waiting: int
    large: bool

    def plus(self, other: _Demand) -> _Demand:
        return _Demand(self.bps + other.bps, self.waiting + other.waiting, self.large or other.large)


NO_DEMAND = _Demand(0, 0, False)


@dataclass(slots=True)
class _Link:
    """What is known of one link."""

    capacity_bps: int
    demand_bps: int = 0
    """Of all nodes."""
    waiting_bytes: int = 0
    large: set[int] = field(default_factory=set)
    """The nodes with a large pair across it."""
    unused: bool = True
    """No node has reported any yet."""
    port_bps: int = 0
    unmanaged_bps: int = 0
    """What hosts without an agent take of it."""
    dropped: bool = False
    lost_ns: dict[int, int] = field(default_factory=dict)
    """When each node's pairs across it lost last."""
    contended: bool = False
    calm_ns: int | None = None
    """Since when a contended link is calm."""

    @property
    def worth_keeping(self) -> bool:
        """Whether more is known of it than what nodes report: that comes again."""
        return bool(self.contended or self.port_bps or self.dropped or self.unmanaged_bps or self.lost_ns)


def _replace(link: _Link, node: int, old: _Demand, new: _Demand) -> None:
    """A node's demand on a link is another one."""
    link.demand_bps += new.bps - old.bps
    link.waiting_bytes += new.waiting - old.waiting
    if new.large is not old.large:
        (link.large.add if new.large else link.large.discard)(node)


NOTHING: frozenset[Hashable] = frozenset()
UNCHANGED = Change(NOTHING, NOTHING)


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
        self._network: GroupedNetwork | None = None
        self._reports: dict[int, Mapping[int, tuple[int, int]]] = {}
        self._moving: dict[int, None] = {}
        """Nodes whose demands are not on the paths of the newest network yet, in order."""
        self._demands: dict[int, dict[Hashable, _Demand]] = {}
        """What a node demands of each link."""
        self._first: dict[int, Hashable] = {}
        """The first link of all that a node sends."""
        self._lost: dict[int, set[Hashable]] = {}
        """The links on which a node may have lost."""
        self._links: dict[Hashable, _Link] = {}
        self._taken: set[Hashable] = set()
        """The links of which hosts without an agent take something."""
        self._read: set[Hashable] = set()
        """The links of the last reading of the switches' ports."""
        self._dirty: set[Hashable] = set()
        """Links to judge anew."""
        self._calm: dict[Hashable, None] = {}
        """The contended links that are calm, the one that is calm for longest first."""
        self._contended = NOTHING
        self._assumed = NOTHING
        self._regulated = Groups()
        self._stale = False
        """The network is another one than that of the groups."""

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

    def set_network(self, network: GroupedNetwork, *, now_ns: int) -> None:
        """Takes a new fabric or tree. A link that is still there stays contended; reported demands move to the new paths: those
        of `MOVED_FIRST` nodes at once, those of the others with the next updates, or with the node's next report.

        The network may take members in, or lose them (`left`), without another call.
        """
        before, self._links = self._links, {}
        self._network = network
        self._demands, self._first = {}, {}
        self._lost = {}
        self._calm = {}
        self._reports = {node: report for node, report in self._reports.items() if node in network.nodes}
        for name, old in before.items():
            if old.worth_keeping and network.forwards(name):
                here = self._links[name] = _Link(network.capacity_bps(name))
                here.port_bps, here.dropped, here.unmanaged_bps = old.port_bps, old.dropped, old.unmanaged_bps
                here.contended, here.calm_ns, here.lost_ns = old.contended, old.calm_ns, old.lost_ns
                for node in here.lost_ns:
                    self._lost.setdefault(node, set()).add(name)
        for name in [name for name in self._assumed if network.forwards(name)]:
            self._links.setdefault(name, _Link(network.capacity_bps(name))).contended = True
        self._assumed -= self._links.keys()
        for name in sorted((n for n, link in self._links.items() if link.calm_ns is not None), key=self._calm_ns):
            self._calm[name] = None
        self._dirty = set(self._links)
        self._moving = dict.fromkeys(self._reports)
        self._move(MOVED_FIRST)
        self._stale = True

    def _move(self, most: int) -> None:
        """Puts the demands of so many nodes on their new paths."""
        for node in list(islice(self._moving, most)):
            del self._moving[node]
            self._put(node, self._reports[node])

    def report(self, node: int, flows: Mapping[int, tuple[int, int]], *, now_ns: int) -> None:
        """Takes what a node's large flows do: {destination: (rate in bit/s, bytes waiting)}, in full."""
        self._reports[node] = dict(flows)
        self._moving.pop(node, None)
        self._put(node, flows)

    def lost(self, node: int, entries: Iterable[tuple[int, int, int]], *, now_ns: int) -> None:
        """Takes what a node's large flows lost lately: (destination, segments lost or marked, bytes sent meanwhile)."""
        for destination, segments, sent in entries:
            if segments >= LOST_MIN and segments * LOST_PART >= sent // FRAME_BYTES:
                self._lose(node, destination, now_ns)

    def ports(self, document: Mapping[str, Any], *, now_ns: int) -> None:
        """Takes counters of the switches' ports: {"links": [{"source", "target", "load_bps", "dropped"}, ...]}, `dropped` since
        the reading before. Unknown links are ignored; one that is missing was not read: its last reading counts no longer."""
        unread, self._read = self._read, set()
        for reading in document.get("links", ()):
            name = reading["source"], reading["target"]
            self.counters(name, int(reading["load_bps"]), int(reading["dropped"]), now_ns=now_ns)
            self._read.add(name)
        for gone in unread - self._read:
            self.counters(gone, 0, 0, now_ns=now_ns)

    def counters(self, name: Hashable, load_bps: int, dropped: int, *, now_ns: int) -> None:
        """Takes what one link carried, and how many packets it dropped, since the reading before."""
        if (link := self._links.get(name)) is None:
            if not (load_bps or dropped) or self._network is None or not self._network.forwards(name):
                return
            link = self._link(name, self._network)
        if (load_bps, dropped > 0) != (link.port_bps, link.dropped) or link.calm_ns is not None:
            link.port_bps, link.dropped = load_bps, dropped > 0
            self._dirty.add(name)

    def set_unmanaged(self, taken_bps: Mapping[Any, int]) -> None:
        """Takes what hosts without an agent take of links, in full."""
        network = self._network
        for name in taken_bps:
            if network is not None and network.forwards(name):
                self._link(name, network)
        for name in [name for name in (*taken_bps, *(self._taken - taken_bps.keys())) if name in self._links]:
            link, taken = self._links[name], taken_bps.get(name, 0)
            if link.unmanaged_bps != taken:
                link.unmanaged_bps = taken
                self._dirty.add(name)
        self._taken = {name for name, taken in taken_bps.items() if taken}

    def left(self, node: int, *, now_ns: int) -> None:
        """Forgets a node at once."""
        for name, demand in self._demands.pop(node, {}).items():
            _replace(self._links[name], node, demand, NO_DEMAND)
            self._dirty.add(name)
        self._reports.pop(node, None)
        self._moving.pop(node, None)
        self._first.pop(node, None)
        for name in self._lost.pop(node, ()):
            self._links[name].lost_ns.pop(node, None)

    # -- conclusions --------------------------------------------------------------------------------------------------

    def update(self, *, now_ns: int) -> Change:
        """Contends and releases links by what is known, and returns what changed since the last call."""
        self._move(MOVED_NEXT)
        due = self._due(now_ns)
        if not self._dirty and not due and not self._stale:
            return UNCHANGED
        known, links, calm = self._contended, self._links, self._calm
        changed = {name for name in known if name not in links} if self._stale else set[Hashable]()
        for name in self._dirty.union(due):
            if (link := links.get(name)) is not None:
                self._judge(name, link, now_ns)
                if link.contended is not (name in known):
                    changed.add(name)
                if link.calm_ns is not None:
                    calm.setdefault(name)
                elif name in calm:
                    del calm[name]
        self._dirty.clear()
        if not self._stale and not changed:
            return UNCHANGED
        before, self._contended = known, known ^ changed
        self._regulate()
        return Change(self._contended - before, before - self._contended)

    def regulated(self, *, now_ns: int) -> Groups:
        """The pairs that need permission now. Another object whenever the links or the network are others."""
        self.update(now_ns=now_ns)
        return self._regulated

    def _regulate(self) -> None:
        self._stale = False
        found = Groups(NOTHING if self.always else self._contended, self._network, everyone=self.always)
        if not found.same(self._regulated):
            self._regulated = found

    def _due(self, now_ns: int) -> list[Hashable]:
        """The calm links to release."""
        found: list[Hashable] = []
        for name in self._calm:
            if not self._is_due(self._links[name], now_ns):
                break
            found.append(name)
        return found

    def _calm_ns(self, name: Hashable) -> int:
        return self._links[name].calm_ns or 0

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
        first = next(iter(self._calm), None)
        return None if first is None else self._calm_ns(first) + self.quiet_ns

    def _is_due(self, link: _Link, now_ns: int) -> bool:
        return link.calm_ns is not None and now_ns - link.calm_ns >= self.quiet_ns

    def _judge(self, name: Hashable, link: _Link, now_ns: int) -> None:
        demand_bps = max(link.demand_bps + link.unmanaged_bps, link.port_bps)
        busy = demand_bps > self.contend_fraction * link.capacity_bps
        if not (busy or link.contended or link.dropped or link.lost_ns):
            return
        shared = len(link.large) > 1 or any(self._floods(node, name, link) for node in link.large)
        losing = self._losing(link, now_ns)
        if shared and (link.dropped or losing or busy):
            link.contended, link.calm_ns = True, None
        elif link.contended:
            still_busy = demand_bps >= self.release_fraction * link.capacity_bps
            if shared and (link.dropped or losing or still_busy or self._starves(link)):
                link.calm_ns = None
            elif link.calm_ns is None:
                link.calm_ns = now_ns
            if self._is_due(link, now_ns):
                link.contended, link.calm_ns = False, None

    def _starves(self, link: _Link) -> bool:
        bits = 8 * SECOND_NS * link.waiting_bytes
        return 2 * bits > link.demand_bps * self.drain_ns and bits > link.capacity_bps * STARVED_NS

    def _losing(self, link: _Link, now_ns: int) -> bool:
        if not link.lost_ns:
            return False
        losing = [node for node in link.large if now_ns - link.lost_ns.get(node, now_ns - LOSS_NS) < LOSS_NS]
        return len(losing) > 1 and 2 * len(losing) >= len(link.large)

    def _lose(self, node: int, destination: int, now_ns: int) -> None:
        """Notes on which links a pair may have lost."""
        if self._network is None:
            return
        path = self._network.path(node, destination)
        links = {name: self._link(name, self._network) for name in path}
        for name in [name for name, link in links.items() if link.contended] or path:
            links[name].lost_ns[node] = now_ns
            self._lost.setdefault(node, set()).add(name)
            self._dirty.add(name)

    def _floods(self, node: int, name: Hashable, link: _Link) -> bool:
        return min(self._demands[node][name].bps, self._rate_bps(node)) > link.capacity_bps - link.unmanaged_bps

    # -- demands on links ---------------------------------------------------------------------------------------------

    def _put(self, node: int, flows: Mapping[int, tuple[int, int]]) -> None:
        """Puts a node's demands on the links, in place of those that it had there."""
        before, links, dirty = self._demands.get(node, {}), self._links, self._dirty
        self._demands[node] = demands = self._demanded(node, flows)
        for name, demand in demands.items():
            _replace(links[name], node, before.get(name, NO_DEMAND), demand)
        for name in before.keys() - demands.keys():
            _replace(links[name], node, before[name], NO_DEMAND)
        dirty.update(before, demands)

    def _demanded(self, node: int, flows: Mapping[int, tuple[int, int]]) -> dict[Hashable, _Demand]:
        """What a node demands of each link."""
        found: dict[Hashable, _Demand] = {}
        if (network := self._network) is None:
            return found
        for destination, (rate_bps, waiting) in flows.items():
            bps = rate_bps + waiting * 8 * SECOND_NS // self.drain_ns
            path = network.path(node, destination) if bps else ()
            if path:
                self._first[node] = path[0]
            one = _Demand(bps, waiting, rate_bps >= self.large_bps or waiting > 0)
            for name in path:
                link = self._links.get(name) or self._link(name, network)
                if link.unused:  # its port may have been read before its member joined, whose rate counts
                    link.capacity_bps, link.unused = network.capacity_bps(name), False
                found[name] = one.plus(found[name]) if name in found else one
        return found

    def _link(self, name: Hashable, network: GroupedNetwork) -> _Link:
        """What is known of a link; from its first demand or reading on."""
        if (link := self._links.get(name)) is None:
            link = self._links[name] = _Link(network.capacity_bps(name))
        return link

    def _rate_bps(self, node: int) -> int:
        """What a node can put on a link behind its own."""
        assert self._network is not None
        try:
            return min(self._network.node_rate_bps(node), self._network.capacity_bps(self._first[node]))
        except KeyError:
            return 0
