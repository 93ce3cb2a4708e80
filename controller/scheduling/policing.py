"""Compares what was permitted with what the switches counted, and bounds what a suspect can take. Sends only through what it is
given.

The counters are those of the OpenFlow application's port readings, so without OpenFlow switches no host is judged; nor is one
while the override is on, or under a policy that needs no permission.

The coordinator believes a suspect's backlog for `OPEN_NS` of every `CYCLE_NS`: so the suspect gets at most a fifth of its fair
share, and enough to show that it has changed. This holds for every policy, since every policy grants to a backlog.

A member that says more than is read of one (controller/frames/incoming.h) is named beside the suspects; no more is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import Any

from controller.members.part import SUMMARY_NS, Part
from controller.members.registry import Members
from controller.policies.groups import Groups
from controller.scheduling.granting import Granting
from controller.scheduling.misbehaviour import HostWindow, LinkWindow, Misbehaviour
from controller.scheduling.regulation import Regulation
from protocol.units import FRAME_BYTES
from topology.fabric import DirectedLink

PERIOD_NS = 50_000_000
WINDOW_NS = 1_000_000_000
OPEN_NS, CYCLE_NS = 100_000_000, 500_000_000
LONGEST_NS = 5_000_000_000
"""Readings further apart than this say nothing of what was permitted meanwhile."""
BYTE_NS = 8_000_000_000
FLOODS_NS = 5_000_000_000
"""How often it is looked which members say more than is read of one: a look at each member."""


class Policing(Part):
    """Windows of readings, their verdicts, and the times at which suspects are believed.

    Args:
        write: takes lines for the store bridge.
        at: has a call made at a time (ns): as long as there are suspects, and no longer.
    """

    def __init__(
        self,
        granting: Granting,
        members: Members,
        regulation: Regulation,
        write: Callable[[dict[str, Any]], object],
        at: Callable[[int, Callable[[int], None]], None],
    ) -> None:
        self.documents = {"ports": self.on_ports}
        self.periodic = ((SUMMARY_NS, self._forget_unread), (FLOODS_NS, self._look_for_floods))
        self.misbehaviour = Misbehaviour()
        self._granting = granting
        self._members = members
        self._regulation = regulation
        self._write = write
        self._at = at
        self._advancing = False
        self._seen: dict[Hashable, int] = defaultdict(int)
        self._dropped: dict[Hashable, int] = defaultdict(int)
        self._sent: dict[tuple[int, int], int] = defaultdict(int)
        self._yields: dict[int, int] = {}
        self._excess: dict[int, int] = {}
        """How many frames of each member had been left unread by the last look; without those of whom none was."""
        self._flooding: frozenset[int] = frozenset()
        """The members of whom some were since the look before."""
        self._begun_ns: int | None = None
        self._read_ns = self._forgot_ns = 0
        self._regulated = Groups()
        self._contended: frozenset[Hashable] = frozenset()

    def reported(self, node: int, sent: Mapping[int, int], regulated: Set[int]) -> None:
        if self._begun_ns is None:
            return
        for destination, size in sent.items():
            self._sent[node, destination] += size

    def on_ports(self, document: Mapping[str, Any], now_ns: int) -> None:
        """Takes a reading of the switches' ports (see controller/openflow/learned.py); its rates are means over the time since
        the reading before."""
        passed_ns, self._read_ns = now_ns - self._read_ns, now_ns
        if self._begun_ns is None or passed_ns > LONGEST_NS:
            self._begin(now_ns)
            return
        for reading in document.get("links", ()):
            link = reading["source"], reading["target"]
            self._seen[link] += int(reading["load_bps"]) * passed_ns // BYTE_NS
            self._dropped[link] += int(reading["dropped"]) * FRAME_BYTES
        if now_ns - self._begun_ns >= WINDOW_NS:
            self._judge(now_ns)

    def advance(self, now_ns: int) -> None:
        """Believes the suspects at the begin of a cycle, and no more after `OPEN_NS`."""
        suspects = self.misbehaviour.suspects()
        self._granting.distrust(suspects if now_ns % CYCLE_NS >= OPEN_NS else frozenset(), now_ns)
        self._advancing = bool(suspects)
        if suspects:
            self._at(now_ns + PERIOD_NS, self.advance)

    def joined(self, node: int) -> None:
        self.misbehaviour.came(node)
        if not self._advancing and self.misbehaviour.suspects():
            self._advancing = True
            self._at(0, self.advance)

    def left(self, node: int, now_ns: int) -> None:
        for pair in [pair for pair in self._sent if node in pair]:
            del self._sent[pair]
        self.misbehaviour.left(node)
        self._excess.pop(node, None)
        self._flooding -= {node}
        self._granting.permitted.left(node)

    def status(self) -> dict[str, Any]:
        """The bytes that crossed links while they were contended."""
        return {
            "bypass": [
                {
                    "source": link[0],
                    "target": link[1],
                    "regulated_bytes": crossed.regulated,
                    "uncoordinated_bytes": crossed.uncoordinated,
                    "alarm": crossed.alarm,
                }
                for link, crossed in self.misbehaviour.crossed.items()
                if isinstance(link, tuple)
            ]
        }

    def of_member(self, node: int) -> dict[str, Any]:
        """The verdicts that stand against it, as lines."""
        lines = self.misbehaviour.lines(node)
        if node in self._flooding:
            lines = [*lines, f"says more than is read of one host: {self._excess[node]} of its frames were left"]
        return {"suspect": lines}

    def _look_for_floods(self, now_ns: int) -> None:
        """Tells of members that begin to say more than is read of one."""
        before, named = self._excess, self._flooding
        self._excess = {member.node: excess for member in self._members.present() if (excess := member.figures.excess)}
        self._flooding = frozenset(node for node, excess in self._excess.items() if excess != before.get(node))
        for node in self._flooding - named:
            if (member := self._members.get(node)) is not None:
                text = f"{member.name} says more than is read of one host; end its agent, or revoke its key"
                self._write({"event": ["suspect", "warning", text]})

    # -- a window -------------------------------------------------------------------------------------------------------

    def _forget_unread(self, now_ns: int) -> None:
        """Where no ports are read, as without OpenFlow switches, nothing is summed up: a row for each pair that ever sent would
        remain, here and in the account of slots."""
        if now_ns - max(self._read_ns, self._forgot_ns) > LONGEST_NS:
            self._forgot_ns, self._begun_ns = now_ns, None
            self._sent.clear()
            self._granting.permitted.take(now_ns)

    def _begin(self, now_ns: int) -> None:
        """Begins a window: pairs that are regulated at its begin and at its end were regulated all the time."""
        self._begun_ns = now_ns
        self._seen.clear()
        self._dropped.clear()
        self._sent.clear()
        self._granting.permitted.take(now_ns)
        self._regulated = self._regulation.regulated
        self._contended = self._regulation.congestion.contended()
        self._yields = {member.node: member.figures.yields for member in self._members.present()}

    def _judge(self, now_ns: int) -> None:
        assert self._begun_ns is not None
        window_ns, network = now_ns - self._begun_ns, self._granting.network
        by_credit, by_rate = self._granting.permitted.take(now_ns)
        if network is not None and not self._granting.suspended and self._granting.policy.needs_permission:
            contended = self._contended & self._regulation.congestion.contended()
            self.misbehaviour.keep_links(contended)
            permitted = {pair: by_credit.get(pair, 0) + by_rate.get(pair, 0) for pair in by_credit.keys() | by_rate.keys()}
            hosts = dict(self._hosts(permitted, by_credit, window_ns))
            links = dict(self._links(contended, permitted, hosts, window_ns))
            for finding in self.misbehaviour.window(hosts, links, window_ns):
                self._write({"event": ["suspect", finding.severity, finding.text]})
            if not self._advancing and self.misbehaviour.suspects():
                self.advance(now_ns)
        self._begin(now_ns)

    def _hosts(
        self, permitted: Mapping[tuple[int, int], int], by_credit: Mapping[tuple[int, int], int], window_ns: int
    ) -> Iterable[tuple[int, HostWindow]]:
        """Every member that needed permission for some destination, and whose port was read. A port does not say which of the
        members there sent: so what was permitted to any of them counts for each."""
        network = self._granting.network
        assert network is not None
        total, credited = _by_sender(permitted), _by_sender(by_credit)
        free: dict[int, int] = defaultdict(int)
        for (node, destination), size in self._sent.items():
            path = network.path(node, destination)
            if path and not self._regulated.has(node, destination):
                free[node] += min(size, self._seen.get(path[-1], 0))
        senders, changed = self._regulated.senders(), self._regulation.regulated.changed_nodes(self._regulated)
        sharing: dict[DirectedLink | None, list[int]] = defaultdict(list)
        for member in self._members.present():
            sharing[network.access(member.node)].append(member.node)
        for member in self._members.present():
            node = member.node
            if node not in senders or node in changed:
                continue
            first = network.access(node)
            if first in self._seen and first is not None:
                capacity = network.capacity_bps(first) * window_ns // BYTE_NS
                yields = member.figures.yields - self._yields.get(node, 0)
                allowed, credit, elsewhere = (sum(of[one] for one in sharing[first]) for of in (total, credited, free))
                yield node, HostWindow(member.name, capacity, self._seen[first], allowed, credit, elsewhere, yields)

    def _links(
        self,
        contended: frozenset[Hashable],
        permitted: Mapping[tuple[int, int], int],
        hosts: Mapping[int, HostWindow],
        window_ns: int,
    ) -> Iterable[tuple[Hashable, LinkWindow]]:
        network = self._granting.network
        assert network is not None
        across: dict[Hashable, int] = defaultdict(int)
        outside: dict[Hashable, int] = defaultdict(int)
        for (node, destination), size in permitted.items():
            host = hosts.get(node)
            sent = size if host is None else size * min(host.seen, host.permitted) // max(1, host.permitted)
            for crossed in network.path(node, destination):
                across[crossed] += sent
        straying = {network.access(node): (node, host.outside) for node, host in hosts.items() if host.outside}
        for regulated, sides in self._regulated.products() if straying else ():
            if regulated in contended:
                outside[regulated] += sum(size for node, size in straying.values() if node in sides.before)
        for link in contended:
            if isinstance(link, DirectedLink) and link in self._seen:
                capacity = network.capacity_bps(link) * window_ns // BYTE_NS
                name, seen = " > ".join(link), self._seen[link]
                yield link, LinkWindow(name, capacity, seen, self._dropped[link], across[link], outside[link])


def _by_sender(sizes: Mapping[tuple[int, int], int]) -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for (node, _), size in sizes.items():
        found[node] += size
    return found
