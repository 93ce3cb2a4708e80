"""Links, addresses, neighbours and stations of a network namespace, from the kernel's rtnetlink messages. Pure.

A dump's messages and those of a later change look alike, so one function takes both. Layouts: linux/rtnetlink.h (ifaddrmsg,
ifinfomsg), linux/neighbour.h (ndmsg). A *station* is a MAC address in a bridge's forwarding table.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

from agents.kernel.netlink import attributes
from protocol.bodies.text import printable

Address = IPv4Address | IPv6Address
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
AF_UNSPEC, AF_INET, AF_BRIDGE, AF_INET6 = 0, 2, 7, 10
IFLA_IFNAME, IFLA_LINK, IFLA_MASTER, IFLA_LINKINFO, IFLA_LINK_NETNSID = 3, 5, 10, 18, 37
IFLA_INFO_KIND = 1
IFF_LOWER_UP = 0x10000
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_DADFAILED, IFA_F_TENTATIVE = 0x08, 0x40
NDA_DST, NDA_LLADDR, NDA_VLAN, NDA_MASTER = 1, 2, 5, 9
NUD_REACHABLE, NUD_STALE, NUD_DELAY, NUD_PROBE, NUD_PERMANENT = 0x02, 0x04, 0x08, 0x10, 0x80
NUD_RESOLVED = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT
_IFINFO, _IFADDR, _ND = struct.Struct("BxHiII"), struct.Struct("BBBBI"), struct.Struct("BxxxiHBB")

MOST_ENTRIES = 1024
"""How many neighbours of an interface, and how many stations of a bridge, are kept: hosts behind a bridge can make as many as
they like, and more addresses than that fit into no REGISTER. Those of other interfaces take no room from a bridge's."""
MOST_LINKS = 4096
"""How many interfaces, and how many addresses of theirs: containers come and go."""


class Link(NamedTuple):
    """An interface; `lower` is the one that it sends through (0: none), `master` the bridge or bond that it belongs to, `up`
    whether it has a carrier."""

    name: str
    kind: str
    master: int = 0
    lower: int = 0
    up: bool = True


