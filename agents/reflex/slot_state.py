"""The slot reflex's state in the layout of agents/reflex/slots.h, and its library. An edge: ctypes, the compiler."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from ebpf.clibrary import Library

DESTINATIONS, WAITING, EVENTS, ROOM, READY = 64, 64, 128, 2048, 16
WIRE = 3
"""The version of the wire that the library speaks (ebpf/include/wire.h)."""
NEVER_NS, FAR_NS = (1 << 63) - 1, 1 << 62
POINTER, I64, U64, U32, I32, BYTE = (
    ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint8,
)  # fmt: skip


class Terms(ctypes.Structure):
    """`struct terms`; see there for each field."""

    _fields_ = (
        ("link_fd", I32), ("netlink_fd", I32), ("events_fd", I32), ("epoch", U32), ("node", U32), ("unwanted", U64),
        ("sequence", U64), ("highest", U64), ("seen", U64), ("offset_ns", I64), ("taken_ns", I64), ("drift_ppb", I64),
        ("hysteresis_ns", I64), ("link_bps", I64), ("answered_ns", I64), ("heard_ns", I64), ("looked_ns", I64),
        ("within_ns", I64), ("free_ns", I64), ("asked_ns", I64), ("fail_open_ns", I64), ("question_ns", I64),
        ("poll_until_ns", I64), ("poll_ns", I64), ("report", U64), ("tag_bytes", U32), ("tag", BYTE * 4),
        ("address", BYTE * 6), ("leader", BYTE * 6), ("enrolment", BYTE * 16), ("from_leader", U32 * 8),
        ("to_leader", U32 * 8),
    )  # fmt: skip


class Gate(ctypes.Structure):
    """`struct gate`: the creator keeps references to what it points to."""

    _fields_ = (
        ("grant", POINTER), ("shut", POINTER), ("armed", POINTER), ("grant_bytes", U32),
        ("query_bytes", U32), ("shut_bytes", U32), ("burst_at", U32), ("ticks_at", U32), ("node", U32),
        ("packet_bytes", U32),
    )  # fmt: skip


class Destination(ctypes.Structure):
    """`struct destination`."""

    _fields_ = (
        ("waiting_bytes", I64), ("reported_ns", I64), ("next_check_ns", I64), ("used_up_until_ns", I64),
        ("outstanding", I64), ("slot", U64), ("end_ns", I64),
        ("bytes", I64), ("passed_before", I64), ("passed_at_check", I64), ("check_after_ns", I64), ("open", BYTE),
        ("named", BYTE),
    )  # fmt: skip


class Slot(ctypes.Structure):
    """`struct slot`."""

    _fields_ = (("number", U64), ("start_ns", I64), ("end_ns", I64), ("bytes", I64), ("received_ns", I64), ("at", U32))


class Opened(ctypes.Structure):
    """`struct opened`."""

    _fields_ = (("opened_ns", I64), ("start_ns", I64), ("received_ns", I64))


class Ring(ctypes.Structure):
    """`struct ring`: a ring buffer of BPF in memory."""

    _fields_ = (("consumed", POINTER), ("produced", POINTER), ("records", POINTER), ("bytes", U64))


CLOCK = ctypes.CFUNCTYPE(I64)
GRANT = ctypes.CFUNCTYPE(None, U32, U32)
SHUT = ctypes.CFUNCTYPE(None, U32)
STATE = ctypes.CFUNCTYPE(None, U32, ctypes.POINTER(I64), ctypes.POINTER(I64))


class Hooks(ctypes.Structure):
    """`struct hooks`: a test's clock and gates."""

    _fields_ = (("clock", CLOCK), ("grant", GRANT), ("shut", SHUT), ("state", STATE))


class State(ctypes.Structure):
    """`struct slots`."""

    _fields_ = (
        ("terms", Terms), ("destination_count", U32), ("waiting_count", U32), ("accepted", U32), ("reported", U32),
        ("yields", U32), ("opened_count", U32), ("answer_count", U32), ("raw_bytes", U32), ("directive_bytes", U32),
        ("refused_errno", I32), ("voided_bytes", I64), ("ring", Ring), ("hooks", Hooks), ("opened", Opened * EVENTS),
        ("answer_ns", I64 * EVENTS), ("ready_fd", I32 * READY), ("waiting", Slot * WAITING),
        ("destination", Destination * DESTINATIONS), ("gate", Gate * DESTINATIONS), ("raw", BYTE * ROOM),
        ("directive", BYTE * ROOM),
    )  # fmt: skip


def _check(library: ctypes.CDLL) -> None:
    """Raises OSError: the kernel is older than what the library needs (Linux 5.11), or the library has another state."""
    if failed := -library.slots_can_wait():
        raise OSError(failed, f"epoll_pwait2: {os.strerror(failed)}")
    if library.slots_size() != ctypes.sizeof(State):
        raise OSError(0, f"slots.c has {library.slots_size()} bytes of state, slot_state.py has {ctypes.sizeof(State)}")


_FUNCTIONS = (
    ("slots_size", U64, ()),
    ("slots_keys", None, (POINTER, POINTER, POINTER, POINTER)),
    ("slots_take", I32, (POINTER, POINTER, U64, I64)),
    ("slots_hear", I32, (POINTER, I64)),
    ("slots_advance", None, (POINTER, I64)),
    ("slots_next_ns", I64, (POINTER,)),
    ("slots_wait", I32, (POINTER, I32, I64)),
    ("slots_can_wait", I32, ()),
)
LIBRARY = Library("slots", Path(__file__).parent, _FUNCTIONS, _check)
