"""The rate that an interface's link tells. An edge: netlink, ioctl.

The ioctl is ETHTOOL_GSET (linux/ethtool.h), which any socket takes: sysfs says the same, but of the network namespace in which
it was mounted.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

from agents.kernel.netlink import NLM_F_REQUEST, Netlink, attributes

SIOCETHTOOL, ETHTOOL_GSET = 0x8946, 0x01
UNKNOWN_MBPS = (0, 0xFFFF, 0xFFFFFFFF)
RTM_GETLINK = 18
IFLA_LINK, IFLA_LINKINFO, IFLA_STATS64, IFLA_INFO_KIND = 5, 18, 23, 1
HARDWARE = ""
"""The kind of an interface that a driver of a device made."""
TRUE_KINDS = frozenset({HARDWARE, "bond", "team"})
"""Kinds whose speed is a link's. Of a veth, tun or bridge the kernel tells a number that nothing limits."""
UPPERS = frozenset({"vlan", "macvlan"})
_IFINFO = struct.Struct("BxHiII")
_HEADER = 16 + _IFINFO.size


def link_speed_bps(interface: str) -> int:
    """The rate (bit/s) that the link of an interface tells; 0 if it tells none, or one that only stands for none.

    Raises OSError: no such interface.
    """
    index, netlink = socket.if_nametoindex(interface), Netlink()
    try:
        for _ in range(8):  # a VLAN on a VLAN on ...
            kind, lower = _kind(netlink, index)
            if kind not in UPPERS or not lower:
                return _told_bps(netlink, socket.if_indextoname(index)) if kind in TRUE_KINDS else 0
            index = lower
    finally:
        netlink.close()
    return 0


def received_bytes(netlink: Netlink, index: int) -> int:
    """The bytes that an interface has received (struct rtnl_link_stats64). Raises NetlinkError."""
    stats = _attributes(netlink, index).get(IFLA_STATS64, b"")
    return int.from_bytes(stats[16:24], "little")


def _attributes(netlink: Netlink, index: int) -> dict[int, bytes]:
    header = struct.pack("IHHII", _HEADER, RTM_GETLINK, NLM_F_REQUEST, 0, 0)
    return dict(attributes(netlink.ask(header + _IFINFO.pack(0, 0, index, 0, 0))[_HEADER:]))


def _kind(netlink: Netlink, index: int) -> tuple[str, int]:
    """The kind of an interface, and the index of the one that it sends through (0: none)."""
    fields = _attributes(netlink, index)
    info = dict(attributes(fields.get(IFLA_LINKINFO, b"")))
    kind = info.get(IFLA_INFO_KIND, b"").rstrip(b"\0").decode(errors="replace")
    return kind, int.from_bytes(fields.get(IFLA_LINK, b""), "little")


def _told_bps(netlink: Netlink, interface: str) -> int:
    """What the driver tells; 0 while the link is down, or if it knows no speed."""
    answer = array.array("B", struct.pack("I40x", ETHTOOL_GSET))  # struct ethtool_cmd
    address, _ = answer.buffer_info()
    try:
        fcntl.ioctl(netlink.fileno(), SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), address))
    except OSError:
        return 0  # a driver without speeds
    low, high = struct.unpack_from("H", answer, 12)[0], struct.unpack_from("H", answer, 28)[0]
    mbps = high << 16 | low
    return 0 if mbps in UNKNOWN_MBPS else mbps * 1_000_000
