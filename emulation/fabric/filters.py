"""eBPF programs at an interface's clsact hook, beside those of agents and switch queues. An edge: netlink.

They have preferences of their own: the kernel runs the programs of one hook in the order of their preferences.
"""

from __future__ import annotations

import errno
import socket
import struct
from pathlib import Path

from agents.kernel.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    RTM_GETTFILTER,
    RTM_NEWQDISC,
    RTM_NEWTFILTER,
    TC_H_CLSACT,
    TCA_KIND,
    Netlink,
    NetlinkError,
    attribute,
    attributes,
    message,
    options,
)
from agents.kernel.qdiscs import ETH_P_ALL, TCA_BPF_FD, TCA_BPF_FLAG_ACT_DIRECT, TCA_BPF_FLAGS, TCA_BPF_NAME

SOURCES = Path(__file__).parent / "bpf"
INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
CLSACT_HANDLE = 0xFFFF0000
ARRIVAL_PREFERENCE, WAITS_PREFERENCE, DEPARTURE_PREFERENCE, SPACING_PREFERENCE = 0xBA0, 0xBA1, 0xBA2, 0xBA3
"""Before the classifiers of switch queues and of agents, which may end the way of a packet through the programs of a hook."""
HIDE_PREFERENCE = 0xBAF
_HANDLE = 1


def attach(netlink: Netlink, index: int, hook: int, preference: int, program_fd: int, name: str) -> None:
    """Attaches a program, in place of one that has this preference, and makes the hook if there is none.

    Raises:
        NetlinkError: the kernel refuses; or there is no such interface.
    """
    try:
        body = attribute(TCA_KIND, b"clsact\0")
        flags = NLM_F_CREATE | NLM_F_EXCL
        netlink.request(message(RTM_NEWQDISC, flags, index, handle=CLSACT_HANDLE, parent=TC_H_CLSACT, body=body))
    except NetlinkError as error:
        if error.errno != errno.EEXIST:
            raise
    data = attribute(TCA_BPF_FD, struct.pack("I", program_fd)) + attribute(TCA_BPF_NAME, name.encode() + b"\0")
    data += attribute(TCA_BPF_FLAGS, struct.pack("I", TCA_BPF_FLAG_ACT_DIRECT))
    info = preference << 16 | socket.htons(ETH_P_ALL)
    flags = NLM_F_CREATE | NLM_F_REPLACE
    body = options("bpf", data)
    netlink.request(message(RTM_NEWTFILTER, flags, index, handle=_HANDLE, parent=hook, info=info, body=body))


def attached(netlink: Netlink, index: int, hook: int, preference: int, name: str) -> bool:
    """Whether a program of this name has this preference."""
    try:
        found = netlink.dump(RTM_GETTFILTER, index, parent=hook)
    except NetlinkError:  # there is no hook
        return False
    names = (dict(attributes(entry.options)).get(TCA_BPF_NAME, b"") for entry in found if entry.info >> 16 == preference)
    return any(one.rstrip(b"\0").decode() == name for one in names)
