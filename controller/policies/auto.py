"""The policy `auto`: turns or rates, by contended link, from what is measured. Pure.

It runs a `Timeslice` and a `RateLimit`, and gives each regulated pair to one of them. Contended links form a *group* where one
pair that sends crosses several of them, or one node sends across several: then one choice holds for all, so no link and no node
is ever scheduled by both. `choice.Choice` chooses for a group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, Slot, SlotNumbers
from controller.policies.choice import RATES, TURNS, Choice, Measured, summary
from controller.policies.rates.policy import RateLimit
from controller.policies.timeslice import Timeslice
from protocol.units import MILLISECOND_NS as MS
from protocol.units import SECOND_NS

Key = tuple[int, int]
"""(node, destination)."""
RECENT_NS = SECOND_NS
"""For so long after its last backlog a pair counts as one that sends."""
REVIEW_NS = 250 * MS
LEAST_SLOTS = 50
"""Of fewer turns it is not concluded how much of them is used."""
MOST_SLOTS = 4_000
"""When so many turns are counted on a link each counts half from then on: what was used hours ago says nothing of today."""


class Auto(Policy):
    """Gives each pair to turns or to rates."""

    def __init__(self, turns: Timeslice, rates: RateLimit) -> None:
        self._turns, self._rates = turns, rates
        turns.numbers = rates.numbers = SlotNumbers()
        self._network: Network | None = None
        self._contended: frozenset[Hashable] = frozenset()
        self._regulated: Regulated = {}
        self._choices: dict[Hashable, Choice] = {}
        """By contended link; the links of a group have the same."""
        self._sending: dict[Key, int] = {}
        """When each pair that sends had a backlog last."""
        self._used: dict[Hashable, list[int]] = {}
        """By contended link: turns, bytes granted in them, and bytes given back since the last choice; old ones count less."""
        self._owners: dict[int, tuple[Key, int]] = {}
        """The pair, and the bytes, of every turn that may still be given back."""
        self._waiting: dict[int, frozenset[int]] = {}
        """By node: the destinations for which bytes wait."""
        self._next_review_ns: int | None = None
        self._dirty = True

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        self._network = network
        self._dirty = True
        for policy in self._both():
            policy.set_network(network, now_ns=now_ns)

    def set_contended(self, links: frozenset[Hashable]) -> None:
        """Forgets the choices for links that are not contended any more."""
        self._contended = links
        self._choices = {link: choice for link, choice in self._choices.items() if link in links}
        self._dirty = True

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        self._regulated = pairs
        self._dirty = True
        self._review(now_ns)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        for policy in self._both():
            policy.set_weight(node, destination, weight)

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        waiting = [destination for destination, size in backlog.items() if size > 0]
        self._waiting[node] = frozenset(waiting)
        for destination in waiting:
            self._sends((node, destination), now_ns)
        for policy in self._both():
            policy.backlog(node, backlog, now_ns=now_ns, deadline=deadline)

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        key, size = self._owners.get(slot, (None, 0))
        if key == (node, destination):
            del self._owners[slot]
            for link in self._links(node, destination):
                if (used := self._used.get(link)) is not None:
                    used[2] += min(unspent_bytes, size)
        waiting = self._waiting.get(node, frozenset())
        self._waiting[node] = waiting | {destination} if backlog_bytes > 0 else waiting - {destination}
        if backlog_bytes > 0:
            self._sends((node, destination), now_ns)
        for policy in self._both():
            policy.yielded(
                node, destination, slot, now_ns=now_ns, backlog_bytes=backlog_bytes, unspent_bytes=unspent_bytes
            )

    def sent(self, node: int, rates_bps: Mapping[int, int], *, now_ns: int) -> None:
        for destination, rate_bps in rates_bps.items():
            if rate_bps and (node, destination) in self._sending:
                self._sending[node, destination] = now_ns
        self._rates.sent(node, rates_bps, now_ns=now_ns)

    def set_delay(self, node: int, delay_ns: int) -> None:
        for policy in self._both():
            policy.set_delay(node, delay_ns)

    def left(self, node: int, *, now_ns: int) -> None:
        for key in [key for key in self._sending if node in key]:
            del self._sending[key]
        self._waiting.pop(node, None)
        self._waiting = {other: waiting - {node} for other, waiting in self._waiting.items()}
        self._owners = {slot: owner for slot, owner in self._owners.items() if node not in owner[0]}
        for policy in self._both():
            policy.left(node, now_ns=now_ns)

    def _both(self) -> tuple[Timeslice, RateLimit]:
        return self._turns, self._rates

    def _sends(self, key: Key, now_ns: int) -> None:
        self._dirty |= key not in self._sending
        self._sending[key] = now_ns

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """What both plan, after a review that is due."""
        if self._dirty or (self._next_review_ns is not None and now_ns >= self._next_review_ns):
            self._review(now_ns)
        turns = self._turns.plan(now_ns=now_ns, horizon_ns=horizon_ns)
        rates = self._rates.plan(now_ns=now_ns, horizon_ns=horizon_ns)
        for slot in turns.grants:
            self._count(slot)
        return Plan([*turns.grants, *rates.grants], [*turns.revokes, *rates.revokes])

    def retire(self, *, now_ns: int) -> Plan:
        plans = [policy.retire(now_ns=now_ns) for policy in self._both()]
        return Plan(revokes=[slot for plan in plans for slot in plan.revokes])

    def next_event_ns(self) -> int | None:
        events = [self._next_review_ns, *(policy.next_event_ns() for policy in self._both())]
        return min((event for event in events if event is not None), default=None)

    def late_matters(self, slot: Slot) -> bool:
        """Of turns, yes."""
        return slot.bytes > 0

    def choices(self) -> list[dict[str, Any]]:
        return summary((link, choice) for link, choice in self._choices.items() if link in self._contended)

    def _count(self, slot: Slot) -> None:
        if slot.slot in self._owners or not slot.bytes:
            return
        key = slot.node, slot.destination
        self._owners[slot.slot] = key, slot.bytes
        for link in self._links(*key):
            used = self._used.setdefault(link, [0, 0, 0])
            if used[0] >= MOST_SLOTS:
                used[:] = [sum_ // 2 for sum_ in used]
            used[0] += 1
            used[1] += slot.bytes

    # -- choosing -----------------------------------------------------------------------------------------------------

    def _links(self, node: int, destination: int) -> list[Hashable]:
        """The contended links of a pair's path; all of its links while none is known to be contended."""
        path = self._network.path(node, destination) if self._network is not None else ()
        return [link for link in path if link in self._contended] if self._contended else list(path)

    def _review(self, now_ns: int) -> None:
        """Chooses for every group of links, and hands pairs over where a choice or the regulated pairs changed."""
        changed, self._dirty = self._dirty, False
        self._sending = {key: last_ns for key, last_ns in self._sending.items() if now_ns - last_ns < RECENT_NS}
        self._owners = dict(list(self._owners.items())[-10 * len(self._sending) - LEAST_SLOTS :])
        self._next_review_ns = now_ns + REVIEW_NS if self._sending else None
        for links, keys in self._groups():
            known = [self._choices[link] for link in links if link in self._choices]
            choice = next((choice for choice in known if choice.mode == RATES), known[0] if known else Choice())
            if choice.update(self._measure(links, keys), self._turns.terms.slice_ns, now_ns):
                changed = True
                for link in links:
                    self._used.pop(link, None)
            for link in links:
                changed |= self._choices.get(link, Choice()).mode != choice.mode
                self._choices[link] = choice
        if changed:
            self._hand_over(now_ns)

    def _groups(self) -> list[tuple[list[Hashable], list[Key]]]:
        """The links that share pairs or nodes that send, with these pairs."""
        parent: dict[Hashable, Hashable] = {}

        def root(of: Hashable) -> Hashable:
            parent.setdefault(of, of)
            while parent[of] != of:
                parent[of] = of = parent[parent[of]]
            return of

        sending: list[tuple[Key, list[Hashable]]] = []
        for key in self._sending:
            if key[1] in self._regulated.get(key[0], ()):
                sending.append((key, self._links(*key)))
                for link in sending[-1][1]:
                    parent[root(link)] = root(("node", key[0]))
        groups: dict[Hashable, tuple[dict[Hashable, None], list[Key]]] = {}
        for key, links in sending:
            if links:
                of, its = groups.setdefault(root(links[0]), ({}, []))
                of.update(dict.fromkeys(links))
                its.append(key)
        return [(list(links), keys) for links, keys in groups.values()]

    def _measure(self, links: Iterable[Hashable], keys: Iterable[Key]) -> Measured:
        senders: Counter[Hashable] = Counter()
        one_link = True
        delays = list[int]()
        for key in keys:
            crossed = self._links(*key)
            senders.update(crossed)
            one_link &= len(crossed) == 1 or not self._contended
            if (delay_ns := self._turns.delay_ns(key[0])) is not None:
                delays.append(delay_ns)
        turns, granted, unspent = (sum(self._used.get(link, (0, 0, 0))[i] for link in links) for i in range(3))
        used = 1 - unspent / granted if turns >= LEAST_SLOTS and granted else None
        return Measured(max(senders.values()), 2 * max(delays) if delays else None, one_link, used)

    def _hand_over(self, now_ns: int) -> None:
        """Gives every regulated pair that waits or sends to the policy of its links; of the others nothing is planned."""
        turns: dict[int, frozenset[int]] = {}
        rates: dict[int, frozenset[int]] = {}
        active = {node: set(waiting) for node, waiting in self._waiting.items()}
        for node, destination in self._sending:
            active.setdefault(node, set()).add(destination)
        for node, its in active.items():
            destinations = its & self._regulated.get(node, frozenset())
            in_turns = frozenset(destination for destination in destinations if self._takes_turns(node, destination))
            if in_turns:
                turns[node] = in_turns
            if in_rates := frozenset(destinations) - in_turns:
                rates[node] = in_rates
        self._turns.set_regulated(turns, now_ns=now_ns)
        self._rates.set_regulated(rates, now_ns=now_ns)

    def _takes_turns(self, node: int, destination: int) -> bool:
        links = self._links(node, destination)
        return bool(links) and all(link in self._choices and self._choices[link].mode == TURNS for link in links)
