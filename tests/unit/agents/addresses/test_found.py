"""From the kernel's messages to the addresses that live at a host."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.addresses import tables as t
from agents.addresses.found import Found, chosen, described, search
from agents.addresses.tables import Address, Tables
from agents.kernel.netlink import attribute

ETH0, BR0, TAP0, VLAN, OTHER = 2, 3, 4, 5, 6
VM, ROUTER = bytes.fromhex("020000000050"), bytes.fromhex("020000000001")


def number(value: int) -> bytes:
    return struct.pack("I", value)


def link(index: int, name: str, kind: str = "", *, master: int = 0, lower: int = 0, elsewhere: bool = False) -> bytes:
    body = struct.pack("BxHiII", 0, 1, index, t.IFF_LOWER_UP, 0) + attribute(t.IFLA_IFNAME, name.encode() + b"\0")
    if kind:
        body += attribute(t.IFLA_LINKINFO, attribute(t.IFLA_INFO_KIND, kind.encode() + b"\0"))
    for field, value in ((t.IFLA_MASTER, master), (t.IFLA_LINK, lower), (t.IFLA_LINK_NETNSID, int(elsewhere))):
        body += attribute(field, number(value)) if value else b""
    return body


def address(index: int, text: str, flags: int = 0) -> bytes:
    made = ip_address(text)
    body = struct.pack("BBBBI", t.AF_INET if made.version == 4 else t.AF_INET6, 24, 0, 0, index)
    return body + attribute(t.IFA_ADDRESS, made.packed) + attribute(t.IFA_FLAGS, number(flags))


def neighbour(index: int, text: str, mac: bytes, state: int = t.NUD_STALE) -> bytes:
    made = ip_address(text)
    body = struct.pack("BxxxiHBB", t.AF_INET if made.version == 4 else t.AF_INET6, index, state, 0, 0)
    return body + attribute(t.NDA_DST, made.packed) + attribute(t.NDA_LLADDR, mac)


def station(port: int, mac: bytes, bridge: int = BR0, state: int = t.NUD_REACHABLE) -> bytes:
    body = struct.pack("BxxxiHBB", t.AF_BRIDGE, port, state, 0, 0)
    return body + attribute(t.NDA_LLADDR, mac) + attribute(t.NDA_MASTER, number(bridge))


def host(*bodies: tuple[int, bytes]) -> Tables:
    """A host whose eth0 and tap0 are ports of br0, with a VLAN on the bridge, and an interface that is neither."""
    made = Tables()
    for body in (
        link(ETH0, "eth0", master=BR0), link(BR0, "br0", "bridge"), link(TAP0, "tap0", "tun", master=BR0),
        link(VLAN, "br0.10", "vlan", lower=BR0), link(OTHER, "other", "veth", lower=ETH0, elsewhere=True),
    ):  # fmt: skip
        assert made.take(t.RTM_NEWLINK, body)
    for kind, body in bodies:
        made.take(kind, body)
    return made


def texts(addresses: tuple[Address, ...]) -> list[str]:
    return [str(a) for a in addresses]


class TestTheSearch:
    """What belongs to an interface."""

    def test_its_bridge_and_the_bridges_vlans_do_and_other_interfaces_do_not(self) -> None:
        tables = host(
            (t.RTM_NEWADDR, address(BR0, "10.0.0.1")), (t.RTM_NEWADDR, address(VLAN, "10.10.0.1")),
            (t.RTM_NEWADDR, address(OTHER, "10.3.0.1")), (t.RTM_NEWADDR, address(BR0, "fd00::1")),
        )  # fmt: skip
        assert texts(search(tables, ETH0).own) == ["10.0.0.1", "10.10.0.1", "fd00::1"]

    @pytest.mark.parametrize("text", ["fe80::1", "169.254.3.4", "127.0.0.1"])
    def test_addresses_that_exist_on_every_link_do_not(self, text: str) -> None:
        assert search(host((t.RTM_NEWADDR, address(BR0, text))), ETH0).own == ()

    @pytest.mark.parametrize("flag", [t.IFA_F_TENTATIVE, t.IFA_F_DADFAILED])
    def test_an_address_counts_once_nobody_else_has_it(self, flag: int) -> None:
        tables = host((t.RTM_NEWADDR, address(BR0, "fd00::1", flag)))
        assert not search(tables, ETH0).own
        assert tables.take(t.RTM_NEWADDR, address(BR0, "fd00::1")) and texts(search(tables, ETH0).own) == ["fd00::1"]

    def test_a_station_at_another_port_does_by_the_neighbour_tables_of_the_bridge_and_its_vlans(self) -> None:
        tables = host((t.RTM_NEWNEIGH, station(TAP0, VM)))
        assert search(tables, ETH0).unknown_stations == 1
        tables.take(t.RTM_NEWNEIGH, neighbour(BR0, "10.0.0.50", VM))
        tables.take(t.RTM_NEWNEIGH, neighbour(VLAN, "10.10.0.50", VM))
        tables.take(t.RTM_NEWNEIGH, neighbour(OTHER, "10.3.0.50", VM))
        found = search(tables, ETH0)
        assert found == Found((), (IPv4Address("10.0.0.50"), IPv4Address("10.10.0.50")), 0, ("br0",))
        assert found.ports == dict.fromkeys(found.behind, TAP0)
        assert {ETH0, BR0, VLAN} <= found.carriers and not {TAP0, OTHER} & found.carriers

    def test_an_address_at_two_ports_or_of_the_host_itself_is_nobodys(self) -> None:
        tables = host(
            (t.RTM_NEWNEIGH, station(TAP0, VM)), (t.RTM_NEWNEIGH, neighbour(BR0, "10.0.0.50", VM)),
            (t.RTM_NEWNEIGH, station(OTHER, ROUTER)), (t.RTM_NEWNEIGH, neighbour(VLAN, "10.0.0.50", ROUTER)),
            (t.RTM_NEWADDR, address(BR0, "10.0.0.1")), (t.RTM_NEWNEIGH, neighbour(VLAN, "10.0.0.1", VM)),
        )  # fmt: skip
        found = search(tables, ETH0)
        assert texts(found.behind) == ["10.0.0.50"] and not found.ports

    def test_a_station_at_the_interface_itself_is_in_the_fabric(self) -> None:
        tables = host((t.RTM_NEWNEIGH, station(ETH0, ROUTER)), (t.RTM_NEWNEIGH, neighbour(BR0, "10.0.0.9", ROUTER)))
        assert search(tables, ETH0) == Found(bridges=("br0",))

    def test_a_vm_that_has_moved_to_another_host_is_followed(self) -> None:
        tables = host((t.RTM_NEWNEIGH, station(TAP0, VM)), (t.RTM_NEWNEIGH, neighbour(BR0, "10.0.0.50", VM)))
        assert tables.take(t.RTM_NEWNEIGH, station(ETH0, VM)) and not search(tables, ETH0).behind

    def test_ports_own_addresses_groups_and_unresolved_neighbours_are_none(self) -> None:
        tables = host(
            (t.RTM_NEWNEIGH, station(TAP0, VM, state=t.NUD_PERMANENT)),
            (t.RTM_NEWNEIGH, station(TAP0, bytes.fromhex("333300000001"))),
            (t.RTM_NEWNEIGH, neighbour(BR0, "10.0.0.50", VM, 0x20)),
        )
        assert not tables.stations and not tables.neighbours

    def test_an_interface_that_is_gone_takes_everything_with_it(self) -> None:
        tables = host((t.RTM_NEWADDR, address(BR0, "10.0.0.1")), (t.RTM_NEWNEIGH, station(TAP0, VM)))
        assert tables.take(t.RTM_DELLINK, link(BR0, "br0", "bridge"))
        assert not tables.addresses and not tables.stations

    def test_a_bridge_that_loses_a_port_has_not_lost_the_interface(self) -> None:
        tables = host((t.RTM_NEWADDR, address(ETH0, "10.0.0.1")))
        left = struct.pack("BxHiII", t.AF_BRIDGE, 1, ETH0, 0, 0)
        assert not tables.take(t.RTM_DELLINK, left) and texts(search(tables, ETH0).own) == ["10.0.0.1"]


class TestADump:
    """What the kernel does not show any more is gone; what it tells meanwhile stays."""

    def test_lost_changes_are_made_up_for(self) -> None:
        tables = host((t.RTM_NEWADDR, address(ETH0, "10.0.0.1")), (t.RTM_NEWADDR, address(ETH0, "10.0.0.2")))
        tables.begin(t.RTM_GETADDR, t.AF_UNSPEC)
        tables.take(t.RTM_NEWADDR, address(ETH0, "10.0.0.2"))
        tables.take(t.RTM_NEWADDR, address(ETH0, "10.0.0.3"))
        assert tables.end() and texts(search(tables, ETH0).own) == ["10.0.0.2", "10.0.0.3"]
        assert len(tables.links) == 5

    def test_tables_are_bounded(self) -> None:
        tables = host()
        for n in range(2 * t.MOST_ENTRIES):
            tables.take(t.RTM_NEWNEIGH, station(TAP0, b"\x02" + n.to_bytes(5, "big")))
            tables.take(t.RTM_NEWNEIGH, neighbour(BR0, str(IPv4Address(n + (10 << 24))), b"\x02" + n.to_bytes(5, "big")))
        assert len(tables.stations) == len(tables.neighbours) == t.MOST_ENTRIES

    def test_many_neighbours_of_one_interface_take_no_room_from_those_of_another(self) -> None:
        tables = host((t.RTM_NEWNEIGH, station(TAP0, VM)))
        crowd = [neighbour(OTHER, str(IPv4Address(n + (10 << 24))), ROUTER) for n in range(t.MOST_ENTRIES + 1)]
        for body in crowd:
            tables.take(t.RTM_NEWNEIGH, body)
        assert tables.full == {OTHER}
        tables.take(t.RTM_NEWNEIGH, neighbour(BR0, "10.0.0.50", VM))
        assert texts(search(tables, ETH0).behind) == ["10.0.0.50"]
        assert not tables.take(t.RTM_NEWNEIGH, crowd[-1])
        assert tables.take(t.RTM_DELNEIGH, crowd[0]) and tables.take(t.RTM_NEWNEIGH, crowd[-1])
        tables.begin(t.RTM_GETNEIGH, t.AF_UNSPEC)
        assert tables.end() and not tables.neighbours
        for body in crowd:
            tables.take(t.RTM_NEWNEIGH, body)
        tables.take(t.RTM_DELLINK, link(OTHER, "other", "veth"))
        tables.take(t.RTM_NEWNEIGH, crowd[0])
        assert len(tables.neighbours) == 1

    def test_interfaces_and_their_addresses_are_bounded(self) -> None:
        tables = host()
        for n in range(10, 2 * t.MOST_LINKS):
            tables.take(t.RTM_NEWLINK, link(n, f"veth{n}"))
            tables.take(t.RTM_NEWADDR, address(BR0, str(IPv4Address((10 << 24) + n))))
        assert len(tables.links) == len(tables.addresses) == t.MOST_LINKS
        assert len(search(tables, ETH0).own) == t.MOST_LINKS and len(chosen((), search(tables, ETH0), 1000)[0]) == 200


ADDRESSES = st.sets(st.ip_addresses(), max_size=40)


class TestTheChoice:
    """What a REGISTER has room for."""

    @given(ADDRESSES, ADDRESSES, ADDRESSES, st.integers(0, 400))
    def test_it_fits_and_nothing_is_left_out_without_being_counted(
        self, configured: set[Address], own: set[Address], behind: set[Address], room: int
    ) -> None:
        taken, left_out = chosen(configured, Found(tuple(own), tuple(behind)), room)
        assert sum(1 + len(a.packed) for a in taken) <= room
        assert len(taken) + left_out == len(configured | own | behind) and set(taken) <= configured | own | behind
        if not left_out:
            assert set(taken) == configured | own | behind
        if set(taken) - configured:
            assert configured <= set(taken)

    def test_a_line_says_where_each_is_from(self) -> None:
        found = Found((IPv4Address("10.0.0.1"),), (IPv4Address("10.0.0.9"),), 2, ("br0",))
        line = described((IPv4Address("10.0.0.7"),), found)
        assert line.startswith("10.0.0.7 (--address), 10.0.0.1 (interface), 10.0.0.9 (behind br0), 2 stations behind br0 ")
        assert described((), Found()) == "no addresses"
