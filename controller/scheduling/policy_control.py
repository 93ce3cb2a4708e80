"""What the operator and the fabric say, put in force: policy, override, fabric and membership. Pure, but for the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import SWEEP_NS, Part
from controller.members.places import Numbering
from controller.members.registry import Members
from controller.policies import POLICIES, SLICED
from controller.scheduling.granting import Granting
from controller.scheduling.links.capacities import Capacities
from controller.scheduling.network import FabricNetwork
from controller.scheduling.regulation import Regulation
from protocol.messages import Override
from protocol.timers import Timers
from topology import capacity
from topology.fabric import Fabric
from topology.paths import Routes
from topology.pieces import PIECE, Pieces
from topology.spanning_tree import Tree

AT_ONCE, PAUSE_NS = 2, 500_000
"""So many pieces of a changed fabric are made at once, some 300 us, and for how long the loop then does other work."""
log = logging.getLogger("baton.coordinator")


class PolicyControl(Part):
    """The settings and the override in force.

    Args:
        on_override: called with the time (ns) as soon as the override has changed.
        timers: have a changed fabric read a piece at a time; without them it is read in one go, as the first one always is.
        meanwhile: called between the pieces of the latter, and while a fresh policy is told of what waits.
        write: takes lines for the store bridge, {"event": [kind, severity, text]}.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        members: Members,
        granting: Granting,
        regulation: Regulation,
        capacities: Capacities,
        on_override: Callable[[int], None],
        timers: Timers | None = None,
        meanwhile: Callable[[], object] = lambda: None,
        write: Callable[[dict[str, Any]], object] = lambda _: None,
    ) -> None:
        self.documents = {"fabric": self._set_fabric, "override": self._set_override, "policy": self._set_policy}
        self.periodic = ((SWEEP_NS, self._sweep),)
        self.settings = settings
        self.override = Override.COORDINATE
        self.slices = 1
        """How many slices long slots are (controller/slots/slot_length.py)."""
        self._members = members
        self._granting = granting
        self._regulation = regulation
        self._capacities = capacities
        self._on_override = on_override
        self._timers = timers
        self._meanwhile = meanwhile
        self._write = write
        self._numbering = Numbering()
        self._network: FabricNetwork | None = None
        """The network in force."""
        self._building: Pieces[FabricNetwork] | None = None
        """The work on the next one."""
        self._going_on = False
        """Whether the next piece of that work is scheduled."""
        self._met: set[int] = set()
        """Members that joined, moved or left meanwhile."""
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

    def slice_ns(self) -> int | None:
        """The operator's slice; None: the policy grants no slots of slices."""
        return self.settings.slice_ns if self.settings.policy in SLICED else None

    def lengthen(self, slices: int, now_ns: int) -> None:
        """Has slots of so many slices granted from now on, by a fresh policy."""
        self.slices = slices
        log.info("slots last %d slices", slices)
        self._granting.renew(_granted(self.settings, slices), now_ns)
        self._inform(now_ns)

    def update(self, now_ns: int) -> None:
        """Takes a changed fabric or membership into use, and releases links that were quiet for long enough."""
        self._take_changes(now_ns)
        self._regulation.update(now_ns)

    def _sweep(self, now_ns: int) -> None:
        """The same, but that conclusions wait while the ones before took long."""
        self._take_changes(now_ns)
        self._regulation.draw_soon(now_ns)

    def _take_changes(self, now_ns: int) -> None:
        if self._building is not None and (self._network is None or self._timers is None):
            while self._building is not None:
                self._build()
                self._meanwhile()
        if self._moved and self._network is not None:
            self._moved = False
            self._capacities.set_network(self._network, now_ns)

    def joined(self, node: int) -> None:
        """Finds the member's place. The rest of the network stays as it is, unless the member moved or has another rate."""
        if self._building is not None:
            self._met.add(node)
        member = self._members.get(node)
        if member is None or (network := self._network) is None:
            return
        self._moved |= network.add(member) or self._capacities.arrived()
        self._granting.placed(network, node)

    def left(self, node: int, now_ns: int) -> None:
        if self._building is not None:
            self._met.add(node)
        if self._network is not None:
            self._moved |= self._network.remove(node)

    def _set_fabric(self, document: dict[str, Any], now_ns: int) -> None:
        """Begins to read a fabric, in place of one that is being read. The network before is in force until all is read."""
        self._building = self._work(document)
        if self._network is not None and self._timers is not None and not self._going_on:
            self._go_on(now_ns)

    def _work(self, document: dict[str, Any]) -> Pieces[FabricNetwork]:
        fabric = yield from Fabric.read(document["fabric"])
        tree = yield from Tree.reading(fabric, document.get("blocked", ()))
        sources = yield from capacity.reading_sources(document.get("links", ()))
        self._met.clear()
        members = self._members.present()
        network = yield from FabricNetwork.building(fabric, Routes(fabric, tree), members, sources, self._numbering)
        for at, member in enumerate(members, 1):
            for destination in member.sent_bps.keys() | member.backlog.keys():
                network.path(member.node, destination)  # whoever asks for it next finds it
            if not at % (PIECE // 2):
                yield
        return network

    def _build(self) -> None:
        """Makes a piece of the next network; the last one puts it in force, with the next look."""
        assert self._building is not None, "there is work to do"
        try:
            next(self._building)
        except StopIteration as end:
            network: FabricNetwork = end.value
        except Exception:
            self._building = None
            raise
        else:
            return
        self._building = None
        for node in self._met:
            if (member := self._members.get(node)) is None:
                network.remove(node)
            else:
                network.add(member)
        self._network, self._moved = network, True
        self._members.prefer(network.places.preferred, self._numbering.next)

    def _go_on(self, now_ns: int) -> None:
        """Makes a piece, and the next one after a little other work."""
        assert self._timers is not None
        self._going_on = False
        if self._building is None:
            return
        for _ in range(AT_ONCE):
            if self._building is not None:
                self._build()
        if self._building is None:
            self.update(now_ns)
        else:
            self._going_on = True
            self._timers.at(now_ns + PAUSE_NS, self._go_on)

    def _set_override(self, word: object, now_ns: int) -> None:
        override = Override[str(word).upper()]
        if override is self.override:
            return
        self.override = override
        self._granting.suspended = override is Override.FREE
        log.info("override: %s", override.name.lower())
        self._on_override(now_ns)
        self._granting.renew(_granted(self.settings, self.slices), now_ns)
        self._inform(now_ns)

    def _set_policy(self, changes: dict[str, Any], now_ns: int) -> None:
        try:
            settings = self.settings.changed(changes)
            if settings == self.settings:
                return
            same = (settings.policy, settings.slice_ns) == (self.settings.policy, self.settings.slice_ns)
            slices = self.slices if same else 1
            self._granting.renew(_granted(settings, slices), now_ns)
        except ValueError as error:
            text = f"policy kept as it was: {error}"
            log.error("%s", text)
            self._write({"event": ["policy", "error", text]})
            return
        self._regulation.renew(settings)
        self.settings, self.slices = settings, slices
        log.info("policy: %s", settings.policy)
        self._inform(now_ns)

    def _inform(self, now_ns: int) -> None:
        """Tells a fresh policy all that is known."""
        self._moved = True
        self.update(now_ns)
        contended = self._regulation.congestion.contended()
        self._granting.inform(self._regulation.regulated, contended, now_ns, self._meanwhile)


def _granted(settings: CoordinatorSettings, slices: int) -> CoordinatorSettings:
    """The settings by which slots of so many slices are granted."""
    return replace(settings, slice_ns=slices * settings.slice_ns)
