"""Hundreds of thousands of slots that are known at once: each is found, and none takes long to add."""

from __future__ import annotations

import ctypes
import time
from random import Random

import numpy as np

from bench.fuzz.receivers import EPOCH, LEADER_MAC
from controller.frames.book import TAKEN, Book
from controller.frames.frames import Frames
from controller.policies.base import Slot
from controller.policies.compiled.batches import SLOT

MANY, FIRST = 160_000, 1_800_000_000_000_000_000


def test_no_slot_takes_long_to_add_however_many_there_are() -> None:
    """The map of slots grows at some of them. Of three runs the best one counts: a machine may stand still, too."""
    longest_ns = []
    for _ in range(3):
        frames = Frames(LEADER_MAC, EPOCH, 7)
        library, state = frames.shared()
        rows = np.zeros(MANY, SLOT)
        rows["slot"], rows["node"], rows["destination"] = np.arange(FIRST, FIRST + MANY), 16, 17
        at, longest = rows.ctypes.data, 0
        for place in range(at, at + rows.nbytes, SLOT.itemsize):
            before_ns = time.thread_time_ns()
            library.frames_granted(state, place, 0)
            longest = max(longest, time.thread_time_ns() - before_ns)
        longest_ns.append(longest)
    assert min(longest_ns) < 600_000, "all parts of the map grew at once"


def test_every_slot_is_found_while_others_come_and_go() -> None:
    dice, frames = Random(1), Frames(LEADER_MAC, EPOCH, 7)
    library, state = frames.shared()
    book, known = Book(library, state or 0, frames.lock), set[int]()
    row = np.zeros(1, SLOT)
    row["node"], row["destination"] = 16, 17
    for number in range(FIRST, FIRST + 60_000):
        slot = number if dice.random() < 0.5 else dice.randrange(1 << 62)
        row["slot"] = slot
        library.frames_granted(state, ctypes.c_void_p(row.ctypes.data), 0)
        known.add(slot)
        if len(known) > 20_000 and dice.random() < 0.7:
            book.revoked(known.pop(), 0)
    assert all(book.awaited(slot) for slot in known)
    assert not any(book.awaited(slot) for slot in range(FIRST, FIRST + 60_000) if slot not in known)


def test_what_was_permitted_to_many_pairs_is_taken_once_and_the_pairs_are_forgotten() -> None:
    """In pieces, between which others are granted something. Some pairs have rates, which go on."""
    dice, frames = Random(2), Frames(LEADER_MAC, EPOCH, 7)
    library, state = frames.shared()
    book, pairs, ends_ns = Book(library, state or 0, frames.lock), 3 * TAKEN, 10_000_000_000
    credits, rates, number = dict[tuple[int, int], int](), dict[tuple[int, int], int](), 1

    def take(now_ns: int) -> None:
        for sums, taken in zip((credits, rates), book.take(now_ns), strict=True):
            for pair, size in taken.items():
                sums[pair] = sums.get(pair, 0) + size

    for now_ns in (0, 1_000_000_000, 2_000_000_000):
        for of in dice.sample(range(pairs), pairs // 2):
            rate_bps = 8_000 if of % 3 == 0 else 0
            end_ns = ends_ns if rate_bps else now_ns + 1
            book.granted(Slot(number, 16 + of, 15, now_ns, end_ns, 0 if rate_bps else 7, rate_bps, 0), end_ns, now_ns)
            number += 1
        take(now_ns + 500_000_000)
    assert library.frames_pairs(state) >= sum(size > 0 for size in rates.values()) > TAKEN / 2
    assert sum(credits.values()) % 7 == 0 and TAKEN < sum(size > 0 for size in credits.values()) <= pairs
    take(ends_ns + 10_000_000_000)
    expected = {pair: size for pair, size in rates.items() if size}
    assert expected and all(1_000 * 8 <= size <= 1_000 * 10 for size in expected.values()), "until the end, however often taken"
    for _ in range(2):
        assert not any(any(sums.values()) for sums in book.take(ends_ns + 20_000_000_000))
    assert library.frames_pairs(state) == 0
