"""Names that switches give themselves and their ports reach logs, terminals and pages: none can command a terminal."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace

import pytest
from ryu.ofproto import ofproto_v1_3 as of
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.openflow import codec
from controller.openflow.learned import FabricLearner
from controller.openflow.view import Switch, View
from controller.spanning_tree.snmp_tables import port_states
from controller.spanning_tree.sources import parse_bridges, parse_ovsdb
from tests.unit.controller.spanning_tree.test_snmp import tables
from tests.unit.controller.spanning_tree.test_tree_sources import ovsdb
from topology.fabric import FabricBuilder
from topology.problems import FabricError

HOSTILE = "s1\x1b]0;owned\x07\n2026 up"


def described(name: str, number: int) -> parser.OFPPort:
    """A port as the framework reads it from a switch's answer."""
    raw = struct.pack(of.OFP_PORT_PACK_STR, number, bytes(6), name.encode()[:16], 0, 0, 0, 0, 0, 0, 0, 0)
    return parser.OFPPort.parser(raw, 0)


def datapath(*ports: parser.OFPPort) -> SimpleNamespace:
    return SimpleNamespace(id=1, ofproto=of, ofproto_parser=parser, ports={port.port_no: port for port in ports})


class TestOpenFlow:
    """What a switch says when it connects, or when a port changes."""

    def test_a_port(self) -> None:
        made = datapath(described("p1\x1b[2J\n", 1))
        assert next(codec.ports(made)).name == "p1?[2J?"

    def test_a_switch_whose_name_no_fabric_can_have_is_still_learned(self) -> None:
        name = codec.bridge_name(datapath(described(HOSTILE, of.OFPP_LOCAL)))
        assert name.isprintable() and not any(one.isspace() for one in name)
        document = FabricLearner().document(View({1: Switch(1, name, {})}, (), frozenset(), {}))
        assert [switch["name"] for switch in document["fabric"]["switches"]] == [name]


class TestOtherSources:
    """SNMP, OVSDB, Linux bridges, and the fabric's file."""

    def test_snmp(self) -> None:
        found = port_states("s1", tables(IF_NAME={(11,): b"p\x1b1\n"}))
        assert {state.port for state in found} == {"p?1?"}

    def test_ovsdb(self) -> None:
        found = parse_ovsdb(ovsdb({}, {"p\x1b1": ({}, {}, "up")}))
        assert {state.port for state in found} == {"p?1"}

    def test_linux_bridges(self) -> None:
        port = {"master": "b\x1b0", "ifname": "p\n1", "state": "forwarding", "flags": ["LOWER_UP"]}
        (found,) = parse_bridges(json.dumps([port]))
        assert (found.switch, found.port) == ("b?0", "p?1")

    def test_a_port_of_the_fabric_file(self) -> None:
        builder = FabricBuilder().add_switch("s1").add_switch("s2")
        with pytest.raises(FabricError, match="a_port") as caught:
            builder.add_link("s1", "s2", 10**9, "p\x1b1")
        assert "\x1b" not in str(caught.value)
