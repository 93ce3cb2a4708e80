"""The schedules that `baton bench scale` measures: policies in Python, and their compiled cores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.computing.scale_alone import Calls, Turn, begun
from bench.computing.scale_hosts import Said
from bench.computing.scale_network import Pairs, ScaleNetwork, shared_links
from controller.policies.auto import Auto
from controller.policies.base import Policy, Slot
from controller.policies.compiled.auto import CompiledAuto
from controller.policies.compiled.batches import RETURNED, SLOT, Batched
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.steps import CompiledSteps
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.hybrid import MINIMUM_FRACTION, Hybrid
from controller.policies.rates.policy import RateLimit
from controller.policies.steps.policy import AT_ONCE, Steps
from controller.policies.timeslice import Timeslice

MATCHING_AT_ONCE = 1 << 20
"""A window of a matching is one plan, however many slots that makes."""
EMPTY = np.zeros(0, dtype=SLOT)
DELAY_NS = 100_000
"""How long a directive takes to each host, as `auto` is told."""


class Scheduler(Protocol):
    """A schedule under test. Each call returns the ns that its work took, without the conversions of this benchmark."""

    def start(self, network: ScaleNetwork, pairs: Pairs, now_ns: int) -> int:
        """Takes the fabric and the regulated pairs."""

    def say(self, said: Said, now_ns: int) -> int:
        """Takes what hosts say."""

    def review(self, now_ns: int) -> int:
        """Has a core's Python choose between turns and rates, if that is due; the reference does so when it plans."""

    def plan(self, now_ns: int, horizon_ns: int) -> tuple[int, NDArray[np.void], NDArray[np.void]]:
        """(ns, what is granted, what is revoked), the slots with dtype SLOT. Asks for the next event as well."""

    event_ns: int | None
    """The next event, as the policy said after its last plan."""
    calls: Calls | None
    """What the policy was told, if that is to be kept."""


def _start(policy: Policy, network: ScaleNetwork, pairs: Pairs, now_ns: int) -> int:
    given = regulated(pairs)
    if isinstance(policy, (Auto, CompiledAuto)):
        for node in given:
            policy.set_delay(node, DELAY_NS)
        policy.set_contended(shared_links(network, pairs))
    began = time.thread_time_ns()
    policy.set_network(network, now_ns=now_ns)
    policy.set_regulated(given, now_ns=now_ns)
    return time.thread_time_ns() - began


