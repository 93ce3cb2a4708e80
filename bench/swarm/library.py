"""The swarm's library in C (bench/swarm/swarm.c). An edge: ctypes, the compiler at first use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.clibrary import Library

POINTER, I64, U64, U32, F64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_double
BYTES = ctypes.c_char_p
KINDS = 64
NOBODY = 0xFFFFFFFF
BODY_ROOM = 1514


class Counts(ctypes.Structure):
    """`struct counts` (bench/swarm/agent.h): since the start; times in ns."""

    _fields_ = (
        *((name, U64) for name in (
            "received", "sent", "refused", "unknown", "dropped_in", "dropped_out", "registers", "welcomes", "backlogs",
            "directives", "grants", "late", "acks", "yields", "reports", "pings", "pongs", "questions", "errors", "silent",
            "unanswered", "not_taken", "granted_bytes", "rate_grants",
        )),
        *((name, I64) for name in (
            "members", "served", "last_member_ns", "last_served_ns", "latest_ns", "answer_ns", "clock_error_ns",
            "turn_ns", "behind_ns", "awaiting", "stepped_ns", "model_behind_ns", "model_step_ns", "epoch", "current",
        )),
    )  # fmt: skip

    def to_dict(self) -> dict[str, int]:
        """By name."""
        return {name: getattr(self, name) for name, *_ in self._fields_}


LINK_COUNTS = np.dtype([(name, "f8") for name in ("carried", "lost", "most_waiting", "most_in_a_ms", "waiting", "in_this_ms")])
"""`struct link_counts` (bench/swarm/links.h): bytes."""
GRANT = np.dtype([("destination", "u4"), ("bytes", "u4"), *((name, "u8") for name in ("slot", "start", "end", "rate"))])
"""`struct grant` (bench/swarm/frames.h)."""

LIBRARY = Library("swarm", Path(__file__).parent, (
    ("swarm_run", ctypes.c_int32, (POINTER, I64)),
    ("swarm_drift", None, (POINTER, I64)),
    ("swarm_heartbeat", None, (POINTER, U32, BYTES, ctypes.c_uint8, U64, U64, I64)),
    ("swarm_heard", None, (POINTER, U32, I64)),
    ("swarm_directory", None, (POINTER, U32, BYTES, U32)),
    ("swarm_named", None, (POINTER, U32, U32)),
    ("swarm_changed", None, (POINTER, U32, U64, U64)),
    ("swarm_grouped", None, (POINTER, U32, U64, U64)),
    ("swarm_nodes", None, (POINTER, POINTER)),
    ("swarm_regulated", None, (POINTER, U64, U32, POINTER)),
    ("swarm_make", POINTER, (ctypes.c_int32, U32, U32, U32, U32, POINTER, POINTER, POINTER, I64, U64)),
    ("swarm_host", None, (POINTER, U32, BYTES, BYTES, BYTES, BYTES, U64, I64)),
    ("swarm_set", None, (POINTER, U64, F64, F64, U64)),
    ("swarm_counts", None, (POINTER, POINTER)),
    ("swarm_gaps", POINTER, (POINTER,)),
    ("swarm_unknown", POINTER, (POINTER,)),
    ("swarm_forget", None, (POINTER,)),
    ("swarm_group", POINTER, (POINTER, POINTER, POINTER)),
    ("swarm_free", None, (POINTER,)),
    ("witness_make", POINTER, (U32,)),
    ("witness_end", None, (POINTER, POINTER)),
    ("model_make", POINTER, (U32, U32, U32, U32, POINTER, POINTER, POINTER)),
    ("model_step", None, (POINTER, POINTER)),
    ("model_sums", None, (POINTER, POINTER)),
    ("model_counts", POINTER, (POINTER,)),
    ("model_free", None, (POINTER,)),
    ("frame_pack", U32, (U32, POINTER, U32, BYTES, POINTER)),
    ("frame_seal", U32, (POINTER, U32, U32, BYTES, BYTES, U32, U32, U64, BYTES, BYTES)),
    ("frame_grants", ctypes.c_int32, (BYTES, U32, BYTES, POINTER)),
))  # fmt: skip


class LinkModel:
    """What the directed links of a tree carry, hold back and lose; bench/swarm/links.h says how."""

    def __init__(
        self,
        capacities: NDArray[np.float64],
        buffers: NDArray[np.float64],
        paths: NDArray[np.int32],
        *,
        steps_a_ms: int = 1,
    ) -> None:
        """`capacities`: bytes a step, `buffers`: bytes, by link; `paths`: (flows, levels), the number of a link or -1."""
        self._links, (self.flows, levels) = len(capacities), paths.shape
        arrays = [np.ascontiguousarray(one, dtype=kind) for one, kind in ((capacities, "f8"), (buffers, "f8"), (paths, "i4"))]
        pointers = [one.ctypes.data for one in arrays]
        self.pointer: int = LIBRARY.loaded().model_make(self._links, self.flows, levels, steps_a_ms, *pointers)

    def step(self, sent: NDArray[np.float64]) -> None:
        """One step, in which each flow sends so many bytes."""
        given = np.ascontiguousarray(sent, dtype="f8")
        if len(given) != self.flows:
            raise ValueError(f"sent: {len(given)} values, must be {self.flows}, one for each flow")
        LIBRARY.loaded().model_step(self.pointer, given.ctypes.data)

    def sums(self) -> dict[str, float]:
        """Bytes since the start: {"sent", "delivered", "lost", "waiting"}."""
        found = (F64 * 4)()
        LIBRARY.loaded().model_sums(self.pointer, found)
        return dict(zip(("sent", "delivered", "lost", "waiting"), found, strict=True))

    def counts(self) -> NDArray[np.void]:
        """Of each link, with dtype LINK_COUNTS; a copy."""
        size = self._links * LINK_COUNTS.itemsize
        raw = ctypes.string_at(LIBRARY.loaded().model_counts(self.pointer), size)
        return np.frombuffer(raw, dtype=LINK_COUNTS).copy()

    def close(self) -> None:
        """Frees it."""
        LIBRARY.loaded().model_free(self.pointer)


def packed(kind: int, numbers: Sequence[int], name: str = "") -> bytes:
    """A body as the library packs it, from the fields in the order of PROTOCOL.md."""
    fields, room = (U64 * len(numbers))(*numbers), ctypes.create_string_buffer(BODY_ROOM)
    size = LIBRARY.loaded().frame_pack(kind, fields, len(numbers), name.encode(), room)
    return room.raw[:size]


def sealed(
    kind: int, body: bytes, *, to: bytes, source: bytes, sender: int, epoch: int, sequence: int, enrolment: bytes, key: bytes
) -> bytes:
    """A frame from a host as the library makes it."""
    room = ctypes.create_string_buffer(bytes(38) + body, BODY_ROOM)
    size = LIBRARY.loaded().frame_seal(room, kind, len(body), to, source, sender, epoch, sequence, enrolment, key)
    return room.raw[:size]


def grants(frame: bytes, key: bytes) -> NDArray[np.void] | None:
    """The grants of a DIRECTIVE, with dtype GRANT; None: it is not whole, or not under this key."""
    found: NDArray[Any] = np.zeros(64, dtype=GRANT)
    count = LIBRARY.loaded().frame_grants(frame, len(frame), key, found.ctypes.data)
    return None if count < 0 else found[:count]
