"""A module of tests run with C libraries under the address and the undefined-behaviour sanitizers, which end the process at the
first fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HEADERS = Path(__file__).parents[1] / "ebpf/include"


def run_sanitized(module: str, variable: str, sources: Iterable[Path], folder: Path) -> str:
    """What the module prints when it is run. The libraries are built in `folder`, which the environment variable names; the
    module loads them from there. Raises AssertionError: the process failed; CalledProcessError: the compiler did."""
    for source in sources:
        sanitizers = "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
        options = ["-O1", "-g", *sanitizers, "-iquote", str(HEADERS), "-fPIC", "-shared"]
        target = folder / f"{source.stem}.so"
        subprocess.run(["gcc", *options, str(source), "-o", str(target), "-lm"], check=True, capture_output=True)
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    environment = os.environ | {
        variable: str(folder), "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": os.pathsep.join(sys.path)
    }  # fmt: skip
    program = f"import runpy, tests.conftest; runpy.run_module({module!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
