"""The library of frames as another build of it, for the tests that run a module of tests under the sanitizers."""

from __future__ import annotations

import os
from pathlib import Path

from controller.frames import library as compiled
from tests.sanitized import run_sanitized

INSTEAD = "BATON_TEST_FRAMES"
"""The variable that names the folder of another build of the library."""


def take_other_build() -> None:
    """Has this process use the library that the variable names, if it names one."""
    if instead := os.environ.get(INSTEAD):
        made = compiled.LIBRARY.load(Path(instead) / "frames.so")
        compiled.LIBRARY.loaded = lambda: made  # type: ignore[method-assign]


def run_with_frames(module: str, folder: Path) -> str:
    """What the module prints when it is run with a sanitized library."""
    return run_sanitized(module, INSTEAD, [compiled.LIBRARY.source], folder)
