"""The raw socket for control frames, the same at both ends. An edge: AF_PACKET."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from protocol.messages import ETHERTYPE, HEARTBEAT_MAC
from protocol.wire import BODY, TYPE

SOL_PACKET = 263  # linux/socket.h
PACKET_ADD_MEMBERSHIP, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING = 1, 20, 23  # linux/if_packet.h
PACKET_MR_MULTICAST = 0
ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_TIMESTAMPNS = 35
TC_PRIO_CONTROL = 7  # linux/pkt_sched.h
ETH_P_8021Q = 0x8100
SIOCGSTAMPNS = 0x8907  # asm-generic/sockios.h
SIOCGIFINDEX = 0x8933  # linux/sockios.h
_TIMESPEC = struct.Struct("qq")
# Classic BPF (linux/filter.h)
_LOAD_2, _LOAD_1, _EQUAL, _RETURN = 0x28, 0x30, 0x15, 0x06
WHOLE, NOTHING = 0xFFFF, 0
TYPE_AT = 12  # of the EtherType in a frame

RECEIVE_BYTES = 2048
OLDEST_NS = 50_000_000
"""A frame that seems to have waited for longer did not: the wall clock, by which the kernel stamps frames, was set."""
STAMPED, COLD_NS = 32, 2_000_000
"""How many frames count for the time to make one, and the time without any after which the code is in no cache (ns)."""
MOST_WAITING = 256
"""The most frames that one call of `deferred_frames` takes, about as many as the socket holds: more is a flood, and waits for
the next call."""

Deferred = Iterable[tuple[int, int | None]]
"""Types of message to defer, each with the first byte that its body must have, or None for any."""


def _filter(ethertype: int, kinds: Deferred, those: int, others: int) -> bytes:
    """A BPF program that passes frames of one EtherType: `those` of the given kinds and `others`, each `WHOLE` or `NOTHING`."""
    rules = []
    for kind, first in kinds:
        body = [] if first is None else [(_LOAD_1, 0, 0, BODY), (_EQUAL, 0, 1, first)]
        rules += [(_LOAD_1, 0, 0, TYPE), (_EQUAL, 0, len(body) + 1, kind), *body, (_RETURN, 0, 0, those)]
    rules.append((_RETURN, 0, 0, others))
    program = [(_LOAD_2, 0, 0, 12), (_EQUAL, 1, 0, ethertype), (_RETURN, 0, 0, NOTHING), *rules]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


class ControlSocket:
    """Sends and receives frames of Baton's EtherType on one interface. Frames leave through its queues, in the control band.

    The socket binds to all EtherTypes and filters, because a bridge port hands frames to the bridge before any socket that is
    bound to a single EtherType sees them.

    On request every frame carries a priority tag (IEEE 802.1Q, VLAN 0), by which switches that Baton does not control serve it
    first. Received frames may have one or not: the kernel takes it off before a socket sees the frame.

    Frames of a `deferred` kind go to a second socket, so that they do not wake the process. The kernel picks them by bytes that
    are not yet verified: a sender that forges those bytes gains nothing but to be served later.
    """

    def __init__(
        self,
        interface: str,
        ethertype: int = ETHERTYPE,
        group: bytes = HEARTBEAT_MAC,
        *,
        bypass: bool = False,
        deferred: Deferred = (),
        priority_tag: int | None = None,
        given: Sequence[int] = (),
    ) -> None:
        """Listens to the group address `group`, too. With `bypass`, frames do not pass the interface's queues; `priority_tag`,
        0 to 7, is the priority in the tag of every frame that is sent (None: no tag). `given`: descriptors of two packet
        sockets that are not bound yet, of the interface's network namespace, for a process that may make none.

        Raises OSError: there is no such interface, or CAP_NET_RAW is missing.
        """
        kinds = tuple(deferred)
        sockets = [socket.socket(fileno=descriptor) for descriptor in given]
        sockets += [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(len(sockets), 2 if kinds else 1)]
        self._socket = _listen(sockets[0], interface, group, _filter(ethertype, kinds, NOTHING, WHOLE))
        self._socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, int(bypass))
        with suppress(PermissionError):  # old kernels want CAP_NET_ADMIN; an agent's classifier puts its frames first anyway
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, TC_PRIO_CONTROL)
        self.tag = b"" if priority_tag is None else struct.pack("!HH", ETH_P_8021Q, priority_tag << 13)
        """What `send` puts before the EtherType of every frame."""
        self._deferred = _listen(sockets[1], interface, group, _filter(ethertype, kinds, WHOLE, NOTHING)) if kinds else None
        if self._deferred is not None:
            self._deferred.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.address = self._own_address()
        self.interface = interface
        self._making_ns: deque[int] = deque(maxlen=STAMPED)
        self._stamped_ns = 0

    def _own_address(self) -> bytes:
        address: bytes = self._socket.getsockname()[4][:6]
        return address

    def renew_address(self) -> bool:
        """Reads the interface's MAC address anew; returns whether `address` is another one now."""
        before, present = self.address, self._own_address()
        self.address = present or before  # an interface that is gone has none
        return self.address != before

    def fault(self) -> str:
        """What a leader cannot go on with: its interface "is gone" (deleted, or moved to another network namespace: this socket
        hears nothing ever again, even of one that is made anew by the same name), or "has another MAC address" than the one it
        announced. Else ""."""
        present = self._own_address()
        return "is gone" if not present else "" if present == self.address else "has another MAC address"

    def fileno(self) -> int:
        """The descriptor for select."""
        return self._socket.fileno()

    def deferred_fileno(self) -> int:
        """For select, while deferred frames must not wait. Raises ValueError: this socket defers no kind of frame."""
        if self._deferred is None:
            raise ValueError("deferred_fileno: this socket defers no kind of frame")
        return self._deferred.fileno()

    def stamp(self) -> None:
        """Has the kernel stamp each frame of `fileno`, for who receives many at once; `arrived_ns` knows nothing then."""
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def send(self, frame: bytes) -> bool:
        """Sends a whole frame; False if the interface could not take it (the protocol survives lost frames)."""
        try:
            self._socket.send(frame[:TYPE_AT] + self.tag + frame[TYPE_AT:] if self.tag else frame)
        except OSError:
            return False
        return True

    def send_stamped(self, frame: Callable[[int], bytes]) -> bool:
        """Sends the frame that `frame` makes for the instant at which it leaves (ns of the monotonic clock); returns as `send`.

        The instant allows for the time that making the frame takes, as NTP does for the delay of its authentication;
        otherwise the end that makes frames more slowly would seem to be behind by half the difference. If no frame was made
        lately, one is made and dropped first, to warm the caches. The shortest of the last times counts: an instant that is
        too early makes the path seem longer than it is, so that the receiver does not trust the sample (agents/loop/clock.py),
        whereas one that is too late would make it the most trusted.
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
        """The next frame, or None if there is none (or the interface is down)."""
        try:
            return self._socket.recv(RECEIVE_BYTES)
        except OSError:
            return None

    def arrived_ns(self) -> int:
        """The time (ns of the monotonic clock) at which the kernel received the frame that `receive` returned last, so that
        waking up late does not count as delay; the present time if the kernel has no timestamp."""
        stamp = bytearray(_TIMESPEC.size)
        try:
            fcntl.ioctl(self._socket, SIOCGSTAMPNS, stamp)
        except OSError:  # there was no frame yet
            return time.monotonic_ns()
        seconds, nanoseconds = _TIMESPEC.unpack(stamp)
        return arrived_ns(seconds * 10**9 + nanoseconds)

    def deferred_frames(self, most: int = MOST_WAITING) -> list[tuple[bytes, int]]:
        """The frames of deferred kinds that have come since the last call, `most` of them, in their order, each with the time
        (ns of the monotonic clock) at which the kernel received it; far too early if the wall clock was set forward since."""
        found: list[tuple[bytes, int]] = []
        if self._deferred is None:
            return found
        while len(found) < most:
            try:
                frame, control, _, _ = self._deferred.recvmsg(RECEIVE_BYTES, 64)
            except OSError:
                break
            found.append((frame, _came_ns(control)))
        return found

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()
        if self._deferred is not None:
            self._deferred.close()


def arrived_ns(stamp_ns: int) -> int:
    """The time (ns of the monotonic clock) of a kernel's timestamp (ns of the wall clock); the present time if that is none."""
    age_ns = time.time_ns() - stamp_ns
    return time.monotonic_ns() - (age_ns if 0 <= age_ns <= OLDEST_NS else 0)


def _listen(made: socket.socket, interface: str, group: bytes, instructions: bytes) -> socket.socket:
    try:
        code = ctypes.create_string_buffer(instructions)
        program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(code))
        made.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        made.bind((interface, ETH_P_ALL))
        made.setblocking(False)
        asked = bytearray(struct.pack("16sI20x", interface.encode(), 0))
        fcntl.ioctl(made, SIOCGIFINDEX, asked)  # by the socket: its network namespace may be another one than ours
        index = struct.unpack_from("I", asked, 16)[0]
        membership = struct.pack("iHH8s", index, PACKET_MR_MULTICAST, 6, group + bytes(2))
        made.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
    except BaseException:
        made.close()
        raise
    return made


def _came_ns(control: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            stamp_ns: int = seconds * 10**9 + nanoseconds
            return time.monotonic_ns() - max(0, time.time_ns() - stamp_ns)
    return time.monotonic_ns()
