"""The compiled way of frames (controller/frames/frames.c) as a library. An edge: ctypes, the compiler at first use."""

from __future__ import annotations

import ctypes
from pathlib import Path

from ebpf.clibrary import Library

POINTER, I64, U64, U32, I32, U16, BYTE = (
    ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint16, ctypes.c_uint8,
)  # fmt: skip
NODES = 0x4000
"""Node ids are below this."""
MOST = 256
"""The most frames that are received, or sent, at once."""
MOST_SAID = 1_000
"""Frames of one host of which Python has to know that are read in a tenth of a second: 40 us of Python each at the most, so
less than half of its time. A host with a slot each half millisecond says 400."""
WORDS = 16
"""Of each member so many YIELDs are kept for a BACKLOG from before them that waits for Python."""
TOLD_OF = 8
"""Of each member so many destinations are kept of which Python has heard that something waits for them."""


class Word(ctypes.Structure):
    """`struct word`: what a YIELD said of one destination."""

    _fields_ = (("sequence", U64), ("bytes", I64), ("destination", U32))


class Peer(ctypes.Structure):
    """`struct peer`: a member's replay window and figures; the rest, its keys, only the library touches."""

    _fields_ = (
        ("highest", U64), ("_seen", U64), ("backlog_sequence", U64), ("dropped_sequence", U64), ("last_heard_ns", I64),
        ("slots", I64), ("acknowledged", I64), ("late", I64), ("yields", I64), ("lateness_ns", I64), ("delay_ns", I64),
        ("excess", I64), ("told_ns", I64), ("backlog_ns", I64),
        ("to_leader", U32 * 8), ("from_leader", U32 * 8), ("enrolment", BYTE * 16), ("mac", BYTE * 6), ("known", BYTE),
        ("kinds", BYTE), ("batch", U32), ("directed", U32), ("frame", U32),
        ("next_word", U32), ("said", U32), ("said_since_ns", I64), ("words", Word * WORDS),
        ("told_of", U16 * TOLD_OF), ("next_told", U32), ("told_in", U32), ("idle", U64),
    )  # fmt: skip


class Counts(ctypes.Structure):
    """`struct counts`: what the last batch held, and what became of the last plan."""

    _fields_ = (
        ("accepted", U32), ("yields", U32), ("backlogs", U32), ("entries", U32), ("opened", U32), ("delayed", U32),
        ("raw_bytes", I32), ("waiting", U32), ("full", U32), ("sent", U32), ("withheld", U32), ("others", U32),
        ("proven", U32), ("raw_stamp_ns", I64),
    )  # fmt: skip


class Terms(ctypes.Structure):
    """`struct terms`: the leader's last sequence number; grace, lateness and the lease's end in ns; epoch, the most that is
    read of one host, address and tag."""

    _fields_ = (
        ("sequence", U64), ("grace_ns", I64), ("late_ns", I64), ("until_ns", I64), ("epoch", U32), ("tag_bytes", U32),
        ("most_said", U32), ("address", BYTE * 6), ("tag", BYTE * 4),
    )  # fmt: skip


class Tally(ctypes.Structure):
    """`struct tally`: counts of slots since the coordinator's start."""

    _fields_ = (("slots", I64), ("acks", I64), ("late", I64), ("lost", I64), ("yields", I64))


class Planner(ctypes.Structure):
    """`struct planner`: a core of a policy, and the addresses of its functions; 0: it has none."""

    _fields_ = tuple((name, POINTER) for name in (
        "core", "backlogs", "yields", "unplaced", "plan", "grants", "revokes", "next_event", "counts", "dirty",
    ))  # fmt: skip


class Steering(ctypes.Structure):
    """`struct steering`: what Python says to the loop of slots, and what it says of itself (steering.h)."""

    _fields_ = (
        ("lead_ns", I64), ("slice_ns", I64), ("review_ns", I64), ("last_number", U64), ("now_ns", I64), ("read_ns", I64),
        ("longest_turn_ns", I64), ("longest_wait_ns", I64), ("longest_delay_ns", I64), ("busy_ns", I64), ("delayed_ns", I64),
        ("plans_due", I64), ("planners", U32), ("plans", U32), ("watched_room", U32),
        ("withheld", U32), ("attend", U32), ("prompt", U32), ("unsaid", U32),
        ("dropped", U32),
    )  # fmt: skip


LIBRARY = Library("frames", Path(__file__).parent, (
    ("frames_new", POINTER, (POINTER, U32, U64)),
    ("frames_free", None, (POINTER,)),
    *((f"frames_{name}", POINTER, (POINTER,)) for name in (
        "counts", "terms", "tally", "peers", "present", "raw", "yields", "watched", "opened", "delayed", "nodes", "offsets",
        "destinations", "sizes", "others",
    )),
    ("frames_know", None, (POINTER, U32, POINTER, POINTER, POINTER, POINTER, POINTER)),
    ("frames_take", None, (POINTER, I32, U32, U32, I64)),
    ("frames_direct", None, (POINTER, I32, U32, POINTER, U32, POINTER, U32, I64)),
    ("frames_granted", None, (POINTER, POINTER, I64)),
    ("frames_revoked", None, (POINTER, U64, I64)),
    ("frames_yielded", None, (POINTER, U64, U32, U32, I64, I64)),
    ("frames_opened_one", I32, (POINTER, U64, I32)),
    ("frames_awaited", I32, (POINTER, U64, POINTER, POINTER)),
    ("frames_records", U32, (POINTER,)),
    ("frames_sweep", U32, (POINTER, I64, U32, POINTER)),
    ("frames_lost", None, (POINTER, U64)),
    ("frames_left", None, (POINTER, I64, U32, U32)),
    ("frames_count_permitted", None, (POINTER, U32, U32, I64)),
    ("frames_pairs", U32, (POINTER,)),
    ("frames_take_permitted", U32, (POINTER, POINTER, U32, POINTER)),
    ("frames_hold", None, (POINTER,)),
    ("frames_release", None, (POINTER,)),
    ("frames_lend", None, (POINTER,)),
    ("frames_begin_era", None, (POINTER,)),
    ("loop_new", POINTER, (POINTER, I32, I32, I32)),
    ("loop_start", I32, (POINTER,)),
    *((f"loop_{name}", None, (POINTER,)) for name in ("poke", "drop_plan", "free")),
    ("loop_horizon", I64, (POINTER, I64)),
    ("loop_lead", I64, (POINTER,)),
    *((f"loop_{name}", POINTER, (POINTER,)) for name in ("steering", "planners", "chooser")),
    ("loop_told", POINTER, (POINTER, POINTER, POINTER)),
))  # fmt: skip
