"""What the timeslice policies know: nodes, pairs, their links and rates, which pairs wait, and what their slots hold. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.policies.base import Network, Regulated, Slot, Weights
from controller.policies.groups import Varied
from controller.policies.ledger import Booking, Entry, Resource
from protocol.units import FRAME_BYTES, SECOND_NS

PPM = 1_000_000
BYTE = 8 * SECOND_NS * PPM
"""One byte in the unit of a carry: bit/s x ns x millionths."""
NOWHERE: frozenset[int] = frozenset()
FORGOTTEN_TURNS = 10
"""A pair that was not wanted for so many of its turns begins anew."""
HURRIED_TURNS = 2
"""So many turns a pair has by its deadlines, out of the order, between two slots in the order."""
HURRIED_ENOUGH_NS = 1 << 62
"""Of a pair whose node or destination left: its first slot is one in the order, whatever it has had before."""
VISITS = 8
"""A pair keeps its turn if it uses this part of it in a slot; so a turn is over after so many slots at the latest."""
SHORTEST_PART = 32
"""A slot is at least this part of a turn,"""
SHORTEST_PACKETS, MARGIN_PACKETS = 4, 2
"""and so many packets; and it is so many packets longer than the use of the one before."""
PACKET_SLICES = 8
"""A turn is made longer than its slice for the sake of one packet, but to no more than so many slices."""

MOST_CREDIT = 1 << 31
"""Bytes. A DIRECTIVE says a credit in 32 bits, and what was carried may add a packet."""


@dataclass(slots=True, eq=False)
class Host:
    """A sending node: it is a resource of one slot at a time."""

    resource: Resource[Pair] = field(default_factory=lambda: Resource(1))
    last: int = 0
    """Number of the last grant of the last whole turn of any of its pairs."""
    delay_ns: int = 0
    """How long a directive takes to it."""
    carry: int = 0
    """How much less its last credits held than its share, in 1 / BYTE bytes; at least 0 and less than a packet."""


@dataclass(slots=True, eq=False)
class Pair:
    """Large flows from one node to one destination."""

    node: int
    destination: int
    number: int
    host: Host
    links: tuple[Resource[Pair], ...] = ()
    placed: bool = False
    """Its node is known to the network."""
    rate_bps: int = 0
    """Its node's."""
    full_bps: int = 0
    """What it can use: its node's rate, or the least capacity of its path."""
    need_bps: int = 0
    """What it needs at least."""
    burst_bps: int = 0
    """What its packets arrive with behind its node's first link."""
    turn_ns: int = 0
    """How long its turn is: the longest slot that it is granted."""
    length_ns: int = 0
    """How long its next slot is, by what it used of the last ones."""
    used_ns: int = 0
    """How much of its turn it has used in the slots of which it gave bytes back."""
    newest: Slot | None = None
    """Its newest slot, as long as it may say how much of it was used."""
    wanted: bool = False
    """Backlogged and regulated."""
    gone_ns: int | None = None
    """When it was wanted no more; None before that."""
    granted: int = 0
    """Number of its last grant."""
    last: int = 0
    """Number of the last grant of its last whole turn."""
    before: tuple[int, int] = (0, 0)
    """The same and its host's, before the newest slot ended."""
    passed_over: int = 0
    booking: Booking[Pair] | None = None
    """The booking whose end is not foreseen yet."""
    entry: Entry[Pair] | None = None
    """Its place in a line, while it has one."""
    line: Resource[Pair] | None = None
    """The resource in whose line that place is, or was."""
    hastened: bool = False
    """It has that place in the urgent line, too."""
    deadline_bytes: int = 0
    """Waiting bytes of flows with a deadline, as last reported, less what was granted since."""
    hurried_ns: int = 0
    """How long it had slots by its deadlines since its last slot in the order."""

    @property
    def urgent(self) -> bool:
        """Whether it is tried before those without a deadline: for `HURRIED_TURNS` at most between two slots in the order."""
        return self.deadline_bytes > 0 and self.hurried_ns < HURRIED_TURNS * self.turn_ns

    def takes(self, reserved_bps: int) -> tuple[tuple[Resource[Pair], int], ...]:
        """What a slot of this rate takes: the rate of every link, and its node."""
        return (*((link, reserved_bps) for link in self.links), (self.host.resource, 1))


class Least(NamedTuple):
    """Bounds of a pair's slots from below, in ns."""

    length: int
    margin: int


