"""Reads counters and backlog of one queue discipline by one netlink message, in a few microseconds. An edge: netlink.

pyroute2 sets queues up; it is too slow to read them a thousand times a second.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

_NLMSG_ERROR = 2
_RTM_GETQDISC = 38
_NLM_F_REQUEST = 1
_NLM_F_ECHO = 8  # without it the kernel answers the RTNLGRP_TC group only
_TCA_STATS2 = 7
_TCA_STATS_BASIC, _TCA_STATS_QUEUE = 1, 3
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_TCMSG = struct.Struct("=BxxxiIII")
_ATTRIBUTE = struct.Struct("=HH")


class QdiscStats(NamedTuple):
    """What a queue discipline has sent and dropped since it was made, and its backlog now."""

    sent_bytes: int
    sent_packets: int
    drops: int
    backlog_packets: int
    backlog_bytes: int


class QdiscReader:
    """Reads queue disciplines in the network namespace in which it was made. Not for several threads at once."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Closes the netlink socket."""
        self._socket.close()

    def read(self, index: int, handle: int) -> QdiscStats:
        """The counters of the queue discipline `handle` (0x130000 is 13:) of interface `index`.

        Raises:
            OSError: there is no such interface or queue discipline.
        """
        self._socket.send(request(index, handle))
        return parse(self._socket.recv(8192))


def request(index: int, handle: int) -> bytes:
    """The RTM_GETQDISC message for one queue discipline."""
    header = _HEADER.pack(_HEADER.size + _TCMSG.size, _RTM_GETQDISC, _NLM_F_REQUEST | _NLM_F_ECHO, 1, 0)
    return header + _TCMSG.pack(0, index, handle, 0, 0)


def parse(answer: bytes) -> QdiscStats:
    """The counters in an RTM_NEWQDISC message. Raises OSError: it is an error message, or has no counters."""
    length, kind, *_ = _HEADER.unpack_from(answer)
    if kind == _NLMSG_ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        raise OSError(number, os.strerror(number))
    stats = _attributes(answer[_HEADER.size + _TCMSG.size : length]).get(_TCA_STATS2)
    if stats is None:
        raise OSError(0, "a queue discipline without counters")
    inner = _attributes(stats)
    sent_bytes, sent_packets = struct.unpack_from("=QI", inner[_TCA_STATS_BASIC])
    packets, backlog, drops = struct.unpack_from("=III", inner[_TCA_STATS_QUEUE])
    return QdiscStats(sent_bytes, sent_packets, drops, packets, backlog)


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found
