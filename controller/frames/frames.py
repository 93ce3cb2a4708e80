"""Frames in and out in batches, for the coordinator of one term: the library, and what it shares with the Python way. An edge:
sockets, by their descriptors.

The library takes the frames that come most often, of members that it was told of (`know`), and only those that pass every
check. All others it hands on as they came. So what is refused, and why, is decided in one place, protocol/auth.py; and a
member's replay window is one, whichever way its frames take (`LentWindow`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from controller.frames import library as compiled
from controller.frames.book import Book
from controller.policies.compiled.batches import RETURNED, SLOT, Lend, address_of
from protocol.auth import ReplayWindow
from protocol.key import PERSON, Key
from protocol.keys.hosts import Speaker

OPENED = np.dtype([(name, np.int64) for name in (*(SLOT.names or ()), "opened", "by", "late")])
"""A slot whose gate opened: the slot, when (ns), the node that said so, and whether it was late."""
MAIN, DEFERRED = 0, 1
"""The two sockets of a control link."""
Words: TypeAlias = NDArray[np.uint32]
Rows: TypeAlias = NDArray[np.void]
_PEER_BYTES = ctypes.sizeof(compiled.Peer)


class Batch(NamedTuple):
    """What members said. The arrays are valid until the next call of `Frames.take`."""

    accepted: int
    """How many frames were taken."""
    yields: Rows
    """Slots given back (RETURNED), in the order in which the frames came, as are all of these arrays."""
    watched: NDArray[np.uint8]
    """For each of them, whether the slot is watched."""
    yielded_ns: Sequence[int]
    """And when the frame was taken."""
    nodes: Words
    backlog_ns: Sequence[int]
    """For each of these members, when its backlog was taken."""
    offsets: Words
    """The bytes of nodes[i] wait for destinations[offsets[i] : offsets[i + 1]], members all; nothing else of it waits."""
    destinations: Words
    sizes: NDArray[np.int64]
    opened: Rows
    """The first acknowledgements (OPENED) of slots that are watched, or opened late."""
    delayed: Words
    """The nodes to which directives take another time now, by something that matters."""
    raw: bytes | None
    """The frame that came after all these and was not taken; None: there is none."""
    stamp_ns: int
    """When the kernel received that frame, by the wall clock; 0: not known."""
    more: bool
    """Whether frames wait."""
    proven: bool
    """Whether that frame is authentic, and new: then the guard need not look."""


class Lock(AbstractContextManager[None]):
    """The lock of the library's state. Who holds it may take it again."""

    def __init__(self, library: ctypes.CDLL, state: int) -> None:
        """The caller keeps the library's state for as long as this."""
        self._hold, self._release, self._state = library.frames_hold, library.frames_release, state
        self.lend = Lend(address_of(library.frames_lend), state)
        """By which C lets others have it amid long work."""

    def __enter__(self) -> None:
        self._hold(self._state)

    def __exit__(self, *_: object) -> None:
        self._release(self._state)


class LentWindow(ReplayWindow):
    """A replay window whose state is the library's, so that both ways see the same one."""

    __slots__ = ("_ended", "_lock", "_peer")

    def __init__(self, peer: compiled.Peer, lock: Lock, ended: Callable[[], None]) -> None:
        """`ended` is called when the guard drops the window."""
        self._peer = peer
        self._lock = lock
        self._ended = ended

    def accept(self, sequence: int) -> bool:
        with self._lock:
            return super().accept(sequence)

    @property
    def highest(self) -> int:
        """The highest number seen."""
        return int(self._peer.highest)

    @highest.setter
    def highest(self, value: int) -> None:
        self._peer.highest = value

    @property
    def _seen(self) -> int:
        return int(self._peer._seen)

    @_seen.setter
    def _seen(self, value: int) -> None:
        self._peer._seen = value

    def end(self) -> int:
        """The library takes no more frames by it."""
        highest = self.highest
        self._ended()
        return highest


