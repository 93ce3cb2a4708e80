"""What a start of the application, or a new leader, takes over from the switches. Pure.

A switch goes on forwarding by the entries that it holds. So it is asked for them first (`Reading`), and joins the network when
it has told them, or could not. Then no switch is sent anything until we have heard what explains the entries (`waits`): every
port that a switch has open as part of the tree, and whose link works, has its neighbour's LLDP. That lasts TAKEOVER_NS at most;
what we have not heard of by then is gone. The hosts come from the entries that let in their frames (`hosts`): the switch goes
on counting how long each has been idle. Then a switch gets the difference of two tables.

Entries towards hosts of which we know nothing, as when their own switch told nothing, stay for UNHEARD_NS more (`keeping`).

A switch that tells nonsense, or more than it can have from us, or takes longer than READ_NS, is *unread*: it gets its whole
table. One that lies harms its own hosts, and delays a start by the times above. It may claim hosts at its own ports, as many
as by frames; an address that two switches claim is nobody's until a frame comes from there.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.tables.flowtable import Flow, FlowKey, Match, Ports, Table
from controller.openflow.tables.forwarding import CLASSIFY, DELIVER, ETH_ARP, ETH_CONTROL, FLOOD_GROUP, LEARN
from controller.openflow.view import View
from protocol.units import MILLISECOND_NS

TAKEOVER_NS = 15_000 * MILLISECOND_NS
"""How long after a start tables may stay as they are: Open vSwitch tries to connect every 8 s at the least."""
READ_NS = 3_000 * MILLISECOND_NS
"""How long one switch may take to tell what it holds, from the question on."""
UNHEARD_NS = 3_000 * MILLISECOND_NS
READ_AT_ONCE = 8
"""Switches that are asked at the same time; the others wait for their turn."""
FLOWS_MAX, GROUPS_MAX, PARTS_MAX = 1 << 16, 1 << 12, 1 << 12
FAR_MORE = 1_000


class Part(Enum):
    """What a switch is asked for: its entries of ours, its groups, and how many entries it has of anybody's."""

    FLOWS = auto()
    GROUPS = auto()
    COUNT = auto()


@dataclass(slots=True)
class Reading:
    """What one switch has told so far, since it was asked."""

    began_ns: int
    table: Table = field(default_factory=Table)
    sound: bool = True
    """Whether it can be believed, so far."""
    _missing: set[Part] = field(default_factory=lambda: set(Part))
    _parts: int = 0
    _told: int = 0

    def flows(self, flows: Iterable[Flow | None], *, more: bool) -> None:
        """Entries, None for one that is not of our kind; `more`: others follow."""
        for flow in flows:
            self._told += 1
            if flow is None or self._told > FLOWS_MAX:
                self.sound = False
                return
            self.table.flows[flow.key] = flow
        self._end(Part.FLOWS, more)

    def groups(self, groups: Iterable[tuple[int, Ports | None]], *, more: bool) -> None:
        """Groups by their numbers; those that are not of our kind count as missing."""
        self.table.groups.update({number: ports for number, ports in groups if ports is not None})
        self.sound = self.sound and len(self.table.groups) <= GROUPS_MAX
        self._end(Part.GROUPS, more)

    def counted(self, count: int) -> None:
        """How many entries there are. If more than were told, some are another's; if fewer, some have ended since."""
        self.sound = self.sound and count <= self._told
        self._end(Part.COUNT, more=False)

    def failed(self) -> None:
        """The switch refuses to tell."""
        self.sound = False

    def over(self, now_ns: int) -> bool:
        """Whether nothing more is waited for."""
        if now_ns - self.began_ns >= READ_NS:
            self.sound = self.sound and not self._missing
        return not (self._missing and self.sound)

    def _end(self, part: Part, more: bool) -> None:
        self._parts += 1
        if not more:
            self._missing.discard(part)
        self.sound = self.sound and self._parts <= PARTS_MAX


