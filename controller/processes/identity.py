"""Processes told apart from strangers by pid and start time, and ended safely. An edge: processes.

A pid is given to another process once its own has ended, so a recorded pid alone must never be signalled.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CLONE_NEWNET = 0x40000000  # linux/sched.h


class Identity(NamedTuple):
    """One process for all time: its pid, when it started (clock ticks since boot), and which boot that
    was."""

    pid: int
    start: int
    boot: str


def identify(pid: int) -> Identity | None:
    """The identity of the process that has this pid now; None if there is none, or it has ended already (a
    zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets; proc(5), fields 3 on
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]), boot)


def end(identity: Identity, patience_s: float) -> bool:
    """Terminates exactly this process, kills it after `patience_s`; returns whether it was there at all."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if identify(identity.pid) != identity:  # from here on the descriptor, not the pid, names the process
            return False
        for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, patience_s)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, number)
            if select.select((pidfd,), (), (), wait_s)[0]:
                break
    finally:
        os.close(pidfd)
    return True


def netns_path(netns: str) -> str:
    """The file that stands for a network namespace given by name or path."""
    return netns if netns.startswith("/") else f"/run/netns/{netns}"


def in_netns(netns: str | None) -> list[str]:
    """What to put before a command so that it runs in this network namespace."""
    return [] if netns is None else ["nsenter", f"--net={netns_path(netns)}", "--"]


def enter_netns(netns: str) -> None:
    """Puts the calling thread, and what it starts from now on, into a network namespace (setns(2)). Raises OSError."""
    with Path(netns_path(netns)).open("rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
            error = ctypes.get_errno()
            raise OSError(error, f"{os.strerror(error)}: {netns_path(netns)}")


def with_owner(command: Sequence[str]) -> list[str]:
    """The command, run so that the kernel ends it when the thread that starts it dies (prctl(2),
    PR_SET_PDEATHSIG)."""
    return ["setpriv", "--pdeathsig", "TERM", "--", *command]


STARTING_PRIORITY = 1
"""Of a coordinator while it loads: before every ordinary program, after every agent on the same machine, which may have to
open its gates just then. It raises itself once it can serve."""


def at_priority(priority: int | None) -> list[str]:
    """The beginning of a command that runs at real-time `priority`; nothing for None, or where that is not allowed."""
    if priority is None or shutil.which("chrt") is None:
        return []
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except OSError:
        return []
    return ["chrt", "-f", str(priority)]
