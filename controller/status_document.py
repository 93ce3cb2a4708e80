"""What the store is told of a coordinator, four times a second, as JSON values. Pure: it only reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from controller.policies import POLICIES

if TYPE_CHECKING:
    from controller.coordinator.coordinator import Coordinator


def status(coordinator: Coordinator, now_ns: int) -> dict[str, Any]:
    """Who leads, the policy in force, and counts of slots and refusals."""
    settings, tallies = coordinator.settings, coordinator.granting.tallies
    network = coordinator.granting.network
    found: dict[str, Any] = {
        "epoch": coordinator.epoch,
        "leader": settings.name,
        "from_memory": coordinator.leadership.election.from_memory,
        "pid": os.getpid(),
        "mac": coordinator.link.address.hex(":"),
        "policy": settings.policy,
        "policies": list(POLICIES),
        "slice_ns": settings.slice_ns,
        "override": coordinator.override.name.lower(),
        "slots": tallies.slots,
        "acknowledged": tallies.acks,
        "late_slots": tallies.late,
        "lost": tallies.lost,
        "yields": tallies.yields,
        "members": len(coordinator.members.present()),
        "coflows": coordinator.coflows.queues,
        "thresholds_version": coordinator.distribution.version,
        "unplaced": network.unplaced if network else [],
        "weights": settings.weights,
        "contended": sorted(map(list, coordinator.regulation.contended_links())),
        "refused": {cause.name.lower(): count for cause, count in coordinator.guard.refused.items()},
        "time_ns": now_ns,
    }
    for part in coordinator.parts:
        found |= part.status()
    return found


def members(coordinator: Coordinator, now_ns: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every member present: its node id and its document."""
    for member in coordinator.members.present():
        record = member.record(coordinator.regulation.regulated, now_ns)
        record["waiting_us"] = coordinator.telemetry.waiting_us.get(member.node, {})
        for part in coordinator.parts:
            record |= part.of_member(member.node)
        yield member.node, record
