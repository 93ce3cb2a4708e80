"""Days within weeks: the coordinator sends each host, a week ahead, on which day which of its flows is open. Pure.

Source: "Fine-Grained End-Host Traffic Control" and REACToR (Liu et al., NSDI 2014): a day is the time of one configuration of
a circuit switch, a night the time of its change, a week a schedule. An announcement may take any constant time: only the
variance of that time matters.

The flows are those of the configuration, on the days that it says; or, without any, all pairs that cross contended links take
turns. Then on each day a host sends to one destination, every link of the open pairs' paths carries the rates at which their
hosts send, and pairs are taken in the order of their last days: so each of n pairs comes at least every n-th day.

A host's week is shorter than its lease; it is sent when it is `horizon` ahead, and once more when it is half as far ahead,
since a frame may be lost. A host that was scheduled and is no more is sent a week without flows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.config.weekly_settings import FLOWS_MAX, WeeklySettings
from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, SlotNumbers
from protocol import pfc
from protocol.bodies.host_control import Transport, Week, WeekKey

Pair = tuple[int, int]
"""A node and its flow: the destination node, or a DSCP."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The frames that open a day, or its night, by PFC: at `at_ns`, quanta by class (0 opens it)."""

    at_ns: int
    quanta: Mapping[int, int]


def calendar(
    pairs: Iterable[Pair], network: Network, days: int, last_served: dict[Pair, int], served: int
) -> list[list[Pair]]:
    """The pairs that are open on each day: one of each host, together no more than any link carries.

    Args:
        pairs: with a destination node each. Those without a known path are left out.
        last_served: the number of each pair's last day, updated; `served` the number of the first of these days.
    """
    paths = {pair: path for pair in pairs if (path := network.path(*pair))}
    found: list[list[Pair]] = []
    for day in range(days):
        load: defaultdict[object, int] = defaultdict(int)
        busy: set[int] = set()
        chosen: list[Pair] = []
        for pair in sorted(paths, key=lambda pair: (last_served.get(pair, -1), pair)):
            node, path = pair[0], paths[pair]
            # A host faster than a link has it alone.
            takes = {link: min(network.node_rate_bps(node), network.capacity_bps(link)) for link in path}
            if node in busy or any(load[link] + rate > network.capacity_bps(link) for link, rate in takes.items()):
                continue
            chosen.append(pair)
            busy.add(node)
            for link, rate in takes.items():
                load[link] += rate
            last_served[pair] = served + day
        found.append(chosen)
    return found


def turns(week: Week) -> list[Turn]:
    """The PFC frames of a week in the order of their times: all classes are paused in the nights, on its day a flow's class is
    open. Pauses are for as long as a frame can say, and to be sent again before that is over (`protocol.pfc.longest_ns`)."""
    bits = [bit for bit in range(len(week.flows)) if week.active >> bit & 1]
    found = []
    for day, mask in enumerate(week.days):
        start_ns = week.start_ns + day * week.day_ns
        opened = {priority: 0 if mask >> bit & 1 else pfc.MAX_QUANTA for priority, bit in enumerate(bits)}
        found.append(Turn(start_ns, opened))
        if week.night_ns or day == len(week.days) - 1:
            found.append(Turn(start_ns + week.day_ns - week.night_ns, dict.fromkeys(opened, pfc.MAX_QUANTA)))
    return found


def by_nodes(settings: WeeklySettings, nodes: Mapping[str, int]) -> dict[Pair, tuple[int, ...]]:
    """The configured flows by node ids, and their days; without flows of hosts that are not there."""
    found: dict[Pair, tuple[int, ...]] = {}
    for source, flow, days in settings.flows:
        number = flow if isinstance(flow, int) else nodes.get(flow)
        if source in nodes and number is not None:
            found[nodes[source], number] = days
    return found


