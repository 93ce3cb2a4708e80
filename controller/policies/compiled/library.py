"""The cores of the compiled policies (controller/policies/core/, a folder each) as libraries. An edge: ctypes, the compiler at
first use."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from ebpf.clibrary import Function, Library

CORE = Path(__file__).parents[1] / "core"
POINTER, I64, U32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32
ANY = 0xFFFFFFFF
"""A node that stands for any, in a weight; and a pair that there is not."""


class Array(Protocol):
    """An array of the standard library, or of numpy."""

    def __len__(self) -> int: ...

    def tolist(self) -> list[int]: ...


def at(values: Array) -> int:
    """The address of an array's first element. The caller keeps the array."""
    return values.buffer_info()[0] if isinstance(values, array) else int(values.ctypes.data)  # type: ignore[attr-defined]


class Terms(ctypes.Structure):
    """`struct terms`: ns, millionths and bytes."""

    _fields_ = (
        ("slice_ns", I64), ("minimum_active_ns", I64), ("headroom_ppm", I64), ("minimum_ppm", I64), ("burst_bytes", I64),
        ("packet_bytes", I64), ("patience", U32), ("at_once", U32),
    )  # fmt: skip


class Counts(ctypes.Structure):
    """`struct counts`: the last slot number, and how many slots are granted and revoked."""

    _fields_ = (("last_number", ctypes.c_uint64), ("grants", U32), ("revokes", U32))


class Group(ctypes.Structure):
    """`struct group`: contended links that share senders, and what was measured there (ns, bytes; a delay of -1: not known)."""

    _fields_ = (
        ("first", U32), ("count", U32), ("senders", U32), ("one_link", U32), ("delay_ns", I64), ("turns", I64),
        ("granted", I64), ("unspent", I64),
    )  # fmt: skip


class FoundPlaces(ctypes.Structure):
    """`struct found`: links of a network, and places of pairs in it."""

    _fields_ = (
        ("nodes", POINTER), ("destinations", POINTER), ("offsets", POINTER), ("links", POINTER), ("rates", POINTER),
        ("capacities", POINTER), ("count", U32), ("link_count", U32), ("first", U32),
    )  # fmt: skip


class Dealt(ctypes.Structure):
    """`struct dealt`: pairs as `regulate` takes them."""

    _fields_ = (
        ("nodes", POINTER), ("offsets", POINTER), ("destinations", POINTER), ("count", U32), ("total", U32), ("rooms", U32 * 3),
    )  # fmt: skip


_ALL = (
    ("free", None, ()), ("regulate", None, (I64, U32, POINTER, POINTER, POINTER)),
    ("backlogs", None, (I64, U32, POINTER, POINTER, POINTER, POINTER)), ("yields", None, (I64, U32, POINTER)),
    ("left", None, (I64, U32)), ("rewire", None, (I64,)), ("link", U32, (I64,)), ("take_unplaced", U32, (POINTER, POINTER)),
    ("unplaced", U32, ()), ("place", None, (U32, I64, U32, POINTER)), ("pairs", U32, (U32, POINTER, POINTER)),
    ("put", U32, (POINTER,)),
)  # fmt: skip
_PLANS = (
    ("weight", None, (U32, U32, ctypes.c_double)), ("plan", None, (I64, I64, POINTER)), ("grants", POINTER, ()),
    ("revokes", POINTER, ()), ("next_event", I64, ()),
)  # fmt: skip
_DELAY, _SENT = ("delay", None, (U32, I64)), ("sent", None, (I64, U32, U32, POINTER, POINTER))
_SETTLE = (("settle", None, ()), ("recharge", None, (I64, U32, POINTER, POINTER)))
_REPLACE = ("replace", U32, (U32,))
_SPOTS = (
    ("spot", None, (U32, U32, U32, U32, I64)), ("route", None, (U32, U32, U32, POINTER)), ("forget_spots", None, ()),
    ("sized_backlogs", None, (I64, U32, POINTER, POINTER, POINTER, POINTER)),
)  # fmt: skip
_CHOICES = (
    ("contend", None, (U32, POINTER)), ("count", None, (U32, ctypes.c_char_p)), ("dirty", ctypes.c_bool, ()),
    ("review", U32, (I64, POINTER)), ("groups", POINTER, ()), ("chosen", None, (U32, POINTER)), ("mode", None, (U32, U32)),
    ("assign", U32, (U32, U32, POINTER, U32)), ("of_links", None, (U32, POINTER, POINTER)), ("deal", None, ()),
    ("dealt", POINTER, (U32,)), ("recharge", None, (I64,)), ("lend", None, (POINTER, POINTER)),
)  # fmt: skip


def _library(name: str, prefix: str, terms: tuple[Any, ...], functions: Iterable[Function]) -> Library:
    """The library of a core. A new core takes `terms`; each other function, whose name is without the prefix here, a core
    first."""
    others = ((f"{prefix}_{what}", result, (POINTER, *arguments)) for what, result, arguments in functions)
    return Library(name, CORE / name, ((f"{prefix}_new", POINTER, terms), *others))


SCHEDULE = _library("schedule", "core", (POINTER,), (*_ALL, *_PLANS, _DELAY, *_SETTLE, ("forget_idle", None, (I64, I64))))
RATES = _library("rates", "rates", (I64, I64, I64), (*_ALL, *_PLANS, _SENT, *_SETTLE))
STEPS = _library(
    "steps", "steps", (I64, I64, I64, I64, U32, ctypes.c_bool), (*_ALL, *_PLANS, _DELAY, *_SETTLE, _REPLACE, *_SPOTS)
)
CHOICES = _library("choices", "choices", (), (*_ALL, _DELAY, _SENT, *_CHOICES))
LIBRARIES = SCHEDULE, RATES, STEPS, CHOICES


def why_missing() -> str:
    """Why the libraries cannot be used here; empty if they can."""
    return next(filter(None, (library.why_missing() for library in LIBRARIES)), "")
