"""The reflex's state in the layout of agents/reflex/reflex.c, and the C library. An edge: ctypes, the compiler at first use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from ebpf.clibrary import Library
from protocol.pfc import CLASSES

FRAMES, FRAME_BYTES, PARTNERS, STEPS, QUEUES = 64, 64, 32, 2, 128
POLLIN = 1


class Batch(ctypes.Structure):
    """Kernel messages. The creator keeps a reference to the bytes."""

    _fields_ = (("messages", ctypes.c_char_p), ("bytes", ctypes.c_uint64))


class StepBatches(ctypes.Structure):
    """The messages of a step."""

    _fields_ = (("at_ns", ctypes.c_int64), ("close", Batch), ("open", Batch))


class Queue(ctypes.Structure):
    """A destination that the leader's conditions may name."""

    _fields_ = (
        ("number", ctypes.c_uint32),
        ("blocked", ctypes.c_uint8), ("was_closed", ctypes.c_uint8), ("was_opened", ctypes.c_uint8),
        ("close", Batch), ("open", Batch),
    )  # fmt: skip


class State(ctypes.Structure):
    """`struct reflex`; see there for each field."""

    _fields_ = (
        ("pause_fd", ctypes.c_int32), ("netlink_fd", ctypes.c_int32), ("link_fd", ctypes.c_int32),
        ("wakeup", ctypes.c_uint8 * 60),
        ("paused", ctypes.c_uint8), ("ignored", ctypes.c_uint8), ("armed", ctypes.c_uint8),
        ("partner_count", ctypes.c_uint16), ("partner", ctypes.c_uint8 * 6 * PARTNERS),
        ("close", Batch * CLASSES), ("open", Batch * CLASSES),
        ("step", StepBatches * STEPS), ("lead_ns", ctypes.c_int64), ("longest_lead_ns", ctypes.c_int64),
        ("control_fd", ctypes.c_int32), ("own_address", ctypes.c_uint8 * 6), ("leader_address", ctypes.c_uint8 * 6),
        ("epoch", ctypes.c_uint32), ("sequence", ctypes.c_uint64), ("offset_ns", ctypes.c_int64),
        ("version", ctypes.c_uint8), ("key", ctypes.c_uint32 * 8), ("queue_count", ctypes.c_uint16), ("queue", Queue * QUEUES),
        ("spin_ns", ctypes.c_int64), ("near_ns", ctypes.c_int64),
        ("poll_ns", ctypes.c_int64), ("rest_ns", ctypes.c_int64), ("next_rest_ns", ctypes.c_int64),
        ("rehearsal", Batch), ("rehearsed_ns", ctypes.c_int64), ("rehearse_polling_ns", ctypes.c_int64),
        ("rehearse_asleep_ns", ctypes.c_int64), ("commanded_ns", ctypes.c_int64), ("recent_command_ns", ctypes.c_int64),
        ("turn_ns", ctypes.c_int64),
        ("step_done_ns", ctypes.c_int64), ("queues_changed", ctypes.c_uint8),
        ("was_closed", ctypes.c_uint8), ("was_opened", ctypes.c_uint8),
        ("step_count", ctypes.c_uint8), ("steps_done", ctypes.c_uint8), ("frame_count", ctypes.c_uint8),
        ("refused_errno", ctypes.c_int32),
        ("length", ctypes.c_uint16 * FRAMES), ("frame", ctypes.c_uint8 * FRAME_BYTES * FRAMES),
    )  # fmt: skip


class Descriptor(ctypes.Structure):
    """struct pollfd."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


def _check(library: ctypes.CDLL) -> None:
    if library.reflex_size() != ctypes.sizeof(State):
        raise OSError(0, f"reflex.c has {library.reflex_size()} bytes of state, state.py has {ctypes.sizeof(State)}")


_FUNCTIONS = (
    ("reflex_size", ctypes.c_uint64, ()),
    ("reflex_wait", ctypes.c_int32, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int32)),
    (
        "reflex_read_conditions",
        ctypes.c_int32,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p),
    ),
)
LIBRARY = Library("reflex", Path(__file__).parent, _FUNCTIONS, _check)


def set_partners(state: State, partners: Sequence[bytes]) -> None:
    """Sets the senders whose pauses count: at most `PARTNERS` MAC addresses, none for every sender."""
    state.partner_count = len(partners)
    for at, address in enumerate(partners):
        state.partner[at][:] = address


def read(frame: bytes, *, ignored: int = 0, partners: Sequence[bytes] = ()) -> tuple[int, int]:
    """The classes that the reflex would pause and resume for a frame, as masks; for comparison with `protocol.pfc.read`."""
    state = State(ignored=ignored)
    set_partners(state, partners)
    closed, opened = ctypes.c_uint8(), ctypes.c_uint8()
    whole, length = frame.ljust(FRAME_BYTES, b"\0"), ctypes.c_uint64(len(frame))
    LIBRARY.loaded().reflex_read(ctypes.byref(state), whole, length, ctypes.byref(closed), ctypes.byref(opened))
    return closed.value, opened.value


def read_conditions(state: State, frame: bytes, now_ns: int) -> list[int] | None:
    """The destinations that the reflex would close for a control frame; None if it leaves the frame to the agent."""
    closed = (ctypes.c_uint8 * QUEUES)()
    if not LIBRARY.loaded().reflex_read_conditions(ctypes.byref(state), frame, len(frame), now_ns, closed):
        return None
    return [state.queue[at].number for at in range(state.queue_count) if closed[at]]