class Takeover:
    """One start: the switches that are to be asked, those that are asked, and the tables of those that have told (`held`)
    until they are taken over."""

    def __init__(self, now_ns: int) -> None:
        self.until_ns = now_ns + TAKEOVER_NS
        self.held: dict[int, Table] = {}
        self._waiting: deque[int] = deque()
        self._readings: dict[int, Reading] = {}
        self._numbers: dict[int, frozenset[int]] = {}  # of the requests (xid)
        self._trunks: dict[int, frozenset[int]] = {}
        self._read: list[int] = []
        self._unheard: dict[int, dict[FlowKey, Flow]] = {}
        self._unheard_until_ns: int | None = None
        self._waits = False

    # -- asking ----------------------------------------------------------------------------------------------

    def connected(self, dpid: int) -> None:
        """A switch has connected: it will be asked."""
        self.forget(dpid)
        self._waiting.append(dpid)

    def unread(self, dpid: int) -> None:
        """A switch that will not be asked joins as one of which nothing is known."""
        self.forget(dpid)
        self._read.append(dpid)

    def forget(self, dpid: int) -> None:
        """A switch has left."""
        self.held.pop(dpid, None)
        self._readings.pop(dpid, None)
        self._numbers.pop(dpid, None)
        self._unheard.pop(dpid, None)
        self._waiting = deque(other for other in self._waiting if other != dpid)
        self._read = [other for other in self._read if other != dpid]

    def to_ask(self) -> list[int]:
        """The switches that are to be asked now: `asked` says that they were."""
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), READ_AT_ONCE - len(self._readings)))]

    def asked(self, dpid: int, numbers: Iterable[int], now_ns: int) -> None:
        """A switch was sent the requests of these numbers."""
        self._readings[dpid], self._numbers[dpid] = Reading(now_ns), frozenset(numbers)

    def answers(self, dpid: int, number: int) -> bool:
        """Whether what a switch tells under this number is an answer to our questions, though it may come too late."""
        return number in self._numbers.get(dpid, ())

    def reading(self, dpid: int) -> Reading | None:
        """What takes a switch's answers; None: nothing does any more."""
        return self._readings.get(dpid)

    def expired(self, dpid: int, key: FlowKey) -> None:
        """A switch has removed an entry because it was idle."""
        tables = [self.held.get(dpid), reading.table if (reading := self._readings.get(dpid)) else None]
        for table in tables:
            if table is not None:
                table.flows.pop(key, None)

    def joining(self, now_ns: int) -> list[int]:
        """The switches that join the network now; those that could be read are in `held`. While a start lasts they join when
        all have been read that have connected: reading takes the processor that probing ports needs."""
        for dpid, reading in list(self._readings.items()):
            if reading.over(now_ns):
                del self._readings[dpid]
                self._read.append(dpid)
                if reading.sound:
                    self.held[dpid] = reading.table
                    self._trunks[dpid] = frozenset(_trunks(reading.table))
        if self.is_reading and now_ns < self.until_ns:
            return []
        joining, self._read = self._read, []
        return joining

    @property
    def is_reading(self) -> bool:
        """Whether a switch is asked, or is to be."""
        return bool(self._waiting or self._readings)

    # -- taking over -----------------------------------------------------------------------------------------

    def waits(self, view: View, now_ns: int, *, informed: bool = True) -> bool:
        """Whether the switches keep their tables for now. `informed`: what else tables depend on is known."""
        self._waits = now_ns < self.until_ns and (self.is_reading or not self._explained(view, informed))
        return self._waits

    def _explained(self, view: View, informed: bool) -> bool:
        """Whether we have heard what the tables of the switches stand for."""
        linked = {end for link in view.links for end in link}

        def is_unheard(at: PortRef) -> bool:
            return view.is_up(at) and at not in linked

        return (informed or not self.held) and not any(
            dpid not in view.switches or any(is_unheard(PortRef(dpid, number)) for number in self._trunks[dpid])
            for dpid in self.held
        )

    def hosts(self, view: View) -> list[Host]:
        """The hosts that the switches know which can be taken over, by their MAC addresses, without those that two claim."""
        found = [host for dpid in sorted(self.held) if dpid in view.switches for host in hosts(dpid, self.held[dpid])]
        claims = Counter(host.mac for host in found)
        return sorted((host for host in found if claims[host.mac] == 1), key=lambda host: host.mac)

    def take(self, wanted: Mapping[int, Table], now_ns: int) -> dict[int, Table]:
        """The tables of the switches that are taken over now: those for which a table is wanted. One that holds far more than
        it should is left out: it is faster to put its table anew."""
        taken = {dpid: self.held.pop(dpid) for dpid in list(self.held) if dpid in wanted}
        taken = {dpid: held for dpid, held in taken.items() if len(held.flows) <= 2 * len(wanted[dpid].flows) + FAR_MORE}
        for dpid, held in taken.items():
            unheard = {key: flow for key, flow in held.flows.items() if _leads_to_host(flow) and key not in wanted[dpid].flows}
            if unheard:
                self._unheard[dpid] = unheard
                self._unheard_until_ns = now_ns + UNHEARD_NS
        return taken

    def keeping(self, wanted: dict[int, Table], now_ns: int) -> dict[int, Table]:
        """The wanted tables, and in them the entries towards hosts not heard of yet, where their port is open."""
        if self._unheard_until_ns is None or now_ns >= self._unheard_until_ns:
            self._unheard, self._unheard_until_ns = {}, None
            return wanted
        return {dpid: _with(table, self._unheard.get(dpid)) for dpid, table in wanted.items()}

    def next_ns(self) -> int | None:
        """When time alone changes what `waits` or `keeping` say; None: not any more."""
        return self.until_ns if self._waits else self._unheard_until_ns


