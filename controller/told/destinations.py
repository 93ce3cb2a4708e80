"""The regulated destinations of members that know no groups, as REGULATE tells them: one by one, a few at a time. Sends only
through what it is given.

A host whose agent is older does not ask for groups (GROUPS_REQUEST), and one that asked may not have been heard: when thousands
join at once, of a third of them. A list takes a millisecond to make, so such a host is first sent an empty one, from one to two
seconds after it joined on: who knows groups asks for them then. Who does not is sent its destinations one to two seconds later,
and stays free on a contended link if it misses that: so a change is sent three times, and all again each second.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from controller.members.part import SWEEP_NS, Part
from controller.members.registry import Member, Members
from controller.policies.groups import Destinations, Groups
from protocol.bodies.groups import FIRST_VERSION
from protocol.bodies.nodes import NodeSet
from protocol.messages import Message, Regulate
from protocol.paging import paginate
from protocol.timers import REFRESH_NS, Timers

AT_ONCE = 1024
"""So many destinations are told in one go."""
EMPTY = 128
"""An empty list counts as so many of them: who is sent one answers, and all that do are heard when thousands join."""


class ToldDestinations(Part):
    """Knows which members know no groups, and tells them their destinations.

    Args:
        regulated: the groups in force.
        behind: whether frames of members wait unread: what asks for groups may be among them.
    """

    def __init__(
        self,
        members: Members,
        timers: Timers,
        send: Callable[[Message, bytes], None],
        regulated: Callable[[], Groups],
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self.periodic = ((REFRESH_NS, self._refresh), (SWEEP_NS, self._tell_next))
        self._members = members
        self._timers = timers
        self._send = send
        self._regulated = regulated
        self._behind = behind
        self._plain: set[int] = set()
        """The members whose agents know no groups."""
        self._unheard: tuple[set[int], set[int]] = set(), set()
        """Those that may still ask for the groups: of the time since the last refresh, and of the time before that."""
        self._doubted: set[int] = set()
        """Those that have not asked, and are sent an empty list next."""
        self._reminded: tuple[set[int], set[int]] = set(), set()
        """Those that were sent one, and may ask: since the last refresh, and in the time before that."""
        self._to_tell: OrderedDict[int, None] = OrderedDict()
        """Members that are told next, in order."""
        self._next_ns = 0
        self._version = 0

    def joined(self, node: int) -> None:
        """It says anew that it knows groups."""
        member = self._members.get(node)
        (self._plain if member is None or member.wire < FIRST_VERSION else self._unheard[0]).add(node)

    def left(self, node: int, now_ns: int) -> None:
        self.knows_groups(node)

    def knows_groups(self, node: int) -> None:
        """A member has asked for groups, so it needs no list."""
        for nodes in (self._plain, self._doubted, *self._unheard, *self._reminded):
            nodes.discard(node)

    def changed(self, nodes: NodeSet, now_ns: int) -> None:
        """The destinations of these nodes may be others now."""
        self._version += 1
        if plain := [node for node in self._plain if node in nodes]:
            self._timers.repeat(now_ns, lambda due_ns: self._tell_soon(plain, due_ns))

    def tell(self, member: Member) -> None:
        """Sends a member all of its regulated destinations, if it knows no groups."""
        self._tell(member)

    def _tell(self, member: Member) -> int:
        """The same; returns how many these are."""
        if member.node in self._doubted:
            self._doubted.remove(member.node)
            self._reminded[0].add(member.node)
            self._send(Regulate(self._version, 0, 1, ()), member.mac)
            return EMPTY
        if member.node not in self._plain:
            return 0
        destinations = tuple(iter(Destinations(self._regulated(), member.node)))  # which are not counted first
        for page in paginate(Regulate(self._version, 0, 1, destinations)):
            self._send(page, member.mac)
        return len(destinations)

    def _refresh(self, now_ns: int) -> None:
        if not self._behind():
            (fresh, before), (lately, earlier) = self._unheard, self._reminded
            if earlier:
                self._version += 1  # of another list than the empty one
            self._plain |= earlier
            self._doubted |= before
            self._unheard, self._reminded = (set(), fresh), (set(), lately)
        self._tell_soon(self._plain | self._doubted, now_ns)

    def _tell_soon(self, nodes: Iterable[int], now_ns: int) -> None:
        """Tells some of these members now, and the rest of them soon: no turn of the loop is as long as the fabric is large."""
        self._to_tell.update(dict.fromkeys(nodes))
        if now_ns >= self._next_ns:
            self._tell_next(now_ns)

    def _tell_next(self, now_ns: int) -> None:
        self._next_ns = now_ns + SWEEP_NS // 2
        told = 0
        while self._to_tell and told < AT_ONCE:
            node, _ = self._to_tell.popitem(last=False)
            if (member := self._members.get(node)) is not None:
                told += 1 + self._tell(member)
