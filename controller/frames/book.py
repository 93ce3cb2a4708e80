"""The account of slots, kept by the library: as `Tallies` and `Permitted` keep it (controller/slots). An edge: ctypes.

Single events come as to every listener; those of batches the library notes itself.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from controller.frames.library import Tally
from controller.policies.base import Slot
from controller.policies.compiled.batches import SLOT
from controller.slots.permitted import Bytes
from controller.slots.slot_events import Pair, SlotListener

PERMISSION = np.dtype([(name, np.int64) for name in ("node", "destination", "credits", "rates")])
SWEPT, PIECE = 512, 256
"""How many records one call of `overdue` looks at, at least, and how many while it holds the lock. Each piece
waits for a turn of the loop, while that is busy."""
TAKEN = 128
"""How many records, and how many pairs, `take` looks at while it holds the lock."""
LOOKED_AT = 1_024
"""How many records, and how many pairs, `left` looks at while it holds the lock: some 10 us."""
MOST_LOST = 1_024
"""One call of `overdue` ends with the piece in which it has found so many."""
_SLOT = struct.Struct("8q")


def rows(slots: Iterable[Slot]) -> NDArray[np.void]:
    """Slots as an array of SLOT."""
    pack = _SLOT.pack
    packed = [
        pack(s.slot, s.node, s.destination, s.start_ns, s.end_ns, s.bytes, s.rate_bps, s.reserved_bps) for s in slots
    ]
    return np.frombuffer(b"".join(packed), SLOT)


class Book(SlotListener):
    """The slots that are on their way, the counts of them, and the bytes that they permit."""

    def __init__(self, library: ctypes.CDLL, state: int, lock: AbstractContextManager[None]) -> None:
        """The caller keeps the library's state for as long as this. `lock`: of that state."""
        self._c = library
        self._lock = lock
        self._state = state
        self._tally = Tally.from_address(library.frames_tally(state))
        self._row = (ctypes.c_int64 * 8)()
        self._sent_ns = ctypes.c_int64()
        self._found = (ctypes.c_uint64 * PIECE)()
        self._taken = np.zeros(TAKEN, PERMISSION)

    # -- counts -------------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """Slots granted; a repeated one is not counted twice."""
        return int(self._tally.slots)

    @property
    def acks(self) -> int:
        """Slots acknowledged."""
        return int(self._tally.acks)

    @property
    def late(self) -> int:
        """Those of them that opened late."""
        return int(self._tally.late)

    def count_late(self) -> None:
        """One more of them, of those that were acknowledged in a batch."""
        with self._lock:
            self._tally.late += 1

    @property
    def lost_slots(self) -> int:
        """Slots never acknowledged."""
        return int(self._tally.lost)

    @property
    def yields(self) -> int:
        """Slots given back."""
        return int(self._tally.yields)

    # -- single events ------------------------------------------------------------------------------------------------

    def granted(self, slot: Slot, end_ns: int, now_ns: int) -> None:
        with self._lock:
            self._c.frames_granted(self._state, rows([slot]).ctypes.data, now_ns)

    def opened(self, slot: int, opened_ns: int, *, late: bool) -> None:
        with self._lock:
            self._c.frames_opened_one(self._state, slot, late)

    def yielded(self, slot: int, pair: Pair, unspent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        with self._lock:
            self._c.frames_yielded(self._state, slot, *pair, unspent_bytes, now_ns)

    def revoked(self, slot: int, now_ns: int) -> None:
        with self._lock:
            self._c.frames_revoked(self._state, slot, now_ns)

    def lost(self, slots: Sequence[int]) -> None:
        for slot in slots:
            with self._lock:
                self._c.frames_lost(self._state, slot)

    def awaited(self, slot: int) -> tuple[Slot, int] | None:
        """A slot that is not acknowledged yet, and when its directive left (ns); else None."""
        with self._lock:
            found = self._c.frames_awaited(self._state, slot, ctypes.byref(self._row), ctypes.byref(self._sent_ns))
        if not found:
            return None
        return Slot(*self._row), self._sent_ns.value

    def overdue(self, then_ns: int) -> list[int]:
        """Slots begun before `then_ns` that are not acknowledged yet: those among the next `SWEPT` records, or a 64th of
        all; the calls go through them in turn. Forgets what was over long before. The loop may go on between pieces."""
        found: list[int] = []
        records = self._c.frames_records(self._state)
        left = min(records, max(SWEPT, records >> 6))
        while left and len(found) < MOST_LOST:
            piece = min(PIECE, left)
            with self._lock:
                count = self._c.frames_sweep(self._state, then_ns, piece, self._found)
            found += self._found[:count]
            left -= piece
        return found

    # -- what was permitted -------------------------------------------------------------------------------------------

    def take(self, now_ns: int) -> Bytes:
        """The bytes permitted since the last call, by pair. The loop may go on between pieces, and what it grants meanwhile
        counts now or the next time."""
        for at in range(0, self._c.frames_records(self._state), TAKEN):
            with self._lock:
                self._c.frames_count_permitted(self._state, at, TAKEN, now_ns)
        pieces = [self._taken[:0]]
        before = ctypes.c_uint32(self._c.frames_pairs(self._state))
        while before.value:
            with self._lock:
                count = self._c.frames_take_permitted(self._state, ctypes.byref(before), TAKEN, self._taken.ctypes.data)
            pieces.append(self._taken[:count].copy())
        found = np.concatenate(pieces).tolist()
        credits = {(node, destination): max(0, size) for node, destination, size, _ in found}
        return Bytes(credits, {(node, destination): size for node, destination, _, size in found if size})

    def left(self, node: int) -> None:
        """Forgets a member. The loop may go on between pieces: it grants nothing to who has left."""
        for at in range(0, max(self._c.frames_records(self._state), self._c.frames_pairs(self._state)), LOOKED_AT):
            with self._lock:
                self._c.frames_left(self._state, node, at, LOOKED_AT)
