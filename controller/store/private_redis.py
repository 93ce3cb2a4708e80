"""A private redis-server on a Unix socket: the store of an installation that has no Redis of its own. An edge: processes.

It cannot be reached by network. It keeps nothing on disk unless asked to, and ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from controller.processes.identity import before_coordinator, with_owner
from controller.processes.private_file import private
from controller.store import logins as access
from controller.store.connection import Connection, StoreUnavailable

START_S = 5.0
STOP_S = 3.0


class RedisMissing(Exception):
    """The program redis-server is not installed; the text says how to install it."""


def socket_path(run_dir: Path) -> Path:
    """Where the server listens."""
    return run_dir / "redis.sock"


def url(run_dir: Path) -> str:
    """The store's URL at a private server."""
    return f"unix://{socket_path(run_dir)}"


def configure(
    run_dir: Path,
    *,
    persist: bool = False,
    logins: Mapping[str, str] | None = None,
    owner: int | None = None,
    mode: int = 0o700,
) -> list[str]:
    """Writes the server's configuration into `run_dir` and returns the command that runs it in the foreground.

    `logins`: passwords by login of `controller.store.logins`; None: whoever reaches the socket may do everything. `owner`: the
    uid by which the server runs, if not ours. `mode`: of the socket.

    Raises:
        RedisMissing: redis-server is not installed.
        OSError: `run_dir` can't be written.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise RedisMissing("redis-server is not installed: apt-get install redis-server, or set store to a Redis URL")
    path = run_dir / "redis.conf"
    lines = [
        "port 0",
        f'unixsocket "{socket_path(run_dir)}"',
        f"unixsocketperm {mode:o}",
        f'dir "{run_dir}"',
        "daemonize no",
        "appendonly yes" if persist else "appendonly no",
        'save ""',
        "maxmemory 256mb",
        "maxmemory-policy noeviction",
        "hz 1",  # how often it wakes up to tidy; what has expired is gone at once for whoever asks
        *(access.lines(logins) if logins is not None else ()),
    ]
    path.unlink(missing_ok=True)  # the directory may be the server's: nothing of its making is written into
    with private(path, os.O_EXCL) as file:
        file.write(("\n".join(lines) + "\n").encode())
        if owner is not None:
            os.fchown(file.fileno(), owner, -1)
    socket_path(run_dir).unlink(missing_ok=True)
    return [program, str(path)]


def forget(run_dir: Path) -> None:
    """Removes what `configure` and a server without persistence left in `run_dir`."""
    for name in ("redis.conf", "redis.sock"):
        (run_dir / name).unlink(missing_ok=True)


class PrivateRedis:
    """One private server, which runs during a `with` block."""

    def __init__(self, run_dir: Path, *, persist: bool = False, mode: int = 0o700) -> None:
        """`mode`: of the socket, 0o777 for a store that other users share."""
        self.run_dir = run_dir
        self._mode = mode
        self.url = url(run_dir)
        self.process: subprocess.Popen[bytes] | None = None
        self._persist = persist

    def start(self) -> None:
        """Returns when the server answers.

        Raises:
            RedisMissing, OSError: as `configure`.
            StoreUnavailable: it did not answer within 5 s; its log is redis.log in the run directory.
        """
        command = before_coordinator() + with_owner(configure(self.run_dir, persist=self._persist, mode=self._mode))
        with (self.run_dir / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        connection = Connection(self.url)
        try:
            connection.wait(START_S)
        except StoreUnavailable:
            self.stop()
            raise
        finally:
            connection.close()

    def stop(self) -> None:
        """Ends the server and removes its socket and configuration."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        with contextlib.suppress(OSError):
            forget(self.run_dir)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
