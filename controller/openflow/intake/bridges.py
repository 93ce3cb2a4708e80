"""Bridges that are none of ours, as in a host or an unmanaged switch, which join two ports that are open to hosts. Pure.

A frame that seeks loops is sent by ports without a neighbour, to an address that bridges forward. Where such a port receives
what another one has sent, a bridge joins the two. Of a loop the higher port is closed, as long as such frames come.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.neighbours import Neighbours
from controller.openflow.intake.ports import PROBE_NS, ConnectedSwitches
from controller.openflow.view import Link
from protocol.units import MILLISECOND_NS

LOOP_NS = 2_000 * MILLISECOND_NS  # between two frames that seek loops, by the same port
LOOP_HOLD_NS = 5 * LOOP_NS  # how long a port stays closed after such a frame: some get lost where there is a loop


class Bridges:
    """What joins ports of these switches besides their links (`neighbours`). True: a port is closed because of a loop."""

    def __init__(self, switches: ConnectedSwitches, neighbours: Neighbours) -> None:
        self._switches = switches
        self._neighbours = neighbours
        self._loops: set[PortRef] = set()  # the ports that are closed because of one
        self._bridged: dict[Link, int] = {}  # pairs of ports that bridges of others join, and until when that is believed

    def __bool__(self) -> bool:
        return bool(self._loops)

    def heard(self, source: PortRef, at: PortRef, now_ns: int, silence_ns: int) -> bool:
        """What we sent from `source` to seek loops came in by `at`. Returns whether `at` closes now. `silence_ns`: after how
        long a link counts as silent."""
        sender, hearer = self._switches.state(source), self._switches.state(at)
        if sender is None or hearer is None or sender.trunk or hearer.trunk or not (sender.port.up and hearer.port.up):
            return False
        if source >= at:
            return False
        until_ns = now_ns + max(LOOP_HOLD_NS, silence_ns)
        self._bridged[Link(source, at)] = until_ns
        self._bridged = {pair: end_ns for pair, end_ns in self._bridged.items() if end_ns > now_ns}
        others = [pair for pair in self._bridged if at not in pair and self._loops.isdisjoint(pair)]
        if not self._neighbours.joined(source.dpid, at.dpid, others):
            return False
        hearer.loop_until_ns = until_ns
        is_new = at not in self._loops
        self._loops.add(at)
        return is_new

    def seeking(self, ports: Iterable[PortRef], now_ns: int) -> set[PortRef]:
        """Those of the ports by which LLDP is sent now by which a loop is to be sought, too."""
        found = set()
        for ref in ports:
            state = self._switches.state(ref)
            if state is None or state.trunk:
                continue
            if now_ns - state.up_ns < PROBE_NS or state.sought_ns is None or now_ns - state.sought_ns >= LOOP_NS:
                state.sought_ns = now_ns
                found.add(ref)
        return found

    def tick(self, now_ns: int) -> int:
        """Opens the ports at which no such frame has come in for long enough. Returns how many that are."""
        closed = len(self._loops)
        self._loops = {
            ref for ref in self._loops if (state := self._switches.state(ref)) is not None and now_ns < state.loop_until_ns
        }
        return closed - len(self._loops)

    def port_down(self, ref: PortRef) -> None:
        """A port is down: no bridge joins it to another one."""
        self._bridged = {pair: until_ns for pair, until_ns in self._bridged.items() if ref not in pair}
