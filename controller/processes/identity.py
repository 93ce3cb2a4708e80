"""Identifies processes by pid and start time, and ends them safely. An edge: processes.

The kernel gives a pid to another process once its own has ended, so a signal must never go to a recorded pid alone.
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
    """One process, never to be confused with another: its pid, when it started (clock ticks since boot), and the boot's id."""

    pid: int
    start: int
    boot: str


def identify(pid: int) -> Identity | None:
    """The identity of the process that has this pid now; None if there is none, or it has ended already (a zombie)."""
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
    """The file of a network namespace given by name or path."""
    return netns if netns.startswith("/") else f"/run/netns/{netns}"


def in_netns(netns: str | None) -> list[str]:
    """The beginning of a command that runs it in this network namespace; empty for None."""
    return [] if netns is None else ["nsenter", f"--net={netns_path(netns)}", "--"]


def enter_netns(netns: str) -> None:
    """Moves the calling thread, and the processes that it starts from now on, into a network namespace (setns(2)).

    Raises OSError."""
    with Path(netns_path(netns)).open("rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
            error = ctypes.get_errno()
            raise OSError(error, f"{os.strerror(error)}: {netns_path(netns)}")


def with_owner(command: Sequence[str]) -> list[str]:
    """The command, in a form that the kernel ends when the thread that starts it dies (prctl(2), PR_SET_PDEATHSIG)."""
    return ["setpriv", "--pdeathsig", "TERM", "--", *command]


STARTING_PRIORITY = 1
"""The priority of a coordinator while it loads: above every ordinary program, below every agent on the same machine, which may
have to open its gates at that moment. The coordinator raises its own priority once it can serve."""


BEFORE_COORDINATOR = -6
"""The niceness of a store: the elector waits for its answers at each renewal of the lease, and the coordinator's ordinary
thread (protocol/realtime.py, `ABOVE_OTHERS`) can take a processor for seconds when thousands of hosts come."""


def before_coordinator() -> list[str]:
    """The beginning of a command that runs it before the coordinator's ordinary thread; empty where only root may."""
    return ["nice", "-n", str(BEFORE_COORDINATOR)] if os.geteuid() == 0 and shutil.which("nice") else []


def at_priority(priority: int | None) -> list[str]:
    """The beginning of a command that runs it at real-time `priority`; empty for None, or where that is not allowed."""
    if priority is None or shutil.which("chrt") is None:
        return []
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except OSError:
        return []
    return ["chrt", "-f", str(priority)]