class Weekly(Policy):
    """Grants no slots: hosts are sent `Plan.weeks`."""

    needs_permission = False
    has_own_schedule = True

    def __init__(self, settings: WeeklySettings) -> None:
        """Raises ValueError: settings that do not go together; says which."""
        for field, fault in settings.faults():
            raise ValueError(f"weekly.{field}: {fault}")
        self._settings = settings
        self._network: Network | None = None
        self._pairs: frozenset[Pair] = frozenset()
        self._appointed: dict[Pair, tuple[int, ...]] = {}
        self._numbers = SlotNumbers()
        self._served = 0
        self._last_served: dict[Pair, int] = {}
        self._next_ns: int | None = None
        self._repeats: list[tuple[int, list[tuple[int, Week]]]] = []
        self._told: set[int] = set()
        """The nodes that have a schedule."""

    # -- events ---------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Makes the weeks from the next one on for the new paths."""
        self._network = network

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Takes the pairs that take turns, where no flows are configured."""
        self._pairs = frozenset((node, destination) for node, found in pairs.items() for destination in found)

    def set_hosts(self, nodes: Mapping[str, int]) -> None:
        """Appoints the configured flows of the hosts that are there."""
        self.appoint(by_nodes(self._settings, nodes))

    def appoint(self, days: Mapping[Pair, tuple[int, ...]]) -> None:
        """Takes the configured flows and their days, in full, by node ids (see `WeeklySettings.flows`)."""
        self._appointed = dict(days)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Changes nothing: a flow that needs more is configured with more days."""

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Changes nothing: days come whether they are used or not."""

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """Changes nothing."""

    def left(self, node: int, *, now_ns: int) -> None:
        """Takes the node's flows, and flows towards it, out of the weeks from the next one on."""
        self._pairs = frozenset(pair for pair in self._pairs if node not in pair)
        ends = 2 if self._settings.key == "destination" else 1  # the second of a pair may be a DSCP
        self._appointed = {pair: days for pair, days in self._appointed.items() if node not in pair[:ends]}
        self._told.discard(node)

    # -- weeks ----------------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """The weeks that begin until `horizon_ns`."""
        weeks = [week for due_ns, again in self._repeats if due_ns <= horizon_ns for week in again]
        self._repeats = [repeat for repeat in self._repeats if repeat[0] > horizon_ns]
        lead_ns = horizon_ns - now_ns
        while self._network is not None and (self._next_ns is None or self._next_ns <= horizon_ns):
            if not self._appointed and not self._pairs:
                gone = self._dismiss(self._told, now_ns)
                weeks += gone
                self._repeats = [(horizon_ns + lead_ns, gone)] if gone else self._repeats
                self._next_ns = None
                break
            # The first begins when it can have been told, as does the next one after a standstill.
            start_ns = horizon_ns if self._next_ns is None or self._next_ns < now_ns else self._next_ns
            begun = self._week(start_ns, now_ns)
            weeks += begun
            self._next_ns = start_ns + self._settings.days * self._settings.day_ns
            self._repeats.append((start_ns + lead_ns // 2, begun))
        return Plan(weeks=weeks)

    def retire(self, *, now_ns: int) -> Plan:
        """Frees all that is scheduled, by weeks without flows."""
        self._repeats.clear()
        return Plan(weeks=self._dismiss(self._told, now_ns))

    def next_event_ns(self) -> int | None:
        """When the next week begins, or is to be sent once more."""
        times = [due_ns for due_ns, _ in self._repeats]
        return min(times if self._next_ns is None else [self._next_ns, *times], default=None)

    def _week(self, start_ns: int, now_ns: int) -> list[tuple[int, Week]]:
        assert self._network is not None
        settings = self._settings
        days: list[list[Pair]]
        if self._appointed:
            days = [[pair for pair, its in self._appointed.items() if day in its] for day in range(settings.days)]
            pairs = list(self._appointed)
        else:
            days = calendar(self._pairs, self._network, settings.days, self._last_served, self._served)
            self._served += settings.days
            pairs = sorted(self._pairs, key=lambda pair: (-self._last_served.get(pair, -1), pair))
        flows: defaultdict[int, list[int]] = defaultdict(list)
        for node, flow in pairs:
            if len(flows[node]) < FLOWS_MAX:  # flows beyond that, which had no day for longest, stay free
                flows[node].append(flow)
        weeks = self._dismiss(self._told - flows.keys(), now_ns)
        number = self._numbers.take(now_ns)
        for node, its in flows.items():
            its.sort()
            masks = tuple(sum(1 << its.index(flow) for owner, flow in day if owner == node and flow in its) for day in days)
            weeks.append((node, self._message(number, start_ns, tuple(its), masks)))
        self._told = set(flows)
        return weeks

    def _dismiss(self, nodes: Iterable[int], now_ns: int) -> list[tuple[int, Week]]:
        gone = list(nodes)
        self._told = self._told - set(gone)
        number = self._numbers.take(now_ns) if gone else 0
        return [(node, self._message(number, now_ns, (), ())) for node in gone]

    def _message(self, number: int, start_ns: int, flows: tuple[int, ...], masks: tuple[int, ...]) -> Week:
        settings = self._settings
        return Week(
            number,
            start_ns,
            settings.day_ns,
            settings.night_ns,
            settings.lease_ns,
            WeekKey[settings.key.upper()],
            Transport[settings.transport.upper()],
            flows,
            masks,
        )
