"""How to get from the tables that switches hold to others, so that no frame goes round meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.openflow.intake.hosts import PortRef
from controller.openflow.tables.flowtable import IN_PORT, Change, Ports, Table, diff, without_ports
from controller.openflow.tables.forwarding import FLOOD_GROUP
from controller.openflow.view import View


@dataclass(frozen=True, slots=True)
class Transition:
    """How to get from the installed tables to new ones: send `close`, wait for barriers, then send `open`.

    `close` is empty when no port with a working link leaves the tree, and no root leaves its place: then there is nothing to
    wait for.
    """

    close: Mapping[int, Change]
    open: Mapping[int, Change]
    leaving: Mapping[int, Ports]
    """By switch, the ports that `close` closes; IN_PORT: it sends frames back no more."""
    closed: Mapping[int, Table]
    """By switch, what it holds after `close`."""


def transition(installed: Mapping[int, Table], wanted: Mapping[int, Table], view: View) -> Transition:
    """The changes from the installed tables to the wanted ones. Ports leave the tree on every switch before others join it, and
    a root stops to send frames back before there is another. So at every moment the open links are part of one tree, on which a
    frame that never goes back by the port that it came in by ends somewhere, and only one root sends frames back. A table that
    is the same object as before is not compared."""
    close: dict[int, Change] = {}
    then: dict[int, Change] = {}
    left: dict[int, Ports] = {}
    between: dict[int, Table] = {}
    for dpid, new in wanted.items():
        old = installed.get(dpid, Table())
        if old is new:
            continue
        leaving = {
            number
            for number in old.groups.get(FLOOD_GROUP, frozenset()) - new.groups[FLOOD_GROUP]
            if view.is_up(PortRef(dpid, number))
        }
        closed = without_ports(old, leaving) if leaving else old
        if _sends_back(closed) and not _sends_back(new):
            closed = _not_sending_back(closed)
            leaving.add(IN_PORT)
        if closed is not old and (change := diff(old, closed)):
            close[dpid], left[dpid], between[dpid] = change, frozenset(leaving), closed
            old = closed
        if change := diff(old, new):
            then[dpid] = change
    return Transition(close, then, left, between)


def perhaps_open(dpid: int, wanted: Table, view: View) -> Ports:
    """The ports that a switch whose table is not known may have open, though they are not to be: as `Transition.leaving`."""
    up = {number for number, port in view.switches[dpid].ports.items() if port.up}
    return frozenset((up if _sends_back(wanted) else up | {IN_PORT}) - wanted.groups[FLOOD_GROUP])


def without_new_links(installed: Mapping[int, Table], wanted: Mapping[int, Table], view: View) -> dict[int, Table]:
    """The wanted tables without the links that join the tree: what is safe while a link that leaves it may be open."""
    held = {}
    for dpid, new in wanted.items():
        new_ports = new.groups[FLOOD_GROUP] - installed.get(dpid, Table()).groups.get(FLOOD_GROUP, frozenset())
        joining = {number for number in new_ports if PortRef(dpid, number) not in view.edges}
        held[dpid] = without_ports(new, joining) if joining else new
    return held


def without_new_root(installed: Mapping[int, Table], wanted: Mapping[int, Table]) -> dict[int, Table]:
    """The wanted tables, with a new root that does not send back: what is safe while another one may do so."""
    return {
        dpid: _not_sending_back(new) if _sends_back(new) and not _sends_back(installed.get(dpid, Table())) else new
        for dpid, new in wanted.items()
    }


def _not_sending_back(table: Table) -> Table:
    return Table({key: flow for key, flow in table.flows.items() if flow.output != IN_PORT}, table.groups)


def _sends_back(table: Table) -> bool:
    return any(flow.output == IN_PORT for flow in table.flows.values())
