"""Runs a command in virtual time: boots the user-mode kernel on the machine's own files. An edge: processes, files.

The guest has one processor of infinite speed: its clock moves only while every program sleeps. It sees the machine's files;
what it writes stays in its memory, except below the directories that it is given. It has no network to the outside.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from ebpf import build
from emulation.virtual import kernel
from protocol import virtual_time

ROOT = Path(__file__).resolve().parents[2]
INIT = Path(__file__).with_name("init.sh")
MEMORY_MB = 3072
LOOK_S = 0.05
START_NS = 1_767_225_600_000_000_000
"""The guest's wall clock at boot: 2026-01-01T00:00:00Z. The same at each run, so that a seed decides all."""
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
    free_mb = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if free_mb < memory_mb // 2:
        wanted = f"a guest of {memory_mb} MB may need half of that"
        raise kernel.KernelError(f"{free_mb} MB of memory are free, {wanted}: give it less")
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
    kinds = ("agents/bpf", "agents/reflex", "bench/coordination", "controller/switch_queues/bpf", "emulation/fabric/bpf")
    target = build.Kernel(kernel.release(image), kernel.types(image))
    for kind in kinds:
        with contextlib.suppress(build.BuildError):  # the program that needs it in the guest reports the error
            build.build_all([ROOT / kind], target)


def _write(directory: Path, argv: Sequence[str], writable: Sequence[Path], more: Mapping[str, str], seed: int) -> None:
    variables = {name: value for name in PASSED if (value := os.environ.get(name)) is not None}
    variables |= {virtual_time.INSIDE: "1", "PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/tmp"}
    variables |= more
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    lines += [f"cd {shlex.quote(str(Path.cwd()))}", f"exec {shlex.join(argv)}"]
    (directory / "command").write_text("\n".join(lines) + "\n")
    (directory / "writable").write_text("".join(f"{path.resolve()}\n" for path in dict.fromkeys(writable)))


def _memory() -> str | None:
    """A directory of the machine that is in memory, if it has one: the guest's own memory is a file there."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _boot(image: Path, directory: Path, memory_mb: int, seed: int) -> int:
    init = directory / "init.sh"
    shutil.copy(INIT, init)
    init.chmod(0o755)
    # The command line is mixed into the guest's random numbers: nothing in it may differ from run to run.
    words = [
        str(image), "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=/proc/self/cwd/init.sh",
        "time-travel=inf-cpu", f"time-travel-start={START_NS}", f"mem={memory_mb}M", "con=null", "quiet", "loglevel=0",
    ]  # fmt: skip
    environment = {**os.environ, "BATON_SEED": str(seed), "TMPDIR": _memory() or str(directory)}
    with (directory / "stdout").open("w+b") as out, (directory / "stderr").open("w+b") as error:
        guest = subprocess.Popen(
            words, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=error, stderr=error, start_new_session=True
        )
        try:
            return _wait(guest, ((out, sys.stdout.buffer), (error, sys.stderr.buffer)))
        finally:
            _end(guest)


def _wait(guest: subprocess.Popen[bytes], streams: Sequence[tuple[BinaryIO, BinaryIO]]) -> int:
    """Hands on what is printed until the guest ends. Its exit status, or the negative number of a signal that ended it here."""
    caught: list[int] = []

    def end(number: int, _: object) -> None:
        caught.append(number)
        _end(guest)

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
    """Ends the guest and all the processes that it is made of: they are of one session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(guest.pid, signal.SIGKILL)
    guest.wait()
