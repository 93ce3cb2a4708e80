"""What MCP takes as the link, C and K (Karuna, SIGCOMM 2016, section 3), told to every member: PATHS. Sends only through what
it is given.

C is the capacity of the slowest link on the way to a member, K the queue from which that link's port marks. After a change of
the fabric or of the members a few of them are told at each sweep, so that no slot waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Protocol

from controller.config.settings import CoordinatorSettings
from controller.members.part import SWEEP_NS, Part
from controller.members.registry import Member, Members
from protocol.messages import Message, Paths
from protocol.paging import paginate
from protocol.timers import Timers
from protocol.units import FRAME_BYTES
from topology.capacity import Capacity
from topology.fabric import DirectedLink

MARKING = ((40_000_000_000, 250), (10_000_000_000, 65), (0, 20))
"""Karuna's marking thresholds in packets, of links from such a rate on (section 6)."""
MEMBERS_A_SWEEP = 4


class Network(Protocol):
    """Paths and capacities between members, as controller/scheduling/network.py has them."""

    hosts: dict[int, str]

    def path(self, source: int, destination: int) -> tuple[DirectedLink, ...]:
        """The links from one member to another."""
        ...

    def capacity(self, link: DirectedLink) -> Capacity:
        """What a directed link carries."""
        ...

    def capacities(self) -> Mapping[DirectedLink, Capacity]:
        """The same of all links."""
        ...

    def node_rate_bps(self, node: int) -> int:
        """What a member can send at."""
        ...


class PathLimits(Part):
    """Each member's paths, as last worked out and sent; `network` returns the network in force, or None."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        network: Callable[[], Network | None],
        timers: Timers,
        send: Callable[[Message, bytes], None],
    ) -> None:
        self.periodic = ((SWEEP_NS, self.sweep),) if settings.priorities else ()
        self._enabled = settings.priorities
        self._marking_bytes = settings.marking_bytes
        self._members = members
        self._network_in_force = network
        self._timers = timers
        self._send = send
        self._network: Network | None = None
        self._slowest_bps = 0
        self._due: dict[int, None] = {}
        self._joined: dict[int, None] = {}
        self._sent: dict[int, Paths] = {}
        self._version = 0

    def sweep(self, now_ns: int) -> None:
        """Works out some members' paths after a change of the network or of the members, and sends those that have changed."""
        network = self._network_in_force()
        if network is not None and (self._network is None or network.hosts is not self._network.hosts):
            self._network = network  # one with the same hosts differs only in what non-members take
            self._slowest_bps = min((capacity.bps for capacity in network.capacities().values()), default=0)
            self._due = dict.fromkeys(network.hosts)
        elif network is not None and self._joined:  # it has taken them in, and is the same otherwise
            rates = [network.node_rate_bps(node) for node in self._joined if node in network.hosts]
            self._slowest_bps = min([self._slowest_bps, *rates])
            self._due = dict.fromkeys((*self._joined, *self._due, *network.hosts))
        self._joined.clear()
        for node in list(islice(self._due, MEMBERS_A_SWEEP)):
            del self._due[node]
            found = self._paths_of(node)
            if found is not None and found != self._sent.get(node):
                self._sent[node] = found
                self._version += 1
                self._timers.repeat(now_ns, lambda _, node=node: self._tell_node(node))  # type: ignore[misc]  # the default binds it

    def joined(self, node: int) -> None:
        """Has the member told its paths, and then the others theirs to it."""
        if self._enabled:
            self._sent.pop(node, None)
            self._joined[node] = None

    def left(self, node: int, now_ns: int) -> None:
        self._sent.pop(node, None)

    def tell(self, member: Member) -> None:
        """Sends a member its paths, if they are known."""
        if self._enabled and (found := self._sent.get(member.node)) is not None:
            for page in paginate(Paths(self._version, 0, 1, found.rate_bps, found.marking_bytes, found.entries)):
                self._send(page, member.mac)

    def _tell_node(self, node: int) -> None:
        if (member := self._members.get(node)) is not None:
            self.tell(member)

    def _paths_of(self, node: int) -> Paths | None:
        """A member's paths, with version 0; None: it has no place in the fabric."""
        network = self._network
        if network is None or node not in network.hosts:
            return None
        rates: dict[int, int] = {}
        if network.node_rate_bps(node) > self._slowest_bps:
            for other in network.hosts:
                if path := network.path(node, other):
                    rates[other] = min(network.capacity(link).bps for link in path)
        usual = Counter(rates.values()).most_common(1)[0][0] if rates else network.node_rate_bps(node)
        entries = tuple((other, rate, self._marking(rate)) for other, rate in sorted(rates.items()) if rate != usual)
        return Paths(0, 0, 1, usual, self._marking(usual), entries)

    def _marking(self, rate_bps: int) -> int:
        return self._marking_bytes or next(packets for least_bps, packets in MARKING if rate_bps >= least_bps) * FRAME_BYTES
