"""The baseline: no pair needs permission, so nothing is granted. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated


class Free(Policy):
    """Grants nothing, and no pair needs permission."""

    needs_permission = False

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Changes nothing."""

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Changes nothing."""

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Changes nothing."""

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Changes nothing."""

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """Changes nothing."""

    def left(self, node: int, *, now_ns: int) -> None:
        """Changes nothing."""

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Always empty."""
        return Plan()

    def next_event_ns(self) -> None:
        """Never."""
        return None
