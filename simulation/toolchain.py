"""Finds ns-3 and compiles the programs that simulate (simulation/program/) against it. An edge: compiler, files.

ns-3 comes as PyPI's `ns3`, whose wheel has headers and libraries; the Python bindings in it are not used, since no packet
should pass through Python. `make simulation` installs it; BATON_NS3 may name another prefix with
include/ns3 and lib*/libns3*-core.so.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent / "program"
ROOT = SOURCES.parents[1]
PROGRAMS = ("fabric_run", "port_run", "tree_run")
"""Each has a source of its own with `main`; the other sources are in all of them."""
LIBRARIES = ("point-to-point", "internet", "traffic-control", "network", "core")
DECIDING = (
    "simulation/program/*.cc", "simulation/program/*.h", "agents/bpf/mcp.h", "emulation/cdfs/*.txt", "emulation/cdfs/*.py",
    "simulation/admission.py", "simulation/cases.py", "simulation/fabric.py", "simulation/flows.py", "simulation/results.py",
    "simulation/run.py", "simulation/schemes.py", "emulation/measuring/measure.py", "controller/switch_queues/model.py",
    "controller/priorities/completion_model.py", "controller/priorities/flow_sizes.py", "controller/priorities/thresholds.py",
    "controller/priorities/threshold_solver.py", "controller/coflows/deadlines.py", "controller/coflows/reservations.py",
    "controller/coflows/bottleneck_order.py", "controller/coflows/links.py",
    "controller/priorities/compiled/*.py", "controller/priorities/compiled/*.c",
)  # fmt: skip
"""What decides the result of a case, beside the case: another text of these may give another result."""
MISSING = "ns-3 is not installed: run `make simulation`, or `pip install ns3` in Baton's environment"

CACHE = "set XDG_CACHE_HOME to a directory that you may write, where the compiled simulator is kept"


class ToolchainError(Exception):
    """ns-3 or a compiler is missing, or compiling failed; the text says what to do."""


class Ns3(NamedTuple):
    """Where ns-3 is: headers, libraries, and how the libraries' names begin (libns3.44)."""

    include: Path
    libraries: Path
    prefix: str


def find_ns3() -> Ns3:
    """ns-3 of BATON_NS3, of this environment, or of the machine. Raises ToolchainError."""
    named = os.environ.get("BATON_NS3")
    spec = None if named else importlib.util.find_spec("ns3")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    if named:
        places = [Path(named)]
    elif not places:
        places = [Path(sysconfig.get_path("platlib")) / "ns3", Path("/usr/local"), Path("/usr")]
    for place in places:
        for core in sorted(place.glob("lib*/libns3*-core.so")) + sorted(place.glob("lib/*/libns3*-core.so")):
            if (place / "include/ns3/core-module.h").exists():
                return Ns3(place / "include", core.parent, core.name.removeprefix("lib").partition("-core")[0])
    raise ToolchainError(MISSING if not named else f"BATON_NS3 is {named}, where no include/ns3 and lib*/libns3*-core.so are")


def why_missing() -> str:
    """Why nothing can be simulated here; empty if it can."""
    try:
        find_ns3()
        _compiler()
    except ToolchainError as error:
        return str(error)
    return ""


@cache
def code_digest() -> str:
    """A hash of all files of `DECIDING`, and ns-3's version if it is here: results of others are of another simulator."""
    found = hashlib.sha256()
    for path in sorted({path for pattern in DECIDING for path in ROOT.glob(pattern)}):
        found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    try:
        return f"{found.hexdigest()[:10]}+{find_ns3().prefix}"
    except ToolchainError:  # results may be read where nothing can be simulated
        return found.hexdigest()[:10]


def is_this_code(code: str) -> bool:
    """Whether a result of this code is one of this simulator's; where no ns-3 is, of any ns-3's."""
    own = code_digest()
    return code == own or ("+" not in own and code.partition("+")[0] == own)


@cache
def program(name: str) -> Path:
    """The path of a program, compiled first unless it is there for these sources and this ns-3. Raises ToolchainError."""
    ns3 = find_ns3()
    compiler = _compiler()
    used = sorted([*SOURCES.glob("*.cc"), *SOURCES.glob("*.h"), ROOT / "agents/bpf/mcp.h"])
    digest = hashlib.sha256("\0".join([str(ns3), compiler, *(path.read_text() for path in used)]).encode()).hexdigest()[:16]
    folder = _cache() / "baton" / "simulation" / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / "lock").open("w")
    except OSError as error:
        raise ToolchainError(f"{folder} cannot be written: {error.strerror}; {CACHE}") from None
    with opened as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            _build(name, folder, ns3, compiler)
    return folder / name


def _cache() -> Path:
    """The user's directory for what can be made again. Raises ToolchainError: the user has no home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise ToolchainError(f"there is no home directory to compile the simulator in; {CACHE}") from None


def _compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise ToolchainError("a C++ compiler is missing: install g++ or clang")
    return found


def _build(name: str, folder: Path, ns3: Ns3, compiler: str) -> None:
    sources = [path for path in sorted(SOURCES.glob("*.cc")) if path.stem not in PROGRAMS or path.stem == name]
    options = ["-std=c++20", "-O2", "-Wall", "-Wextra", f"-I{ROOT}", "-isystem", str(ns3.include)]

    def compiled(source: Path) -> str:
        target = folder / f"{source.stem}.o"
        if not target.exists():
            fresh = target.with_suffix(".new")
            _run([compiler, *options, "-c", str(source), "-o", str(fresh)])
            fresh.replace(target)
        return str(target)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, sources))
    search = [f"-L{ns3.libraries}", f"-Wl,-rpath,{ns3.libraries}", f"-Wl,-rpath-link,{ns3.libraries}"]
    fresh = folder / f"{name}.new"
    _run([compiler, *objects, "-o", str(fresh), *search, *(f"-l{ns3.prefix}-{library}" for library in LIBRARIES)])
    fresh.replace(folder / name)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainError(f"{Path(command[0]).name} failed: {done.stderr.strip() or done.returncode}")


if __name__ == "__main__":
    for each in PROGRAMS:
        print(program(each))
