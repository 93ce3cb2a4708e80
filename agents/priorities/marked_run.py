"""Runs a command whose sockets carry a flow mark, in a cgroup (version 2) with an eBPF program of its own. An edge."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from agents.bpf.build import object_path
from ebpf.libbpf import BpfObject
from protocol.flowmark import CoflowMark, FlowMark

_MARKING = struct.Struct("=QII")
NAME = "baton-mark-"
"""How the cgroup's name begins; the process id follows."""
ELSEWHERE = "move this shell to another cgroup first, by its cgroup.procs"
TRIES, AGAIN_S = 50, 0.01
"""How often, and after what time, the removal of the cgroup is tried again."""


class NoCgroup(OSError):
    """No cgroup version 2 is available; the text says what to do."""

    def __str__(self) -> str:
        return str(self.strerror)  # the number in front of it, often 0, tells an operator nothing


def cgroup_root(mounts: str | None = None) -> Path:
    """The directory of the root cgroup, version 2. `mounts`: what /proc/self/mounts says.

    Raises:
        NoCgroup: none is mounted, or another mount hides it.
    """
    lines = (Path("/proc/self/mounts").read_text() if mounts is None else mounts).splitlines()
    roots = [Path(fields[1]) for fields in map(str.split, lines) if fields[2] == "cgroup2"]
    if not roots:
        raise NoCgroup(0, "no cgroup version 2 is mounted; mount -t cgroup2 none /sys/fs/cgroup/unified")
    reached = next((root for root in roots if (root / "cgroup.procs").exists()), None)
    if reached is None:
        text = f"cgroup version 2 at {roots[0]} cannot be reached (`ip netns exec` hides it)"
        raise NoCgroup(0, f"{text}; mount -t cgroup2 none DIRECTORY")
    return reached


def own_cgroup() -> Path:
    """The directory of this process's cgroup, version 2. Raises NoCgroup as `cgroup_root`."""
    root = cgroup_root()
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    inner = next((line[3:] for line in lines if line.startswith("0::")), "/")
    here = root / inner.lstrip("/")
    return here if here.is_dir() else root


def run(
    command: Sequence[str], mark: FlowMark | CoflowMark, *, deadline_ns: int = 0, late: CoflowMark | None = None
) -> int:
    """Runs the command to its end; its exit status, or 128 and the signal's number.

    With `deadline_ns` (CLOCK_MONOTONIC), `mark` has no deadline: a socket created before `deadline_ns` gets the remaining time
    as the deadline of its mark, and one created later gets the mark `late`.

    At the end the cgroup is removed, with any that the command made in it. Processes that it left running first move back to
    this process's cgroup, and their sockets keep their mark. SIGTERM and SIGHUP are passed on to the command, or end this
    before it has started; SIGINT reaches it from the terminal.

    Raises:
        NoCgroup, BuildError, BpfError: the mark cannot be set here.
        OSError: the command cannot be started.
    """
    outside = own_cgroup()
    program = BpfObject(object_path("mark"))
    try:
        marking = _MARKING.pack(deadline_ns, mark.encode(), late.encode() if late else 0)
        program.map("mark", 4, _MARKING.size)[bytes(4)] = marking
        with _signals() as signals, _cgroup(outside) as inside:
            program.attach_cgroup("set_mark", inside)
            return _run(command, inside, signals)
    finally:
        program.close()


@contextmanager
def _cgroup(outside: Path) -> Iterator[Path]:
    _remove_left(outside)
    inside = outside / f"{NAME}{os.getpid()}"
    inside.mkdir(exist_ok=True)
    if not _takes_processes(inside):
        inside.rmdir()
        raise NoCgroup(0, f"cgroup {outside} is threaded: no process can be marked there; {ELSEWHERE}")
    try:
        yield inside
    finally:
        for left in reversed(range(TRIES)):
            try:
                _remove(inside, outside)
                break
            except OSError as error:  # a process has forked meanwhile, or the kernel is not done with one that has ended
                if error.errno != errno.EBUSY or not left:
                    raise
            time.sleep(AGAIN_S)


def _takes_processes(cgroup: Path) -> bool:
    """Whether whole processes may be in it; below a threaded one they may not."""
    try:
        return (cgroup / "cgroup.type").read_text().strip() in ("domain", "domain threaded")
    except FileNotFoundError:
        return True  # before Linux 4.14


def _remove_left(outside: Path) -> None:
    """Removes the empty cgroups that others left which were killed."""
    for left in outside.glob(f"{NAME}*"):
        pid = left.name.removeprefix(NAME)
        if pid.isdecimal() and not Path("/proc", pid).exists() and not _populated(left):
            with suppress(OSError):
                for at, _, _ in os.walk(left, topdown=False):
                    Path(at).rmdir()


def _populated(cgroup: Path) -> bool:
    """Whether there are processes in it or below it: what was run there may still use its empty ones, too."""
    try:
        return "populated 1" in (cgroup / "cgroup.events").read_text()
    except OSError:
        return False


def _remove(inside: Path, outside: Path) -> None:
    """Moves the processes of a cgroup, and of those that the command made in it, and removes them all, the deepest first."""
    for at, _, _ in os.walk(inside, topdown=False):
        here = Path(at)
        for pid in (here / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (outside / "cgroup.procs").write_text(pid)
        here.rmdir()


class _Signals:
    """Passes on to the command what this process is told; what comes before it has started ends this process's work instead."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.number = 0
        """Of the signal that came before there was a command; 0: none."""

    def take(self, number: int, _: FrameType | None) -> None:
        """A handler."""
        if self.child is None:
            self.number = number
        elif number != signal.SIGINT:  # which the terminal sends to both
            self.child.send_signal(number)


@contextmanager
def _signals() -> Iterator[_Signals]:
    taken = _Signals()
    before = {number: signal.signal(number, taken.take) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield taken
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(command: Sequence[str], inside: Path, signals: _Signals) -> int:
    procs = inside / "cgroup.procs"

    def enter() -> None:
        procs.write_text("0")

    # preexec_fn: the command must be inside before its first socket, and this process has a single thread.
    if signals.number:
        return 128 + signals.number
    try:
        child = signals.child = subprocess.Popen(command, preexec_fn=enter)
    except subprocess.SubprocessError:  # all that is told of `enter`
        raise NoCgroup(0, f"cgroup {inside} takes no process; {ELSEWHERE}") from None
    if signals.number:  # it came while the command was started
        child.send_signal(signals.number)
    status = child.wait()
    return status if status >= 0 else 128 - status
