"""Baton's own policy in the loop of a simulation: simulated hosts tell of backlogs and give slots back, and get slots. Pure.

simulation/program/tree_run.cc asks whenever messages have come to the coordinator, and at the time that was named to it. The
policy is the one that coordinators run, and is called as controller/scheduling/granting.py calls it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.policies import make_policy
from controller.policies.base import Slot
from topology.fabric import DirectedLink, Fabric
from topology.paths import Routes
from topology.spanning_tree import compute

SETTINGS = CoordinatorSettings(interface="", attachment="", key_file=Path(), store="", policy="timeslice")
GRACE_PART = 10
"""As in controller/scheduling/granting.py: after a slot unspent bytes count for this part of a slice, at most the grace."""


class Network:
    """A fabric as policies see it; nodes are the hosts' places in `Fabric.hosts`."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self.routes = fabric, Routes(fabric, compute(fabric))

    def path(self, source: int, destination: int) -> tuple[Hashable, ...]:
        return self.routes.path(self._fabric.hosts[source], self._fabric.hosts[destination])

    def capacity_bps(self, link: DirectedLink) -> int:
        return self._fabric.capacity_bps(link)

    def node_rate_bps(self, node: int) -> int:
        name = self._fabric.hosts[node]
        return self._fabric.capacity_bps((name, str(self._fabric.attachment(name))))


class Coordination:
    """Answers a simulation's questions.

    Args:
        pairs: who sends to whom, by nodes; all need permission. Flows are told by their place here.
        control_ns: how long a message takes from host to coordinator, or back.
    """

    def __init__(
        self, network: Network, pairs: Sequence[tuple[int, int]], control_ns: int, settings: CoordinatorSettings = SETTINGS
    ) -> None:
        self._pairs, self._flow = pairs, {source: flow for flow, (source, _) in enumerate(pairs)}
        self._grace_ns = min(settings.grace_ns, settings.slice_ns // GRACE_PART)
        self._lead_ns = settings.lead_ns + control_ns
        self.slots = self.yields = 0
        self.policy = make_policy(settings)
        self.policy.set_network(network, now_ns=0)
        self.policy.set_regulated({source: frozenset({target}) for source, target in pairs}, now_ns=0)
        for source, _ in pairs:
            self.policy.set_delay(source, control_ns)

    def answer(self, question: Mapping[str, Any]) -> str:
        """The slots that are granted and revoked, and when to ask again, as the program reads them."""
        now_ns = question["now_ns"]
        for flow, slot, size in question["told"]:
            source, target = self._pairs[flow]
            if slot:
                self.yields += 1
                self.policy.yielded(source, target, slot, now_ns=now_ns, unspent_bytes=size)
            else:
                self.policy.backlog(source, {target: size}, now_ns=now_ns)
        plan = self.policy.plan(now_ns=now_ns, horizon_ns=now_ns + self._lead_ns)
        self.slots += len(plan.grants)
        lines = [self._line(slot, 0) for slot in plan.revokes] + [self._line(slot, slot.bytes) for slot in plan.grants]
        event_ns = self.policy.next_event_ns()
        next_ns = 0 if event_ns is None else max(event_ns - self._lead_ns, now_ns + 1)
        return "\n".join([*lines, f"next {next_ns}\n"])

    def _line(self, slot: Slot, size: int) -> str:
        return f"slot {self._flow[slot.node]} {slot.slot} {slot.start_ns} {slot.end_ns + self._grace_ns} {size}"
