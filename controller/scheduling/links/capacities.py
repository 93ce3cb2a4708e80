"""What the links carry, and what of it members can be granted: hosts without an agent take their part. Sends nothing.

It hears the readings of the switches' ports and the members' reports, and puts a network with what is left of every link in
force. Without OpenFlow switches there are no readings, and nothing is taken off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from controller.members.part import SUMMARY_NS, Part
from controller.scheduling.granting import Granting
from controller.scheduling.links.drain import DRAIN_NS, Drains
from controller.scheduling.links.drain import PART as DRAIN_PART
from controller.scheduling.links.drop_watch import DropWatch
from controller.scheduling.links.unmanaged import LEAST, Reading, Unmanaged
from controller.scheduling.network import FabricNetwork
from controller.scheduling.regulation import Regulation
from protocol.timers import Timers
from protocol.units import FRAME_BYTES, SECOND_NS
from topology import capacity
from topology.capacity import Capacity
from topology.fabric import DirectedLink

BUSY = 0.5
"""A link that carries less than this share of its capacity has room for all."""
LONGEST_NS = 5 * SECOND_NS
"""Readings further apart than this say nothing of what members sent meanwhile."""


class Capacities(Part):
    """The network in force.

    Args:
        timers: end what lasts a moment.
        write: takes lines for the store bridge.
    """

    def __init__(
        self, timers: Timers, granting: Granting, regulation: Regulation, write: Callable[[dict[str, Any]], object]
    ) -> None:
        self.documents = {"ports": self._on_ports}
        self.periodic = ((SUMMARY_NS, self._forget_unread),)
        self._timers = timers
        self._granting = granting
        self._regulation = regulation
        self._write = write
        self._network: FabricNetwork | None = None
        self._rows: list[dict[str, Any]] = []
        self._places: dict[DirectedLink, int] = {}
        """Where the row of each link is."""
        self._of: FabricNetwork | None = None
        """Which network's they are."""
        self._shown: list[dict[str, Any]] = []
        self._shown_of: tuple[list[dict[str, Any]], Mapping[DirectedLink, int]] = [], {}
        """What the status shows of the links, and of which rows and taken rates."""
        self._unmanaged: Unmanaged[DirectedLink] = Unmanaged()
        self._drops = DropWatch()
        self._drains: Drains[DirectedLink] = Drains()
        self._sent: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        """Bytes that members' large flows sent since the last reading, by node and destination."""
        self._read_ns: int | None = None

    def set_network(self, network: FabricNetwork, now_ns: int) -> None:
        """Takes a changed fabric or membership into use."""
        if self._network is not None and network is not self._network and self._network.strangers() & network.members():
            self._unmanaged = Unmanaged()  # what that host sent is granted from now on
        self._network = network
        self._regulation.congestion.set_network(network, now_ns=now_ns)
        self._put_in_force(network, now_ns)

    def arrived(self) -> bool:
        """A member has a place in the network now; returns whether that changes what members are granted of links."""
        if not self._unmanaged.taken_bps:
            return False
        self._unmanaged = Unmanaged()  # what that host sent is granted from now on
        return True

    def reported(self, node: int, sent: Mapping[int, int], regulated: Set[int]) -> None:
        its = self._sent[node]
        for destination, size in sent.items():
            its[destination] += size

    def contended(self, links: frozenset[Any], now_ns: int) -> None:
        """Has the links drained: members are granted less there at once, and for a moment."""
        if self._network is not None and self._drains.begin(filter(self._network.has, links), now_ns):
            self._put_in_force(self._network, now_ns)
            self._timers.at(now_ns + DRAIN_NS, self._drained)

    def _drained(self, now_ns: int) -> None:
        if self._network is not None:
            self._put_in_force(self._network, now_ns)
            self._granting.plan(now_ns)

    def left(self, node: int, now_ns: int) -> None:
        self._sent.pop(node, None)

    def status(self) -> dict[str, Any]:
        """Every directed link with its capacity, where that comes from, and what hosts without an agent take of it: the same
        list object as before if nothing of it has changed."""
        taken = self._unmanaged.taken_bps
        if self._network is not None:
            self._renew(self._network)
        if self._rows is not self._shown_of[0] or taken != self._shown_of[1]:
            self._shown_of = self._rows, dict(taken)
            self._shown = list(self._rows) if taken else self._rows
            for link, bps in taken.items():
                if (at := self._places.get(link)) is not None:
                    self._shown[at] = self._rows[at] | {"unmanaged_bps": bps}
        return {"links": self._shown}

    def _renew(self, network: FabricNetwork) -> None:
        """Brings the rows up to date: those of members that joined or left, whose rates bound their own links, or all."""
        if network is not self._of:
            self._of, self._rows, self._places = network, network.rows, network.row_of
        if network.measured:
            fresh = {self._places[link]: network.row(link) for link in network.measured}
            if any(self._rows[at] != row for at, row in fresh.items()):
                self._rows = [fresh.get(at, row) for at, row in enumerate(self._rows)]
        network.measured.clear()

    def _forget_unread(self, now_ns: int) -> None:
        """Where no ports are read, as without OpenFlow switches, a row for each pair that ever sent would remain."""
        if self._read_ns is None or now_ns - self._read_ns > LONGEST_NS:
            self._sent.clear()

    def _on_ports(self, document: Mapping[str, Any], now_ns: int) -> None:
        """Takes a reading of the switches' ports (see controller/openflow/learned.py)."""
        before_ns, self._read_ns = self._read_ns, now_ns
        sent, self._sent = self._sent, defaultdict(lambda: defaultdict(int))
        network = self._network
        if network is None:
            return
        readings = document.get("links", ())
        carried = {DirectedLink(one["source"], one["target"]): int(one["load_bps"]) for one in readings}
        dropped = {DirectedLink(one["source"], one["target"]): int(one["dropped"]) for one in readings}
        known = {link: bps for link, bps in carried.items() if network.has(link)}
        for link, bps in known.items():
            lost = dropped[link] or self._told_by_hosts(link, bps, network.capacity(link), now_ns)
            line = self._drops.read(link, bps, lost, network.capacity(link), network.port(link), now_ns)
            if line is not None:
                self._write({"event": ["link_drops", "warning", line]})
        if before_ns is None or not 0 < now_ns - before_ns <= LONGEST_NS:
            return
        passed_ns = now_ns - before_ns
        rates = {(node, to): size * 8 * SECOND_NS // passed_ns for node, its in sent.items() for to, size in its.items()}
        lost_bps = {link: count * FRAME_BYTES * 8 * SECOND_NS // passed_ns for link, count in dropped.items()}
        if passed_ns <= SECOND_NS and self._granting.policy.needs_permission:
            self.contended(self._regulation.congestion.contended() & {link for link, count in dropped.items() if count}, now_ns)
        if self._unmanaged.read(dict(_readings(network, known, lost_bps, rates)), now_ns):
            self._put_in_force(network, now_ns)
            self._granting.plan(now_ns)

    def _told_by_hosts(self, link: DirectedLink, carried_bps: int, believed: Capacity, now_ns: int) -> bool:
        """Whether hosts lose across a link that nobody gave a rate, and that is not half full: a nominal speed may be wrong."""
        nominal = believed.source in (capacity.PORT_SPEED, capacity.ASSUMED) and carried_bps < believed.bps // 2
        return nominal and self._regulation.congestion.losing(link, now_ns=now_ns)

    def _put_in_force(self, network: FabricNetwork, now_ns: int) -> None:
        taken = {link: bps for link, bps in self._unmanaged.taken_bps.items() if network.has(link)}
        self._regulation.congestion.set_unmanaged(taken)
        less = dict(taken)
        for link in self._drains.active(now_ns):
            if network.has(link):
                less[link] = less.get(link, 0) + int(DRAIN_PART * network.capacity(link).bps)
        self._granting.set_network(network.less(less), now_ns)


def _readings(
    network: FabricNetwork,
    carried: Mapping[DirectedLink, int],
    lost: Mapping[DirectedLink, int],
    rates: Mapping[tuple[int, int], int],
) -> Iterator[tuple[DirectedLink, Reading]]:
    """What others may put on each busy link that some of them are before, in bit/s.

    Args:
        carried, lost: by link.
        rates: what members' large flows sent, by node and destination.
    """
    at_members, strangers = network.members(), network.strangers()
    sending = {link.source: bps for link, bps in carried.items() if link.source in strangers and bps}
    members = {link.source: bps for link, bps in carried.items() if link.source in at_members}
    for link, bps in carried.items():
        capacity_bps = network.capacity(link).bps
        if bps < BUSY * capacity_bps or link.source in members or strangers & set(link):
            continue
        others_bps = sum(rate for host, rate in sending.items() if network.is_before(host, link))
        if others_bps < LEAST * capacity_bps:
            continue
        before = {host: rate for host, rate in members.items() if network.is_before(host, link)}
        for (node, destination), rate in rates.items():
            host = network.hosts.get(node)
            if host in before and destination in network.hosts and link not in network.path(node, destination):
                before[host] = max(0, before[host] - rate)
        yield link, Reading(capacity_bps, bps + lost.get(link, 0), sum(before.values()), others_bps)
