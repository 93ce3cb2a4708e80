"""The compiled schedule (controller/policies/compiled/schedule.c) as a library. An edge: ctypes, the compiler at first use."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from ebpf.build import BuildError, shared_library

POINTER, I64, U32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32
ANY = 0xFFFFFFFF
"""A node that stands for any, in a weight."""


class Terms(ctypes.Structure):
    """`struct terms`: ns, millionths and bytes."""

    _fields_ = (
        ("slice_ns", I64), ("minimum_active_ns", I64), ("headroom_ppm", I64), ("minimum_ppm", I64), ("burst_bytes", I64),
        ("packet_bytes", I64), ("patience", U32),
    )  # fmt: skip


class Counts(ctypes.Structure):
    """`struct counts`: the last slot number, and how many slots are granted and revoked."""

    _fields_ = (("last_number", ctypes.c_uint64), ("grants", U32), ("revokes", U32))


FUNCTIONS = (
    ("core_new", POINTER, (POINTER,)),
    ("core_free", None, (POINTER,)),
    ("core_rewire", None, (POINTER, I64)),
    ("core_link", U32, (POINTER, I64)),
    ("core_unplaced", U32, (POINTER,)),
    ("core_take_unplaced", U32, (POINTER, POINTER, POINTER)),
    ("core_place", None, (POINTER, U32, I64, U32, POINTER)),
    ("core_settle", None, (POINTER,)),
    ("core_regulate", None, (POINTER, I64, U32, POINTER, POINTER, POINTER)),
    ("core_backlogs", None, (POINTER, I64, U32, POINTER, POINTER, POINTER, POINTER)),
    ("core_yields", None, (POINTER, I64, U32, POINTER)),
    ("core_weight", None, (POINTER, U32, U32, ctypes.c_double)),
    ("core_delay", None, (POINTER, U32, I64)),
    ("core_left", None, (POINTER, I64, U32)),
    ("core_plan", None, (POINTER, I64, I64, POINTER)),
    ("core_grants", POINTER, (POINTER,)),
    ("core_revokes", POINTER, (POINTER,)),
    ("core_next_event", I64, (POINTER,)),
)


@cache
def library() -> ctypes.CDLL:
    """Loads the library, compiled first if necessary.

    Raises:
        BuildError: the compiler is missing or reports an error.
        OSError: the library cannot be loaded.
    """
    return load(shared_library("schedule", Path(__file__).parent))


def load(path: Path) -> ctypes.CDLL:
    """Loads a build of the library. Raises OSError."""
    made = ctypes.CDLL(str(path))
    for name, result, arguments in FUNCTIONS:
        function = getattr(made, name)
        function.restype, function.argtypes = result, arguments
    return made


@cache
def why_missing() -> str:
    """Why the library cannot be used here; empty if it can."""
    try:
        library()
    except (BuildError, OSError) as error:
        return str(error)
    return ""
