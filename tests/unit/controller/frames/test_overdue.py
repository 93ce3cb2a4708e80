"""The look for slots that nobody acknowledged: all are found, and the loop of slots is not kept waiting for it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from bench.fuzz.receivers import EPOCH, LEADER_MAC
from controller.frames.book import LOOKED_AT, PIECE, SWEPT, Book
from controller.frames.frames import Frames
from controller.policies.base import Slot


class Counted(AbstractContextManager[None]):
    """A lock that counts how often it is taken."""

    def __init__(self, lock: AbstractContextManager[None]) -> None:
        self._lock, self.times = lock, 0

    def __enter__(self) -> None:
        self.times += 1
        self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)


def book_of(slots: int, *, lost: set[int]) -> tuple[Frames, Book, Counted]:
    frames = Frames(LEADER_MAC, EPOCH, 7)
    library, state = frames.shared()
    lock = Counted(frames.lock)
    book = Book(library, state or 0, lock)
    for number in range(1, slots + 1):
        begins_ns = 10 if number in lost else 1_000
        book.granted(Slot(number, 16, 17, begins_ns, 2_000, 1, 0, 0), 2_000, 0)
    lock.times = 0
    return frames, book, lock


def test_every_slot_is_found_once_and_the_lock_is_free_between_pieces() -> None:
    lost = {1, PIECE, PIECE + 1, SWEPT, SWEPT + 1, 700}
    _frames, book, lock = book_of(700, lost=lost)
    assert set(book.overdue(100)) == {number for number in lost if number <= SWEPT}
    assert lock.times == SWEPT // PIECE
    assert book.overdue(100) == [SWEPT + 1, 700, 1, PIECE, PIECE + 1], "it goes on, and begins again after the last one"


def test_few_records_are_looked_at_once_each() -> None:
    _frames, book, _ = book_of(5, lost={2, 5})
    assert sorted(book.overdue(100)) == [2, 5]
    book.lost([2, 5])
    assert book.overdue(100) == []


def test_after_many_it_ends_and_the_next_call_goes_on() -> None:
    _frames, book, _ = book_of(2 * SWEPT, lost=set(range(1, 2 * SWEPT + 1)))
    first = book.overdue(100)
    assert len(first) == SWEPT
    book.lost(first)
    assert not set(book.overdue(100)) & set(first)


def test_what_was_permitted_to_a_member_that_left_is_forgotten_and_the_lock_is_free_between_pieces() -> None:
    _frames, book, lock = book_of(3 * LOOKED_AT + 1, lost=set())
    book.granted(Slot(10**6, 18, 17, 1_000, 2_000, 5, 0, 0), 2_000, 0)
    lock.times = 0
    book.left(16)
    assert lock.times == 4
    assert book.take(3_000).credits == {(18, 17): 5}
