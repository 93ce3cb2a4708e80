"""On few processors an agent leaves a switch in user space its time, and wakes in time all the same."""

from __future__ import annotations

import ctypes
import threading

from agents.config import REALTIME, usual_realtime
from protocol.realtime import wake_in_time

PR_GET_TIMERSLACK = 30  # linux/prctl.h


def test_an_agent_has_real_time_priority_where_there_are_processors_for_others() -> None:
    assert [usual_realtime(processors) for processors in (1, 2, 3, 4, 64)] == [None, None, None, REALTIME, REALTIME]


def test_timers_of_an_ordinary_thread_wake_it_in_time() -> None:
    found = []

    def look() -> None:
        wake_in_time()
        found.append(ctypes.CDLL(None).prctl(PR_GET_TIMERSLACK, *[ctypes.c_ulong(0)] * 4))

    thread = threading.Thread(target=look)  # the test's own thread stays as it is
    thread.start()
    thread.join()
    assert found == [1]
