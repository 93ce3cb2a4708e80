"""How long a decision of the timeslice policy takes: one event and the `plan` that follows it, in microseconds.

Method: on a star (all to one, and each to four random others) and on racks (20 machines at 1 Gb/s each, 10 Gb/s uplinks, half
of the machines send to the other half) every node becomes backlogged at a random time of the first slice and
stays so. The schedule runs in simulated time, 2 ms slices planned 1.5 ms ahead. Events are: a node newly backlogged ("join"),
the end of a slot ("end"), a slot given back while its queue is empty, and the pair backlogged again ("yield": one in twenty).
A sample is the wall-clock time of the calls of one event (`time.perf_counter_ns`), garbage collection as it comes. Several
slots may end at one instant; "grants" is how many an event granted on average. "fabric" is one change of the fabric, the
look-up of paths included. Run it on an otherwise idle machine: `python -m bench.computing.policies`.
"""

from __future__ import annotations

import json
import platform
import random
import sys
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from controller.policies.base import Policy, Slot
from controller.policies.hybrid import Hybrid
from controller.policies.timeslice import Timeslice
from emulation.measuring.measure import percentile

SIZES = (5, 50, 500, 5000)
EVENTS = 2_000
SLICE_NS = 2_000_000
LEAD_NS = 1_500_000
GIGABIT = 10**9
RACK = 20


class Star:
    """Nodes 0 to N at one switch, every link the same."""

    def path(self, source: int, destination: int) -> tuple[Hashable, ...]:
        return ("up", source), ("down", destination)

    def capacity_bps(self, link: Any) -> int:  # noqa: ANN401 -- as the protocol has it
        return GIGABIT

    def node_rate_bps(self, node: int) -> int:
        return GIGABIT


class Racks(Star):
    """Nodes in racks of 20 under a core switch."""

    def path(self, source: int, destination: int) -> tuple[Hashable, ...]:
        one, other = source // RACK, destination // RACK
        if one == other:
            return super().path(source, destination)
        return ("up", source), ("rack up", one), ("rack down", other), ("down", destination)

    def capacity_bps(self, link: Any) -> int:  # noqa: ANN401 -- as the protocol has it
        return 10 * GIGABIT if str(link[0]).startswith("rack") else GIGABIT


def all_to_one(nodes: int) -> dict[int, list[int]]:
    """Every node sends to node 0."""
    return {node: [0] for node in range(1, nodes + 1)}


def four_each(nodes: int) -> dict[int, list[int]]:
    """Every node sends to four others, or to all if there are fewer."""
    dice = random.Random(nodes)
    return {node: dice.sample([n for n in range(nodes + 1) if n != node], min(4, nodes)) for node in range(nodes + 1)}


def half_to_half(nodes: int) -> dict[int, list[int]]:
    """One half of the machines sends to the other, at random."""
    dice = random.Random(nodes)
    machines = list(range(2 * nodes))
    dice.shuffle(machines)
    return {node: [other] for node, other in zip(machines[:nodes], machines[nodes:], strict=True)}


CASES: dict[str, tuple[type[Star], Callable[[int], dict[int, list[int]]]]] = {
    "star, all to one": (Star, all_to_one),
    "star, four each": (Star, four_each),
    "racks, half to half": (Racks, half_to_half),
}


def run(sizes: tuple[int, ...] = SIZES, events: int = EVENTS) -> dict[str, Any]:
    """{"microseconds": {policy: {case: {backlogged nodes: {event: {"p50", "p99", "max"}, "fabric", "grants"}}}}, ...}."""
    policies: dict[str, Callable[[], Policy]] = {
        "timeslice": lambda: Timeslice(slice_ns=SLICE_NS),
        "hybrid": lambda: Hybrid(slice_ns=SLICE_NS),
    }
    return {
        "microseconds": {
            name: {
                case: {str(size): _Schedule(make(), network(), traffic(size)).run(events) for size in sizes}
                for case, (network, traffic) in CASES.items()
            }
            for name, make in policies.items()
        },
        "method": f"at least {events} events each; slices of {SLICE_NS} ns planned {LEAD_NS} ns ahead",
        "python": platform.python_version(),
    }


class _Schedule:
    """One policy under one traffic, with the slots it granted last."""

    def __init__(self, policy: Policy, network: Star, traffic: dict[int, list[int]]) -> None:
        self._policy, self._network, self._traffic = policy, network, traffic
        self._now_ns = 10**9
        self._samples: dict[str, list[int]] = {"join": [], "end": [], "yield": []}
        self._granted: list[Slot] = []
        self._grants = 0
        policy.set_network(network, now_ns=self._now_ns)
        policy.set_regulated({n: frozenset(others) for n, others in traffic.items()}, now_ns=self._now_ns)

    def run(self, events: int) -> dict[str, Any]:
        dice = random.Random(1)
        joins = sorted((self._now_ns + dice.randrange(SLICE_NS), node) for node in self._traffic)
        for join_ns, node in joins:
            self._run_until(join_ns)
            self._now_ns = max(self._now_ns, join_ns)
            self._event("join", partial(self._backlog, node))
        for number in range(events):
            self._run_one()
            running = [slot for slot in self._granted if slot.start_ns <= self._now_ns < slot.end_ns]
            if number % 20 == 0 and running:
                self._event("yield", partial(self._give_back, dice.choice(running)))
        began = time.perf_counter_ns()
        self._policy.set_network(self._network, now_ns=self._now_ns)
        self._plan()
        fabric_ns = time.perf_counter_ns() - began
        count = sum(map(len, self._samples.values()))
        shown: dict[str, Any] = {event: _spread(times) for event, times in self._samples.items() if times}
        return {**shown, "fabric": round(fabric_ns / 1e3, 1), "grants": round(self._grants / count, 2)}

    def _run_until(self, then_ns: int) -> None:
        while (event_ns := self._policy.next_event_ns()) is not None:
            if max(event_ns - LEAD_NS, self._now_ns + 1) > then_ns:
                return
            self._run_one()

    def _run_one(self) -> None:
        event_ns = self._policy.next_event_ns()
        assert event_ns is not None, "a node always waits"
        self._now_ns = max(event_ns - LEAD_NS, self._now_ns + 1)
        self._event("end", lambda: None)

    def _event(self, name: str, tell: Callable[[], None]) -> None:
        began = time.perf_counter_ns()
        tell()
        grants = self._plan()
        self._samples[name].append(time.perf_counter_ns() - began)
        self._grants += len(grants)
        if grants:
            self._granted = [*self._granted[-50:], *grants]

    def _plan(self) -> list[Slot]:
        return self._policy.plan(now_ns=self._now_ns, horizon_ns=self._now_ns + LEAD_NS).grants

    def _backlog(self, node: int) -> None:
        self._policy.backlog(node, dict.fromkeys(self._traffic[node], 60_000), now_ns=self._now_ns)

    def _give_back(self, slot: Slot) -> None:
        self._policy.yielded(slot.node, slot.destination, slot.slot, now_ns=self._now_ns)
        self._backlog(slot.node)


def _spread(times_ns: list[int]) -> dict[str, float]:
    values = {"p50": percentile(times_ns, 50), "p99": percentile(times_ns, 99), "max": max(times_ns)}
    return {name: round((value or 0) / 1e3, 1) for name, value in values.items()}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=1)
    print()
