"""What OVSDB and `bridge link` say, and the tree that follows; the answers are as OVS 3.1 and iproute2 6.1 give them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from controller.spanning_tree.sources import PortState, parse_bridges, parse_ovsdb, tree_from_port_states
from tests.unit.topology.topology_strategies import PROPERTY, fabrics
from topology import shapes
from topology.fabric import Fabric, FabricBuilder, Link
from topology.problems import FabricError
from topology.spanning_tree import compute


def ovsdb(bridge: dict[str, bool], ports: dict[str, tuple[dict[str, str], dict[str, str], str]]) -> str:
    """The answer for one bridge with ports of (rstp_status, status, link state)."""
    uuids = {name: ["uuid", f"port-{name}"] for name in ports}
    references = ["set", list(uuids.values())] if len(ports) != 1 else next(iter(uuids.values()))
    tables = [
        {
            "headings": ["name", "ports", "rstp_enable", "stp_enable"],
            "data": [["s1", references, bridge.get("rstp", False), bridge.get("stp", False)]],
        },
        {
            "headings": ["_uuid", "name", "interfaces", "rstp_status", "status"],
            "data": [
                [uuids[name], name, ["uuid", f"if-{name}"], ["map", list(rstp.items())], ["map", list(stp.items())]]
                for name, (rstp, stp, _) in ports.items()
            ],
        },
        {
            "headings": ["_uuid", "link_state"],
            "data": [[["uuid", f"if-{name}"], link or ["set", []]] for name, (_, _, link) in ports.items()],
        },
    ]
    return "\n".join(json.dumps(table) for table in tables) + "\n"


class TestOvsdb:
    """Bridges of Open vSwitch."""

    @pytest.mark.parametrize(
        ("state", "forwarding"),
        [("Forwarding", True), ("Discarding", False), ("Learning", False), ("Disabled", False)],
    )
    def test_with_rstp_a_port_forwards_when_its_rstp_state_says_so(self, state: str, forwarding: bool) -> None:
        text = ovsdb({"rstp": True}, {"p1": ({"rstp_port_state": state}, {}, "up"), "s1": ({}, {}, "down")})
        assert parse_ovsdb(text) == {PortState("s1", "p1", forwarding)}

    @pytest.mark.parametrize(
        ("state", "forwarding"),
        [("forwarding", True), ("blocking", False), ("listening", False), ("learning", False), ("disabled", False)],
    )
    def test_with_stp_a_port_forwards_when_its_stp_state_says_so(self, state: str, forwarding: bool) -> None:
        text = ovsdb({"stp": True}, {"p1": ({}, {"stp_state": state}, "up")})
        assert parse_ovsdb(text) == {PortState("s1", "p1", forwarding)}

    def test_a_state_left_over_from_a_protocol_that_is_off_is_no_matter(self) -> None:
        text = ovsdb({}, {"p1": ({"rstp_port_state": "Discarding"}, {"stp_state": "blocking"}, "up")})
        assert parse_ovsdb(text) == {PortState("s1", "p1", True)}

    def test_a_port_that_takes_no_part_in_the_protocol_forwards(self) -> None:
        assert parse_ovsdb(ovsdb({"rstp": True}, {"p1": ({}, {}, "up")})) == {PortState("s1", "p1", True)}

    @pytest.mark.parametrize(("link", "forwarding"), [("up", True), ("", True), ("down", False)])
    def test_without_a_protocol_a_port_forwards_while_its_link_is_not_down(self, link: str, forwarding: bool) -> None:
        assert parse_ovsdb(ovsdb({}, {"p1": ({}, {}, link)})) == {PortState("s1", "p1", forwarding)}

    @pytest.mark.parametrize("text", ["", "{}", "{}\n{}\n{}", "null\nnull\nnull", "no JSON"])
    def test_anything_else_is_an_error_that_the_reader_expects(self, text: str) -> None:
        with pytest.raises((ValueError, KeyError, TypeError)):
            parse_ovsdb(text)


def test_a_port_of_a_linux_bridge_forwards_when_its_state_says_so_and_its_link_is_up() -> None:
    up, down = ["BROADCAST", "UP", "LOWER_UP"], ["NO-CARRIER", "BROADCAST", "UP"]
    ports = [
        {"ifname": "eth1", "flags": up, "master": "br0", "state": "forwarding"},
        {"ifname": "eth2", "flags": up, "master": "br0", "state": "blocking"},
        {"ifname": "eth3", "flags": up, "master": "br0", "state": "learning"},
        {"ifname": "eth4", "flags": down, "master": "br0", "state": "forwarding"},
        {"ifname": "eth5", "flags": up},
    ]
    expected = {PortState("br0", f"eth{number}", number == 1) for number in (1, 2, 3, 4)}
    assert parse_bridges(json.dumps(ports)) == expected
    assert parse_bridges("") == frozenset()


def all_ports(fabric: Fabric) -> set[PortState]:
    return {
        PortState(direction.source, port, True)
        for link in fabric.links
        for direction in link.directions
        if not fabric.is_host(direction.source) and (port := fabric.port(direction)) is not None
    }


class TestTheTree:
    """From the states of ports to the tree."""

    def test_a_link_is_blocked_when_either_end_is(self) -> None:
        fabric = shapes.ring(switches=4)
        for link in (Link("s1", "s2"), Link("s3", "s4")):
            for end in link.directions:
                port = fabric.port(end)
                states = {state if state.port != port else state._replace(forwarding=False) for state in all_ports(fabric)}
                assert tree_from_port_states(fabric, states).blocked == {link}

    def test_a_port_that_its_switch_does_not_have_any_more_blocks_its_link(self) -> None:
        fabric = shapes.ring(switches=3)
        gone = fabric.port(("s1", "s2"))
        states = {state for state in all_ports(fabric) if state.port != gone}
        assert tree_from_port_states(fabric, states).blocked == {Link("s1", "s2")}

    def test_switches_that_do_not_report_and_ports_without_a_name_block_nothing(self) -> None:
        fabric = shapes.star()
        assert not tree_from_port_states(fabric, []).blocked
        assert not tree_from_port_states(fabric, [PortState("elsewhere", "eth1", False)]).blocked
        nameless = FabricBuilder().add_switch("a").add_switch("b").add_link("a", "b", 1).build()
        assert not tree_from_port_states(nameless, [PortState("a", "eth1", False)]).blocked

    def test_a_loop_seen_while_the_tree_converges_is_refused(self) -> None:
        fabric = shapes.ring(switches=3)
        with pytest.raises(FabricError, match="loop"):
            tree_from_port_states(fabric, all_ports(fabric))

    @PROPERTY
    @given(fabrics())
    def test_switches_that_compute_as_we_do_give_our_tree(self, fabric: Fabric) -> None:
        builder = FabricBuilder()
        for name in fabric.switches:
            builder.add_switch(name, dpid=fabric.switch(name).dpid, priority=fabric.switch(name).priority)
        for name in fabric.hosts:
            builder.add_host(name)
        for a, b in fabric.links:
            rates_bps = fabric.capacity_bps((a, b)), fabric.capacity_bps((b, a))
            builder.add_link(a, b, rates_bps[0], f"to {b}", f"to {a}", rates_bps[1])
        named = builder.build()
        tree = compute(named)
        states = {
            PortState(direction.source, f"to {direction.target}", link not in tree.blocked)
            for link in named.links
            for direction in link.directions
            if not named.is_host(direction.source)
        }
        assert tree_from_port_states(named, states) == tree
