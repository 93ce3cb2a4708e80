"""Who is where: the hosts of a fabric, numbered along its tree, and the members at them. Pure.

*Numbers.* Hosts are numbered along the tree, so those behind a switch have consecutive numbers. A host that registers gets the
node id that belongs to its number (`Numbering`). Then the members behind any link are an interval of ids, and stay one, whoever
joins. A host that registers before the fabric knows it has another id: the members behind a link are a few intervals more then.

*Places.* A member's host is found by its MAC address, an IP address, or its name. A member that joins or leaves changes what is
known of the links above its host, and of no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from controller.members.registry import FIRST_NODE, LAST_NODE, Address, Member
from protocol.bodies.nodes import NOBODY, Cut, NodeSet, Sides
from topology.fabric import DirectedLink, Fabric
from topology.pieces import PIECE, Pieces, finished
from topology.spanning_tree import Tree


class Numbering:
    """The node id that belongs to each host of the fabric. An id stays its host's own, whatever becomes of fabric and tree."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.hosts: dict[int, str] = {}
        self.next = FIRST_NODE

    def take(self, fabric: Fabric, tree: Tree) -> None:
        """Numbers the hosts that have no number yet, in the order of a walk through the tree."""
        finished(self.taking(fabric, tree))

    def taking(self, fabric: Fabric, tree: Tree) -> Pieces[None]:
        """The same a piece at a time."""
        new = [host for host in fabric.hosts if host not in self.ids]
        if not new:
            return
        below: dict[str | None, list[str]] = defaultdict(list)
        for at, node in enumerate((*fabric.switches, *new), 1):
            if not at % (8 * PIECE):
                yield
            below[tree.parent.get(node)].append(node)
        waiting, at = below[None][::-1], 0
        while waiting and self.next <= LAST_NODE:
            if not (at := at + 1) % (8 * PIECE):
                yield
            node = waiting.pop()
            if fabric.is_host(node):
                self.ids[node], self.hosts[self.next] = self.next, node
                self.next += 1
            waiting += below[node][::-1]


