"""Keeps the leader informed of the addresses that live at this host, and of its link. An edge: netlink, and the log.

The kernel notifies a socket of every change. This part looks at it when something has come, but at most ten times a second, and
takes a bounded number of messages: the loop does not wake for each notification, because a guest behind the bridge can cause as
many as it likes.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from agents.addresses.found import Found, chosen, described, search
from agents.addresses.tables import MOST_ENTRIES, Address
from agents.addresses.watch import AddressWatch
from agents.kernel import speed
from agents.kernel.netlink import RTM_GETTCLASS, Netlink, NetlinkError, query
from agents.loop.bell import Bell
from agents.loop.pace import NEWS_REPORTS, Pace
from agents.loop.part import Part, Surroundings
from agents.queues.queues import OTHER
from protocol.bodies.host_link import COUNT_MAX, HostLink
from protocol.messages import Welcome
from protocol.units import MILLISECOND_NS, SECOND_NS
from topology.units import format_rate

log = logging.getLogger("baton.agent")

LOOK_NS, BEHIND_NS = 100 * MILLISECOND_NS, 10 * MILLISECOND_NS
"""How often to look for notifications at most, and when to go on if there were more than `STEPS`."""
STEPS = 32
"""Steps in one look: a millisecond at most."""
ANNOUNCE_NS = SECOND_NS
"""At most so often the leader hears of other addresses: every change reaches every host of the fabric."""
REPORT_NS = 2 * SECOND_NS


class Addresses(Part):
    """The addresses and the link of one interface, from its making on.

    Args:
        configured: addresses that the operator named; they are always announced.
        room: how many bytes of addresses a REGISTER of this host holds.
        announce: takes all addresses to announce, and the time, whenever they have changed; the first time at once.
        clock: the monotonic clock (ns).
    """

    def __init__(
        self,
        agent: Surroundings,
        interface: str,
        configured: Collection[Address],
        room: int,
        announce: Callable[[tuple[Address, ...], int], None],
        clock: Callable[[], int],
    ) -> None:
        """Raises OSError: no such interface."""
        self._agent = agent
        self._interface = interface
        self._index = socket.if_nametoindex(interface)
        self._configured = configured
        self._room = room
        self._announce = announce
        self._watch = AddressWatch()
        self._bell = Bell([self._watch.fileno()], LOOK_NS)
        self.descriptors = {self._bell.fileno(): self._bell.ring}
        self._netlink = Netlink()
        self._reading: Iterator[bool] | None = None
        self._changed = False
        self._was_up = True
        now_ns = clock()
        self._counted_ns = now_ns
        self._bell.looked(now_ns, now_ns + LOOK_NS)
        self._announce_ns, self._report_ns = 0, 0
        self._reports = Pace(REPORT_NS, NEWS_REPORTS)
        self.handlers = {Welcome: self._reports.welcomed}
        self._counted = (0, 0)
        self._counted = self._count()
        self._watch.read_all()
        self.found = Found()
        self.link_bps = speed.link_speed_bps(interface)
        self._announced: tuple[Address, ...] | None = None
        self._left_out = 0
        self._told_full: set[int] = set()
        self._search(now_ns)

    def described(self) -> str:
        """The addresses with where each is from, for the log."""
        return described(self._configured, self.found)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int | None:
        look_ns = self._announce_ns if self._bell.due_ns is None and self._changed else self._bell.due_ns
        if not self._agent.member:
            return look_ns
        return self._report_ns if look_ns is None else min(look_ns, self._report_ns)

    def advance(self, now_ns: int) -> None:
        if self._bell.due(now_ns):
            self._look(now_ns)
        if self._changed and now_ns >= self._announce_ns:
            self._search(now_ns)
        if self._agent.member and now_ns >= self._report_ns:
            self._report(now_ns)

    def _look(self, now_ns: int) -> None:
        if self._reading is None:
            self._reading = self._watch.steps()
        taken = 0
        for changed in islice(self._reading, STEPS):
            self._changed |= changed
            taken += 1
        if taken < STEPS:
            self._reading = None
        behind, flooded = self._reading is not None, not self._watch.complete
        self._tell_full()
        self._bell.looked(now_ns, now_ns + (BEHIND_NS if behind else SECOND_NS) if behind or flooded else None)

    def _search(self, now_ns: int) -> None:
        """Finds the addresses anew, and announces them if they are others."""
        if self._reading is not None and self._announced is not None:
            return  # in the middle of a change
        self._changed = False
        link = self._watch.tables.links.get(self._index)
        if link is not None and link.up and not self._was_up:
            self._read_speed()
        self._was_up = link is not None and link.up
        self.found = search(self._watch.tables, self._index)
        addresses, left_out = chosen(self._configured, self.found, self._room)
        if left_out and left_out != self._left_out:
            log.warning("%s: %d addresses do not fit into a frame and are not announced", self._interface, left_out)
        self._left_out = left_out
        if addresses != self._announced:
            self._announce_ns = now_ns + ANNOUNCE_NS
            if self._announced is not None:
                log.info("%s: now %s", self._interface, self.described())
            self._announced = addresses
            self._announce(addresses, now_ns)

    def _tell_full(self) -> None:
        """Says once of each bridge that guests behind it may not be found."""
        tables = self._watch.tables
        for index in (tables.full & self.found.carriers) - self._told_full:
            self._told_full.add(index)
            name = tables.links[index].name if index in tables.links else index
            log.warning(
                "%s has more than %d neighbours or stations: name addresses of guests that are not found by --address",
                name, MOST_ENTRIES,
            )  # fmt: skip

    def _read_speed(self) -> None:
        before = self.link_bps
        try:
            self.link_bps = speed.link_speed_bps(self._interface)
        except OSError:
            return  # the interface is gone, which the queues' check says
        if self.link_bps and self.link_bps != before:
            log.info("%s: the link is at %s now", self._interface, format_rate(self.link_bps))

    def _report(self, now_ns: int) -> None:
        before, (received, unclassified) = self._counted, self._count()
        period_ns, self._counted_ns, self._report_ns = now_ns - self._counted_ns, now_ns, self._reports.after(now_ns)
        self._counted = received, unclassified
        self._agent.send(
            HostLink(
                self.link_bps,
                max(0, period_ns),
                max(0, received - before[0]),
                max(0, unclassified - before[1]),
                min(self._left_out, COUNT_MAX),
                min(self.found.unknown_stations, COUNT_MAX),
            )
        )

    def _count(self) -> tuple[int, int]:
        """The bytes that the interface has received, and those that it has sent to no member."""
        try:
            unclassified, _ = self._netlink.state(query(RTM_GETTCLASS, self._index, handle=OTHER))
            return speed.received_bytes(self._netlink, self._index), unclassified
        except NetlinkError:
            return self._counted  # the class is gone: it will be made anew

    def new_leader(self, now_ns: int) -> None:
        """Reports to it soon."""
        self._report_ns = now_ns + self._reports.period_ns // 4

    def close(self) -> None:
        self._bell.close()
        self._watch.close()
        self._netlink.close()
