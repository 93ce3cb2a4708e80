"""Which pairs need permission, by groups: contended links, with the nodes before and behind each. Pure.

Paths follow a spanning tree, so a directed link has nodes before it and nodes behind it, and the pairs across it are exactly
those from the former to the latter. Nothing here is ever a list of all pairs: whether one is among them follows from its path.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Set
from typing import Any, Protocol, runtime_checkable

from controller.policies.base import Network
from protocol.bodies.nodes import NOBODY, Cut, NodeSet, Sides


class GroupedNetwork(Network, Protocol):
    """A network that knows the groups of nodes that its links divide."""

    @property
    def nodes(self) -> Set[int]:
        """The members with a known place."""

    def forwards(self, link: Any) -> bool:  # noqa: ANN401 -- whatever the network names its links by
        """Whether it is a directed link of the active tree."""

    def sides(self, link: Any) -> Sides:  # noqa: ANN401
        """The nodes before and behind a directed link of the active tree."""

    @property
    def generation(self) -> int:
        """Grows whenever the ids on the sides of links may have changed."""

    def cut(self, link: Any) -> Cut:  # noqa: ANN401
        """How a directed link of the active tree divides its part of the fabric."""

    def part(self, root: str) -> NodeSet:
        """The node ids of a part of the fabric, by the name that `cut` gave it."""


@runtime_checkable
class Varied(Network, Protocol):
    """A network that knows wherein it differs from another one."""

    def differs(self, before: Network) -> Set[Hashable] | None:
        """The links whose capacities are others than in the network before; None: rates or paths may be others as well."""


class Pairs(Mapping[int, Set[int]]):
    """Regulated pairs that are asked for one by one: a list of them would be as long as the square of the members."""

    @abstractmethod
    def has(self, node: int, destination: int) -> bool:
        """Whether a pair needs permission."""

    @abstractmethod
    def behind(self, node: int) -> Iterator[int]:
        """The destinations for which a node needs permission, in order."""

    def get(self, node: int, default: Any = None) -> Any:  # noqa: ANN401 -- as the base class has it
        """The destinations of a node, which may be none: they are not looked for."""
        return Destinations(self, node)

    def __getitem__(self, node: int) -> Set[int]:
        found = Destinations(self, node)
        if not found:
            raise KeyError(node)
        return found

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Groups(Pairs):
    """The pairs of members whose path crosses one of some links; or all pairs.

    By node: the destinations that it may not send large flows to without a slot, as a set that is worked out when it is asked.
    A member that joins later is among them at once.
    """

    def __init__(
        self,
        links: frozenset[Hashable] = frozenset(),
        network: GroupedNetwork | None = None,
        *,
        everyone: bool = False,
    ) -> None:
        self.links = links
        self.everyone = everyone
        self._known: tuple[int, list[tuple[Hashable, Sides]], dict[tuple[int, ...], NodeSet]] = (-1, [], {})
        """What was worked out for a generation of the network: the sides of all links, and what is behind several together."""
        self.network = network

    def has(self, node: int, destination: int) -> bool:
        """Whether a pair needs permission."""
        network = self.network
        if network is None:
            return False
        if self.everyone:
            return node != destination and node in network.nodes and destination in network.nodes
        links = self.links
        return bool(links) and not links.isdisjoint(network.path(node, destination))

    def products(self) -> Iterator[tuple[Hashable, Sides]]:
        """Each contended link with the nodes before and behind it: a pair of one of either needs permission."""
        network = self.network
        if network is None or self.everyone:
            return
        if self._known[0] != network.generation:
            self._known = network.generation, [(link, network.sides(link)) for link in self.links], {}
        yield from self._known[1]

    def senders(self) -> NodeSet:
        """The nodes that need permission for any destination; ids that no member has may be among them."""
        if self.everyone and self.network is not None:
            return NodeSet(self.network.nodes)
        return NodeSet.union(sides.before for _, sides in self.products())

    def changed_nodes(self, before: Groups) -> NodeSet:
        """The nodes whose destinations may have changed since other groups were in force: those before a link of one alone."""
        if self.everyone or before.everyone or self.network is not before.network:
            return NOBODY if self.same(before) else NodeSet.union((self.senders(), before.senders()))
        network, links = self.network, self.links ^ before.links
        return NodeSet.union(network.sides(link).before for link in links) if network is not None else NOBODY

    def same(self, other: Groups) -> bool:
        """Whether both are of the same links of the same network."""
        return (self.links, self.everyone) == (other.links, other.everyone) and self.network is other.network

    def __iter__(self) -> Iterator[int]:
        if self.network is not None:
            here = self.network.nodes
            yield from (node for node in self.senders() if node in here and Destinations(self, node))

    def __bool__(self) -> bool:
        return self.network is not None and (self.everyone or bool(self.links))

    def behind(self, node: int) -> Iterator[int]:
        """The destinations for which a node needs permission, in order."""
        network = self.network
        if network is None or node not in network.nodes:
            return
        if self.everyone:
            yield from (other for other in sorted(network.nodes) if other != node)
            return
        crossed = [(at, sides.behind) for at, (_, sides) in enumerate(self.products()) if node in sides.before]
        key = tuple(at for at, _ in crossed)  # most members are before the same links
        if (its := self._known[2].get(key)) is None:
            its = self._known[2][key] = NodeSet.union(behind for _, behind in crossed)
        here = network.nodes
        yield from (other for other in its if other in here and other != node)


class Destinations(Set[int]):
    """The destinations for which one node needs permission."""

    __slots__ = ("_groups", "_node")

    def __init__(self, groups: Pairs, node: int) -> None:
        self._groups = groups
        self._node = node

    @classmethod
    def _from_iterable(cls, it: Any) -> frozenset[int]:  # type: ignore[override]  # noqa: ANN401 -- as the base class has it
        return frozenset(it)

    def __contains__(self, destination: object) -> bool:
        return isinstance(destination, int) and self._groups.has(self._node, destination)

    def __iter__(self) -> Iterator[int]:
        return self._groups.behind(self._node)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None
