"""Names that switches give themselves and their ports reach logs, terminals and pages: none can command a terminal."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ryu.ofproto import ofproto_v1_3 as of
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.openflow import codec
from controller.openflow.discovery import Discovery
from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.ports import PROBE_NS
from controller.openflow.learned import FabricLearner
from controller.openflow.tables.forwarding import ALL_BUT_GROUPS, ControlAttachment
from controller.openflow.view import Port, Switch, View
from controller.spanning_tree.snmp_tables import port_states
from controller.spanning_tree.sources import parse_bridges, parse_ovsdb
from tests.unit.controller.spanning_tree.test_snmp import tables
from tests.unit.controller.spanning_tree.test_tree_sources import ovsdb
from topology.fabric import FabricBuilder
from topology.problems import FabricError

HOSTILE = "s1>\x1b]0;owned\x07\n2026 up"


def described(name: str, number: int) -> parser.OFPPort:
    """A port as the framework reads it from a switch's answer."""
    raw = struct.pack(of.OFP_PORT_PACK_STR, number, bytes(6), name.encode()[:16], 0, 0, 0, 0, 0, 0, 0, 0)
    return parser.OFPPort.parser(raw, 0)


def datapath(*ports: parser.OFPPort) -> SimpleNamespace:
    return SimpleNamespace(id=1, ofproto=of, ofproto_parser=parser, ports={port.port_no: port for port in ports})


def connected(datapaths: dict[int, SimpleNamespace]) -> Discovery:
    """Switches s1, s2 and so on that connected at time 0 and were probed."""
    discovery = Discovery()
    for dpid, each in datapaths.items():
        up = (replace(port, up=True) for port in codec.ports(each))
        discovery.switch_up(dpid, f"s{dpid}", up, 0)
    discovery.tick(PROBE_NS)
    return discovery