class Places:
    """The hosts of one fabric on one tree, and the members at them."""

    def __init__(self, fabric: Fabric, tree: Tree, numbering: Numbering) -> None:
        """Knows no host before `fill`."""
        self._numbering = numbering
        self._parent: Mapping[str, str] = tree.parent
        self._fabric = fabric
        self._by_mac: dict[str, str] = {}
        self._by_address: dict[Address, str] = {}
        self.hosts: dict[int, str] = {}
        """The host of each member that has a place."""
        self.members_at: dict[str, list[Member]] = {}
        self.unplaced: dict[int, str] = {}
        """The names of the members that have none."""
        self._children: dict[str, list[str]] = {}
        self.generation = 0
        """Grows whenever the ids behind links may have changed."""
        self._behind: dict[str, NodeSet] = {}
        """The ids behind nodes of the tree, as far as they were asked for."""

    def fill(self) -> Pieces[None]:
        """Takes the fabric's hosts, a piece at a time."""
        fabric = self._fabric
        for at, host in enumerate(fabric.hosts, 1):
            if (mac := fabric.mac(host)) is not None:
                self._by_mac[mac] = host
            for address in fabric.addresses(host):
                self._by_address[address] = host
            if not at % (2 * PIECE):
                yield
        for at, (node, above) in enumerate(self._parent.items(), 1):
            self._children.setdefault(above, []).append(node)
            if not at % (16 * PIECE):
                yield

    def look(self) -> Pieces[None]:
        """Works out what is behind all nodes of the tree, a piece at a time: who asks for a link finds it then."""
        for at, node in enumerate(reversed(self._from_the_root()), 1):
            self.behind(node)
            if not at % PIECE:
                yield

    def _from_the_root(self) -> list[str]:
        found = [root for root in self._children if root not in self._parent]
        for node in found:
            found += self._children.get(node, ())
        return found

    def host_of(self, mac: bytes, name: str, addresses: Iterable[Address]) -> str | None:
        """The host of the fabric at which a member is; None: the fabric has none."""
        host = self._by_mac.get(mac.hex(":"))
        if host is None:
            host = next((self._by_address[address] for address in addresses if address in self._by_address), None)
        if host is None and name in self._fabric and self._fabric.is_host(name):
            host = name
        return host

    def preferred(self, mac: bytes, name: str, addresses: Iterable[Address]) -> int | None:
        """The node id that belongs to a host that registers; None: it has no place, or all ids belong to others."""
        host = self.host_of(mac, name, addresses)
        return None if host is None else self._numbering.ids.get(host)

    def add(self, member: Member) -> str | None:
        """Takes a member in, or its changed addresses; returns its host, None if it has none."""
        host = self.host_of(member.mac, member.name, member.addresses)
        before = self.hosts.get(member.node)
        if host == before and host is not None:
            return host
        if before is not None:
            self.remove(member.node)
        unplaced = member.node in self.unplaced
        if host is None:
            self.unplaced[member.node] = member.name
            if not unplaced:
                self._forget(self._numbering.hosts.get(member.node))
            return None
        self.unplaced.pop(member.node, None)
        self.hosts[member.node] = host
        its = self.members_at.setdefault(host, [])
        its.append(member)
        if self._numbering.ids.get(host) != member.node or len(its) > 1 or unplaced:
            self._forget(host)
            self._forget(self._numbering.hosts.get(member.node))
        return host

    def remove(self, node: int) -> None:
        """Takes a member out."""
        if self.unplaced.pop(node, None) is not None:
            self._forget(self._numbering.hosts.get(node))
        host = self.hosts.pop(node, None)
        if host is None:
            return
        self.members_at[host] = [member for member in self.members_at[host] if member.node != node]
        others = bool(self.members_at[host])
        if not others:
            del self.members_at[host]
        if self._numbering.ids.get(host) != node or others:
            self._forget(host)
            self._forget(self._numbering.hosts.get(node))

    def forwards(self, link: DirectedLink) -> bool:
        """Whether it is a directed link of the tree."""
        return self._parent.get(link[0]) == link[1] or self._parent.get(link[1]) == link[0]

    def sides(self, link: DirectedLink) -> Sides:
        """The ids before and behind a directed link of the tree."""
        if not self.forwards(link):
            return Sides(NOBODY, NOBODY)
        root, up, nodes = self.cut(link)
        others = self.behind(root).minus(nodes)
        return Sides(nodes, others) if up else Sides(others, nodes)

    def cut(self, link: DirectedLink) -> Cut:
        """How a directed link of the tree divides its part of the fabric."""
        up = self._parent.get(link[0]) == link[1]
        root = node = link[0] if up else link[1]
        while (above := self._parent.get(root)) is not None:
            root = above
        return Cut(root, up, self.behind(node))

    def behind(self, node: str) -> NodeSet:
        """The ids of a host, or of those below a switch, as seen from the tree's root."""
        waiting = [] if node in self._behind else [node]
        while waiting:
            at = waiting[-1]
            missing = [child for child in self._children.get(at, ()) if child not in self._behind]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            below = (self._behind[child] for child in self._children.get(at, ()))
            self._behind[at] = NodeSet.union((self._own(at), *below))
        return self._behind[node]

    def _own(self, node: str) -> NodeSet:
        """The ids of the members at a host; of one without members the id that it will have, so that nothing changes then."""
        if members := self.members_at.get(node):
            return NodeSet(member.node for member in members)
        own = self._numbering.ids.get(node)
        if own is None or own in self.hosts or own in self.unplaced:
            return NOBODY
        return NodeSet((own,))

    def _forget(self, node: str | None) -> None:
        self.generation += 1
        while node is not None:
            self._behind.pop(node, None)
            node = self._parent.get(node)
