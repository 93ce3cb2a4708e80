"""The longest frame of an interface, and the super-packets that TCP hands to it (segmentation offload). An edge: netlink.

Since Linux 4.17 TCP builds packets of up to 64 KB whatever ethtool says, and the queues see them whole: a gate passes only
whole ones, so a grant that is not a multiple of their size is not used up. So while Baton schedules an interface,
a super-packet may be at most what the link carries in `SUPER_PACKET_NS`: one frame at 100 Mb/s, 12 KB at 1 Gb/s, and as it
was found at 10 Gb/s.
"""

from __future__ import annotations

import struct

from agents.kernel.netlink import NLM_F_ACK, NLM_F_REQUEST, Netlink, attribute, attributes

RTM_GETLINK, RTM_SETLINK = 18, 19
IFLA_MTU = 4
HEADERS_BYTES = 14 + 2 * 4
"""Of Ethernet, with two VLAN tags."""
IFLA_GSO_MAX_SEGS, IFLA_GSO_MAX_SIZE = 40, 41
SUPER_PACKET_NS = 100_000
_IFINFO = struct.Struct("BxHiII")


def wanted_segments(rate_bps: int, found: int, frame_bytes: int) -> int:
    """Frames in a super-packet at this link rate, of up to `frame_bytes` (`longest_frame`): at least one, never more than was
    found."""
    return max(1, min(found, rate_bps * SUPER_PACKET_NS // 8 // 10**9 // frame_bytes))


def read_segments(netlink: Netlink, ifindex: int) -> int:
    """The interface's present limit, in frames. Raises NetlinkError."""
    return _field(netlink, ifindex, IFLA_GSO_MAX_SEGS)


def longest_frame(netlink: Netlink, ifindex: int) -> int:
    """The bytes of the longest frame that the interface's MTU lets pass, with its headers. Raises NetlinkError."""
    return _field(netlink, ifindex, IFLA_MTU) + HEADERS_BYTES


def _field(netlink: Netlink, ifindex: int, kind: int) -> int:
    header = struct.pack("IHHII", 16 + _IFINFO.size, RTM_GETLINK, NLM_F_REQUEST, 0, 0)
    answer = netlink.ask(header + _IFINFO.pack(0, 0, ifindex, 0, 0))
    fields = dict(attributes(answer[16 + _IFINFO.size :]))
    return int(struct.unpack("I", fields[kind])[0])


def set_segments(netlink: Netlink, ifindex: int, segments: int) -> None:
    """Sets the limit, in frames. Raises NetlinkError."""
    body = _IFINFO.pack(0, 0, ifindex, 0, 0) + attribute(IFLA_GSO_MAX_SEGS, struct.pack("I", segments))
    netlink.request(struct.pack("IHHII", 16 + len(body), RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 0, 0) + body)
