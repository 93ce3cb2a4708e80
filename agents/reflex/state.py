"""The reflex's state as C has it (agents/reflex/reflex.c), and its library. An edge: ctypes, and the compiler at first use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ebpf.build import shared_library
from protocol.pfc import CLASSES

FRAMES, FRAME_BYTES, PARTNERS, STEPS, QUEUES = 64, 64, 32, 2, 128
POLLIN = 1


class Batch(ctypes.Structure):
    """Messages; who makes one keeps the bytes."""

    _fields_ = (("messages", ctypes.c_char_p), ("bytes", ctypes.c_uint64))


class StepBatches(ctypes.Structure):
    """A step."""

    _fields_ = (("at_ns", ctypes.c_int64), ("shut", Batch), ("open", Batch))


class Queue(ctypes.Structure):
    """A destination that the leader's conditions may be about."""

    _fields_ = (
        ("number", ctypes.c_uint32), ("held", ctypes.c_uint8), ("was_shut", ctypes.c_uint8), ("was_opened", ctypes.c_uint8),
        ("shut", Batch), ("open", Batch),
    )  # fmt: skip


class State(ctypes.Structure):
    """All of it."""

    _fields_ = (
        ("pauses", ctypes.c_int32), ("netlink", ctypes.c_int32), ("link", ctypes.c_int32),
        ("kick", ctypes.c_uint8 * 60),
        ("paused", ctypes.c_uint8), ("muted", ctypes.c_uint8), ("armed", ctypes.c_uint8),
        ("partners", ctypes.c_uint16), ("partner", ctypes.c_uint8 * 6 * PARTNERS),
        ("shut", Batch * CLASSES), ("open", Batch * CLASSES),
        ("step", StepBatches * STEPS), ("lead_ns", ctypes.c_int64), ("longest_lead_ns", ctypes.c_int64),
        ("control", ctypes.c_int32), ("own", ctypes.c_uint8 * 6), ("leader", ctypes.c_uint8 * 6),
        ("epoch", ctypes.c_uint32), ("sequence", ctypes.c_uint64), ("offset_ns", ctypes.c_int64),
        ("key", ctypes.c_uint32 * 8), ("queues", ctypes.c_uint16), ("queue", Queue * QUEUES),
        ("spin_ns", ctypes.c_int64), ("near_ns", ctypes.c_int64),
        ("polled_ns", ctypes.c_int64), ("rest_ns", ctypes.c_int64), ("next_rest_ns", ctypes.c_int64),
        ("rehearsal", Batch), ("rehearsed_ns", ctypes.c_int64), ("rehearse_ns", ctypes.c_int64),
        ("recall_ns", ctypes.c_int64), ("commanded_ns", ctypes.c_int64), ("recent_ns", ctypes.c_int64),
        ("warm_ns", ctypes.c_int64),
        ("acted_ns", ctypes.c_int64), ("ruled", ctypes.c_uint8),
        ("was_shut", ctypes.c_uint8), ("was_opened", ctypes.c_uint8),
        ("steps", ctypes.c_uint8), ("stepped", ctypes.c_uint8), ("frames", ctypes.c_uint8), ("refused", ctypes.c_int32),
        ("length", ctypes.c_uint16 * FRAMES), ("frame", ctypes.c_uint8 * FRAME_BYTES * FRAMES),
    )  # fmt: skip


class Descriptor(ctypes.Structure):
    """struct pollfd."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


@cache
def library() -> ctypes.CDLL:
    """The compiled reflex.

    Raises:
        BuildError: the compiler is missing or refused.
        OSError: it cannot be loaded.
    """
    made = ctypes.CDLL(str(shared_library("reflex", Path(__file__).parent)))
    made.reflex_size.restype = ctypes.c_uint64
    made.reflex_wait.restype = ctypes.c_int32
    made.reflex_wait.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int32)
    made.reflex_read_conditions.argtypes = (
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p,
    )  # fmt: skip
    if made.reflex_size() != ctypes.sizeof(State):
        raise OSError(0, f"reflex.c has {made.reflex_size()} bytes of state, {ctypes.sizeof(State)} are expected")
    return made


def set_partners(state: State, partners: Sequence[bytes]) -> None:
    """Whose pauses count; at most `PARTNERS`, none for anybody's."""
    state.partners = len(partners)
    for at, address in enumerate(partners):
        state.partner[at][:] = address


def read(frame: bytes, *, muted: int = 0, partners: Sequence[bytes] = ()) -> tuple[int, int]:
    """The classes that the reflex would shut and open for a frame, as masks: to compare with `protocol.pfc.read`."""
    state = State(muted=muted)
    set_partners(state, partners)
    shut, opened = ctypes.c_uint8(), ctypes.c_uint8()
    whole, length = frame.ljust(FRAME_BYTES, b"\0"), ctypes.c_uint64(len(frame))
    library().reflex_read(ctypes.byref(state), whole, length, ctypes.byref(shut), ctypes.byref(opened))
    return shut.value, opened.value


def read_conditions(state: State, frame: bytes, now_ns: int) -> list[int] | None:
    """The destinations that the reflex would take for shut after a control frame; None: it leaves the frame to the agent."""
    shut = (ctypes.c_uint8 * QUEUES)()
    if not library().reflex_read_conditions(ctypes.byref(state), frame, len(frame), now_ns, shut):
        return None
    return [state.queue[at].number for at in range(state.queues) if shut[at]]
