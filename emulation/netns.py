"""Network namespaces: a new one, and work of this thread in another one. An edge: unshare(1), setns(2)."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000
_HOLDER = ("setpriv", "--pdeathsig", "KILL", "--", "unshare", "--net", "--", "sleep", "infinity")
MADE_S = 5.0


class NamespaceError(Exception):
    """No network namespace could be made; says what to do."""


@contextmanager
def new_namespace() -> Iterator[int]:
    """A network namespace for the block; yields the process that holds it, which dies with this one."""
    home = _identity("self")
    process = subprocess.Popen(_HOLDER)
    try:
        deadline = time.monotonic() + MADE_S
        while _identity(str(process.pid)) in (home, None):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NamespaceError("no network namespace could be made: run this as root; util-linux has setpriv and unshare")
            time.sleep(0.002)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _identity(process: str) -> str | None:
    try:
        return str(Path(f"/proc/{process}/ns/net").readlink())
    except OSError:
        return None


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