def hosts(dpid: int, table: Table) -> Iterator[Host]:
    """The hosts that a switch lets in: the reverse of what `Forwarding` makes of them."""
    addresses: dict[tuple[int | None, str | None], list[str]] = {}
    for key in table.flows:
        if key.table == LEARN and key.match.eth_type == ETH_ARP and key.match.arp_spa not in (None, "0.0.0.0"):
            addresses.setdefault((key.match.in_port, key.match.eth_src), []).append(str(key.match.arp_spa))
    for key in table.flows:
        port, mac = key.match.in_port, key.match.eth_src
        if port is not None and mac is not None and key == source_key(port, mac):
            agent = FlowKey(LEARN, 110, Match(port, ETH_CONTROL, mac)) not in table.flows
            yield Host(mac, PortRef(dpid, port), tuple(sorted(addresses.get((port, mac), ()))), agent)


def source_key(port: int, mac: str) -> FlowKey:
    """What identifies the entry that lets in a host's frames; it ends when they cease."""
    return FlowKey(LEARN, 100, Match(in_port=port, eth_src=mac))


def _trunks(table: Table) -> Iterator[int]:
    """The ports that a table has open as part of the tree."""
    for key, flow in table.flows.items():
        port = key.match.in_port
        if port is not None and key.table == CLASSIFY and flow.goto == DELIVER and key.match == Match(port):
            yield port


def _leads_to_host(flow: Flow) -> bool:
    return flow.table == DELIVER and flow.output is not None and flow.match == Match(eth_dst=flow.match.eth_dst)


def _with(table: Table, unheard: Mapping[FlowKey, Flow] | None) -> Table:
    if not unheard:
        return table
    open_ports = table.groups.get(FLOOD_GROUP, frozenset())
    kept = {key: flow for key, flow in unheard.items() if key not in table.flows and flow.output in open_ports}
    return Table({**table.flows, **kept}, table.groups) if kept else table
