"""What every policy has in common: it decides which node may send to which destination, when, and how much. Pure.

A policy hears events (backlog, yield, left, changed fabric) and says by `plan` which slots to grant. It holds no clock and
sends nothing. Units: integer nanoseconds of the caller's clock, bytes, bit/s. Nodes are the coordinator's node ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from protocol.bodies.host_control import Week

NOTHING: Mapping[int, int] = MappingProxyType({})
SOON_NS = 10_000_000
"""What ends within this time is left to itself when another policy comes into force."""
Regulated = Mapping[int, Set[int]]
"""By node: the destinations that it may not send large flows to without a slot."""


class Network(Protocol):
    """The fabric as policies see it. Paths are those of the active spanning tree, so one path a pair and no detours."""

    def path(self, source: int, destination: int) -> tuple[Hashable, ...]:
        """The directed links from one node to another; empty when either has no known place."""

    def capacity_bps(self, link: Any) -> int:  # noqa: ANN401 -- whatever the network names its links by
        """What a directed link carries, for a link out of `path`."""

    def node_rate_bps(self, node: int) -> int:
        """What a node can send at. Raises KeyError for a node without a known place."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One node's permission to send to one destination from `start_ns` until before `end_ns`.

    Granted again with the same number it replaces the one before it (which has not started); in `Plan.revokes` it ends.
    """

    slot: int
    node: int
    destination: int
    start_ns: int
    end_ns: int
    bytes: int
    """The credit; 0 for a slot bounded by its rate."""
    rate_bps: int
    """The rate to send at until the end; 0 for a credit."""
    reserved_bps: int
    """What the slot takes of every link of its path, from start to end. At least what the slot lets pass on average."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send to the hosts: first the revokes, then the grants, each in the order given."""

    grants: list[Slot] = field(default_factory=list)
    revokes: list[Slot] = field(default_factory=list)
    weeks: list[tuple[int, Week]] = field(default_factory=list)
    """By node: weeks, which take the place of slots."""


class Policy(ABC):
    """Decides which nodes may send. Events change what it knows; call `plan` after them and at `next_event_ns`.

    `now_ns` never goes back. Unknown nodes, pairs and slots are no error: a message may be older than what is known.
    """

    needs_permission: ClassVar[bool] = True
    """Whether hosts hold large flows to regulated destinations back until a slot is granted."""
    has_own_schedule: ClassVar[bool] = False
    """Whether it schedules the pairs that cross contended links by weeks, although these need no permission."""

    @abstractmethod
    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Takes a new fabric, tree or membership: every path may have changed."""

    def set_hosts(self, nodes: Mapping[str, int]) -> None:
        """Takes the node of every host, by the fabric's name of the host, for settings that name hosts."""
        return

    @abstractmethod
    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Takes the pairs that need permission, in full. No other pair is ever granted anything."""

    @abstractmethod
    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Gives a pair `weight` times the share of another, from its next slot on; None stands for any.

        Raises ValueError: the weight is not a positive number.
        """

    @abstractmethod
    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Takes the bytes waiting at a node for each destination, in full: 0 for a destination that is missing. `deadline` says
        how many of them are of flows with a deadline; a policy without turns ignores it."""

    @abstractmethod
    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """Takes back the rest of a slot from its node, `unspent_bytes` of its credit; `backlog_bytes` wait for the destination
        now."""

    def set_contended(self, links: frozenset[Hashable]) -> None:
        """Takes the contended links, in full, before the pairs that cross them; none where all pairs are regulated anyway."""
        return

    def late_matters(self, slot: Slot) -> bool:
        """Whether link time is lost where the gate opens after the slot's start. A renewed rate comes into force whenever it
        arrives."""
        return True

    def choices(self) -> list[dict[str, Any]]:
        """What it chose for contended links, and why (`choice.summary`); empty for a policy that has no choice."""
        return []

    def sent(self, node: int, rates_bps: Mapping[int, int], *, now_ns: int) -> None:
        """Takes the rates at which a node's large flows sent to each destination since its report before, in full."""
        return

    def set_delay(self, node: int, delay_ns: int) -> None:
        """Takes how long a directive takes to a node: nothing granted now can begin sooner there."""
        return

    @abstractmethod
    def left(self, node: int, *, now_ns: int) -> None:
        """Forgets a node, and all that was granted to it or towards it."""

    @abstractmethod
    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """What to grant and revoke, with starts from `now_ns` on and every event until `horizon_ns` foreseen."""

    def retire(self, *, now_ns: int) -> Plan:
        """What to take back when another policy comes into force: all that was granted and does not end by itself within
        `SOON_NS`. The policy grants nothing any more."""
        self.set_regulated({}, now_ns=now_ns)
        revoked = self.plan(now_ns=now_ns, horizon_ns=now_ns).revokes
        return Plan(revokes=[slot for slot in revoked if slot.end_ns > now_ns + SOON_NS])

    @abstractmethod
    def next_event_ns(self) -> int | None:
        """The time of the next event that is known beforehand; `plan` must have foreseen it by then. None: only a message
        from outside can change anything."""


class Weights:
    """Weights by (node, destination): the pair's own, else its node's, else its destination's, else 1."""

    def __init__(self) -> None:
        self._weights: dict[tuple[int | None, int | None], float] = {}

    def set(self, node: int | None, destination: int | None, weight: float) -> None:
        """Sets the weight of a pair; None stands for any node. Raises ValueError: the weight is not a positive number."""
        if not 0 < weight < float("inf"):
            raise ValueError(f"weight must be a positive number, not {weight!r}")
        self._weights[node, destination] = weight

    def least(self) -> float:
        """The least weight that a pair may have, which is 1 where none is less."""
        return min((1.0, *self._weights.values()))

    def of(self, node: int, destination: int) -> float:
        """The weight of a pair."""
        if not self._weights:
            return 1.0
        for key in ((node, destination), (node, None), (None, destination)):
            if key in self._weights:
                return self._weights[key]
        return self._weights.get((None, None), 1.0)


class SlotNumbers:
    """Growing slot numbers that start from the time, so that a policy never repeats a number of the policy before it."""

    def __init__(self) -> None:
        self.last = 0
        """The number that was given out last."""

    def take(self, now_ns: int) -> int:
        """The next number."""
        self.last = max(self.last + 1, now_ns)
        return self.last
