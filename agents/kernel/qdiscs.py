"""Messages for the qdiscs, classes and filters of a host's queues; one function for each. Pure.

Rates are bit/s, sizes bytes; layouts from linux/pkt_sched.h and linux/pkt_cls.h. Link layer 1 (Ethernet) spares the kernel
the old rate tables.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv6Address

from agents.kernel.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    RTM_DELTCLASS,
    RTM_DELTFILTER,
    RTM_NEWQDISC,
    RTM_NEWTCLASS,
    RTM_NEWTFILTER,
    attribute,
    attributes,
    message,
    options,
)

TICK_NS = 64
"""One psched tick: the kernel's PSCHED_SHIFT is 6 (net/pkt_sched.h); /proc/net/psched says the same."""
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TCA_HTB_PARMS, TCA_HTB_INIT, TCA_HTB_RATE64, TCA_HTB_CEIL64 = 1, 2, 6, 7
TCA_U32_CLASSID, TCA_U32_SEL = 1, 5
TCA_BPF_FD, TCA_BPF_NAME, TCA_BPF_FLAGS = 6, 7, 8
TCA_BPF_FLAG_ACT_DIRECT = 1
ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
NEW = NLM_F_CREATE | NLM_F_EXCL
MAX_16, MAX_32 = 0xFFFF, 0xFFFFFFFF


def _ratespec(rate_bytes: int, least_bytes: int = 0) -> bytes:
    """`least_bytes`: a shorter packet counts as this many (mpu)."""
    return struct.pack("BBHhHI", 0, 1, 0, 0, least_bytes, min(rate_bytes, MAX_32))


