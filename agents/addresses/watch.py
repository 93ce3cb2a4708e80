"""Reads the kernel's tables of links, addresses, neighbours and stations, and follows their changes. An edge: AF_NETLINK.

One socket has both: it is in the groups that the kernel notifies of changes, and asks for dumps, whose answers come through
the same queue. So a change during a dump is not lost, and nothing ever waits for an answer. When the kernel had to drop
notifications (ENOBUFS) or a table changed while it was dumped, everything is asked for again.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
from collections import deque
from collections.abc import Iterator

from agents.addresses.tables import (
    AF_BRIDGE,
    AF_UNSPEC,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETNEIGH,
    Tables,
)
from agents.kernel.netlink import NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, attribute

GROUPS = 0x1 | 0x4 | 0x10 | 0x100
"""RTMGRP_LINK, RTMGRP_NEIGH, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR (linux/rtnetlink.h)."""
DUMPS = ((RTM_GETLINK, AF_UNSPEC), (RTM_GETADDR, AF_UNSPEC), (RTM_GETNEIGH, AF_UNSPEC), (RTM_GETNEIGH, AF_BRIDGE))
IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS = 29, 1 << 3
MESSAGES = 4
"""So many messages are taken in one step: some dozens of microseconds."""
PATIENCE_S = 2.0
_HEADER = struct.Struct("IHHII")


class AddressWatch:
    """The tables of the network namespace it was made in, once `complete`; `steps` keeps them so."""

    def __init__(self) -> None:
        """Raises OSError: no netlink socket."""
        self.tables = Tables()
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.setblocking(False)
        self._socket.bind((0, GROUPS))
        self._sequence = 0
        self._wanted: deque[tuple[int, int]] = deque()
        self._again = True

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """Readable when something changed, or a dump goes on."""
        return self._socket.fileno()

    @property
    def complete(self) -> bool:
        """Whether the tables hold all that the kernel has said until now."""
        return not (self._again or self._wanted)

    def read_all(self) -> None:
        """Waits until the tables are complete, at most `PATIENCE_S`: for the agent's start."""
        for _ in self.steps():
            pass
        while not self.complete and select.select([self._socket], (), (), PATIENCE_S)[0]:
            for _ in self.steps():
                pass

    def steps(self) -> Iterator[bool]:
        """Takes what the kernel has said, in short steps; each yields whether anything changed."""
        if self.complete and not self._waiting():
            return
        while True:
            if self._again and not self._wanted:
                self._again = False
                self._wanted.extend(DUMPS)
                self._ask()
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._again = True
                yield False
                return  # whoever floods the tables shall not keep us reading
            yield from self._take(data)

    def _waiting(self) -> bool:
        return bool(select.select([self._socket], (), (), 0)[0])

    def _take(self, data: bytes) -> Iterator[bool]:
        changed, count, at = False, 0, 0
        while at + _HEADER.size <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
            if length < _HEADER.size:
                return
            ours = bool(self._wanted) and sequence == self._sequence
            if ours and flags & NLM_F_DUMP_INTR:
                self._again = True
            if kind in (NLMSG_DONE, NLMSG_ERROR):
                if ours:
                    changed |= kind == NLMSG_DONE and self.tables.end()
                    self._wanted.popleft()
                    self._ask()
            else:
                changed |= self.tables.take(kind, data[at + _HEADER.size : at + length])
            at += (length + 3) & ~3
            count += 1
            if count % MESSAGES == 0:
                yield changed
                changed = False
        yield changed

    def _ask(self) -> None:
        """Asks for the next table, if one is still wanted."""
        if not self._wanted:
            return
        asked, family = self._wanted[0]
        self._sequence += 1
        self.tables.begin(asked, family)
        if asked == RTM_GETLINK:
            body = struct.pack("BxHiII", family, 0, 0, 0, 0)
            body += attribute(IFLA_EXT_MASK, struct.pack("I", RTEXT_FILTER_SKIP_STATS))
        elif asked == RTM_GETADDR:
            body = struct.pack("BBBBI", family, 0, 0, 0, 0)
        else:
            body = struct.pack("BxxxiHBB", family, 0, 0, 0, 0)
        header = _HEADER.pack(_HEADER.size + len(body), asked, NLM_F_REQUEST | NLM_F_DUMP, self._sequence, 0)
        self._socket.send(header + body)
