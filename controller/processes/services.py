"""Starts child processes, and starts them again when they end or stand still. An edge: processes.

A child's end wakes this module up: a pidfd reports it within a millisecond. One whose loop stands still is killed, if it tells
of its turns (controller/processes/pulse.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from controller.processes.identity import Identity, identify, with_owner
from controller.processes.private_file import private
from controller.processes.pulse import LOOK_NS, PULSE, STILL_NS, Listener, pipe
from protocol.units import SECOND_NS

log = logging.getLogger("baton.supervisor")

STEADY_NS = 10 * SECOND_NS
"""A process that lived this long is started again without delay when it ends."""
DELAYS_NS = tuple(int(s * SECOND_NS) for s in (0, 0.1, 0.2, 0.5, 1, 2, 5))
LOG_BYTES = 10_000_000


class Backoff:
    """How long to wait before a process that ended is started again: not at all at first, then longer and longer. Pure."""

    def __init__(self) -> None:
        self._failures = 0

    def ended(self, lived_ns: int) -> int:
        """The delay (ns) after a process that lived for `lived_ns`."""
        if lived_ns >= STEADY_NS:
            self._failures = 0
        delay = DELAYS_NS[min(self._failures, len(DELAYS_NS) - 1)]
        self._failures += 1
        return delay


@dataclass(slots=True)
class Service:
    """One child process: its command, environment and log, and its state."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log_file: Path
    restarts: int = 0
    last_exit: str = ""
    start_at_ns: int | None = 0
    """When to start it (monotonic); None while it runs, and after `stop`."""
    process: subprocess.Popen[bytes] | None = None
    identity: Identity | None = None
    _pidfd: int = -1
    _started_ns: int = 0
    _listener: Listener | None = None
    _stood_still: bool = False
    _backoff: Backoff = field(default_factory=Backoff)

    def start(self) -> None:
        """Starts the process; the kernel ends it when this one dies. One that can't be started, say on a full disk, counts as
        one that ended."""
        self.start_at_ns = None
        self._started_ns = time.monotonic_ns()
        self.trim_log()
        try:
            pid = self._spawn()
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self._again(f"can't be started: {where}{error.strerror}")
        else:
            log.info("%s started, pid %d", self.name, pid)

    def _spawn(self) -> int:
        """Returns the process' id. Raises OSError: nothing runs."""
        with private(self.log_file, os.O_APPEND) as output, contextlib.ExitStack() as undo:
            heard, told = pipe()
            self._listener = Listener(heard)
            undo.callback(self._deafen)
            with os.fdopen(told, "wb"):
                process = subprocess.Popen(
                    with_owner(self.command),
                    env={**os.environ, **self.environment, PULSE: str(told)},
                    pass_fds=[told],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    umask=0o077,
                    cwd="/",  # Python looks for modules where it starts
                    process_group=0,  # an interrupt from the terminal is for the supervisor, which ends them in order
                )
            undo.callback(process.wait)
            undo.callback(process.kill)
            self._pidfd = os.pidfd_open(process.pid)
            undo.pop_all()
        self.process, self.identity = process, identify(process.pid)
        return process.pid

    def look(self, now_ns: int) -> None:
        """Kills the process if its loop stands still."""
        if self.process is not None and self._listener is not None and self._listener.stands_still(now_ns):
            self._stood_still = True
            self.process.kill()

    def _forget(self) -> None:
        """Gives back what belonged to the process that has ended."""
        os.close(self._pidfd)
        self._deafen()
        self.process = self.identity = None

    def _deafen(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def trim_log(self) -> None:
        """Keeps the last `LOG_BYTES` of its log beside it and begins the log anew, once it is that long. The process writes on
        into the same file, at its end; what it writes in between is lost."""
        with contextlib.suppress(OSError):
            size = self.log_file.stat().st_size
            if size <= LOG_BYTES:
                return
            with self.log_file.open("rb") as full, self.log_file.with_suffix(".log.1").open("wb") as kept:
                full.seek(size - LOG_BYTES)
                shutil.copyfileobj(full, kept)
            os.truncate(self.log_file, 0)

    @property
    def running(self) -> bool:
        """Whether it runs; an end that `reap` has not noted yet does not count."""
        return self.process is not None

    def fileno(self) -> int:
        """For select: readable when the process has ended. Only while `running`."""
        return self._pidfd

    def reap(self) -> None:
        """Waits for the process to end, then notes how it ended and when to start it again."""
        assert self.process is not None
        code = self.process.wait()
        still, self._stood_still = self._stood_still, False
        self._forget()
        words = f": {last}" if (last := self.last_words()) else ""
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with code {code}"
        self._again((f"stood still for {STILL_NS // SECOND_NS} s, and was {how}" if still else how) + words)

    def _again(self, exit_: str) -> None:
        """Notes how it ended, and when to start it again."""
        now = time.monotonic_ns()
        self.last_exit = exit_
        delay = self._backoff.ended(now - self._started_ns)
        self.start_at_ns = now + delay
        self.restarts += 1
        log.warning("%s %s; starting it again in %.1f s", self.name, self.last_exit, delay / SECOND_NS)

    def stop(self, patience_s: float = 3.0) -> None:
        """Terminates the process and waits; kills it after `patience_s`. It stays stopped until `start_at_ns` is set."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self._forget()
        self.start_at_ns = None

    def last_words(self) -> str:
        """The last line of its log."""
        try:
            with self.log_file.open("rb") as file:
                file.seek(max(0, self.log_file.stat().st_size - 4096))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""


def _signal_name(number: int) -> str:
    """A signal's name; Python has none for most real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Readable(Protocol):
    """What select takes."""

    def fileno(self) -> int:
        """The descriptor."""


class ServiceFailed(Exception):
    """A service ended while `Services.wait` waited; the text says how, and names its log."""


class Services:
    """The services by name, in the order in which they were started."""

    def __init__(self) -> None:
        self._services: dict[str, Service] = {}
        self._looked_ns = 0

    def __contains__(self, name: str) -> bool:
        return name in self._services

    def __iter__(self) -> Iterator[Service]:
        return iter(self._services.values())

    def __getitem__(self, name: str) -> Service:
        return self._services[name]

    def run(self, service: Service) -> None:
        """Starts a service and keeps it running; first stops the earlier service of this name, if there is one."""
        self.stop(service.name)
        self._services[service.name] = service
        service.start()

    def stop(self, name: str) -> None:
        """Stops and forgets the service of this name, if there is one."""
        if (service := self._services.pop(name, None)) is not None:
            service.stop()

    def stop_all(self) -> None:
        """Stops all services, the last started first, but keeps them in the list."""
        for service in reversed(self._services.values()):
            service.stop()

    def turn(self, patience_s: float, *wakers: Readable) -> tuple[list[Service], bool]:
        """Waits until a child ends, a waker is readable, a start is due or `patience_s` is over, which lasts 4 s at most;
        then starts what is due, kills what stands still, and trims the logs.

        Returns the services that ended, and whether anything was started or ended.
        """
        now = time.monotonic_ns()
        patience_s = min(patience_s, LOOK_NS / SECOND_NS)
        due = [service.start_at_ns for service in self if service.start_at_ns is not None]
        if due:
            patience_s = max(0.0, min(patience_s, (min(due) - now) / SECOND_NS))
        running = [service for service in self if service.running]
        ready, _, _ = select.select([*wakers, *running], (), (), patience_s)
        ended = [service for service in running if service in ready]
        for service in ended:
            service.reap()
        for service in running:
            service.trim_log()
        now = time.monotonic_ns()
        if now - self._looked_ns >= LOOK_NS // 2:
            self._looked_ns = now
            for service in running:
                service.look(now)
        started = [service for service in self if service.start_at_ns is not None and service.start_at_ns <= now]
        for service in started:
            service.start()
        return ended, bool(ended or started)

    def wait(self, condition: Callable[[], bool], patience_s: float) -> bool:
        """Waits until the condition holds; False if it does not within `patience_s`.

        Raises:
            ServiceFailed: a service ended meanwhile, or could not be started.
        """
        deadline = time.monotonic() + patience_s
        while not condition():
            for service in self:
                if service.running and select.select([service], (), (), 0)[0]:
                    service.reap()
                if service.start_at_ns is not None:
                    raise ServiceFailed(f"{service.name} {service.last_exit}; its log is {service.log_file}")
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True