class TestOpenFlow:
    """What a switch says when it connects, or when a port changes."""

    def test_control_characters_in_a_ports_name_are_replaced(self) -> None:
        made = datapath(described("p1\x1b[2J\n", 1))
        assert next(codec.ports(made)).name == "p1?[2J?"

    def test_a_switch_whose_name_no_fabric_can_have_is_still_learned(self) -> None:
        name = codec.bridge_name(datapath(described(HOSTILE, of.OFPP_LOCAL)))
        assert name.isprintable() and not any(one.isspace() or one == ">" for one in name)
        document = FabricLearner().document(View({1: Switch(1, name, {})}, (), frozenset(), {}))
        assert [switch["name"] for switch in document["fabric"]["switches"]] == [name]


    def test_a_port_whose_number_leaves_no_room_for_its_group_takes_no_part(self) -> None:
        greatest = of.OFPG_MAX - ALL_BUT_GROUPS
        made = datapath(*(described("a", number) for number in (1, greatest, greatest + 1, of.OFPP_LOCAL)))
        assert [port.number for port in codec.ports(made)] == [1, greatest]

    @pytest.mark.parametrize(
        ("told", "names"),
        [
            (("eth1", "Ethernet 1/2"), ["eth1", "Ethernet?1/2"]),
            (("up->s2", "up->s3"), ["up-?s2", "up-?s3"]),
            (("TenGigabitEthernet1/0/1", "TenGigabitEthernet1/0/2"), ["TenGigabitEthern", "TenGigabitEthern#2"]),
            (("", ""), ["1", "2"]),
            (("2", ""), ["2", "2#2"]),
            (("a#3", "a", "a"), ["a#3", "a", "a#3#3"]),
        ],
        ids=["white space", "arrow", "cut", "none", "a number", "another's"],
    )
    def test_every_port_gets_a_name_of_its_own_and_its_host_is_described(self, told: tuple[str, ...], names: list[str]) -> None:
        made = datapath(*(described(name, number) for number, name in enumerate(told, 1)))
        discovery = connected({1: made})
        for number in made.ports:
            discovery.frame_seen(PortRef(1, number), f"02:00:00:00:00:{number:02x}", PROBE_NS)
        seen = discovery.view(PROBE_NS)
        assert [port.name for port in seen.switches[1].ports.values()] == names
        document = FabricLearner().document(seen)
        assert {host["name"] for host in document["fabric"]["hosts"]} == {f"s1:{name}" for name in names}
        assert [discovery.port_named(1, name) for name in names] == [PortRef(1, number) for number in made.ports]

    def test_links_at_ports_of_one_name_forward(self) -> None:
        long = [described(f"TenGigabitEthernet1/0/{number}", number) for number in (1, 2)]
        discovery = connected({1: datapath(*long), 2: datapath(described("a", 1)), 3: datapath(described("b", 1))})
        for mine, other in ((PortRef(1, 1), PortRef(2, 1)), (PortRef(1, 2), PortRef(3, 1))):
            discovery.lldp_heard(mine, other, 1)
            discovery.lldp_heard(other, mine, 1)
        seen = discovery.view(PROBE_NS)
        assert len(seen.links) == 2
        assert FabricLearner().active(seen) == frozenset(seen.links)

    def test_a_port_that_is_gone_leaves_its_name_to_another(self) -> None:
        discovery = connected({1: datapath(described("a", 1), described("a", 2))})
        discovery.port_changed(1, Port(2, "a", False), 1)
        assert discovery.port_named(1, "a#2") == PortRef(1, 2)
        discovery.port_removed(PortRef(1, 1))
        discovery.port_changed(1, Port(3, "a", True), 2)
        assert discovery.port_named(1, "a") == PortRef(1, 3)

    def test_a_bridge_named_as_anothers_datapath_id_does_not_stand_in_its_way(self) -> None:
        discovery = Discovery()
        discovery.switch_up(1, f"{2:016x}", (), 0)
        discovery.switch_up(2, "", (), 0)
        assert len(FabricLearner().document(discovery.view(PROBE_NS))["fabric"]["switches"]) == 2

    def test_the_fabric_file_and_the_operator_name_a_port_as_the_switch_does(self) -> None:
        known = FabricBuilder().add_switch("s1").add_host("web").add_link("s1", "web", 10**9, "Ethernet 1/2").build()
        discovery = connected({1: datapath(described("Ethernet 1/2", 1))})
        discovery.frame_seen(PortRef(1, 1), "02:00:00:00:00:01", PROBE_NS)
        seen = discovery.view(PROBE_NS)
        assert [host["name"] for host in FabricLearner(known).document(seen)["hosts"]] == ["web"]
        assert ControlAttachment.parse("s1:Ethernet 1/2").locate(seen) == PortRef(1, 1)


class TestOtherSources:
    """SNMP, OVSDB, Linux bridges, and the fabric's file."""

    def test_control_characters_in_a_name_by_snmp_are_replaced(self) -> None:
        found = port_states("s1", tables(IF_NAME={(11,): b"p\x1b1\n"}))
        assert {state.port for state in found} == {"p?1?"}

    def test_control_characters_in_a_name_by_ovsdb_are_replaced(self) -> None:
        found = parse_ovsdb(ovsdb({}, {"p\x1b1": ({}, {}, "up")}))
        assert {state.port for state in found} == {"p?1"}

    def test_control_characters_in_names_of_linux_bridges_and_ports_are_replaced(self) -> None:
        port = {"master": "b\x1b0", "ifname": "p\n1", "state": "forwarding", "flags": ["LOWER_UP"]}
        (found,) = parse_bridges(json.dumps([port]))
        assert (found.switch, found.port) == ("b?0", "p?1")

    def test_a_port_of_the_fabric_file(self) -> None:
        builder = FabricBuilder().add_switch("s1").add_switch("s2")
        with pytest.raises(FabricError, match="a_port") as caught:
            builder.add_link("s1", "s2", 10**9, "p\x1b1")
        assert "\x1b" not in str(caught.value)
