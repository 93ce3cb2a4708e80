"""The swarm itself: its socket, its hosts, and what leaders sign for all. An edge: a packet socket, the library in C."""

from __future__ import annotations

import ctypes
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from bench.swarm.groups import SharedGroups
from bench.swarm.library import LIBRARY, NOBODY, Counts, LinkModel
from bench.swarm.stops import Span, Stops
from bench.swarm.traffic import World
from protocol.auth import Guard
from protocol.bodies.groups import GroupsChange, unpack_groups
from protocol.bodies.vocabulary import Kind
from protocol.keyring import KeyRing
from protocol.keys.authentication import HostAuthentication
from protocol.keys.hosts import Derivation, Master
from protocol.messages import HEARTBEAT_MAC, Directory, DirectoryChange, Frame, Heartbeat, Override
from protocol.wire import BODY, TYPE
from topology.shapes import FIRST_ADDRESS

ETHERTYPE = 0x88B5
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_IGNORE_OUTGOING = 263, 1, 23
PACKET_MR_PROMISC = 1
SO_RCVBUFFORCE, SO_SNDBUFFORCE, SO_TIMESTAMPNS = 33, 32, 35
SOCKET_BYTES = 64 << 20
STEP_NS, STEPS_A_MS = 100_000, 10
NEVER_NS = (1 << 63) - 1
CHUNK_NS = 10_000_000
"""The library is left so often, for Python to look whether to stop."""
REGULATE_NS = 20_000_000
"""So often at most the regulated pairs are found anew."""
NODES = 1 << 17
LENGTH = slice(20, 22)
"""Where the length of the body is in a frame."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the swarm's hosts meet."""

    buffer_bytes: int = 250_000
    """The queue of each switch port."""
    lose: float = 0.0
    """The share of control frames that are lost in each direction, for each host by itself."""
    load: float = 0.0
    """The share of its rate that each sender wants, by demands at random; 0: each always has something to send."""
    mean_bytes: float = 1.25e6
    """Of such a demand."""
    spread_ns: int = 0
    """The hosts begin within this time."""
    seed: int = 1
    absent: int | None = None
    """The number of a host that is not of the swarm: it never begins, and another may take its place."""


