"""The kernel of virtual time: built from the distribution's source, kept in the user's cache. An edge: processes, files.

User-mode Linux (`ARCH=um`) with UML_TIME_TRAVEL_SUPPORT, by the configuration `kernel.config` and the patch `kernel.patch`. It
is kept by a hash of package, configuration and patch, so that every clone on the machine finds it.

    python -m emulation.virtual.kernel      builds it if it is not there: `make virtual`
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "linux-source-6.12"
"""Debian 12's package of the source; its version is the newest that the machine's package lists have."""
TOOLS = {
    "apt-get": "apt", "dpkg-deb": "dpkg", "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc",
    "patch": "patch", "pahole": "dwarves", "xz": "xz-utils", "strip": "binutils",
}  # fmt: skip
"""What a build runs, and the package that has it."""
HEADERS = {Path("/usr/include/libelf.h"): "libelf-dev", Path("/usr/include/linux/types.h"): "linux-libc-dev"}
DISK_BYTES, MEMORY_BYTES = 4 << 30, 1 << 30
"""What a build takes at most."""
STEPS = 1_403
"""About so many files are compiled and linked; what the progress line counts against."""

Tell = Callable[[str, float], None]
"""Called with what is done now, and the fraction that is done."""


class KernelError(Exception):
    """The kernel cannot be built or is not there; the text is a line that says what to do."""


def cache() -> Path:
    """Where kernels are kept: $XDG_CACHE_HOME/baton/virtual, or ~/.cache/baton/virtual."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "baton" / "virtual"


def recipe() -> str:
    """A hash of all that decides what is built, except for the source's version."""
    made = hashlib.sha256(PACKAGE.encode())
    for name in ("kernel.config", "kernel.patch"):
        made.update((HERE / name).read_bytes())
    return made.hexdigest()[:16]


def find() -> Path | None:
    """The kernel of today's recipe with the newest source, or None: none was built."""
    found = sorted(cache().glob(f"{recipe()}-*/linux"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def release(kernel: Path) -> str:
    """What `uname -r` says in the guest."""
    return kernel.with_name("release").read_text().strip()


def missing() -> list[tuple[str, str]]:
    """What a build needs and this machine lacks: (what, the package that has it)."""
    lacks = [(tool, package) for tool, package in TOOLS.items() if shutil.which(tool) is None]
    return lacks + [(str(path), package) for path, package in HEADERS.items() if not path.exists()]


def build(tell: Tell) -> Path:
    """The kernel, built if it is not there: six to nine minutes on two cores.

    Raises:
        KernelError: a tool, the source, memory or disk is missing, the cache can't be written, or the build failed.
    """
    try:
        cache().mkdir(parents=True, exist_ok=True)
        opened = (cache() / "lock").open("w")
    except OSError as error:
        remedy = "set XDG_CACHE_HOME to a directory that can"
        raise KernelError(f"{cache()} cannot be written: {error.strerror}; {remedy}") from None
    with opened as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another clone may be at it
        if (found := find()) is not None:
            return found
        _check()
        with tempfile.TemporaryDirectory(prefix="building-", dir=cache()) as directory:
            return _built(Path(directory), tell)


def _check() -> None:
    if lacks := missing():
        packages = " ".join(sorted({package for _, package in lacks}))
        raise KernelError(f"{lacks[0][0]} is missing: apt-get install {packages}")
    if (free := shutil.disk_usage(cache()).free) < DISK_BYTES:
        wanted = f"a build takes {DISK_BYTES >> 20} MB"
        raise KernelError(f"{cache()} has {free >> 20} MB free, {wanted}: free some, or set XDG_CACHE_HOME")
    if (memory := available_bytes()) < MEMORY_BYTES // 2:
        raise KernelError(f"{memory >> 20} MB of memory are free, a build takes {MEMORY_BYTES >> 20}: end what takes it")


def available_bytes() -> int:
    """The memory that programs can still have: what is free, and what caches would give (proc(5), MemAvailable)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


def _built(directory: Path, tell: Tell) -> Path:
    tell("fetching the source", 0.0)
    fetch = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", PACKAGE]
    try:
        _run(fetch, directory, f"{PACKAGE} cannot be fetched")
    except KernelError:  # the machine's package lists are missing or old
        _run(["apt-get", "update", "-qq"], directory, "the package lists cannot be fetched")
        _run(fetch, directory, f"{PACKAGE} cannot be fetched")
    package = next(directory.glob("*.deb"))
    version = package.name.split("_")[1]
    tell("unpacking it", 0.02)
    _run(["dpkg-deb", "-x", package.name, "package"], directory, f"{package.name} cannot be unpacked")
    source = directory / PACKAGE
    _run(["tar", "-xf", str(next(directory.glob("package/usr/src/*.tar.xz")))], directory, "the source cannot be unpacked")
    package.unlink()
    _run(["patch", "-p1", "--quiet", "--input", str(HERE / "kernel.patch")], source, f"kernel.patch does not fit {version}")
    _run(["make", "ARCH=um", "defconfig"], source, "the kernel cannot be configured")
    with (source / ".config").open("a") as config:
        config.write((HERE / "kernel.config").read_text())
    _run(["make", "ARCH=um", "olddefconfig"], source, "the kernel cannot be configured")
    _make(source, tell)
    tell("keeping it", 0.99)
    made = directory / "made"
    made.mkdir()
    (made / "release").write_text((source / "include/config/kernel.release").read_text())
    _run(["strip", "--strip-debug", "-o", str(made / "linux"), "linux"], source, "it cannot be stripped")
    (made / "linux").chmod(0o755)
    target = cache() / f"{recipe()}-{version.replace(':', '.').replace('~', '-')}"
    made.rename(target)
    tell("built", 1.0)
    return target / "linux"


def _make(source: Path, tell: Tell) -> None:
    log = source / "build.log"
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    with log.open("wb") as output:
        process = subprocess.Popen(["make", "ARCH=um", jobs, "linux"], cwd=source, stdout=subprocess.PIPE, stderr=output)
        assert process.stdout is not None, "a pipe"
        for done, _ in enumerate(process.stdout):
            tell("compiling", 0.05 + 0.93 * min(1.0, done / STEPS))
        if process.wait():
            last = [line for line in log.read_text(errors="replace").splitlines() if "rror" in line][:1]
            raise KernelError(f"the kernel does not compile: {last[0].strip() if last else 'make failed'}")


def _run(command: list[str], directory: Path, problem: str) -> bytes:
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise KernelError(f"{problem}: {words[-1] if words else done.returncode}")
    return done.stdout


@contextmanager
def progress_line() -> Iterator[Tell]:
    """A line that says how far a build is: rewritten on a terminal, else a new one every 15 s."""
    begun, terminal = time.monotonic(), sys.stderr.isatty()
    told_s, told = 0.0, ""

    def tell(what: str, fraction: float) -> None:
        nonlocal told_s, told
        now = time.monotonic()
        if what == told and now - told_s < (0.2 if terminal else 15):
            return
        told_s, told = now, what
        text = f"kernel of virtual time: {what}, {fraction:.0%}, {now - begun:.0f} s"
        print(f"\r{text}\033[K" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    yield tell
    if terminal and told:
        print(file=sys.stderr)


def main() -> int:
    """`python -m emulation.virtual.kernel`"""
    try:
        with progress_line() as tell:
            print(build(tell))
    except KernelError as error:
        print(f"virtual: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
