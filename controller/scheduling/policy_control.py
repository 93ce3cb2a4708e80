"""What the operator and the fabric say, put in force: policy, override, fabric and membership. Pure, but for the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import SWEEP_NS, Part
from controller.members.places import Numbering
from controller.members.registry import Members
from controller.policies import POLICIES
from controller.scheduling.capacities import Capacities
from controller.scheduling.granting import Granting
from controller.scheduling.network import FabricNetwork
from controller.scheduling.regulation import Regulation
from protocol.messages import Override
from topology import capacity
from topology.fabric import Fabric
from topology.paths import Routes
from topology.spanning_tree import Tree

log = logging.getLogger("baton.coordinator")


class PolicyControl(Part):
    """The settings and the override in force.

    Args:
        on_override: called with the time (ns) as soon as the override has changed.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        granting: Granting,
        regulation: Regulation,
        capacities: Capacities,
        on_override: Callable[[int], None],
    ) -> None:
        self.documents = {"fabric": self._set_fabric, "override": self._set_override, "policy": self._set_policy}
        self.periodic = ((SWEEP_NS, self.update),)
        self.settings = settings
        self.override = Override.COORDINATE
        self._members = members
        self._granting = granting
        self._regulation = regulation
        self._capacities = capacities
        self._on_override = on_override
        self._fabric: dict[str, Any] | None = None
        self._numbering = Numbering()
        self._network: FabricNetwork | None = None
        """The network in force; None: it must be built anew."""
        self._moved = False
        """A member has another place or rate: paths or capacities that were told are others."""

    def status(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "policy": settings.policy,
            "policies": list(POLICIES),
            "slice_ns": settings.slice_ns,
            "override": self.override.name.lower(),
            "weights": settings.weights,
        }

    def update(self, now_ns: int) -> None:
        """Takes a changed fabric or membership into use, and releases links that were quiet for long enough."""
        if self._fabric is not None and self._network is None:
            self._network = self._rebuilt_network(self._fabric)
            self._members.prefer(self._network.places.preferred, self._numbering.next)
            self._moved = True
        if self._moved and self._network is not None:
            self._moved = False
            self._capacities.set_network(self._network, now_ns)
        self._regulation.update(now_ns)

    def joined(self, node: int) -> None:
        """Finds the member's place. The rest of the network stays as it is, unless the member moved or has another rate."""
        member = self._members.get(node)
        if member is None or (network := self._network) is None:
            return
        self._moved |= network.add(member) or self._capacities.arrived()
        self._granting.placed(network, node)

    def left(self, node: int, now_ns: int) -> None:
        if self._network is not None:
            self._network.remove(node)

    def _rebuilt_network(self, document: dict[str, Any]) -> FabricNetwork:
        fabric = Fabric.from_dict(document["fabric"])
        tree = Tree.from_blocked(fabric, document.get("blocked", ()))
        sources = capacity.read_sources(document.get("links", ()))
        return FabricNetwork(fabric, Routes(fabric, tree), self._members.present(), sources, self._numbering)

    def _set_fabric(self, document: dict[str, Any], _: int) -> None:
        self._fabric, self._network = document, None

    def _set_override(self, word: object, now_ns: int) -> None:
        override = Override[str(word).upper()]
        if override is self.override:
            return
        self.override = override
        self._granting.suspended = override is Override.FREE
        log.info("override: %s", override.name.lower())
        self._on_override(now_ns)
        self._apply(now_ns)

    def _set_policy(self, changes: dict[str, Any], now_ns: int) -> None:
        try:
            settings = self.settings.changed(changes)
        except ValueError as error:
            log.error("policy kept as it was: %s", error)
            return
        if settings == self.settings:
            return
        self._regulation.renew(settings)
        self.settings = settings
        log.info("policy: %s", settings.policy)
        self._apply(now_ns)

    def _apply(self, now_ns: int) -> None:
        """Puts a fresh policy under the present settings in force, and tells it all that is known."""
        self._granting.renew(self.settings, now_ns)
        self._moved = True
        self.update(now_ns)
        self._granting.inform(self._regulation.regulated, self._regulation.congestion.contended(), now_ns)
