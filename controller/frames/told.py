"""What the loop of slots tells Python, read: the records of told.h. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from controller.frames.frames import OPENED, Batch, Rows
from controller.policies.compiled.batches import RETURNED, SLOT

BATCH, FRAME, PLAN, PROVEN = 1, 2, 3, 4
_I64, _U32, _U8 = np.dtype(np.int64), np.dtype(np.uint32), np.dtype(np.uint8)
_ARRAYS: tuple[np.dtype[Any], ...] = (RETURNED, OPENED, _I64, _I64, _I64, _U32, _U32, _U32, _U32, _U8)
_EMPTY = {dtype: np.zeros(0, dtype) for dtype in _ARRAYS}
_HEAD = struct.Struct("2I")
_BATCH = struct.Struct("8Iq")
_FRAME = struct.Struct("4I2q")
_PLAN = struct.Struct("8Iq")


class RawFrame(NamedTuple):
    """A frame that Python handles."""

    raw: bytes
    stamp_ns: int
    """When the kernel received it, by the wall clock; 0: not known."""
    proven: bool
    """Whether it is authentic, and new: then the guard need not look."""


class Planned(NamedTuple):
    """What Python follows of a plan that the loop has carried out (arrays of SLOT)."""

    revoked: Rows
    """Slots taken back, of those that are watched."""
    granted: Rows
    """Slots that are watched from now on."""
    left_out: int
    """So many more were granted."""
    others_revoked: Rows
    """Slots to take back from members whose frames the loop does not send, and those to grant to such members."""
    others_granted: Rows


Told: TypeAlias = Batch | RawFrame | Planned


def records(told: bytes) -> Iterator[tuple[int, Told]]:
    """The records of a buffer, each with the time (ns) at which it was written."""
    at = 0
    while at < len(told):
        kind, size = _HEAD.unpack_from(told, at)
        if kind == BATCH:
            yield _batch(told, at)
        elif kind in (FRAME, PROVEN):
            _, _, length, _, now_ns, stamp_ns = _FRAME.unpack_from(told, at)
            begin = at + _FRAME.size
            yield now_ns, RawFrame(told[begin : begin + length], stamp_ns, kind == PROVEN)
        else:
            yield _plan(told, at)
        at += size


def _batch(told: bytes, at: int) -> tuple[int, Batch]:
    _, _, accepted, yields, opened, entries, backlogs, delayed, now_ns = _BATCH.unpack_from(told, at)
    at += _BATCH.size
    arrays: list[Any] = []
    counts = yields, opened, entries, yields, backlogs, backlogs, backlogs + 1, entries, delayed, yields
    for dtype, count in zip(_ARRAYS, counts, strict=True):
        arrays.append(np.frombuffer(told, dtype, count, at) if count else _EMPTY[dtype])
        at += count * dtype.itemsize
    given_back, acknowledged, sizes, yielded_ns, backlog_ns, nodes, offsets, destinations, changed, watched = arrays
    return now_ns, Batch(
        accepted, given_back, watched, yielded_ns.tolist(), nodes, backlog_ns.tolist(), offsets, destinations, sizes,
        acknowledged, changed, None, 0, more=False, proven=False,
    )


def _plan(told: bytes, at: int) -> tuple[int, Planned]:
    _, _, revoked, granted, others, others_revoked, left_out, _, now_ns = _PLAN.unpack_from(told, at)
    rows = np.frombuffer(told, SLOT, revoked + granted + others, at + _PLAN.size)
    first, second = revoked + granted, revoked + granted + others_revoked
    return now_ns, Planned(rows[:revoked], rows[revoked:first], left_out, rows[first:second], rows[second:])
