"""Runs a command in virtual time: boots the user-mode kernel on the machine's own files. An edge: processes, files.

The guest has one processor of infinite speed: its clock moves only while every program sleeps. It sees the machine's files;
what it writes stays in its memory, except below the directories that it is given. It has no network to the outside.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from ebpf import build
from emulation.virtual import kernel
from protocol import virtual_time

INIT = Path(__file__).with_name("init.sh")
MEMORY_MB = 3072
LOOK_S = 0.05
START_NS = 1_767_225_600_000_000_000
"""The guest's wall clock at boot: 2026-01-01T00:00:00Z. The same at each run, so that a seed decides all."""
TEMPORARY = "/dev/shm/tmp"
"""The guest's directory of temporary files, always its own memory. `/tmp` is the machine's if a record goes there:
what another user makes in it is this process's user's, and Baton's users can't reach their store. A box has its own /run."""
DELAYS = (virtual_time.AGENT_DELAY, virtual_time.CONTROLLER_DELAY)
PASSED = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "TERM", "USER", "VIRTUAL_ENV", *DELAYS)


def run(
    argv: Sequence[str],
    *,
    writable: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    memory_mb: int = MEMORY_MB,
    seed: int = 1,
) -> int:
    """Runs a command in a new guest; what it prints is printed at once.

    Args:
        writable: directories, besides the working one, below which files that the guest writes are the machine's.
        environment: variables for the command, besides `PASSED`.
        seed: of every random number in the guest. The same seed, the same run.

    Returns:
        its exit status; 128 + n if signal n ended the guest (130 for Ctrl-C).

    Raises:
        KernelError: there is no kernel, or too little memory.
    """
    image = kernel.find()
    if image is None:
        raise kernel.KernelError("there is no kernel of virtual time: run `make virtual`")
    free_mb = kernel.available_bytes() >> 20
    if free_mb < memory_mb // 2:
        wanted = f"a guest of {memory_mb} MB may need half of that"
        raise kernel.KernelError(f"{free_mb} MB of memory are free, {wanted}: give it less, or end what takes it")
    _compile_programs(image)
    with tempfile.TemporaryDirectory(prefix="baton-virtual-") as name:
        directory = Path(name)
        _write(directory, argv, (Path.cwd(), *writable), environment or {}, seed)
        status = directory / "status"
        code = _boot(image, directory, memory_mb, seed)
        if code < 0:
            return 128 - code
        if not status.exists():
            raise kernel.KernelError(f"the guest ended early (status {code}); its memory may be too small ({memory_mb} MB)")
        return int(status.read_text())


def _compile_programs(image: Path) -> None:
    """Compiles Baton's programs for the guest's kernel, which would take longer in it, and at another time in each run."""
    target = build.Kernel(kernel.release(image))
    for folder in build.FOLDERS:
        with contextlib.suppress(build.BuildError):  # the program that needs it in the guest reports the error
            build.build_all([folder], target)


def _write(directory: Path, argv: Sequence[str], writable: Sequence[Path], more: Mapping[str, str], seed: int) -> None:
    variables = {name: value for name in PASSED if (value := os.environ.get(name)) is not None}
    variables |= {virtual_time.INSIDE: "1", "PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": TEMPORARY}
    variables |= more
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    lines += [f"cd {shlex.quote(str(Path.cwd()))}", f"exec {shlex.join(argv)}"]
    (directory / "command").write_text("\n".join(lines) + "\n")
    (directory / "writable").write_text("".join(f"{path.resolve()}\n" for path in dict.fromkeys(writable)))


def _memory(directory: Path, memory_mb: int) -> Path:
    """Where the guest's own memory is a file: in the machine's memory if there is room, else in the run's directory.

    Raises KernelError: there is no room for half of it in either.
    """
    shared = Path("/dev/shm")
    for place in (shared, directory):
        if place.is_dir() and shutil.disk_usage(place).free >> 20 >= memory_mb // 2:
            return place
    wanted = f"a guest of {memory_mb} MB may need half of that in a file"
    raise kernel.KernelError(f"{shared} and {directory.parent} have no room, {wanted}: free some, or set TMPDIR")


def _boot(image: Path, directory: Path, memory_mb: int, seed: int) -> int:
    init = directory / "init.sh"
    shutil.copy(INIT, init)
    init.chmod(0o755)
    # The command line is mixed into the guest's random numbers: nothing in it may differ from run to run.
    words = [
        str(image), "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=/proc/self/cwd/init.sh",
        "time-travel=inf-cpu", f"time-travel-start={START_NS}", f"mem={memory_mb}M", "con=null", "quiet", "loglevel=0",
    ]  # fmt: skip
    environment = {**os.environ, "BATON_SEED": str(seed), "TMPDIR": str(_memory(directory, memory_mb))}
    with (
        (directory / "stdout").open("w+b") as out,
        (directory / "stderr").open("w+b") as error,
        processor(kernel.cache()) as number,
    ):
        guest = subprocess.Popen(
            words, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=error, stderr=error, start_new_session=True
        )
        try:
            if number is not None:
                os.sched_setaffinity(guest.pid, {number})
            return _wait(guest, ((out, sys.stdout.buffer), (error, sys.stderr.buffer)))
        finally:
            _end(guest)


@contextlib.contextmanager
def processor(locks: Path) -> Iterator[int | None]:
    """A processor that no other guest of this user has, inside the block; None: each has one.

    A guest's programs and its kernel are processes that take turns, at each system call. On two processors each turn wakes a
    processor up, which takes three times as long as the turn (48 us instead of 16 for a call, measured on two idle ones).

    Args:
        locks: a directory for lock files.
    """
    with contextlib.ExitStack() as stack:
        for number in sorted(os.sched_getaffinity(0)):
            try:
                lock = stack.enter_context((locks / f"processor-{number}").open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another guest has it, or the directory is not ours to write
                continue
            yield number
            return
        yield None


def _wait(guest: subprocess.Popen[bytes], streams: Sequence[tuple[BinaryIO, BinaryIO]]) -> int:
    """Hands on what is printed until the guest ends. Its exit status, or the negative number of a signal that ended it here."""
    caught: list[int] = []

    def end(number: int, _: object) -> None:
        caught.append(number)
        _kill(guest)  # and no wait: another signal in the midst of that would wait for this one, for ever

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        while (code := guest.poll()) is None:
            _hand_on(streams)
            time.sleep(LOOK_S)
        _hand_on(streams)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return -caught[0] if caught else code


def _hand_on(streams: Sequence[tuple[BinaryIO, BinaryIO]]) -> None:
    for source, target in streams:
        if new := source.read():
            target.write(new)
            target.flush()


def _end(guest: subprocess.Popen[bytes]) -> None:
    """Ends the guest, and waits until it has."""
    _kill(guest)
    guest.wait()


def _kill(guest: subprocess.Popen[bytes]) -> None:
    """Ends all the processes that the guest is made of: they are of one session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(guest.pid, signal.SIGKILL)
