"""What the application sends to a switch that leaves and comes back: into a switch that keeps its flows, as real ones do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ryu.ofproto import ofproto_v1_3
from ryu.ofproto.ofproto_protocol import ProtocolDesc

from bench.openflow.switch import Switch
from controller.openflow.switches import FOREIGN_NS, Switches
from tests.unit.controller.openflow.fake_of_table import tables
from tests.unit.controller.openflow.test_forwarding import TREE, VIEW

FRAMEWORK: Any = SimpleNamespace(hub=SimpleNamespace(Event=lambda: None, sleep=lambda _: None), packet=None)
DPID = 2


class Connection(ProtocolDesc):  # type: ignore[misc]  # Ryu has no types
    """One connection of a switch: what Ryu's datapath is."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(version=ofproto_v1_3.OFP_VERSION)
        self.id = DPID
        self.send = switch.feed

    def set_xid(self, message: Any) -> None:  # noqa: ANN401 -- Ryu's message
        message.set_xid(1)


class TestReconnection:
    """A switch that keeps its flows while its connection is away."""

    def test_it_ends_with_the_flows_that_are_wanted_and_no_others(self) -> None:
        switch, switches = Switch(DPID, "s2", {}, lambda at, frame: None), Switches(FRAMEWORK)
        less = replace(VIEW, hosts=dict(list(VIEW.hosts.items())[:3]))
        before, after = tables(VIEW, TREE), tables(less, TREE)
        first, second = Connection(switch), Connection(switch)
        switches.connected(first)
        switches.suspect(DPID)
        switches.converge(before, VIEW, 0)
        switches.remove_foreign(FOREIGN_NS)
        assert len(switch.flows.entries) == len(before[DPID].flows)
        switches.disconnected(first)
        switches.converge(after, less, FOREIGN_NS)
        switches.connected(second)
        switches.suspect(DPID)
        switches.converge(after, less, FOREIGN_NS)
        switches.remove_foreign(2 * FOREIGN_NS)
        assert len(switch.flows.entries) == len(after[DPID].flows)
        assert not switches.flows_counted(DPID, len(switch.flows.entries))