class Reference:
    """A policy in Python."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.event_ns: int | None = None
        self.calls: Calls | None = None

    def start(self, network: ScaleNetwork, pairs: Pairs, now_ns: int) -> int:
        return _start(self._policy, network, pairs, now_ns)

    def say(self, said: Said, now_ns: int) -> int:
        bounds, destinations = said.offsets.tolist(), said.destinations.tolist()
        sizes = said.sizes.tolist()
        backlogs = [
            (node, dict(zip(destinations[bounds[at] : bounds[at + 1]], sizes[bounds[at] : bounds[at + 1]], strict=True)))
            for at, node in enumerate(said.nodes.tolist())
        ]
        slots = said.returned
        yields = list(
            zip(*(slots[name].tolist() for name in ("node", "destination", "slot")), said.unspent_bytes.tolist(),
                said.backlog_bytes.tolist(), strict=True)
        )  # fmt: skip
        policy = self._policy
        began = time.thread_time_ns()
        for node, destination, slot, unspent, backlog in yields:
            policy.yielded(node, destination, slot, now_ns=now_ns, backlog_bytes=backlog, unspent_bytes=unspent)
        for node, backlog_of in backlogs:
            policy.backlog(node, backlog_of, now_ns=now_ns)
        return time.thread_time_ns() - began

    def review(self, now_ns: int) -> int:
        return 0

    def plan(self, now_ns: int, horizon_ns: int) -> tuple[int, NDArray[np.void], NDArray[np.void]]:
        began = time.thread_time_ns()
        plan = self._policy.plan(now_ns=now_ns, horizon_ns=horizon_ns)
        self.event_ns = self._policy.next_event_ns()
        took_ns = time.thread_time_ns() - began
        return took_ns, as_array(plan.grants), as_array(plan.revokes)


class Core:
    """A compiled policy, by its arrays.

    Args:
        alone: pairs that begin to wait are told alone, and not all that waits at a host.
    """

    def __init__(self, policy: Batched, *, alone: bool = False) -> None:
        self._policy, self._alone = policy, alone
        self.event_ns: int | None = None
        self.calls: Calls | None = Calls()

    def start(self, network: ScaleNetwork, pairs: Pairs, now_ns: int) -> int:
        return _start(self._policy, network, pairs, now_ns)

    def say(self, said: Said, now_ns: int) -> int:
        returned = np.zeros(len(said.returned), dtype=RETURNED)
        for name in ("slot", "node", "destination"):
            returned[name] = said.returned[name]
        returned["unspent"], returned["backlog"] = said.unspent_bytes, said.backlog_bytes
        told = said.begun if self._alone else (said.nodes, said.offsets, said.destinations)
        words = [one.astype(np.uint32) for one in told]
        sizes = (said.begun_bytes if self._alone else said.sizes) if self._policy.counted else None
        began = time.thread_time_ns()
        if len(returned):
            self._policy.give_back(returned, now_ns=now_ns)
        if len(words[0]) and self._alone:
            self._policy.begin(words[0], words[1], now_ns=now_ns, sizes=sizes)
        elif len(words[0]):
            self._policy.backlogs(words[0], words[1], words[2], now_ns=now_ns, sizes=sizes)
        took_ns = time.thread_time_ns() - began
        if self.calls is not None:
            events = np.concatenate((returned, begun(words[0], words[1], sizes))) if self._alone else returned
            backlogs = tuple(words) if len(words[0]) and not self._alone else None
            self.calls.turns.append(Turn(now_ns, events if len(events) else None, backlogs, sizes))
        return took_ns

    def review(self, now_ns: int) -> int:
        if not isinstance(self._policy, CompiledAuto):
            return 0
        began = time.thread_time_ns()
        self._policy.attend(now_ns=now_ns)
        took_ns = time.thread_time_ns() - began
        if self.calls is not None:
            self.calls.turns.append(Turn(now_ns, attended=True))
        return took_ns

    def plan(self, now_ns: int, horizon_ns: int) -> tuple[int, NDArray[np.void], NDArray[np.void]]:
        began = time.thread_time_ns()
        grants, revokes = self._policy.plan_arrays(now_ns=now_ns, horizon_ns=horizon_ns)
        self.event_ns = self._policy.next_event_ns()
        took_ns = time.thread_time_ns() - began
        if self.calls is not None:
            self.calls.turns.append(Turn(now_ns, horizon_ns=horizon_ns, grants=len(grants)))
        return took_ns, grants.copy(), revokes.copy()

    def again(self, other: Core, network: ScaleNetwork, pairs: Pairs) -> dict[str, float]:
        """What the same calls take of another one that is new (`Calls.again`)."""
        calls, self.calls, other.calls = self.calls, None, None
        assert calls is not None, "calls are kept"
        other.start(network, pairs, calls.turns[0].now_ns)
        return calls.again(other._policy)


SCHEDULERS: dict[str, dict[str, Callable[[int, float, bool], Scheduler]]] = {
    "timeslice": {
        "reference": lambda slice_ns, headroom, _: Reference(Timeslice(slice_ns=slice_ns, headroom=headroom)),
        "core": lambda slice_ns, headroom, alone: Core(CompiledTimeslice(slice_ns=slice_ns, headroom=headroom), alone=alone),
    },
    "hybrid": {
        "reference": lambda slice_ns, headroom, _: Reference(Hybrid(slice_ns=slice_ns, headroom=headroom)),
        "core": lambda slice_ns, headroom, alone: Core(
            CompiledTimeslice(slice_ns=slice_ns, headroom=headroom, minimum_fraction=MINIMUM_FRACTION), alone=alone
        ),
    },
    "rate_limit": {
        "reference": lambda _, headroom, __: Reference(RateLimit(headroom=headroom)),
        "core": lambda _, headroom, alone: Core(CompiledRateLimit(headroom=headroom), alone=alone),
    },
    "auto": {
        "reference": lambda slice_ns, headroom, _: Reference(
            Auto(Timeslice(slice_ns=slice_ns, headroom=headroom), RateLimit(headroom=headroom))
        ),
        "core": lambda slice_ns, headroom, alone: Core(
            CompiledAuto(CompiledTimeslice(slice_ns=slice_ns, headroom=headroom), CompiledRateLimit(headroom=headroom)),
            alone=alone,
        ),
    },
    "steps": {
        "reference": lambda slice_ns, headroom, alone: Reference(
            Steps(slice_ns=slice_ns, headroom=headroom, counted=alone, at_once=MATCHING_AT_ONCE if alone else AT_ONCE)
        ),
        "core": lambda slice_ns, headroom, alone: Core(
            CompiledSteps(slice_ns=slice_ns, headroom=headroom, counted=alone, at_once=MATCHING_AT_ONCE if alone else AT_ONCE),
            alone=alone,
        ),
    },
}
"""What is measured of a policy, by name: made of the length of a slice, the headroom, and whether pairs are told alone, with
their bytes if the policy counts them."""


def regulated(pairs: Pairs) -> dict[int, frozenset[int]]:
    """The pairs as policies take them."""
    found: dict[int, list[int]] = {}
    for node, destination in zip(pairs.nodes.tolist(), pairs.destinations.tolist(), strict=True):
        found.setdefault(node, []).append(destination)
    return {node: frozenset(destinations) for node, destinations in found.items()}


def as_array(slots: list[Slot]) -> NDArray[np.void]:
    """Slots as an array of dtype SLOT."""
    return np.array([astuple(slot) for slot in slots], dtype=SLOT) if slots else EMPTY


def alone_of(schedule: Scheduler, other: Scheduler, network: ScaleNetwork, pairs: Pairs) -> dict[str, float] | None:
    """What a core's calls take without the hosts between them; None: they were not kept."""
    if not (isinstance(schedule, Core) and isinstance(other, Core) and schedule.calls is not None):
        return None
    return schedule.again(other, network, pairs)