class Terms:
    """How long a slot is and what it holds. Rates in bit/s, fractions kept in millionths so that sums are exact."""

    def __init__(
        self,
        *,
        slice_ns: int,
        minimum_active_ns: int,
        headroom: float,
        minimum_fraction: float,
        burst_bytes: int,
        packet_bytes: int = FRAME_BYTES,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        for name, good, wanted in (
            ("slice_ns", slice_ns > 0, "positive"),
            ("minimum_active_ns", minimum_active_ns >= 0, "at least 0"),
            ("headroom", 0 < headroom <= 1, "above 0 and at most 1"),
            ("minimum_fraction", 0 < minimum_fraction <= 1, "above 0 and at most 1"),
            ("burst_bytes", burst_bytes >= 0, "at least 0"),
            ("packet_bytes", packet_bytes > 0, "positive"),
        ):
            if not good:
                raise ValueError(f"{name} must be {wanted}")
        self.slice_ns = slice_ns
        self.minimum_active_ns = minimum_active_ns
        self.headroom_ppm = round(headroom * PPM)
        self.minimum_ppm = round(minimum_fraction * PPM)
        self.burst_bytes = burst_bytes
        self.packet_bytes = packet_bytes

    def need_bps(self, full_bps: int) -> int:
        """The least rate at which a pair takes a slot."""
        return max(1, full_bps * self.minimum_ppm // PPM)

    def turn_ns(self, need_bps: int, weight: float) -> int:
        """The length of a pair's turns: so long that a credit holds a packet, unless that takes more than `PACKET_SLICES`."""
        packet_ns = -(-self.packet_bytes * BYTE // (need_bps * self.headroom_ppm))
        return max(int(self.slice_ns * weight), self.minimum_active_ns, min(packet_ns, PACKET_SLICES * self.slice_ns))

    def least_ns(self, pair: Pair) -> Least:
        """The least length of a pair's slots: a part of its turn, and never less than some packets' time; and the least by
        which one is longer than the use of the one before."""
        packet_ns = self.packet_bytes * BYTE // (pair.need_bps * self.headroom_ppm)
        length_ns = max(pair.turn_ns // SHORTEST_PART, SHORTEST_PACKETS * packet_ns)
        return Least(min(pair.turn_ns, length_ns), MARGIN_PACKETS * packet_ns)

    def by_rate(self, due: int, sends_bps: int, reserved_bps: int) -> bool:
        """Whether a slot is bounded by its rate: `due`, its share in 1 / BYTE bytes, is less than a packet or more than
        `MOST_CREDIT`, or leaves as a burst that no buffer holds."""
        burst = due * max(0, sends_bps - reserved_bps) // sends_bps
        return not self.packet_bytes * BYTE <= due <= MOST_CREDIT * BYTE or burst > self.burst_bytes * BYTE

    def amount(self, pair: Pair, reserved_bps: int) -> tuple[int, int]:
        """(credit in bytes, 0), with the remainder carried to the node's next; or (0, rate in bit/s)."""
        due = reserved_bps * pair.length_ns * self.headroom_ppm
        if self.by_rate(due, pair.burst_bps, reserved_bps):
            return 0, max(1, reserved_bps * self.headroom_ppm // PPM)
        due += pair.host.carry
        size = due // (self.packet_bytes * BYTE) * self.packet_bytes
        pair.host.carry = due - size * BYTE
        return size, 0


def turn_bound(patience: int, others: int) -> int:
    """How many longest slots a wanted pair waits at most beside `others`; proof in `controller.policies.timeslice`."""
    return ((patience + 2 * VISITS) * (others + 1) + 1) * (others + 1)


class Roster:
    """All pairs that were ever backlogged, with their place in the fabric, and which of them are wanted."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.weights = Weights()
        self.regulated: Regulated = {}
        self.hosts: dict[int, Host] = {}
        self.backlogs: dict[int, frozenset[int]] = {}
        self.delays: dict[int, int] = {}
        self._pairs: dict[int, dict[int, Pair]] = {}
        self._network: Network | None = None
        self._links: dict[Hashable, Resource[Pair]] = {}
        self._numbers = 0
        self._left_at: dict[int, int] = {}
        """By node: `last` of its host, or of a pair towards it, when it left. Pairs from it and towards it go on from there if
        it comes back: to leave gains no place."""

    def pairs(self) -> Iterator[Pair]:
        """All pairs."""
        return (pair for pairs in self._pairs.values() for pair in pairs.values())

    def pair(self, node: int, destination: int) -> Pair | None:
        """One pair, if it was ever backlogged."""
        return self._pairs.get(node, {}).get(destination)

    def pairs_of(self, node: int) -> Iterable[Pair]:
        """The pairs of one node."""
        return self._pairs.get(node, {}).values()

    def set_network(self, network: Network) -> None:
        """Gives every pair its new place. All resources are new, with no bookings and empty lines."""
        self._network = network
        self._links = {}
        for host in self.hosts.values():
            host.resource = Resource(1)
        for pair in self.pairs():
            pair.entry = None
            self._place(pair)

    def recharged(self, network: Network) -> Set[Hashable] | None:
        """The links that carry more or less in a network that is to begin, where it differs in nothing else; None: rates or
        paths may be others as well."""
        return None if self._network is None or not isinstance(network, Varied) else network.differs(self._network)

    def recharge(self, network: Network, names: Set[Hashable]) -> tuple[list[Resource[Pair]], list[Resource[Pair]], list[Pair]]:
        """Takes a network in which these links alone carry more or less: (the links that pairs cross, those of them that carry
        less, the pairs that need more or less now). Those pairs lose their places in lines."""
        self._network = network
        changed = {self._links[name]: network.capacity_bps(name) for name in names if name in self._links}
        fewer = [link for link, capacity in changed.items() if capacity < link.capacity]
        for link, capacity in changed.items():
            link.capacity = capacity
        others = []
        for pair in self.pairs():
            if changed.keys().isdisjoint(pair.links):
                continue
            before = pair.need_bps, pair.placed
            self._find_need(pair)
            if (pair.need_bps, pair.placed) != before:
                pair.entry = None
                others.append(pair)
        return list(changed), fewer, others

    def weigh(self) -> None:
        """Takes changed weights into the lengths of slots."""
        for pair in self.pairs():
            self._measure(pair)

    def forget(self, node: int) -> list[Pair]:
        """Forgets a node; returns the pairs from it and towards it, which are gone."""
        gone = list(self._pairs.pop(node, {}).values())
        gone += [pairs.pop(node) for pairs in self._pairs.values() if node in pairs]
        lasts = [self._left_at.get(node, 0), *(pair.last for pair in gone)]
        for pair in gone:
            pair.wanted, pair.entry, pair.deadline_bytes = False, None, 0
        self.backlogs.pop(node, None)
        if (host := self.hosts.pop(node, None)) is not None:
            lasts.append(host.last)
        self._left_at[node] = max(lasts)
        self.delays.pop(node, None)
        for other, waiting in self.backlogs.items():
            if node in waiting:
                self.backlogs[other] = waiting - {node}
        return gone

    def want(self, node: int) -> tuple[list[Pair], list[Pair]]:
        """Brings a node's pairs in line with its backlog and with what is regulated: (now wanted, no longer wanted)."""
        wanted = self.backlogs.get(node, NOWHERE) & self.regulated.get(node, NOWHERE)
        pairs = self._pairs.setdefault(node, {})
        gone = [pair for pair in pairs.values() if pair.wanted and pair.destination not in wanted]
        for pair in gone:
            pair.wanted, pair.deadline_bytes = False, 0
        new = []
        for destination in sorted(wanted):  # so that new pairs are numbered by their destinations
            pair = pairs.get(destination) or self._new_pair(node, destination)
            if not pair.wanted:
                pair.wanted = True
                new.append(pair)
        return new, gone

    def _new_pair(self, node: int, destination: int) -> Pair:
        host, last = self.hosts.get(node), self._left_at.get(node, 0)
        if host is None:
            host = self.hosts[node] = Host(delay_ns=self.delays.get(node, 0), last=last)
        last = max(last, self._left_at.get(destination, 0))
        self._numbers += 1
        hurried_ns = HURRIED_ENOUGH_NS if last else 0
        pair = Pair(node, destination, self._numbers, host, last=last, hurried_ns=hurried_ns)
        self._pairs[node][destination] = pair
        self._place(pair)
        return pair

    def _place(self, pair: Pair) -> None:
        """Finds the pair's links and rates in the network."""
        pair.placed, pair.links = False, ()
        if self._network is None:
            return
        try:
            pair.rate_bps = self._network.node_rate_bps(pair.node)
        except KeyError:
            return
        links = []
        for name in self._network.path(pair.node, pair.destination):
            link = self._links.get(name)
            if link is None:
                link = self._links[name] = Resource(self._network.capacity_bps(name))
            links.append(link)
        pair.links = tuple(links)
        self._find_need(pair)

    def _find_need(self, pair: Pair) -> None:
        """Finds what follows of the pair's links and its node's rate."""
        pair.full_bps = min([pair.rate_bps, *(link.capacity for link in pair.links)])
        pair.placed = pair.full_bps > 0
        pair.need_bps = self.terms.need_bps(pair.full_bps)
        pair.burst_bps = min(pair.rate_bps, pair.links[0].capacity) if pair.links else pair.rate_bps
        self._measure(pair)

    def _measure(self, pair: Pair) -> None:
        if pair.placed:
            pair.turn_ns = self.terms.turn_ns(pair.need_bps, self.weights.of(pair.node, pair.destination))
            pair.length_ns = max(self.terms.least_ns(pair).length, min(pair.length_ns or pair.turn_ns, pair.turn_ns))
