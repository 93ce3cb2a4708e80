"""The raw socket that control frames pass, the same at both ends. An edge: AF_PACKET."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable

from protocol.messages import ETHERTYPE, HEARTBEAT_MAC
from protocol.wire import BODY, TYPE

SOL_PACKET = 263  # linux/socket.h
PACKET_ADD_MEMBERSHIP, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING = 1, 20, 23  # linux/if_packet.h
PACKET_MR_MULTICAST = 0
ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_TIMESTAMPNS = 35
SIOCGSTAMPNS = 0x8907  # asm-generic/sockios.h
_TIMESPEC = struct.Struct("qq")
# Classic BPF (linux/filter.h)
_LOAD_2, _LOAD_1, _EQUAL, _RETURN = 0x28, 0x30, 0x15, 0x06
WHOLE, NOTHING = 0xFFFF, 0

RECEIVE_BYTES = 2048
OLDEST_NS = 50_000_000
"""A frame that seems to have waited for longer was not: somebody set the wall clock, by which the kernel stamps it."""
STAMPED, COLD_NS = 32, 2_000_000
"""How many stamped frames count for what it takes to make one; after how long without any its code is in no cache."""
MOST_WAITING = 1024
"""Frames that `patient` takes at once: what comes faster is a flood, and waits until the next time."""

Patient = Iterable[tuple[int, int | None]]
"""Types of message, each with the first byte that its body must have, or None for any."""


def _filter(ethertype: int, kinds: Patient, those: int, others: int) -> bytes:
    """Of the frames of one EtherType passes `those` of the kinds and `others`, each `WHOLE` or `NOTHING`."""
    rules = []
    for kind, first in kinds:
        body = [] if first is None else [(_LOAD_1, 0, 0, BODY), (_EQUAL, 0, 1, first)]
        rules += [(_LOAD_1, 0, 0, TYPE), (_EQUAL, 0, len(body) + 1, kind), *body, (_RETURN, 0, 0, those)]
    rules.append((_RETURN, 0, 0, others))
    program = [(_LOAD_2, 0, 0, 12), (_EQUAL, 1, 0, ethertype), (_RETURN, 0, 0, NOTHING), *rules]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


class ControlSocket:
    """Frames of one EtherType, Baton's, on one interface. Sending passes the interface's queues, in the control band.

    It listens where all frames pass and filters: a port of a bridge hands frames to the bridge before any socket that asked
    for one EtherType sees them.

    Frames of a `patient` kind come by a second socket, so that nobody need be woken for them. The kernel tells which they are
    by bytes that nobody has verified yet: who forges them can be served later, nothing else.
    """

    def __init__(
        self,
        interface: str,
        ethertype: int = ETHERTYPE,
        group: bytes = HEARTBEAT_MAC,
        *,
        bypass: bool = False,
        patient: Patient = (),
    ) -> None:
        """Listens to `group`, too. With `bypass` what is sent passes no queues.

        Raises OSError: no such interface, or no right to open a packet socket (CAP_NET_RAW).
        """
        kinds = tuple(patient)
        self._socket = _listen(interface, group, _filter(ethertype, kinds, NOTHING, WHOLE))
        self._socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, int(bypass))
        self._patient = _listen(interface, group, _filter(ethertype, kinds, WHOLE, NOTHING)) if kinds else None
        if self._patient is not None:
            self._patient.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.address: bytes = self._socket.getsockname()[4][:6]
        self.interface = interface
        self._making_ns: deque[int] = deque(maxlen=STAMPED)
        self._stamped_ns = 0

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def patient_fileno(self) -> int:
        """For select, by who cannot wait just now. Raises ValueError: there are no patient kinds."""
        if self._patient is None:
            raise ValueError("patient: no kind of frame is")
        return self._patient.fileno()

    def send(self, frame: bytes) -> bool:
        """Sends a whole frame; False if the interface could not take it (a lost frame is the protocol's to survive)."""
        try:
            self._socket.send(frame)
        except OSError:
            return False
        return True

    def send_stamped(self, frame: Callable[[int], bytes]) -> bool:
        """As `send`, of the frame that `frame` makes of the instant at which it leaves (ns of the monotonic clock).

        What it takes to make it is allowed for, as NTP did for its authentication's delay; else whoever makes frames more
        slowly than the other end seems to be behind by half the difference. If that was not done lately it is made once for
        nothing, and all is in the caches then. What counts is the least that it took lately: who says an instant that is too
        early has a way that seems longer than it was, and is not believed (agents/loop/clock.py); too late, and it would be
        believed before all others.
        """
        began_ns = time.monotonic_ns()
        if began_ns - self._stamped_ns > COLD_NS:
            frame(began_ns)
            began_ns = time.monotonic_ns()
        made = frame(began_ns + min(self._making_ns, default=0))
        self._stamped_ns = time.monotonic_ns()
        self._making_ns.append(self._stamped_ns - began_ns)
        return self.send(made)

    def receive(self) -> bytes | None:
        """The next frame, or None when there is none (or the interface is down just now)."""
        try:
            return self._socket.recv(RECEIVE_BYTES)
        except OSError:
            return None

    def arrived_ns(self) -> int:
        """When the kernel had the frame that `receive` gave last, by the monotonic clock: how late we woke up is no part of its
        way. Now, if the kernel does not say."""
        stamp = bytearray(_TIMESPEC.size)
        try:
            fcntl.ioctl(self._socket, SIOCGSTAMPNS, stamp)
        except OSError:  # it has given none yet
            return time.monotonic_ns()
        seconds, nanoseconds = _TIMESPEC.unpack(stamp)
        age_ns: int = time.time_ns() - seconds * 10**9 - nanoseconds
        return time.monotonic_ns() - (age_ns if 0 <= age_ns <= OLDEST_NS else 0)

    def patient(self) -> list[tuple[bytes, int]]:
        """The frames of patient kinds that have come since the last call, in their order, each with its age in ns."""
        found: list[tuple[bytes, int]] = []
        if self._patient is None:
            return found
        while len(found) < MOST_WAITING:
            try:
                frame, control, _, _ = self._patient.recvmsg(RECEIVE_BYTES, 64)
            except OSError:
                break
            found.append((frame, _age_ns(control)))
        return found

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()
        if self._patient is not None:
            self._patient.close()


def _listen(interface: str, group: bytes, instructions: bytes) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        code = ctypes.create_string_buffer(instructions)
        program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(code))
        made.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        made.bind((interface, ETH_P_ALL))
        made.setblocking(False)
        membership = struct.pack("iHH8s", socket.if_nametoindex(interface), PACKET_MR_MULTICAST, 6, group + bytes(2))
        made.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
    except BaseException:
        made.close()
        raise
    return made


def _age_ns(control: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            came_ns: int = seconds * 10**9 + nanoseconds
            return max(0, time.time_ns() - came_ns)
    return 0
