"""Work of this thread in another network namespace. An edge: setns(2)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

CLONE_NEWNET = 0x40000000


@contextmanager
def network_namespace(path: str) -> Iterator[None]:
    """Moves this thread into the network namespace at `path` for the block; sockets made in the block stay in that namespace.

    Raises:
        OSError: there is no such namespace, or this process may not enter it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(there, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(there)
        try:
            yield
        finally:
            libc.setns(home, CLONE_NEWNET)
    finally:
        os.close(home)


def network_of(pid: int) -> AbstractContextManager[None]:
    """The same for the network namespace of a process."""
    return network_namespace(f"/proc/{pid}/ns/net")
