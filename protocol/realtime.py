"""Real-time scheduling for coordinator and agent, which keep a millisecond schedule. An edge: scheduler and memory calls."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress

MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4  # sys/mman.h
PR_SET_TIMERSLACK = 29  # linux/prctl.h
COLLECT = (2_000, 2_500, 50)
"""When to collect garbage (gc.set_threshold). To look through 10,000 new objects that stay takes 0.5 to 3 ms, and some thousand
hosts that register, or a fabric of theirs, bring hundreds of thousands. Older ones are seldom looked through: hardly anything
here is in a cycle."""


ABOVE_OTHERS = -5


def begin_realtime(priority: int | None) -> str | None:
    """Sets SCHED_FIFO at `priority` (1 to 99; None leaves the process as it is). Returns why the kernel refused it, or None."""
    if priority is None:
        return None
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return f"real-time priority {priority} refused ({error.strerror}): give CAP_SYS_NICE, or set it to none"
    return None


def is_realtime() -> bool:
    """Whether this thread is real-time."""
    return os.sched_getscheduler(0) == os.SCHED_FIFO


def rank_below(priority: int | None, *, busy: bool) -> None:
    """Ranks this thread below another one of its process, which keeps the schedule at this real-time priority (None: neither is
    real-time): right below it, or, if it is busy, as an ordinary thread before others. Where real-time threads leave ordinary
    ones no time, the kernel takes 50 ms of each second from all of them."""
    with suppress(OSError):  # then it stays as it is
        if priority is None:
            return
        if busy:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, ABOVE_OTHERS)
        else:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(max(1, priority - 1)))


def wake_in_time() -> None:
    """Has this thread woken when its timers expire: an ordinary thread's may be 50 us late, so that the kernel can wake it for
    several at once. Real-time threads are woken in time anyway."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3)


def hold_garbage() -> None:
    """Has no garbage looked for until `become_realtime`: what a process makes while it starts stays, and to look through that
    would take a fifth of the time of the imports."""
    gc.disable()


def become_realtime(priority: int | None) -> str | None:
    """Calls `begin_realtime`, locks the memory and keeps the garbage collector from long pauses; call it after the set-up.
    Memory is locked page by page when it is used first: pages that come all at once, as an array grows, hold the process up.

    Returns why the kernel refused a part of it, or None.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT)
    gc.enable()
    if priority is None:
        return None
    if (refused := begin_realtime(priority)) is not None:
        return refused
    if ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT):
        return f"memory not locked ({os.strerror(ctypes.get_errno())}): give CAP_IPC_LOCK"
    return None
