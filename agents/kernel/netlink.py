"""Rtnetlink traffic control: builds messages as bytes, sends them and reads the answers. An edge: AF_NETLINK.

Why not pyroute2: a gate changes for every slice, and a prebuilt message costs a few microseconds. Layouts are the kernel's:
linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h. Handles and class ids are `major << 16 | minor`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS = 40, 41, 42
RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER = 44, 45, 46
NLM_F_REQUEST, NLM_F_ACK, NLM_F_ECHO, NLM_F_DUMP = 0x1, 0x4, 0x8, 0x300
NLM_F_DUMP_INTR = 0x10
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCA_KIND, TCA_OPTIONS, TCA_STATS2, TCA_STAB, TCA_CHAIN, TCA_EGRESS_BLOCK = 1, 2, 7, 8, 11, 14
TCA_STATS_BASIC, TCA_STATS_QUEUE = 1, 3
TC_H_ROOT = 0xFFFFFFFF
TC_H_CLSACT = 0xFFFFFFF1

ENTRIES = 8
DUMPS = 10
"""So often a dump that the kernel interrupted is made again."""
MOST_POSTED = 64
"""How many answers may stay unread; the socket holds about a thousand."""
_HEADER = struct.Struct("IHHII")
_TCMSG = struct.Struct("BBHiIII")
_BODY = _HEADER.size + _TCMSG.size


class NetlinkError(OSError):
    """The kernel refused a message; carries its errno."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One qdisc, class or filter of a dump."""

    handle: int
    parent: int
    info: int
    kind: str
    options: bytes
    sent_bytes: int
    backlog_bytes: int
    backlog_packets: int
    size_table: bytes = b""
    """What counts as a packet's size (TCA_STAB), without the table itself, which the kernel does not show."""
    egress_block: int = 0
    """The block of filters that this clsact shares with others; 0: none."""
    chain: int = 0
    """Of a filter. Packets come to the others than 0 only by an action that goes there."""


