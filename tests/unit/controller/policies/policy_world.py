"""Hosts and a coordinator without wire: drives a policy through events and holds it to its promises after each.

The world knows what was granted, as a host would: the newest directive of a slot counts, a yield or a revoke ends it now.
Whatever it checks it computes from these slots alone, with the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from controller.policies.base import NOTHING, Plan, Policy, Slot
from tests.unit.controller.policies import oracle_timeslice as oracle
from tests.unit.controller.policies.policy_networks import TreeNetwork


class World:
    """`slots`: what is granted and not over; `history`: every slot as it ended; `now_ns`."""

    def __init__(self, policy: Policy, network: TreeNetwork, *, lead_ns: int = 0) -> None:
        self.policy = policy
        self.network = network
        self.lead_ns = lead_ns
        self.now_ns = 1_000_000
        self.slots: dict[int, Slot] = {}
        self.history: list[Slot] = []
        self._numbers: set[int] = set()
        self.backlogs: dict[int, set[int]] = {}
        self.regulated: dict[int, frozenset[int]] = {}
        policy.set_network(network, now_ns=self.now_ns)
        self.regulate({x: frozenset(network.nodes) - {x} for x in network.nodes})

    # -- events -------------------------------------------------------------------------------------------------------

    def regulate(self, pairs: Mapping[int, frozenset[int]]) -> Plan:
        self.regulated = dict(pairs)
        self.policy.set_regulated(self.regulated, now_ns=self.now_ns)
        return self.plan(may_revoke=lambda slot: slot.destination not in pairs.get(slot.node, frozenset()))

    def backlog(self, node: int, *destinations: int, deadline: Mapping[int, int] = NOTHING) -> Plan:
        self.tell_backlog(node, *destinations, deadline=deadline)
        return self.plan(may_revoke=lambda s: s.start_ns > self.now_ns and s.node == node and s.destination not in destinations)

    def tell_backlog(self, node: int, *destinations: int, deadline: Mapping[int, int] = NOTHING) -> None:
        self.backlogs[node] = set(destinations)
        self.policy.backlog(node, dict.fromkeys(destinations, 60_000), now_ns=self.now_ns, deadline=deadline)

    def give_back(self, slot: Slot, backlog_bytes: int = 0, unspent_bytes: int = 0) -> Plan:
        if not backlog_bytes:
            self.backlogs[slot.node].discard(slot.destination)
        self.policy.yielded(
            slot.node,
            slot.destination,
            slot.slot,
            now_ns=self.now_ns,
            backlog_bytes=backlog_bytes,
            unspent_bytes=unspent_bytes,
        )
        self._end(slot.slot)
        return self.plan(
            may_revoke=lambda s: s.start_ns > self.now_ns and (s.node, s.destination) == (slot.node, slot.destination)
        )

    def leave(self, node: int) -> Plan:
        self.backlogs.pop(node, None)
        for waiting in self.backlogs.values():
            waiting.discard(node)
        self.policy.left(node, now_ns=self.now_ns)
        return self.plan(may_revoke=lambda slot: node in (slot.node, slot.destination))

    def rewire(self, network: TreeNetwork) -> Plan:
        self.network = network
        self.policy.set_network(network, now_ns=self.now_ns)
        return self.plan(may_revoke=lambda slot: True)

    def run_until(self, then_ns: int) -> None:
        """Lets time pass as the coordinator does: `plan` is called `lead` before every event."""
        while (event_ns := self.policy.next_event_ns()) is not None:
            due_ns = max(event_ns - self.lead_ns, self.now_ns + 1)
            if due_ns > then_ns:
                break
            self.now_ns = due_ns
            self.plan()
        self.now_ns = max(self.now_ns, then_ns)
        self._settle()

    # -- what came of it ----------------------------------------------------------------------------------------------

    def plan(self, may_revoke: object = None) -> Plan:
        plan = self.policy.plan(now_ns=self.now_ns, horizon_ns=self.now_ns + self.lead_ns)
        for slot in plan.revokes:
            known = self.slots.get(slot.slot)
            assert known is not None and known == slot, "what is revoked was granted"
            assert callable(may_revoke) and may_revoke(slot), "a slot is revoked only for what just happened"
            self._end(slot.slot)
        for slot in plan.grants:
            self._take(slot)
        self._settle()
        return plan

    def running(self) -> list[Slot]:
        return [slot for slot in self.slots.values() if slot.start_ns <= self.now_ns]

    def groups(self) -> dict[int, frozenset[int]]:
        placed = set(self.network.nodes)
        groups = oracle.backlog_groups(self.backlogs, self.regulated)
        return {x: b & placed for x, b in groups.items() if x in placed}

    def _take(self, slot: Slot) -> None:
        assert slot.start_ns >= self.now_ns, "no slot begins in the past"
        assert slot.end_ns > slot.start_ns
        assert (slot.bytes > 0) != (slot.rate_bps > 0), "a slot is bounded by its bytes or by its rate"
        assert slot.destination in self.regulated.get(slot.node, frozenset())
        before = self.slots.get(slot.slot)
        if before is None:
            assert 0 < slot.reserved_bps <= oracle.rate(self.network, slot.node, slot.destination)
            assert slot.slot not in self._numbers, "a number is given out once"
            self._numbers.add(slot.slot)
        else:
            assert before.start_ns > self.now_ns, "only a slot that has not begun is granted again"
            assert slot.start_ns < before.start_ns, "to begin earlier"
            moved = slot.start_ns - before.start_ns
            assert slot == replace(before, start_ns=before.start_ns + moved, end_ns=before.end_ns + moved)
        self.slots[slot.slot] = slot

    def _end(self, number: int) -> None:
        slot = self.slots.pop(number, None)
        if slot is not None:
            self.history.append(replace(slot, end_ns=max(slot.start_ns, min(slot.end_ns, self.now_ns))))

    def _settle(self) -> None:
        for number in [n for n, slot in self.slots.items() if slot.end_ns <= self.now_ns]:
            self.history.append(self.slots.pop(number))