def _ticks(size: int, rate_bytes: int) -> int:
    return min(MAX_32, size * 10**9 // max(1, rate_bytes) // TICK_NS)


def htb(ifindex: int, handle: int, parent: int, default_minor: int) -> bytes:
    """A new HTB qdisc."""
    glob = struct.pack("IIIII", 3, 10, default_minor, 0, 0)
    return message(
        RTM_NEWQDISC, NEW, ifindex, handle=handle, parent=parent, body=options("htb", attribute(TCA_HTB_INIT, glob))
    )


def htb_class(
    ifindex: int, classid: int, parent: int, *, rate_bps: int, ceil_bps: int, prio: int, quantum: int, burst: int
) -> bytes:
    """A new HTB class."""
    rate, ceil = rate_bps // 8, ceil_bps // 8
    parms = _ratespec(rate) + _ratespec(ceil)
    parms += struct.pack("IIIII", _ticks(burst, rate), _ticks(burst, ceil), quantum, 0, prio)
    data = attribute(TCA_HTB_PARMS, parms)
    if rate > MAX_32:
        data += attribute(TCA_HTB_RATE64, struct.pack("Q", rate))
    if ceil > MAX_32:
        data += attribute(TCA_HTB_CEIL64, struct.pack("Q", ceil))
    return message(RTM_NEWTCLASS, NEW, ifindex, handle=classid, parent=parent, body=options("htb", data))


def pfifo(ifindex: int, handle: int, parent: int, packets: int) -> bytes:
    """A new pfifo qdisc of so many packets."""
    return message(
        RTM_NEWQDISC, NEW, ifindex, handle=handle, parent=parent, body=options("pfifo", struct.pack("I", packets))
    )


def tbf(
    ifindex: int, handle: int, parent: int, *, rate_bps: int, burst: int, limit: int, flags: int = 0
) -> bytes:
    """A TBF qdisc, new (flags NEW) or changed. The kernel takes the bucket's size from `burst`.

    The least rate is 8 bit/s: to the kernel, 0 bytes a second are no limit.
    """
    rate = max(1, rate_bps // 8)
    parms = _ratespec(rate) + bytes(12) + struct.pack("III", limit, _ticks(burst, rate), 0)
    data = attribute(TCA_TBF_PARMS, parms)
    if rate > MAX_32:
        data += attribute(TCA_TBF_RATE64, struct.pack("Q", rate))
    data += attribute(TCA_TBF_BURST, struct.pack("I", burst))
    return message(RTM_NEWQDISC, flags, ifindex, handle=handle, parent=parent, body=options("tbf", data))


def shut_tbf(ifindex: int, handle: int, parent: int, *, rate_bps: int, burst: int, limit: int) -> bytes:
    """A TBF changed so that nothing passes it: every packet counts as 64 KB, which its bucket never holds.

    sch_tbf (tbf_change, psched_ns_t2l) computes the longest packet that it accepts from the bucket's time alone, without the
    least packet size (mpu), so packets of up to `burst` bytes wait and are not dropped. Before Linux 5.17 sch_tbf ignores mpu:
    there the bytes in the bucket still pass.
    """
    rate = rate_bps // 8
    parms = _ratespec(rate, MAX_16) + bytes(12) + struct.pack("III", limit, _ticks(burst, rate), 0)
    return message(RTM_NEWQDISC, 0, ifindex, handle=handle, parent=parent, body=options("tbf", attribute(TCA_TBF_PARMS, parms)))


def plug(ifindex: int, handle: int, parent: int, *, action: int, limit: int, flags: int = 0) -> bytes:
    """A plug qdisc (linux/pkt_sched.h, struct tc_plug_qopt), new (its action is ignored) or changed."""
    return message(
        RTM_NEWQDISC, flags, ifindex, handle=handle, parent=parent, body=options("plug", struct.pack("iI", action, limit))
    )


Address = IPv4Address | IPv6Address


def flow_filter(
    ifindex: int,
    parent: int,
    preference: int,
    source: Address,
    target: Address,
    classid: int,
    *,
    dscp: int | None = None,
) -> bytes:
    """A u32 filter that sends one pair of addresses to a class; packets with one DSCP only, if that is given."""
    first = 12 if target.version == 4 else 8
    data = source.packed + target.packed
    keys = [(MAX_32, int.from_bytes(data[at : at + 4], "big"), first + at) for at in range(0, len(data), 4)]
    if dscp is not None:
        keys.append(_dscp_key(target.version, dscp))
    return _u32(ifindex, parent, preference, target.version, keys, classid)


def dscp_filter(ifindex: int, parent: int, preference: int, version: int, dscp: int, classid: int) -> bytes:
    """A u32 filter that sends packets with one DSCP, of one IP version, to a class."""
    return _u32(ifindex, parent, preference, version, [_dscp_key(version, dscp)], classid)


def bpf_filter(
    ifindex: int, parent: int, preference: int, program_fd: int, name: str, *, direct: bool = False
) -> bytes:
    """A cls_bpf filter whose program returns each packet's class (0: no match); with `direct`, the action for the packet."""
    attributes = attribute(TCA_BPF_FD, struct.pack("I", program_fd)) + attribute(TCA_BPF_NAME, name.encode() + b"\0")
    if direct:
        attributes += attribute(TCA_BPF_FLAGS, struct.pack("I", TCA_BPF_FLAG_ACT_DIRECT))
    info = preference << 16 | socket.htons(ETH_P_ALL)
    return message(RTM_NEWTFILTER, NEW, ifindex, parent=parent, info=info, body=options("bpf", attributes))


def _dscp_key(version: int, dscp: int) -> tuple[int, int, int]:
    """In the header's first word: the high six bits of its second byte (RFC 791), or four bits further left (RFC 8200)."""
    shift = 18 if version == 4 else 22
    return 0x3F << shift, dscp << shift, 0


def _u32(
    ifindex: int, parent: int, preference: int, version: int, keys: list[tuple[int, int, int]], classid: int
) -> bytes:
    """A u32 filter by keys (mask, value, offset in the network header) of 32 bits."""
    selector = struct.pack("=BBBxHHhhI", 1, 0, len(keys), 0, 0, 0, 0, 0)
    selector += b"".join(struct.pack("!II", mask, value) + struct.pack("=ii", at, 0) for mask, value, at in keys)
    body = options("u32", attribute(TCA_U32_CLASSID, struct.pack("I", classid)) + attribute(TCA_U32_SEL, selector))
    return message(
        RTM_NEWTFILTER, NEW, ifindex, parent=parent, info=preference << 16 | _in_network_order(version), body=body
    )


def no_u32(ifindex: int, parent: int, preference: int, version: int) -> bytes:
    """Removes the u32 filters of this preference."""
    return message(RTM_DELTFILTER, 0, ifindex, parent=parent, info=preference << 16 | _in_network_order(version))


def no_class(ifindex: int, parent: int, classid: int) -> bytes:
    """Removes a class and what is under it; the filters that send to it must have gone before."""
    return message(RTM_DELTCLASS, 0, ifindex, handle=classid, parent=parent)


def _in_network_order(version: int) -> int:
    protocol = ETH_P_IP if version == 4 else ETH_P_IPV6
    return (protocol & 0xFF) << 8 | protocol >> 8


def filtered_to(options: bytes) -> int:
    """The class that a u32 filter of a dump sends packets to; 0 for a hash table of such filters."""
    classid = dict(attributes(options)).get(TCA_U32_CLASSID)
    return 0 if classid is None else int.from_bytes(classid, "little")
