"""Which fabrics can be emulated, and the names of their interfaces."""

from __future__ import annotations

import re

import pytest

from emulation.fabric.naming import EmulationError, check, interfaces, mac_address
from topology import shapes
from topology.fabric import Fabric, FabricBuilder


def fabric(host: str = "h1", switch: str = "s1", rate_bps: int = 10**8, port: str | None = None) -> Fabric:
    builder = FabricBuilder().add_switch(switch).add_host(host, ["10.0.0.1"]).add_host("h2", ["10.0.0.2"])
    return builder.add_link(host, switch, rate_bps, port).add_link("h2", switch, 10**8).build()


@pytest.mark.parametrize("name", ["h1", "1", "rack-1.h_2", "h\u00e9"])
def test_ordinary_names_are_taken(name: str) -> None:
    check(fabric(name), exact_links=False)
    check(fabric(switch=name if name != "h1" else "core"), exact_links=False)


@pytest.mark.parametrize("name", ["h;reboot", "$(reboot)", "a/b", "a:b", "-h", "..", "h'1", "a|b", "coord"])
def test_a_name_that_a_shell_or_the_kernel_reads_otherwise_is_refused(name: str) -> None:
    """Mininet gives names to a shell that runs as root."""
    for made in (fabric(name), fabric(switch=name)):
        with pytest.raises(EmulationError) as refused:
            check(made, exact_links=False)
        assert repr(name) in str(refused.value)


@pytest.mark.parametrize("port", ["x;reboot1", "a/b-eth0", "eth", "a-very-long-name0", "eth\u0661"])
def test_a_port_that_cannot_be_an_interface_is_refused(port: str) -> None:
    with pytest.raises(EmulationError, match="cannot be an interface"):
        interfaces(fabric(port=port))
    assert "eth7" in interfaces(fabric(port="eth7")).values()


def test_two_ports_with_one_name_or_one_number_are_refused_by_both_their_links() -> None:
    """All switches share a namespace, and the number at the end of the name is the port's at its switch."""

    def made(*ports: str | None) -> Fabric:
        builder = FabricBuilder().add_switch("s1").add_switch("s2").add_host("h1").add_host("h2")
        builder.add_link("h1", "s1", 10**8, "eth0", ports[0]).add_link("h2", "s2", 10**8, "eth0", ports[1])
        return builder.add_link("s1", "s2", 10**8, ports[2], ports[3]).build()

    assert len(interfaces(made("s1-eth1", None, "s1-eth2", None))) == 6
    with pytest.raises(EmulationError, match=r"s2-h2: 'eth1' has the name of the port for s1-h1"):
        interfaces(made("eth1", "eth1", None, None))
    with pytest.raises(EmulationError, match=r"s1-s2: 's1-eth2' has the name of the port for s1-h1"):
        interfaces(made("s1-eth2", None, None, None))
    with pytest.raises(EmulationError, match=r"s1-s2: 'up1' has the number of the port for s1-h1"):
        interfaces(made("down1", None, "up1", None))


def test_links_faster_than_the_kernel_shapes_need_virtual_time() -> None:
    check(shapes.star(hosts=2, rate_bps=34 * 10**9), exact_links=False)
    for rate_bps in (40 * 10**9, 200 * 10**9):
        check(shapes.star(hosts=2, rate_bps=rate_bps), exact_links=True)
        with pytest.raises(EmulationError, match=r"h1-s1: .*Gbit is too fast.*34Gbit"):
            check(shapes.star(hosts=2, rate_bps=rate_bps), exact_links=False)


def test_a_fabric_needs_a_host_and_each_host_a_link() -> None:
    with pytest.raises(EmulationError, match="no host"):
        check(FabricBuilder().add_switch("s1").build(), exact_links=False)
    with pytest.raises(EmulationError, match="h1 has no link"):
        check(FabricBuilder().add_switch("s1").add_host("h1", ["10.0.0.1"]).build(), exact_links=False)


def test_each_of_many_vms_has_a_mac_address_of_its_own() -> None:
    made = [mac_address(vm, host) for vm in (0, 1, 255, 256, 300, 1023) for host in (1, 255, 256, 65_535)]
    assert all(re.fullmatch("02(:[0-9a-f]{2}){5}", mac) for mac in made) and len(set(made)) == len(made), made
    assert mac_address(1, 2) == "02:00:01:00:00:02"