class Frames:
    """The library's state for one term.

    Args:
        address: the leader's MAC address.
        epoch: its epoch.
        sequence: its last sequence number; `sequence` has it from now on.
        tag: what stands before the EtherType of every frame that is sent.
        library: a build of the library other than this machine's own.
    """

    def __init__(
        self, address: bytes, epoch: int, sequence: int, tag: bytes = b"", library: ctypes.CDLL | None = None
    ) -> None:
        """Raises BuildError, OSError: there is no library here."""
        self._state: int | None = None
        self._c = library or compiled.LIBRARY.loaded()
        self._state = state = self._c.frames_new(address, epoch, sequence)
        if state is None:
            raise OSError("no memory for the library's tables")
        self._counts = compiled.Counts.from_address(self._c.frames_counts(state))
        self.terms = compiled.Terms.from_address(self._c.frames_terms(state))
        self.terms.most_said = compiled.MOST_SAID
        self.terms.tag_bytes = len(tag)
        self.terms.tag[: len(tag)] = list(tag)
        self.lock = Lock(self._c, state)
        self.book = Book(self._c, state, self.lock)
        self._peers: dict[int, compiled.Peer] = {}
        self._first = self._c.frames_peers(state)
        self._present = (ctypes.c_uint8 * compiled.NODES).from_address(self._c.frames_present(state))
        most, entries = compiled.MOST, compiled.MOST * 70
        self._yields = self._rows("yields", RETURNED, most)
        self._watched = self._rows("watched", np.dtype(np.uint8), most)
        self._opened = self._rows("opened", OPENED, most)
        self._delayed = self._rows("delayed", np.dtype(np.uint32), most)
        self._nodes = self._rows("nodes", np.dtype(np.uint32), most)
        self._offsets = self._rows("offsets", np.dtype(np.uint32), most + 1)
        self._destinations = self._rows("destinations", np.dtype(np.uint32), entries)
        self._sizes = self._rows("sizes", np.dtype(np.int64), entries)

    def __del__(self) -> None:
        if self._state is not None:
            self._c.frames_free(self._state)
            self._state = None

    def shared(self) -> tuple[ctypes.CDLL, int | None]:
        """The library and its state, for who calls it otherwise. This is to be kept for as long."""
        return self._c, self._state

    # -- members ------------------------------------------------------------------------------------------------------

    def joined(self, node: int) -> None:
        """A node is a member's."""
        self._present[node] = 1

    def left(self, node: int) -> None:
        """It is nobody's. The caller has it forgotten, too, and holds the lock."""
        self._present[node] = 0
        self._c.frames_begin_era(self._state)

    def know(self, node: int, mac: bytes, speaker: Speaker, sending: Key, window: ReplayWindow) -> compiled.Peer:
        """Takes the frames of a member from now on, when they come under these keys. The peer that it returns has its window,
        taken over from `window`; the caller writes the figures."""
        peer = compiled.Peer.from_address(self._first + node * _PEER_BYTES)
        peer.highest, peer._seen = window.highest, window._seen
        hearing = speaker.credentials.to_leader
        self._c.frames_know(self._state, node, mac, hearing.enrolment, hearing.secret, sending.secret, PERSON)
        self._peers[node] = peer
        return peer

    def knows(self, node: int) -> compiled.Peer | None:
        """The peer whose frames are taken; None: those of this node are handed on."""
        return self._peers.get(node)

    def forget(self, node: int) -> None:
        """Hands all of this node's frames on; its peer's figures are to be read before the next `know`."""
        if (peer := self._peers.pop(node, None)) is not None:
            peer.known = 0

    # -- in and out ---------------------------------------------------------------------------------------------------

    def take(self, descriptor: int, box: int, now_ns: int, most: int = compiled.MOST) -> Batch | None:
        """The next batch of a socket, received without waiting; `box`: which of the two sockets it is. None: nothing came."""
        self._c.frames_take(self._state, descriptor, box, most, now_ns)
        counts = self._counts
        raw_bytes, accepted = counts.raw_bytes, counts.accepted
        if raw_bytes < 0 and not accepted:
            return None
        raw = ctypes.string_at(self._c.frames_raw(self._state), raw_bytes) if raw_bytes >= 0 else None
        yields, backlogs, entries = counts.yields, counts.backlogs, counts.entries
        return Batch(
            accepted, self._yields[:yields], self._watched[:yields], [now_ns] * yields, self._nodes[:backlogs],
            [now_ns] * backlogs, self._offsets[: backlogs + 1], self._destinations[:entries], self._sizes[:entries],
            self._opened[: counts.opened], self._delayed[: counts.delayed], raw, counts.raw_stamp_ns,
            counts.waiting > 0 or counts.full > 0, bool(counts.proven),
        )  # fmt: skip

    def direct(
        self, descriptor: int, revoked: Rows, granted: Rows, *, watched: int, now_ns: int
    ) -> list[int]:
        """Carries out a plan (arrays of SLOT, contiguous): sends directives, all of a member in as few frames as hold them, and
        keeps account in `book`.

        Args:
            watched: so many of the grants are told of, when they are acknowledged or given back.

        Returns the rows of members that it does not know, for the caller to send: indices into the revoked and then the granted
        ones.
        """
        revokes, grants = len(revoked), len(granted)
        self._c.frames_direct(
            self._state, descriptor, revokes, revoked.ctypes.data, grants, granted.ctypes.data, watched, now_ns
        )
        counts = self._counts
        if not counts.others:
            return []
        others = (ctypes.c_uint32 * counts.others).from_address(self._c.frames_others(self._state))
        return list(others)

    def next_sequence(self) -> int:
        """The number of the leader's next frame."""
        with self.lock:
            self.terms.sequence += 1
            return int(self.terms.sequence)

    @property
    def withheld(self) -> int:
        """How many frames the last call of `take` or `direct` did not send, because the lease was over (`terms.until_ns`)."""
        return int(self._counts.withheld)

    @property
    def sent(self) -> int:
        """How many frames the last call of `direct` sent."""
        return int(self._counts.sent)

    def _rows(self, name: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        address = getattr(self._c, f"frames_{name}")(self._state)
        memory = memoryview((ctypes.c_char * (count * dtype.itemsize)).from_address(address)).cast("B")
        found: NDArray[Any] = np.frombuffer(memory, dtype)
        return found
