"""The swarm of switches: its fabric, what a switch answers, read by Ryu's parser, and its tables, beside the fake ones."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from ryu.ofproto import ofproto_parser, ofproto_v1_3, ofproto_v1_3_parser
from ryu.ofproto.ofproto_protocol import ProtocolDesc

from bench.openflow.flows import Frame, walk
from bench.openflow.swarm import NOBODY, Swarm, address, needed, pairs
from bench.openflow.switch import FEATURES, MULTIPART, PACKET_OUT, Switch, message
from bench.openflow.wiring import Wiring, wire
from controller.openflow.codec import Codec
from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.intake.lldp import KEY_BYTES, Lldp
from controller.openflow.intake.messages import admits
from controller.openflow.learned import FabricLearner
from controller.openflow.tables.flowtable import Change, Flow, Match
from controller.openflow.tables.forwarding import LLDP_FLOW, Forwarding
from controller.openflow.tables.transition import transition
from controller.openflow.view import Link, Port, View
from controller.openflow.view import Switch as SwitchSeen

WIRING = wire(34, 62)
NOBODY_LISTENS = ("127.0.0.1", 1)


def seen(wiring: Wiring, down: frozenset[PortRef] = frozenset()) -> View:
    """What the application knows of a wiring in the end."""
    switches = {
        dpid: SwitchSeen(
            dpid,
            name,
            {n: Port(n, f"{name}-eth{n}", PortRef(dpid, n) not in down, bps) for n, bps in wiring.ports[dpid].items()},
        )
        for dpid, name in wiring.names.items()
    }
    links = sorted(Link(a, b) for a, b in wiring.far.items() if a < b and not {a, b} & down)
    edges = frozenset(PortRef(dpid, n) for dpid, ports in wiring.ports.items() for n in ports) - wiring.far.keys()
    hosts = {host.mac: Host(host.mac, host.at, (host.address,)) for host in wiring.hosts}
    return View(switches, tuple(links), edges, hosts)


def datapath() -> Any:  # noqa: ANN401 -- as the framework's own
    made: Any = ProtocolDesc(version=ofproto_v1_3.OFP_VERSION)
    made.set_xid = lambda one: one.set_xid(1)
    return made


def sent(change: Change) -> bytes:
    """The bytes of a change, as the application's own codec and Ryu write them."""
    codec, target, made = Codec(SimpleNamespace(packet=None), 7, Lldp(bytes(KEY_BYTES))), datapath(), []  # type: ignore[arg-type]
    for one in codec.change(target, change):
        one.set_xid(1)
        one.serialize()
        made.append(bytes(one.buf))
    return b"".join(made)


def read(told: bytes) -> Any:  # noqa: ANN401 -- Ryu has no types
    version, kind, length, xid = ofproto_parser.header(told)
    assert length == len(told)
    return ofproto_v1_3_parser.msg_parser(datapath(), version, kind, length, xid, told)


class TestTheFabric:
    """Figure 27's tree, and rows joined in a ring."""

    def test_its_size_is_as_asked(self) -> None:
        made = wire(265, 4_800)
        assert (len(made.names), len(made.hosts), len(made.rows)) == (265, 4_800, 24)
        assert len(made.far) == 2 * (24 + 24 + 240)

    def test_every_link_leads_back(self) -> None:
        assert all(WIRING.far[there] == here for here, there in WIRING.far.items())
        assert not {host.at for host in WIRING.hosts} & WIRING.far.keys()

    def test_too_small_a_fabric_is_refused(self) -> None:
        with pytest.raises(ValueError, match="23 switches"):
            wire(20, 100)


