"""The topology, compared byte for byte with what Ryu's own classes write of the same network."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from topology.fabric import Fabric, FabricBuilder
from webui.http.ryu_topology import UNKNOWN_MAC, topology

# Ryu's wsgi module imports a name that eventlet has dropped: see controller/openflow/framework.py.
wsgi = pytest.importorskip("eventlet.wsgi")
if not hasattr(wsgi, "ALREADY_HANDLED"):
    wsgi.ALREADY_HANDLED = object()
switches = pytest.importorskip("ryu.topology.switches")

FABRIC = (
    FabricBuilder()
    .add_switch("s1", dpid=1)
    .add_switch("s2", dpid=0xFEDCBA9876543210)
    .add_host("h1", ["10.0.0.1", "10.0.0.11", "fd00::1"], "02:00:00:00:00:01")
    .add_link("s1", "s2", 100, a_port="s1-eth2", b_port="s2-eth10")
    .add_link("s1", "h1", 100, a_port="s1-eth1")
    .build()
)
DOCUMENT = {
    "ports": {
        "s1": [[1, "s1-eth1", "aa:00:00:00:00:01"], [2, "s1-eth2", "aa:00:00:00:00:02"], [3, "spare", "aa:00:00:00:00:03"]],
        "s2": [[10, "s2-eth10", "bb:00:00:00:00:0a"]],
    }
}


def ryu_port(dpid: int, number: int, mac: str, name: str) -> Any:  # noqa: ANN401 -- Ryu publishes no types
    return switches.Port(dpid, None, SimpleNamespace(port_no=number, hw_addr=mac, name=name.encode(), state=0, config=0))


S1 = [ryu_port(1, number, mac, name) for number, name, mac in DOCUMENT["ports"]["s1"]]
S2 = [ryu_port(0xFEDCBA9876543210, number, mac, name) for number, name, mac in DOCUMENT["ports"]["s2"]]


def ryu_switch(dpid: int, ports: list[Any]) -> dict[str, Any]:
    switch = switches.Switch(SimpleNamespace(id=dpid))
    switch.ports = ports
    found: dict[str, Any] = switch.to_dict()
    return found


class TestAsRyu:
    """json.dumps of Ryu's classes and of ours are the same text."""

    def test_switches_are_those_of_ryu_also_with_ids_of_64_bits(self) -> None:
        theirs = [ryu_switch(1, S1), ryu_switch(0xFEDCBA9876543210, S2)]
        assert json.dumps(topology(FABRIC, DOCUMENT).switches) == json.dumps(theirs)

    def test_links_are_those_of_ryu_one_for_each_direction(self) -> None:
        theirs = [switches.Link(S1[1], S2[0]).to_dict(), switches.Link(S2[0], S1[1]).to_dict()]
        assert json.dumps(topology(FABRIC, DOCUMENT).links) == json.dumps(theirs)

    def test_a_host_is_that_of_ryu_with_all_its_addresses(self) -> None:
        host = switches.Host("02:00:00:00:00:01", S1[0])
        host.ipv4, host.ipv6 = ["10.0.0.1", "10.0.0.11"], ["fd00::1"]
        assert json.dumps(topology(FABRIC, DOCUMENT).hosts) == json.dumps([host.to_dict()])


class TestWhatIsNotKnown:
    """Numbers that are made up for switches that Baton does not control stay the same."""

    BARE = FabricBuilder().add_switch("a").add_switch("b", dpid=1).add_host("h1").add_link("a", "b", 9).add_link("a", "h1", 9)

    def test_datapath_ids_are_numbers_that_are_not_taken(self) -> None:
        found = topology(self.BARE.build(), {})
        assert [switch["dpid"] for switch in found.switches] == ["0000000000000002", "0000000000000001"]

    def test_port_numbers_of_one_switch_differ(self) -> None:
        found = topology(self.BARE.build(), {})
        numbers = [port["port_no"] for port in found.switches[0]["ports"]]
        assert len(set(numbers)) == len(numbers) == 2 and found.hosts[0]["mac"] == UNKNOWN_MAC

    def test_a_host_with_several_addresses_is_told_by_each_mac(self) -> None:
        document = {**DOCUMENT, "hosts": [{"name": "h1", "macs": ["02:00:00:00:00:01", "02:00:00:00:00:99"]}]}
        found = topology(FABRIC, document).hosts
        assert [(host["mac"], len(host["ipv4"])) for host in found] == [("02:00:00:00:00:01", 2), ("02:00:00:00:00:99", 0)]

    def test_an_unplugged_host_and_an_empty_fabric_are_no_error(self) -> None:
        assert topology(FabricBuilder().add_host("h1").build(), {}) == ([], [], [])
        assert topology(Fabric.from_dict({"switches": [], "hosts": [], "links": []}), {}) == ([], [], [])
