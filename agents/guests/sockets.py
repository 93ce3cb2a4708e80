"""The sockets at which an agent hears its guests (UDP) and its operator (a socket in the run directory). An edge."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import NamedTuple

from agents.guests.flows import unmapped
from agents.guests.requests import REQUEST_MAX
from agents.queues.classifier import Address

_PKTINFO = struct.Struct("=16sI")
_ROOM = socket.CMSG_SPACE(_PKTINFO.size)
BACKLOG_BYTES = 1 << 18


class Heard(NamedTuple):
    """A datagram of a guest's: what, from which address, and the interface and the address at which it came."""

    data: bytes
    sender: Address
    interface: int
    reply_to: tuple[str, int, int, int]
    at: bytes


class GuestSocket:
    """The UDP port for guests, at all addresses of the host, for IPv4 and IPv6. It never blocks."""

    def __init__(self, port: int) -> None:
        """Raises OSError: the port is taken, or the kernel has no IPv6."""
        self._socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BACKLOG_BYTES)
            self._socket.setblocking(False)
            self._socket.bind(("::", port))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Readable when a guest has said something."""
        return self._socket.fileno()

    def heard(self, most: int) -> Iterator[Heard]:
        """Takes datagrams that wait, at most so many."""
        for _ in range(most):
            try:
                data, ancillary, _, source = self._socket.recvmsg(REQUEST_MAX + 1, _ROOM)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error for an earlier answer
            info = next((value for level, kind, value in ancillary if kind == socket.IPV6_PKTINFO), b"")
            if len(info) == _PKTINFO.size:
                at, interface = _PKTINFO.unpack(info)
                sender = unmapped(IPv6Address(source[0].partition("%")[0]))
                yield Heard(data, sender, interface, source, at)

    def answer(self, heard: Heard, data: bytes) -> None:
        """Answers from the address that the guest has spoken to; an answer that cannot leave is lost, as others are."""
        info = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, _PKTINFO.pack(heard.at, 0))
        with suppress(OSError):
            self._socket.sendmsg([data], [info], 0, heard.reply_to)

    def close(self) -> None:
        """Closes it."""
        self._socket.close()


class OperatorSocket:
    """A datagram socket in the run directory, which only the agent's own user (root) may write to. It never blocks."""

    def __init__(self, path: Path) -> None:
        """Takes the place of one that an earlier agent left. Raises OSError: the directory cannot be written."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setblocking(False)
            before = os.umask(0o177)
            try:
                self._socket.bind(str(path))
            finally:
                os.umask(before)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Readable when the operator has said something."""
        return self._socket.fileno()

    def heard(self, most: int) -> Iterator[tuple[bytes, bytes | str]]:
        """Takes datagrams that wait, at most so many, each with the address to answer to."""
        for _ in range(most):
            try:
                yield self._socket.recvfrom(REQUEST_MAX + 1)
            except BlockingIOError:
                return

    def answer(self, to: bytes | str, data: bytes) -> None:
        """Answers, if the asker still listens."""
        if to:
            with suppress(OSError):
                self._socket.sendto(data, to)

    def close(self) -> None:
        """Closes and removes it."""
        self._socket.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def operator_socket(run_dir: Path, interface: str) -> Path:
    """Where the agent of an interface hears its operator: one for each interface of a network namespace."""
    namespace = os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 -- a magic link, not a file
    return run_dir / f"marks-{namespace}-{interface}"
