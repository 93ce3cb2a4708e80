"""A module of tests run under the address and the undefined-behaviour sanitizers, which end the process at the first fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import controller.frames
from controller.frames import library as compiled

SOURCES = Path(controller.frames.__file__).parent
INSTEAD = "BATON_TEST_FRAMES"
"""The variable that names another build of the library."""


def take_other_build() -> None:
    """Has this process use the library that the variable names, if it names one."""
    if instead := os.environ.get(INSTEAD):
        made = compiled.load(Path(instead))
        compiled.library = lambda: made  # type: ignore[assignment]


def run_sanitized(module: str, folder: Path) -> str:
    """What the module prints when it is run; the library is built in `folder`. Raises AssertionError: the process failed."""
    library = folder / "frames.so"
    sanitizers = "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    includes = "-iquote", str(SOURCES.parents[1] / "ebpf/include")
    build = ["gcc", "-O1", "-g", *sanitizers, *includes, "-fPIC", "-shared", str(SOURCES / "frames.c"), "-o", str(library)]
    subprocess.run(build, check=True, capture_output=True)
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    environment = os.environ | {
        INSTEAD: str(library), "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": os.pathsep.join(sys.path)
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", module], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
