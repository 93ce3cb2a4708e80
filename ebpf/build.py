"""Compiles eBPF programs, and libraries in C. An edge: runs clang.

A program knows of the kernel only what include/kernel.h says, so one object suits every kernel.

Agents, controller and tests have eBPF programs. Since agents and controller may not import each other, the compiler has a
package of its own below them.
"""

from __future__ import annotations

import fcntl
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "agents/bpf", "agents/reflex", "controller/switch_queues/bpf", "controller/frames", "controller/policies/core/schedule",
    "controller/policies/core/rates", "controller/policies/core/steps", "controller/policies/core/choices",
    "controller/priorities/compiled", "emulation/fabric/bpf", "bench/coordination", "bench/swarm",
)  # fmt: skip
"""All folders of programs and libraries, below `ROOT`; those without which hosts and controllers lack something come first."""
HEADERS = (Path(__file__).parent / "include", Path("/usr/include") / f"{platform.machine()}-linux-gnu")
"""What programs and libraries share (kernel.h, blake2s.h), and the asm/ headers of the user-space API, kept apart by Debian."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel that programs are compiled for, by its release."""

    release: str

    @property
    def directory(self) -> Path:
        """Where the programs are that were compiled for it."""
        return Path(__file__).parent / "build" / self.release


RUNNING = Kernel(platform.release())


class BuildError(Exception):
    """A program could not be built; the text says what is missing."""


def object_path(name: str, sources: Path, *includes: Path, kernel: Kernel = RUNNING) -> Path:
    """The path of the compiled program `name`; builds it if it is missing or older than its sources (`sources`/NAME.bpf.c).

    Args:
        name: unique among all programs, since their objects share a directory.
        includes: directories of headers in addition to `sources`.

    Raises:
        BuildError: clang is missing, or failed; with its message.
    """
    source, target = sources / f"{name}.bpf.c", kernel.directory / f"{name}.bpf.o"
    headers = (header for directory in (HEADERS[0], sources, *includes) for header in directory.glob("*.h"))
    return _made(target, (source, *headers), lambda: _compile(source, target, (sources, *includes)))


def shared_library(name: str, sources: Path, kernel: Kernel = RUNNING) -> Path:
    """The path of the compiled library `name`; builds it for this processor if it is missing or older than its sources
    (`sources`/NAME.c, and the headers there and in the folder above).

    Raises BuildError: clang is missing, or failed; with its message.
    """
    source, target = sources / f"{name}.c", kernel.directory / f"{name}.so"

    def build() -> None:
        fresh = target.with_suffix(".new")
        options = ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-iquote", str(HEADERS[0])]
        _run(["clang", *options, str(source), "-o", str(fresh)])
        fresh.replace(target)

    return _made(target, (source, *sources.glob("*.h"), *sources.parent.glob("*.h"), *HEADERS[0].glob("*.h")), build)


def build_all(folders: Iterable[str] = FOLDERS, kernel: Kernel = RUNNING) -> list[Path]:
    """The paths of all programs and libraries in `folders` below `ROOT`, built where need be. Raises BuildError."""
    found = []
    for folder in (ROOT / name for name in folders):
        programs = sorted(folder.glob("*.bpf.c"))
        found += [object_path(path.name.removesuffix(".bpf.c"), folder, kernel=kernel) for path in programs]
        found += [shared_library(path.stem, folder, kernel) for path in sorted(set(folder.glob("*.c")) - set(programs))]
    return found


def _made(target: Path, sources: Iterable[Path], build: Callable[[], None]) -> Path:
    newest = max(path.stat().st_mtime for path in sources)
    if target.exists() and target.stat().st_mtime > newest:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:  # several agents may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target.exists() and target.stat().st_mtime > newest):
            build()
    return target


def _compile(source: Path, target: Path, includes: tuple[Path, ...]) -> None:
    fresh = target.with_suffix(".new")
    directories = [word for directory in (*HEADERS, *includes) for word in ("-I", str(directory))]
    command = ["clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", *directories, "-c", str(source), "-o", str(fresh)]
    _run(command)
    fresh.replace(target)


def _run(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is missing: install the package {command[0]}") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{command[0]}: {error.stderr.decode(errors='replace').strip()}") from None


if __name__ == "__main__":  # python -m ebpf.build [FOLDER...]
    print(*build_all(sys.argv[1:] or FOLDERS), sep="\n")