def attribute(kind: int, data: bytes) -> bytes:
    """One netlink attribute, padded."""
    length = 4 + len(data)
    return struct.pack("HH", length, kind) + data + bytes(-length % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of a message or a nest."""
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("HH", data, offset)
        if length < 4:
            return
        yield kind & 0x3FFF, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def message(
    kind: int, flags: int, ifindex: int, *, handle: int = 0, parent: int = 0, info: int = 0, body: bytes = b""
) -> bytes:
    """A whole traffic-control message that asks for an acknowledgement."""
    length = _BODY + len(body)
    header = _HEADER.pack(length, kind, NLM_F_REQUEST | NLM_F_ACK | flags, 0, 0)
    return header + _TCMSG.pack(0, 0, 0, ifindex, handle, parent, info) + body


def options(kind: str, data: bytes) -> bytes:
    """The attributes that every new qdisc, class or filter has: its kind and its options."""
    return attribute(TCA_KIND, kind.encode() + b"\0") + attribute(TCA_OPTIONS, data)


def query(kind: int, ifindex: int, *, handle: int = 0, parent: int = 0) -> bytes:
    """A whole RTM_GET* message for one qdisc or class; its answer is the only one.

    The kernel sends the state of a single qdisc to a group of listeners; only with NLM_F_ECHO also to the asking socket.
    """
    header = _HEADER.pack(_BODY, kind, NLM_F_REQUEST | NLM_F_ECHO, 0, 0)
    return header + _TCMSG.pack(0, 0, 0, ifindex, handle, parent, 0)


def unacknowledged(whole: bytes) -> bytes:
    """The same message without NLM_F_ACK: the kernel answers only if it refuses."""
    flags = int.from_bytes(whole[6:8], "little") & ~NLM_F_ACK
    return whole[:6] + flags.to_bytes(2, "little") + whole[8:]


class Netlink:
    """A rtnetlink socket of the network namespace it was made in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind((0, 0))
        self._posted = 0
        self._dumping = False
        self._dumps = 0
        """How many dumps were begun."""
        self._interrupted = False

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """For a caller that sends `unacknowledged` messages itself, past this class."""
        return self._socket.fileno()

    def post(self, whole: bytes | bytearray) -> None:
        """Sends one prebuilt message; the kernel has acted on it on return. The next call of a method may raise its refusal."""
        if self._posted >= MOST_POSTED:
            self._read_posted()
        self._socket.send(whole)
        self._posted += 1

    def request(self, whole: bytes | bytearray) -> None:
        """Sends one prebuilt message and reads its acknowledgement. Raises NetlinkError."""
        self._read_posted()
        self._socket.send(whole)
        answer = self._socket.recv(8192)
        error = int.from_bytes(answer[16:20], "little", signed=True)
        if error:
            raise NetlinkError(-error, os.strerror(-error))

    def forget_posted(self) -> None:
        """Reads the acknowledgements of posted messages, refusals or not: for a caller that removes what they were about."""
        with suppress(NetlinkError):
            self._read_posted()

    def _read_posted(self) -> None:
        """Reads the acknowledgements of posted messages. Raises the first refusal as NetlinkError."""
        refused = 0
        while self._posted:
            self._posted -= 1
            answer = self._socket.recv(8192)
            refused = refused or -int.from_bytes(answer[16:20], "little", signed=True)
        if refused:
            raise NetlinkError(refused, os.strerror(refused))

    def batch(self, messages: list[bytes]) -> None:
        """Sends messages in one go; raises the first refusal as NetlinkError once all are answered."""
        self._read_posted()
        self._socket.send(b"".join(messages))
        refused = 0
        for _ in messages:
            answer = self._socket.recv(8192)
            refused = refused or -int.from_bytes(answer[16:20], "little", signed=True)
        if refused:
            raise NetlinkError(refused, os.strerror(refused))

    def ask(self, whole: bytes) -> bytes:
        """Sends a prebuilt query that has one answer, and returns the whole answer. Raises NetlinkError."""
        self._read_posted()
        self._socket.send(whole)
        answer = self._socket.recv(1 << 16)
        if int.from_bytes(answer[4:6], "little") == NLMSG_ERROR:
            error = -int.from_bytes(answer[16:20], "little", signed=True)
            raise NetlinkError(error, os.strerror(error))
        return answer

    def find(self, whole: bytes, ifindex: int) -> Entry | None:
        """The qdisc or class that a message of `query` asks for; None: there is none."""
        try:
            answer = self.ask(whole)
        except NetlinkError:
            return None
        return _entry(answer[: int.from_bytes(answer[:4], "little")], ifindex)

    def under(self, ifindex: int, parent: int) -> Entry | None:
        """The qdisc that stands in one place: TC_H_ROOT or TC_H_CLSACT. None: there is none, or one that the kernel shows to
        nobody (noop). Unlike a dump, the answer has no hole.

        Raises NetlinkError: the interface is gone.
        """
        self._read_posted()
        self._socket.send(message(RTM_GETQDISC, NLM_F_ECHO, ifindex, parent=parent))
        found: Entry | None = None
        while True:
            answer = self._socket.recv(1 << 16)
            length, kind = struct.unpack_from("IH", answer)
            if kind != NLMSG_ERROR:
                found = _entry(answer[:length], ifindex)
                continue
            error = -int.from_bytes(answer[16:20], "little", signed=True)
            if error and error != errno.ENOENT:
                raise NetlinkError(error, os.strerror(error))
            return found

    def state(self, whole: bytes) -> tuple[int, int]:
        """(bytes passed, bytes waiting) of one qdisc or class, asked for by a message of `query`."""
        answer = self.ask(whole)
        length = int.from_bytes(answer[:4], "little")
        passed, backlog, _ = _statistics(answer[_BODY:length])
        return passed, backlog

    def dump(self, kind: int, ifindex: int, parent: int = 0) -> list[Entry]:
        """All qdiscs, classes or filters (RTM_GET*) of an interface, but for those of qdiscs that the kernel leaves out without
        a word (see `Queues._qdisc`). Raises NetlinkError: a refusal, or each of `DUMPS` dumps was interrupted."""
        for _ in range(DUMPS):
            found = [entry for some in self.dump_steps(kind, ifindex, parent) for entry in some]
            if not self._interrupted:
                return found
        raise NetlinkError(errno.EINTR, os.strerror(errno.EINTR))

    def dump_steps(self, kind: int, ifindex: int, parent: int = 0) -> Iterator[list[Entry]]:
        """As `dump`, `ENTRIES` or fewer at a time. Until the end this socket can do nothing else but begin another dump, which
        takes what is left of this one: whoever then goes on with this one gets a NetlinkError (EINTR)."""
        whole = message(kind, NLM_F_DUMP, ifindex, parent=parent)
        self._read_posted()
        while self._dumping:  # an earlier dump whose caller stopped reading
            self._dumping = not _ends(self._socket.recv(1 << 17))
        self._socket.send(whole)
        self._dumping, self._interrupted = True, False
        self._dumps += 1
        mine, found = self._dumps, list[Entry]()
        while True:
            data = memoryview(self._socket.recv(1 << 17))
            while data:
                length, answer, flags = struct.unpack_from("IHH", data)
                self._interrupted |= bool(flags & NLM_F_DUMP_INTR)
                self._dumping = answer not in (NLMSG_DONE, NLMSG_ERROR)
                error = int.from_bytes(data[16:20], "little", signed=True) if answer == NLMSG_ERROR else 0
                if error:
                    raise NetlinkError(-error, os.strerror(-error))
                if not self._dumping:
                    yield found
                    return
                entry = _entry(bytes(data[:length]), ifindex)
                if entry is not None:
                    found.append(entry)
                if len(found) == ENTRIES:
                    yield found
                    if mine != self._dumps:
                        raise NetlinkError(errno.EINTR, os.strerror(errno.EINTR))
                    found = []
                data = data[(length + 3) & ~3 :]


def _ends(data: bytes) -> bool:
    while data:
        length, answer = struct.unpack_from("IH", data)
        if answer in (NLMSG_DONE, NLMSG_ERROR):
            return True
        data = data[(length + 3) & ~3 :]
    return False


def _entry(data: bytes, ifindex: int) -> Entry | None:
    _, _, _, index, handle, parent, info = _TCMSG.unpack_from(data, _HEADER.size)
    if index != ifindex:
        return None
    fields = dict(attributes(data[_BODY:]))
    kind = fields.get(TCA_KIND, b"\0").rstrip(b"\0").decode()
    passed, backlog, packets = _statistics(data[_BODY:])
    block = int.from_bytes(fields.get(TCA_EGRESS_BLOCK, b""), "little")
    chain = int.from_bytes(fields.get(TCA_CHAIN, b""), "little")
    stab = fields.get(TCA_STAB, b"")
    return Entry(handle, parent, info, kind, fields.get(TCA_OPTIONS, b""), passed, backlog, packets, stab, block, chain)


def _statistics(data: bytes) -> tuple[int, int, int]:
    passed = backlog = packets = 0
    for kind, value in attributes(data):
        if kind == TCA_STATS2:
            for name, numbers in attributes(value):
                if name == TCA_STATS_BASIC:
                    passed = int.from_bytes(numbers[:8], "little")
                elif name == TCA_STATS_QUEUE:
                    packets = int.from_bytes(numbers[:4], "little")
                    backlog = int.from_bytes(numbers[4:8], "little")
    return passed, backlog, packets
