"""Hosts that lie to a running controller: forged LLDP, another host's address, a flood of addresses; and one that really moves.

s1 --- s2      h1, h3 and the attacker x are at s1; h2, h4 and the coordinator's port c at s2.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from controller.store.store import Store
from tests.emulation.controller.openflow.openflow_ring import COMMANDS, IP, MAC, PORT, Ring, octets
from tests.emulation.ovs_private import PrivateNetwork, missing, run, until

pytestmark = [pytest.mark.skipif(missing() is not None, reason=str(missing()))]

AT = {"h1": "s1", "h2": "s2", "h3": "s1", "h4": "s2", "c": "s2", "x": "s1"}
HONEST = tuple(name for name in AT if name != "x")
MACS, IPS = {**MAC, "x": "02:00:00:00:00:66"}, {**IP, "x": "10.0.0.66"}
ETH_LLDP, ETH_ARP, ETH_TEST = 0x88CC, 0x0806, 0x88B6
LLDP_MAC, BROADCAST = octets("01:80:c2:00:00:0e"), b"\xff" * 6


@dataclass
class Site(Ring):
    """Two switches with these hosts."""

    def places(self) -> dict[str, str]:
        """The published host of each address: port by MAC address."""
        return {mac: host["port"] for host in self.fabric().get("hosts", []) for mac in host["macs"]}

    def learnt(self) -> bool:
        return all(self.places().get(MACS[name]) == f"{AT[name]}-{name}" for name in HONEST)

    def events(self) -> list[str]:
        return [event["kind"] for event in self.store.events(500)]

    def ofport(self, switch: str, name: str) -> int:
        return int(self.network.ovs.vsctl("get", "Interface", f"{switch}-{name}", "ofport"))

    def flows(self, switch: str) -> int:
        return self.network.ovs.ofctl("dump-flows", switch, "--no-stats").count("table=")

    def counted(self, name: str) -> int:
        refused: dict[str, int] = (self.store.ports() or {}).get("refused", {})
        return refused.get(name, 0)


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with PrivateNetwork() as network:
        path = network.directory / "redis.sock"
        directory = ("--save", "", "--dir", str(network.directory))
        network.spawn("redis", "redis-server", "--port", "0", "--unixsocket", str(path), *directory)
        store = Store(f"unix://{path}?db=0")
        store.connection.wait(5)
        site = Site(network, request.param, store)
        for dpid, name in enumerate(("s1", "s2"), 1):
            network.add_switch(name, dpid, f"tcp:127.0.0.1:{PORT}")
        network.add_link("s1", "s1-s2", "s2", "s2-s1")
        for name, switch in AT.items():
            network.add_host(name, switch, f"{switch}-{name}", MACS[name], f"{IPS[name]}/24")
        site.start_controller()
        try:
            until(lambda: all(site.ping(name, "h1", 0.5) for name in HONEST[1:]) and site.learnt(), 30, "all hosts learnt")
            yield site
        finally:
            if request.session.testsfailed:
                print(network.log("controller")[-6000:])
            store.close()


def forged_lldp(dpid: int, port: int, source: str) -> bytes:
    """As Ryu's and os-ken's discovery writes it."""
    chassis = b"\x07" + b"dpid:%016x" % dpid
    body = struct.pack("!H", 1 << 9 | len(chassis)) + chassis + struct.pack("!HBIHHH", 2 << 9 | 5, 2, port, 3 << 9 | 2, 120, 0)
    return LLDP_MAC + octets(source) + ETH_LLDP.to_bytes(2) + body + bytes(60)


def announcement(mac: str, address: str) -> bytes:
    """A gratuitous ARP."""
    ip = socket.inet_aton(address)
    arp = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, octets(mac), ip, bytes(6), ip)
    return BROADCAST + octets(mac) + ETH_ARP.to_bytes(2) + arp + bytes(18)


def test_forged_lldp_closes_no_port_and_is_told(site: Site) -> None:
    attacker = site.network.raw_socket("x", ETH_LLDP)
    named = [(1, site.ofport("s1", name)) for name in ("h1", "h3", "s2")]
    named += [(2, site.ofport("s2", name)) for name in ("h2", "h4", "c", "s1")]
    for _ in range(3):
        for dpid, port in named:
            attacker.send(forged_lldp(dpid, port, MACS["x"]))
        time.sleep(0.3)
    time.sleep(1)
    assert site.learnt(), site.places()
    assert site.links() == {("s1", "s2")}
    for name in HONEST[1:]:
        assert site.ping(name, "h1"), name
    until(lambda: "lldp_forged" in site.events() and site.counted("lldp_forged") > 0, 5, "it is told and counted")


def test_a_flood_of_lldp_is_kept_from_the_controller(site: Site) -> None:
    attacker = site.network.raw_socket("x", ETH_LLDP)
    before = site.counted("lldp_forged")
    until_s = time.monotonic() + 3
    sent = 0
    while time.monotonic() < until_s:
        for port in range(50):
            attacker.send(forged_lldp(1, port, MACS["x"]))
            sent += 1
        time.sleep(0.005)
    until(lambda: "port_muted" in site.events(), 5, "the port is muted")
    assert sent > 5_000
    assert "meter=controller pktps" in site.network.ovs.ofctl("dump-meters", "s1")
    time.sleep(0.6)
    assert site.counted("lldp_forged") - before < 200
    assert site.learnt() and site.links() == {("s1", "s2")}
    assert site.ping("h2", "h1")


def test_frames_with_anothers_address_do_not_take_it(site: Site) -> None:
    time.sleep(5.5)  # the mute of the test before is over
    attacker = site.network.raw_socket("x", ETH_TEST)
    frame = BROADCAST + octets(MACS["h2"]) + ETH_TEST.to_bytes(2) + bytes(46)
    for _ in range(20):
        attacker.send(frame)
        time.sleep(0.1)
        assert site.places()[MACS["h2"]] == "s2-h2"
    time.sleep(1)
    assert site.places()[MACS["h2"]] == "s2-h2"
    assert site.ping("h1", "h2")
    until(lambda: "move_refused" in site.events() and site.counted("moves_refused") > 0, 5, "it is told and counted")


def test_a_host_that_really_moves_is_found_by_its_announcement(site: Site) -> None:
    """As a VM that migrates: its old port stays up, and it announces itself at the new one."""
    assert site.places()[MACS["h4"]] == "s2-h4"
    with_h4 = site.network.raw_socket("h3", ETH_ARP)
    run("ip", "-n", site.network.host_namespace("h4"), "address", "flush", "dev", "eth0")  # it is not there any more
    began = time.monotonic()
    with_h4.send(announcement(MACS["h4"], IPS["h4"]))
    until(lambda: site.places().get(MACS["h4"]) == "s1-h3", 3, "h4 is found at h3's port")
    print(f"\n{site.framework}: moved and published after {(time.monotonic() - began) * 1000:.0f} ms")
    assert "host_moved" in site.events()


def test_a_thousand_addresses_make_few_flows_and_are_told(site: Site) -> None:
    attacker = site.network.raw_socket("x", ETH_TEST)
    before = site.flows("s1") + site.flows("s2")
    for number in range(1_024):
        attacker.send(BROADCAST + bytes((2, 0xFF, 0, 0, number >> 8, number & 255)) + ETH_TEST.to_bytes(2) + bytes(46))
        time.sleep(0.002)
    time.sleep(2)
    grown = site.flows("s1") + site.flows("s2") - before
    print(f"\n{site.framework}: {grown} flows for 1,024 addresses")
    assert grown < 150 * 6
    until(lambda: "hosts_not_learnt" in site.events() and site.counted("hosts_not_learnt") > 0, 5, "it is told and counted")
    assert site.ping("h2", "h1")


def test_a_bridge_between_two_ports_makes_no_storm(site: Site) -> None:
    """A Linux bridge that runs no spanning tree, as a host's or an unmanaged switch, joins two switches a second time."""
    network = site.network
    network.ip("link", "add", "loop", "type", "bridge", "stp_state", "0")
    network.ip("link", "set", "loop", "up")
    for switch in ("s1", "s2"):
        port = f"{switch}-loop"
        network.ip("link", "add", port, "type", "veth", "peer", "name", f"{port}-b")
        for name in (port, f"{port}-b"):
            network.ip("link", "set", name, "up")
        network.ovs.vsctl("add-port", switch, port)
    try:
        time.sleep(1)  # both are open to hosts by now, and no carrier changes
        for switch in ("s1", "s2"):
            network.ip("link", "set", f"{switch}-loop-b", "master", "loop")
        site.ping("h1", "h2", 0.3)
        until(lambda: "loop" in site.events(), 30, "it is told")
        until(lambda: site.ping("h1", "h2", 0.3), 10, "traffic passes")

        def received() -> int:
            told = network.ovs.ofctl("dump-ports", "s1", "s1-loop")
            return int(told.partition("rx pkts=")[2].partition(",")[0])

        time.sleep(1)
        before = received()
        network.raw_socket("h1", ETH_TEST).send(BROADCAST + octets(MACS["h1"]) + ETH_TEST.to_bytes(2) + bytes(46))
        time.sleep(1)
        assert received() - before < 20
        assert site.links() == {("s1", "s2")}
    finally:
        network.ip("link", "del", "loop")
        for switch in ("s1", "s2"):
            network.ovs.vsctl("del-port", switch, f"{switch}-loop")
            network.ip("link", "del", f"{switch}-loop")


