"""Builds of the compiled policies that find faults in memory, for the tests that run a module of tests with them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import controller.policies.compiled
from controller.policies.compiled.library import LIBRARIES, load

SOURCES = Path(controller.policies.compiled.__file__).parent
INSTEAD = "BATON_TEST_COMPILED"
"""The variable that names the folder of other builds of the libraries."""


def build_under_test(name: str) -> ctypes.CDLL | None:
    """The sanitized build of a library, in a process of `run_sanitized`; else None."""
    instead = os.environ.get(INSTEAD)
    return load(Path(instead) / f"{name}.so", name) if instead else None


def run_sanitized(module: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a module with libraries under the address and the undefined-behaviour sanitizers, which end the process at the first
    fault."""
    sanitizers = "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    for name in LIBRARIES:
        source, library = SOURCES / f"{name}.c", folder / f"{name}.so"
        build = ["gcc", "-O1", "-g", *sanitizers, "-fPIC", "-shared", str(source), "-o", str(library), "-lm"]
        subprocess.run(build, check=True, capture_output=True)
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    environment = os.environ | {
        INSTEAD: str(folder), "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": os.pathsep.join(sys.path)
    }  # fmt: skip
    return subprocess.run([sys.executable, "-m", module], env=environment, capture_output=True, text=True, check=False)
