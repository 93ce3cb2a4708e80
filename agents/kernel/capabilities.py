"""What an agent may still do once it is set up: little more than change queues. An edge: prctl(2), capset(2), setrlimit(2),
seccomp(2).

    refused = drop()     # after everything is opened, loaded and locked, before the first frame is handled

| kept           | what for                                                                                       |
|----------------|------------------------------------------------------------------------------------------------|
| CAP_NET_ADMIN  | gates and queues by netlink, filters put back, the interface put back as it was                |
| CAP_NET_RAW    | raw frames: a socket that has to be opened anew                                                |
| CAP_BPF        | reading and writing the tables of the classifier and the tagger, where others may not use bpf(2)|
| CAP_SYS_NICE   | setting the real-time priority again                                                           |
| CAP_IPC_LOCK   | only where the limit of locked memory cannot be lifted: after mlockall(MCL_FUTURE) the next    |
|                | allocation above the limit would fail                                                          |
| CAP_SYS_ADMIN  | only where the kernel has no CAP_BPF (before 5.8): that was part of it                         |

CAP_PERFMON is needed to load the eBPF programs, not to use them: the agent drops it. It also drops the rights over files: what
an agent reads or removes later (its key, its record in run_dir) must be root's own. Running another program gains nothing back:
the bounding set is cut to the same capabilities, no_new_privs is set, and a filter refuses system calls (ebpf/calls.py). See
capabilities(7); numbers are those of linux/capability.h.
"""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

from ebpf.calls import refuse_calls

CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_BPF = 12, 13, 14, 21, 23, 39
WANTED = frozenset({CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_SYS_NICE})
FAMILIES = ("AF_UNIX", "AF_NETLINK", "AF_PACKET")
"""Of the sockets that an agent makes, as in its systemd unit."""
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4  # linux/prctl.h
VERSION_3 = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
LAST = Path("/proc/sys/kernel/cap_last_cap")


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """One 32-bit half of each set."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop() -> str | None:
    """Gives up all capabilities but those above, and many system calls, for good.

    Returns None, or in one line why the kernel refused, with the remedy. What was given up before a refusal stays given up.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 -- names of threads, not files
        return "capabilities kept: there are other threads, which would keep theirs; report this as a fault of Baton"
    libc = ctypes.CDLL(None, use_errno=True)
    held = _permitted(libc)
    kept = chosen(held, memory_is_free=_lift_memory_limit())
    try:
        last = int(LAST.read_text())
        for capability in range(last + 1):
            if capability not in kept:
                _call(libc, PR_CAPBSET_DROP, capability)
        _call(libc, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
        _call(libc, PR_SET_NO_NEW_PRIVS, 1)
        _set(libc, kept)
    except OSError as error:
        return f"capabilities kept ({error.strerror}): start the agent as root, with CAP_SETPCAP among its capabilities"
    try:
        refuse_calls(families=FAMILIES, bpf=True)
    except OSError as error:
        return f"no system calls are refused ({error}): apt-get install libseccomp2, on a kernel with CONFIG_SECCOMP_FILTER"
    return None


def chosen(held: frozenset[int], *, memory_is_free: bool) -> frozenset[int]:
    """The held capabilities that the agent keeps. Pure."""
    kept = held & WANTED
    if CAP_BPF not in held:
        kept |= held & {CAP_SYS_ADMIN}
    if not memory_is_free:
        kept |= held & {CAP_IPC_LOCK}
    return kept


def _lift_memory_limit() -> bool:
    """Lifts the limit of locked memory; returns whether any process of this one's rights may now lock without limit."""
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        return False
    return True


def _permitted(libc: ctypes.CDLL) -> frozenset[int]:
    sets = (_Sets * 2)()
    if libc.capget(ctypes.byref(_Header(VERSION_3, 0)), sets):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    bits = sets[0].permitted | sets[1].permitted << 32
    return frozenset(capability for capability in range(64) if bits >> capability & 1)


def _set(libc: ctypes.CDLL, kept: frozenset[int]) -> None:
    bits = sum(1 << capability for capability in kept)
    halves = (bits & 0xFFFFFFFF, bits >> 32)
    sets = (_Sets * 2)(*(_Sets(half, half, 0) for half in halves))
    if libc.capset(ctypes.byref(_Header(VERSION_3, 0)), sets):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _call(libc: ctypes.CDLL, option: int, value: int) -> None:
    unused = ctypes.c_ulong(0)
    if libc.prctl(option, ctypes.c_ulong(value), unused, unused, unused):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