def test_two_bridges_that_alone_join_two_switches_make_no_storm(site: Site) -> None:
    """Linux bridges pass on no LLDP, so neither is a link; the switches have none of their own meanwhile."""
    network = site.network
    told = site.events().count("loop")
    network.ip("link", "set", "s1-s2", "down")
    until(lambda: not site.links(), 20, "their link is gone")
    names = [(bridge, switch) for bridge in ("one", "two") for switch in ("s1", "s2")]

    def received() -> int:
        counts = [network.ovs.ofctl("dump-ports", switch, f"{switch}-{bridge}") for bridge, switch in names]
        return sum(int(each.partition("rx pkts=")[2].partition(",")[0]) for each in counts)

    try:
        for bridge in ("one", "two"):
            network.ip("link", "add", bridge, "type", "bridge", "stp_state", "0")
            network.ip("link", "set", bridge, "up")
        for bridge, switch in names:
            port = f"{switch}-{bridge}"
            network.ip("link", "add", port, "type", "veth", "peer", "name", f"{port}-b")
            for name in (port, f"{port}-b"):
                network.ip("link", "set", name, "up")
            network.ovs.vsctl("add-port", switch, port)
            network.ip("link", "set", f"{port}-b", "master", bridge)
        until(lambda: site.events().count("loop") > told, 30, "it is told")
        until(lambda: site.ping("h1", "h2", 0.3), 20, "traffic passes by the other bridge")
        time.sleep(1)
        before = received()
        network.raw_socket("h1", ETH_TEST).send(BROADCAST + octets(MACS["h1"]) + ETH_TEST.to_bytes(2) + bytes(46))
        time.sleep(1)
        assert received() - before < 40
    finally:
        for bridge in ("one", "two"):
            network.ip("link", "del", bridge)
        for bridge, switch in names:
            network.ovs.vsctl("del-port", switch, f"{switch}-{bridge}")
            network.ip("link", "del", f"{switch}-{bridge}")
        network.ip("link", "set", "s1-s2", "up")