class Bounded(dict[Any, Any]):
    """A table whose keys begin with an interface: each interface has room for `MOST_ENTRIES`."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = Counter[int]()

    def has_room(self, key: Any) -> bool:  # noqa: ANN401 -- any table's key
        return key in self or self._counts[key[0]] < MOST_ENTRIES

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401
        self._counts[key[0]] += key not in self
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:  # noqa: ANN401
        super().__delitem__(key)
        self._counts[key[0]] -= 1
        if not self._counts[key[0]]:
            del self._counts[key[0]]


class Tables:
    """What the kernel has said. Interfaces are named by index."""

    def __init__(self) -> None:
        self.links: dict[int, Link] = {}
        self.addresses: dict[tuple[int, Address], bool] = {}
        """Those in use (not while duplicate address detection goes on)."""
        self.neighbours: dict[tuple[int, Address], bytes] = Bounded()
        """The MAC address of each neighbour of an interface."""
        self.stations: dict[tuple[int, bytes, int], int] = Bounded()
        """The port of each station, by (bridge, MAC address, VLAN)."""
        self.full: set[int] = set()
        """The interfaces of which there were more neighbours or stations than are kept."""
        self._dumped: dict[Any, Any] | None = None
        """The table of the present dump; `_unseen` are its entries that the dump has not shown yet."""
        self._unseen: set[Any] = set()

    # -- a dump: what it does not show is gone ----------------------------------------------------------------------------

    def begin(self, asked: int, family: int) -> None:
        """A dump of RTM_GETLINK, RTM_GETADDR or RTM_GETNEIGH (with AF_BRIDGE: of stations) begins."""
        self._dumped = self._table(asked, family)
        self._unseen = set(self._dumped)

    def end(self) -> bool:
        """The dump is complete: forgets what it did not show; returns whether that was anything."""
        gone = False
        if self._dumped is not None:
            for key in self._unseen:
                gone |= _drop(self._dumped, key)
        self._dumped, self._unseen = None, set()
        return gone

    def _table(self, asked: int, family: int) -> dict[Any, Any]:
        if asked == RTM_GETNEIGH:
            return self.stations if family == AF_BRIDGE else self.neighbours
        return self.links if asked == RTM_GETLINK else self.addresses

    # -- messages ---------------------------------------------------------------------------------------------------------

    def take(self, kind: int, body: bytes) -> bool:
        """Takes one message (RTM_NEW*, RTM_DEL*) without its netlink header; returns whether anything changed."""
        if kind in (RTM_NEWLINK, RTM_DELLINK):
            return self._link(kind == RTM_NEWLINK, body)
        if kind in (RTM_NEWADDR, RTM_DELADDR):
            return self._address(kind == RTM_NEWADDR, body)
        if kind in (RTM_NEWNEIGH, RTM_DELNEIGH):
            return self._neighbour(kind == RTM_NEWNEIGH, body)
        return False

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> bool:  # noqa: ANN401 -- any table
        if table is self._dumped:
            self._unseen.discard(key)
        if value is None:
            return _drop(table, key)
        if table.get(key) == value:
            return False
        if isinstance(table, Bounded):
            if not table.has_room(key):
                self.full.add(key[0])
                return False
        elif key not in table and len(table) >= MOST_LINKS:
            return False
        table[key] = value
        return True

    def _link(self, new: bool, body: bytes) -> bool:
        family, _, index, flags, _ = _IFINFO.unpack_from(body)
        if family != AF_UNSPEC:
            return False  # a bridge's own account of its port; the interface's follows
        if not new:
            self._forget(index)
            return self._put(self.links, index, None)
        fields = dict(attributes(body[_IFINFO.size :]))
        kind = dict(attributes(fields.get(IFLA_LINKINFO, b""))).get(IFLA_INFO_KIND, b"")
        lower = 0 if IFLA_LINK_NETNSID in fields else _number(fields.get(IFLA_LINK))
        name = fields.get(IFLA_IFNAME, b"")
        master, up = _number(fields.get(IFLA_MASTER)), bool(flags & IFF_LOWER_UP)
        return self._put(self.links, index, Link(_text(name), _text(kind), master, lower, up))

    def _forget(self, index: int) -> None:
        """Forgets what belonged to an interface that is gone."""
        self.full.discard(index)
        for table in (self.addresses, self.neighbours):
            for key in [key for key in table if key[0] == index]:
                del table[key]
        for station in [station for station, port in self.stations.items() if index in (port, station[0])]:
            del self.stations[station]

    def _address(self, new: bool, body: bytes) -> bool:
        family, _, flags, _, index = _IFADDR.unpack_from(body)
        fields = dict(attributes(body[_IFADDR.size :]))
        address = _address(family, fields.get(IFA_LOCAL, fields.get(IFA_ADDRESS, b"")))
        if address is None:
            return False
        flags = _number(fields.get(IFA_FLAGS)) or flags
        usable = new and not flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)
        return self._put(self.addresses, (index, address), True if usable else None)

    def _neighbour(self, new: bool, body: bytes) -> bool:
        family, index, state, _, _ = _ND.unpack_from(body)
        fields = dict(attributes(body[_ND.size :]))
        mac = fields.get(NDA_LLADDR, b"")
        if family == AF_BRIDGE:
            bridge = _number(fields.get(NDA_MASTER))
            if not bridge or len(mac) != 6 or mac[0] & 1 or state & NUD_PERMANENT:
                return False  # an interface's own filter, a group, or the address of a port itself
            vlan = int.from_bytes(fields.get(NDA_VLAN, b"")[:2], "little")
            return self._put(self.stations, (bridge, mac, vlan), index if new else None)
        address = _address(family, fields.get(NDA_DST, b""))
        if address is None:
            return False
        resolved = new and state & NUD_RESOLVED and len(mac) == 6
        return self._put(self.neighbours, (index, address), mac if resolved else None)


def _drop(table: dict[Any, Any], key: Any) -> bool:  # noqa: ANN401 -- any table
    if key not in table:
        return False
    del table[key]
    return True


def _number(data: bytes | None) -> int:
    return int.from_bytes(data[:4], "little") if data else 0


def _text(data: bytes) -> str:
    return printable(data.rstrip(b"\0").decode(errors="replace"))


def _address(family: int, data: bytes) -> Address | None:
    if family == AF_INET and len(data) == 4:
        return IPv4Address(data)
    return IPv6Address(data) if family == AF_INET6 and len(data) == 16 else None


def first(addresses: Collection[Address]) -> list[Address]:
    """The addresses in the order in which they are announced and shown: IPv4 before IPv6, then by number."""
    return sorted(addresses, key=lambda address: (address.version, int(address)))