class TestASwitch:
    """What it says is what Ryu reads, and what Baton's own check admits."""

    def setup_method(self) -> None:
        self.frames: list[tuple[PortRef, bytes]] = []
        self.switch = Switch(5, "row4", {1: 10**10, 2: 10**9}, lambda at, frame: self.frames.append((at, frame)))

    def answer(self, kind: int, body: bytes = b"") -> Any:  # noqa: ANN401 -- Ryu's object
        told = self.switch.feed(message(kind, body, 9))
        assert admits(told)
        return read(told)

    def test_a_request_for_features_is_answered_with_its_datapath_id(self) -> None:
        assert self.answer(FEATURES).datapath_id == 5

    def test_a_request_for_ports_is_answered_with_names_and_speeds(self) -> None:
        ports = self.answer(MULTIPART, struct.pack("!HH4x", 13, 0)).body
        assert [(port.port_no, port.name, port.curr_speed) for port in ports[:2]] == [
            (1, b"row4-eth1", 10_000_000), (2, b"row4-eth2", 1_000_000),
        ]  # fmt: skip

    @pytest.mark.parametrize("kind", [1, 2, 4, 7])
    def test_its_statistics_can_be_read(self, kind: int) -> None:
        assert self.answer(MULTIPART, struct.pack("!HH4x", kind, 0) + bytes(32)).type == kind

    def test_a_large_table_comes_in_parts_and_only_the_entries_that_were_asked_for(self) -> None:
        flows = tuple(Flow(1, 1, Match(in_port=port), goto=2) for port in range(2_000))
        self.switch.feed(sent(Change({}, (), flows)))
        told, parts = self.switch.feed(message(MULTIPART, struct.pack("!HH20xQQ", 1, 0, 0xBA70 << 48, 0xFFFF << 48), 9)), []
        while told:
            length = int.from_bytes(told[2:4])
            parts, told = [*parts, read(told[:length])], told[length:]
        assert [part.flags for part in parts] == [*[1] * (len(parts) - 1), 0] and len(parts) > 2
        assert sum(len(part.body) for part in parts) == 2_000
        assert not self.answer(MULTIPART, struct.pack("!HH20xQQ", 1, 0, 1 << 48, 0xFFFF << 48)).body

    def test_a_port_that_is_cut_is_told_as_down(self) -> None:
        self.switch.down.add(2)
        told = read(self.switch.port_status(2))
        assert told.desc.state & ofproto_v1_3.OFPPS_LINK_DOWN

    def test_a_frame_is_passed_on_with_its_port(self) -> None:
        told = self.switch.packet_in(2, b"frame")
        assert admits(told)
        assert (read(told).match["in_port"], read(told).data) == (2, b"frame")

    def test_lldp_leaves_by_its_port(self) -> None:
        frame = bytes(12) + b"\x88\xcc" + b"rest"
        out = ofproto_v1_3_parser.OFPPacketOut(
            datapath(), 0xFFFFFFFF, 0xFFFFFFFD, [ofproto_v1_3_parser.OFPActionOutput(2)], frame
        )
        out.set_xid(1)
        out.serialize()
        assert bytes(out.buf)[1] == PACKET_OUT
        self.switch.feed(bytes(out.buf))
        assert self.frames == [(PortRef(5, 2), frame)]

    def test_messages_may_come_in_pieces(self) -> None:
        told = sent(Change({1: frozenset({1, 2})}, (), (LLDP_FLOW,)))
        for at in range(len(told)):
            self.switch.feed(told[at : at + 1])
        assert len(self.switch.flows.entries) == 1
        assert self.switch.flows.groups == {1: (1, 2)}


class TestTheTables:
    """The application's changes, by its own bytes, into the swarm's tables."""

    def setup_method(self) -> None:
        self.swarm = Swarm(WIRING, NOBODY_LISTENS, 4, 1)
        self.learner, self.forwarding = FabricLearner(), Forwarding()
        self.view = seen(WIRING)
        self.tables = self.forwarding.tables(self.view, self.learner.active(self.view))
        self.feed(transition({}, self.tables, self.view).open)

    def feed(self, changes: Any) -> None:  # noqa: ANN401 -- changes by datapath id
        for dpid, change in changes.items():
            self.swarm.switches[dpid].feed(sent(change))

    def test_everybody_is_reached_and_nobody_known_is_flooded_for(self) -> None:
        chosen = pairs(WIRING.hosts, 100, random.Random(2))
        assert all(self.swarm.reached(chosen))
        assert self.swarm.floods(WIRING.hosts[3])
        assert not self.swarm.unlearned(WIRING.hosts)

    def test_a_cut_costs_a_few_rules_and_leaves_everybody_reached(self) -> None:
        at = PortRef(WIRING.rows[1], 1)
        before = self.swarm.snapshot()
        count = self.swarm.sent()[0]
        self.swarm.cut(at)
        view = seen(WIRING, frozenset({at, WIRING.far[at]}))
        wanted = self.forwarding.tables(view, self.learner.active(view))
        step = transition(self.tables, wanted, view)
        self.feed(step.close)
        self.feed(step.open)
        flows, _ = needed(before, self.swarm.snapshot())
        assert flows == self.swarm.sent()[0] - count
        assert flows < sum(len(table.flows) for table in wanted.values()) / 5
        assert all(self.swarm.reached(pairs(WIRING.hosts, 100, random.Random(3))))
        assert self.swarm.floods(WIRING.hosts[0])

    def test_flows_of_another_start_go_by_their_cookie(self) -> None:
        flows = self.swarm.switches[1].flows
        before = len(flows.entries)
        later = Codec(SimpleNamespace(packet=None), 8, Lldp(bytes(KEY_BYTES)))  # type: ignore[arg-type]
        for one in [*later.change(datapath(), Change({}, (), (LLDP_FLOW,))), *later.remove_foreign(datapath())]:
            one.set_xid(1)
            one.serialize()
            self.swarm.switches[1].feed(bytes(one.buf))
        assert before > 100
        assert len(flows.entries) == 1, "what the later start put stays"

    def test_frames_that_switches_flood_round_a_ring_are_found(self) -> None:
        """Switches that flood by all ports, on rings."""
        for dpid, switch in self.swarm.switches.items():
            switch.feed(sent(Change({1: frozenset(WIRING.ports[dpid])}, (), ())))
            for key in list(switch.flows.entries):
                switch.flows._remove(key)
            switch.feed(sent(Change({}, (), (Flow(0, 1, Match(), group=1),))))
        found = walk(self.swarm.flows, WIRING.far, WIRING.hosts[0].at, Frame(address(WIRING.hosts[0].mac), NOBODY))
        assert found.loops
