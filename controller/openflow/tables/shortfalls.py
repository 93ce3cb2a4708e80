"""Whether switches hold what they were sent: what they refused, and how many flows they count. Pure."""

from __future__ import annotations

from controller.openflow.tables.flowtable import Table
from protocol.units import MILLISECOND_NS

REFUSED_NS = 60_000 * MILLISECOND_NS
"""How long a switch that has refused flows or groups, as one whose table is full, keeps what it has taken before all are put
again: each attempt costs it its whole table."""


class Shortfalls:
    """What switches, by datapath id, lack of the tables that they were sent."""

    def __init__(self) -> None:
        self._lacking: dict[int, int] = {}  # switches that have refused a part of their table, until when it is not put again
        self._groups_refused: set[int] = set()  # of these, the ones that have refused groups since they got their whole table
        self._miscounted: set[int] = set()
        self._changed: set[int] = set()
        """The switches that were sent flows since they were last asked how many they hold."""

    def forget(self, dpid: int) -> None:
        """A switch's connection has ended."""
        self._lacking.pop(dpid, None)
        self._groups_refused.discard(dpid)

    def changed(self, dpid: int) -> None:
        """A switch is sent flows."""
        self._changed.add(dpid)

    def asked(self, dpid: int) -> None:
        """A switch is asked how many flows it holds."""
        self._changed.discard(dpid)

    def gets_all(self, dpid: int) -> None:
        """A switch is to get its whole table."""
        self._groups_refused.discard(dpid)

    def refused(self, dpid: int, now_ns: int, *, of_group: bool = False) -> None:
        """A switch has refused a flow, or a group."""
        self._lacking[dpid] = now_ns + REFUSED_NS
        if of_group:
            self._groups_refused.add(dpid)

    def lacks(self, dpid: int) -> bool:
        """Whether a switch has refused flows or groups, and has not held all of them since."""
        return dpid in self._lacking

    def counted(self, dpid: int, count: int, now_ns: int, table: Table | None, *, others: bool) -> bool:
        """How many flows a switch says that it holds. True when the number is wrong for the second time in succession: another
        program has changed them, or the switch refused some REFUSED_NS ago (`lacks`). The number says nothing of groups: that
        of a switch that refused some counts as wrong.

        `table`: what it was sent, if that is known; `others`: it may hold foreign flows yet."""
        if dpid in self._changed:  # the answer may be older than the change
            return False
        right = table is not None and len(table.flows) == count and dpid not in self._groups_refused
        wrong = table is not None and not others and not right
        if wrong and now_ns < self._lacking.get(dpid, now_ns):
            return False
        if right:
            self._lacking.pop(dpid, None)
        if wrong and dpid not in self._miscounted:
            self._miscounted.add(dpid)
            return False
        self._miscounted.discard(dpid)
        return wrong
