"""Builds of the compiled policies that find faults in memory, for the tests that run a module of tests with them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from controller.policies.compiled.library import LIBRARIES
from tests.sanitized import run_sanitized

INSTEAD = "BATON_TEST_COMPILED"
"""The variable that names the folder of other builds of the libraries."""
_BY_NAME = {library.source.stem: library for library in LIBRARIES}


def build_under_test(name: str) -> ctypes.CDLL | None:
    """The sanitized build of a library, in a process of `run_with_policies`; else None."""
    instead = os.environ.get(INSTEAD)
    return _BY_NAME[name].load(Path(instead) / f"{name}.so") if instead else None


def run_with_policies(module: str, folder: Path) -> str:
    """What the module prints when it is run with sanitized libraries."""
    return run_sanitized(module, INSTEAD, [library.source for library in LIBRARIES], folder)