class Swarm:
    """Agents of all hosts of a world behind one socket."""

    def __init__(self, world: World, master: Master, connection: socket.socket | None, given: Conditions) -> None:
        """`connection`: None for hosts that never hear a leader."""
        self.world = world
        rates = world.capacities_bps / 8e9
        buffers = np.full(len(world.links), float(given.buffer_bytes))
        self.model = LinkModel(rates * STEP_NS, buffers, world.paths, steps_a_ms=STEPS_A_MS)
        self._socket = connection
        self._library = LIBRARY.loaded()
        pairs = [np.ascontiguousarray(one, dtype="u4") for one in world.pairs]
        self._pointer = self._library.swarm_make(
            -1 if connection is None else connection.fileno(), len(world.names), NODES, FIRST_ADDRESS, len(world.pairs),
            pairs[0].ctypes.data, pairs[1].ctypes.data, self.model.pointer, STEP_NS, given.seed,
        )  # fmt: skip
        lose = min((1 << 32) - 1, round(given.lose * (1 << 32)))
        self._library.swarm_set(self._pointer, lose, given.load, given.mean_bytes, master.fingerprint)
        began_ns = time.monotonic_ns()
        for number, name in enumerate(world.names):
            mac = (0x02 << 40 | number + 1).to_bytes(6)
            host = master.enroll(name, salt=f"{number:08d}".encode())
            derive = Derivation(host.secret)
            begin_ns = NEVER_NS if number == given.absent else began_ns + given.spread_ns * number // len(world.names)
            self._library.swarm_host(
                self._pointer, number, name.encode(), host.enrolment, derive(b"to the leader", mac),
                derive(b"from the leader", mac), world.node_rate_bps(number), begin_ns,
            )  # fmt: skip
            if not number:
                keys = host.at(mac, master.group)
                way = HostAuthentication(KeyRing(keys))
                self.guard = Guard(KeyRing(keys), address=mac, ways={3: way})
        self.to_all: dict[str, int] = {}
        """How many messages to all were believed, by type."""
        self._stopping = False
        self._groups, self._epoch = SharedGroups(), 0
        self._worked_out: tuple[int, int] | None = None
        """The version of the groups, and how many hosts had been welcomed, when the regulated pairs were found last."""
        self._regulated_ns = 0

    def run(self, until_ns: int, look: Callable[[], None] = lambda: None) -> None:
        """Serves until this time of the monotonic clock, or `stop`. `look` is called some 100 times a second."""
        while not self._stopping and (now_ns := time.monotonic_ns()) < until_ns:
            chunk_ns = min(until_ns, now_ns + CHUNK_NS)
            while self._library.swarm_run(self._pointer, chunk_ns):
                self._to_all()
            self._regulate()
            look()

    def stop(self) -> None:
        """Ends `run` soon; from another thread."""
        self._stopping = True

    def drift(self, ns: int) -> None:
        """Lets all send as they like, without a leader, for so long in the model's time."""
        self._library.swarm_drift(self._pointer, ns)

    def counts(self) -> Counts:
        """What happened since the start."""
        found = Counts()
        self._library.swarm_counts(self._pointer, ctypes.byref(found))
        return found

    def gaps(self) -> list[Span]:
        """The longest times, since the start or `forget`, in which a PING waited and no host heard anything."""
        return ctypes.cast(self._library.swarm_gaps(self._pointer), ctypes.POINTER(Stops)).contents.spans()

    def unknown(self) -> dict[int, int]:
        """How many frames came of each kind that the swarm does not know."""
        pointer = ctypes.cast(self._library.swarm_unknown(self._pointer), ctypes.POINTER(ctypes.c_uint64 * 64))
        return {kind: count for kind, count in enumerate(pointer.contents) if count}

    def forget(self) -> None:
        """Longest times and fullest queues begin anew."""
        self._library.swarm_forget(self._pointer)

    def close(self) -> None:
        """Frees it."""
        self._library.swarm_free(self._pointer)
        self.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what leaders say to all ------------------------------------------------------------------------------------------

    def _to_all(self) -> None:
        length, came_ns = ctypes.c_uint32(), ctypes.c_int64()
        where = self._library.swarm_group(self._pointer, ctypes.byref(length), ctypes.byref(came_ns))
        raw = ctypes.string_at(where, length.value)
        if raw[:6] != HEARTBEAT_MAC and raw[TYPE] == Kind.GROUPS_CHANGE:  # the library has verified it
            self._new_epoch(int.from_bytes(raw[26:30]))
            self._take_groups(unpack_groups(_body(raw)))
            return
        if raw[:6] != HEARTBEAT_MAC or (frame := self.guard.accept(raw)) is None:
            return
        name = type(frame.message).__name__
        self.to_all[name] = self.to_all.get(name, 0) + 1
        self._obey(frame, raw, came_ns.value)

    def _obey(self, frame: Frame, raw: bytes, came_ns: int) -> None:
        message = frame.message
        self._new_epoch(frame.epoch)
        if isinstance(message, Heartbeat):
            free = message.override is Override.FREE
            self._library.swarm_heartbeat(
                self._pointer, frame.epoch, frame.source, free, message.directory_version, message.regulate_version, came_ns
            )
            return
        self._library.swarm_heard(self._pointer, frame.epoch, came_ns)
        if isinstance(message, Directory):
            body = _body(raw)
            self._library.swarm_directory(self._pointer, frame.epoch, body, len(body))
        elif isinstance(message, DirectoryChange):
            for node, _, addresses in message.entries:
                numbers = [int(address) - FIRST_ADDRESS for address in addresses if address.version == 4]
                self._library.swarm_named(self._pointer, node, numbers[0] if numbers else NOBODY)
            self._library.swarm_changed(self._pointer, frame.epoch, message.base, message.version)
        elif isinstance(message, GroupsChange) and (
            self._take_groups(message) or (self._groups.whole and message.version == self._groups.version)
        ):  # also when it comes again: for hosts that missed it before
            self._library.swarm_grouped(self._pointer, frame.epoch, message.base, message.version)

    # -- who is regulated -------------------------------------------------------------------------------------------------

    def _new_epoch(self, epoch: int) -> None:
        if epoch > self._epoch:
            self._epoch, self._worked_out = epoch, None
            self._groups.new_leader()

    def _take_groups(self, message: GroupsChange) -> bool:
        """Whether all pages of it have come."""
        fresh = self._groups.take(message)
        self._worked_out = None
        return fresh

    def _regulate(self) -> None:
        """Finds the regulated pairs anew, after the groups, a host's copy of them, or the members have changed."""
        now = self._groups.version, int(self.counts().welcomes)
        now_ns = time.monotonic_ns()
        if self._groups.version < 0 or now == self._worked_out or now_ns < self._regulated_ns + REGULATE_NS:
            return
        self._worked_out, self._regulated_ns = now, now_ns
        nodes = np.zeros(len(self.world.names), dtype=np.uint32)
        self._library.swarm_nodes(self._pointer, nodes.ctypes.data)
        by_host = nodes.astype(np.int64)
        found = self._groups.regulated(by_host[self.world.pairs.nodes], by_host[self.world.pairs.destinations])
        flags = np.ascontiguousarray(found, dtype=np.uint8)
        self._library.swarm_regulated(self._pointer, self._groups.version, len(flags), flags.ctypes.data)


def _body(raw: bytes) -> bytes:
    return raw[BODY : BODY + int.from_bytes(raw[LENGTH])]


def listen(interface: str) -> socket.socket:
    """A packet socket for Baton's frames to any host behind an interface. Raises OSError: no such interface, or no right."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    for option, value in ((SO_RCVBUFFORCE, SOCKET_BYTES), (SO_SNDBUFFORCE, SOCKET_BYTES), (SO_TIMESTAMPNS, 1)):
        made.setsockopt(socket.SOL_SOCKET, option, value)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.bind((interface, ETHERTYPE))
    index = socket.if_nametoindex(interface)
    made.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("iHH8s", index, PACKET_MR_PROMISC, 0, bytes(8)))
    return made


def names_of(unknown: dict[int, int]) -> dict[str, int]:
    """The same by the names of the kinds, where they have one."""
    known = {int(kind): kind.name.lower() for kind in Kind}
    return {known.get(kind, str(kind)): count for kind, count in unknown.items()}
