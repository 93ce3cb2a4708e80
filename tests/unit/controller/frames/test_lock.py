"""Who waits for the lock of the loop of slots gets it, however busy the loop is, and may take it again while it has it."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import nullcontext

import pytest

from bench.fuzz.receivers import EPOCH, LEADER_MAC
from controller.frames.frames import Frames

TURN_US = 1_000


def test_an_ordinary_thread_gets_the_lock_from_a_real_time_one_that_never_rests() -> None:
    frames, libc = Frames(LEADER_MAC, EPOCH, 7), ctypes.CDLL(None)
    library, state = frames.shared()
    refused, turns, end = threading.Event(), [0], threading.Event()

    def serve() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        except PermissionError:
            refused.set()
            return
        while not end.is_set():
            library.frames_hold(state)
            turns[0] += 1
            libc.usleep(TURN_US)
            library.frames_release(state)

    thread = threading.Thread(target=serve)
    thread.start()
    waited = []
    try:
        while not turns[0] and not refused.is_set():
            pass
        for _ in range(0 if refused.is_set() else 50):
            before = turns[0]
            with frames.lock, frames.lock:
                waited.append(turns[0] - before)
    finally:
        end.set()
        thread.join()
    if refused.is_set():
        pytest.skip("real-time priority needs CAP_SYS_NICE")
    assert sorted(waited)[25] <= 3, "the turn that runs, and one that begins meanwhile"
    assert max(waited) <= 300, "an ordinary thread may have to wait for a processor, too"


def test_who_has_the_lock_may_take_it_again_and_others_wait_until_it_is_free() -> None:
    frames = Frames(LEADER_MAC, EPOCH, 7)
    got = threading.Event()

    def take() -> None:
        with frames.lock:
            got.set()

    with frames.lock:
        with frames.lock:
            thread = threading.Thread(target=take)
            thread.start()
        assert not got.wait(0.1)
    thread.join(5)
    assert got.is_set()


@pytest.mark.parametrize("deep", [False, True])
def test_who_lends_the_lock_has_it_again_at_once_unless_it_was_taken_twice(deep: bool) -> None:
    frames = Frames(LEADER_MAC, EPOCH, 7)
    library, state = frames.shared()
    waits, got = threading.Event(), threading.Event()

    def take() -> None:
        waits.set()
        with frames.lock:
            got.set()

    with frames.lock, frames.lock if deep else nullcontext():
        thread = threading.Thread(target=take)
        thread.start()
        waits.wait(5)
        for _ in range(200):
            library.frames_lend(state)
            time.sleep(0.001)
        assert got.is_set() != deep
        assert library.frames_lend(state) is None, "there need not be anybody who waits"
    thread.join(5)
    assert got.is_set()
